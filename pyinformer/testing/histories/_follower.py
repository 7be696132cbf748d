"""What is recorded of one informer, by its public face: handler, cache, lister and indexes."""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, final

from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated
from pyinformer.testing.histories._digests import digest_of
from pyinformer.testing.histories._etcd_log import resource_name
from pyinformer.testing.histories._history import History
from pyinformer.testing.histories._records import (
    AuditedRecord,
    FollowedRecord,
    HandledRecord,
    ReadRecord,
    RestedRecord,
    SampledRecord,
    Version,
)

if TYPE_CHECKING:
    from pyinformer.cache.audit import AuditReport
    from pyinformer.cache.informer import SharedInformer
    from pyinformer.cache.store import IndexFunction

Claim: TypeAlias = Callable[[], "float | None"]
"""Returns the age that something promises now, in seconds; None if it promises none."""

_Values: TypeAlias = Callable[[KubeObject[Any]], frozenset[str]]


@final
class Follower:
    """Records one informer. Everything but the handler is called on the event loop, in one step.

    Args:
        history: where the records go.
        informer: the informer.
        who: its name in the history.
        indexes: the path or the function of each index, by its name.
        claims: what else promises an age, by its name.
    """

    def __init__(
        self,
        history: History,
        informer: SharedInformer[Any],
        *,
        who: str,
        indexes: Mapping[str, str | IndexFunction],
        claims: Mapping[str, Claim],
    ) -> None:
        self.informer = informer
        self.who = who
        self.handler: str = f"{who}/handler"
        """The name of the handler."""
        self.mirror: dict[str, Version] = {}
        """What the handler knows, by key."""
        self._history = history
        self._indexes = {name: _values_of(by) for name, by in indexes.items()}
        self._claims = dict(claims)
        self._sampled: dict[str, Version] = {}
        self._newest: dict[str, int] = {}
        self._handler_epochs: dict[str, int] = {}
        self._audit: AuditReport | None = None
        self._reads_content = (
            informer.settings.memory != "metadata" and informer.settings.transform is None
        )
        self.introduce(who, "cache")
        self.introduce(self.handler, "handler")

    def introduce(self, who: str, role: str, *, is_complete: bool = True) -> None:
        """Record what a reader of this informer follows."""
        scope = self.informer.scope
        self._history.add(
            FollowedRecord(
                who=who,
                resource=resource_name(scope.resource.group, scope.resource.resource),
                namespaces=None if scope.namespaces is None else sorted(scope.namespaces),
                label_selector=str(scope.label_selector),
                field_selector=",".join(map(str, scope.field_selector.requirements)),
                role=role,  # type: ignore[arg-type]  # one of the roles of a record
                cache="" if role == "cache" else self.who,
                is_complete=is_complete,
            )
        )

    @property
    def epoch(self) -> int:
        """How many rewinds and restores the informer has reported."""
        return sum(one.epoch for one in self.informer.status().namespaces)

    def __call__(self, event: Event[Any]) -> None:
        """Record a call of the handler: this is the handler."""
        match event:
            case Added(new):
                self._handled("add", new)
            case Updated(old, new, is_resync):
                self._handled("update", new, old=old, is_resync=is_resync)
            case Deleted(last_known):
                self._handled("delete", last_known)

    def _handled(
        self,
        what: str,
        obj: KubeObject[Any],
        *,
        old: KubeObject[Any] | None = None,
        is_resync: bool = False,
    ) -> None:
        key, version = str(obj.key), version_of(obj)
        epoch, newest = self._handler_epochs.get(key, 0), self._newest.get(key, 0)
        if version.number < newest and self.epoch > epoch:
            # Events of this key before this one, such as the deletion of what a restored server
            # never had, were of the epoch before.
            epoch = self._handler_epochs[key] = self.epoch
            newest = 0
        self._newest[key] = max(version.number, newest)
        if what == "delete":
            self.mirror.pop(key, None)
        else:
            self.mirror[key] = version
        self._history.add(
            HandledRecord(
                who=self.handler,
                event=what,  # type: ignore[arg-type]  # one of the three
                key=key,
                uid=version.uid,
                resource_version=version.resource_version,
                old_uid="" if old is None else old.metadata.uid,
                old_version="" if old is None else old.metadata.resource_version,
                epoch=epoch,
                is_resync=is_resync,
            )
        )

    def sample(self) -> None:
        """Record the cache and its claims, once it has synced."""
        informer = self.informer
        self._record_audit()
        if not (informer.is_running and informer.has_synced):
            return
        # Before the claims: a process that is stopped between the two would lie.
        at_seconds = self._history.now()
        now = self.cached()
        changed: dict[str, Version | None] = {
            key: version for key, version in now.items() if self._sampled.get(key) != version
        }
        changed |= dict.fromkeys(self._sampled.keys() - now.keys())
        self._sampled = now
        ages = {"age": informer.age_seconds()}
        ages |= {name: claim() for name, claim in self._claims.items()}
        self._history.add(
            SampledRecord(
                at_seconds=at_seconds,
                who=self.who,
                state=informer.state.value,
                position=informer.observed_resource_version,
                epoch=self.epoch,
                ages={name: age for name, age in ages.items() if age is not None},
                changed=changed,
            )
        )

    def _record_audit(self) -> None:
        report = self.informer.last_audit
        if report is not None and report != self._audit:
            self._audit = report
            self._history.add(
                AuditedRecord(
                    who=self.who,
                    verdict=report.verdict,
                    differences=report.mismatches,
                    seconds=report.seconds,
                )
            )

    def cached(self) -> dict[str, Version]:
        """Return what the lister lists, by key."""
        return {str(one.key): version_of(one) for one in self.informer.lister.list()}

    def read(self, key: str, *, who: str, max_age_seconds: float | None) -> KubeObject[Any] | None:
        """Read one object, and record it.

        Raises:
            InformerError: what the lister raises.
        """
        at_seconds, lister = self._history.now(), self.informer.lister
        if max_age_seconds is not None:
            lister = lister.fresh(max_age_seconds=max_age_seconds)
        found = lister.get(key)
        version = Version("", "") if found is None else version_of(found)
        self._history.add(
            ReadRecord(
                at_seconds=at_seconds,
                who=who,
                key=key,
                uid=version.uid,
                resource_version=version.resource_version,
                epoch=self.epoch,
                max_age_seconds=max_age_seconds,
            )
        )
        return found

    def is_at_rest(self, wanted: Mapping[str, Version], position: int) -> bool:
        """Return whether cache, position and mirror are as wanted."""
        seen = self.informer.observed_resource_version
        is_there = not seen.isdecimal() or int(seen) >= position
        return is_there and self.mirror == wanted and self.cached() == wanted

    def rest(self) -> None:
        """Record every view."""
        self.sample()
        if not (self.informer.is_running and self.informer.has_synced):
            return  # the checker reports that it never rested
        lister, objects = self.informer.lister, self.informer.lister.list()
        shown = {str(one.key): self._with_digest(one) for one in objects}
        position = self.informer.observed_resource_version
        state = self.informer.state.value
        self._rested(self.who, "cache", shown, position=position, state=state)
        by_key = {key: lister.get(key) for key in lister.keys()}  # noqa: SIM118 - not a mapping
        found = {key: version_of(one) for key, one in by_key.items() if one is not None}
        self._rested(self.who, "lister", found)
        self._rested(self.handler, "mirror", dict(self.mirror))
        for name, values in self._indexes.items():
            self._rest_index(name, {str(one.key): values(one) for one in objects})

    def _rest_index(self, name: str, wanted: Mapping[str, frozenset[str]]) -> None:
        lister = self.informer.lister
        shown: dict[str, Version] = {}
        values: dict[str, set[str]] = {}
        for value in lister.index_values(name):
            for one in lister.by_index(name, value):
                shown[str(one.key)] = version_of(one)
                values.setdefault(str(one.key), set()).add(value)
        wrong = {
            key: f"has the values {sorted(values.get(key, ()))}, not {sorted(wanted.get(key, ()))}"
            for key in wanted.keys() | values.keys()
            if values.get(key, set()) != wanted.get(key, frozenset())
        }
        self._rested(self.who, f"index:{name}", shown, wrong=wrong)

    def _rested(
        self,
        who: str,
        what: str,
        objects: dict[str, Version],
        *,
        position: str = "",
        state: str = "",
        wrong: dict[str, str] | None = None,
    ) -> None:
        self._history.add(
            RestedRecord(
                who=who,
                what=what,
                objects=objects,
                wrong=wrong or {},
                position=position,
                state=state,
            )
        )

    def _with_digest(self, obj: KubeObject[Any]) -> Version:
        version = version_of(obj)
        if not self._reads_content:
            return version
        return Version(version.uid, version.resource_version, digest_of(obj.to_dict()))


def version_of(obj: KubeObject[Any]) -> Version:
    """Return which version of an object this is."""
    return Version(obj.metadata.uid, obj.metadata.resource_version)


def _values_of(by: str | IndexFunction) -> _Values:
    def values(obj: KubeObject[Any]) -> frozenset[str]:
        found: object = obj.at(by, default=None) if isinstance(by, str) else by(obj)
        if found is None:
            return frozenset()
        is_one = isinstance(found, str) or not isinstance(found, Iterable)
        each: Iterable[object] = [found] if is_one else found  # type: ignore[assignment]
        return frozenset(_text(value) for value in each if value is not None)

    return values


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
