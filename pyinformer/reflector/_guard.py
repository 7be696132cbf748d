"""The monotonic guard: what an event may do to the store and to the position.

What enters is an event's identity and resource version, and what the sink has of its key; what
leaves is a verdict. The position never goes back within an epoch, an event that was not applied
never advances it, and nothing older than what is cached replaces it: not after a replay, not by a
deletion that carries an old version, not for another object under the same name. Pure: no I/O, no
clock. The rules are a table; `tests/reflector/test_guard.py` has a test for each of its rows.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from pyinformer.apimachinery import older, resource_version_is_well_formed
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.reflector._readings import Reading, Readings, contradicts
from pyinformer.reflector._ruling import Order, Passing, Suspicion, Verdict
from pyinformer.reflector._tally import Tally
from pyinformer.reflector._tombstones import Tombstones
from pyinformer.reflector._unordered import (
    change_of_opaque,
    change_per_object,
    deletion_of_opaque,
    deletion_per_object,
)

if TYPE_CHECKING:
    from pyinformer.apimachinery import ObjectMeta

_log = logging.getLogger(__name__)
_REGRESSIONS_PER_CONNECTION = 3  # two can be a replay's edge; three mean the stream is not ordered
_UNORDERED_CONNECTIONS = 3  # one can be a lagging server, two a coincidence
_NOT_RESUMABLE = frozenset({"", "0"})  # "0" asks for any state at all


@final
@dataclass(frozen=True, slots=True)
class GuardStatistics:
    """Where a guard stands and what it met."""

    position: str
    epoch: int
    tombstones: int
    counts: Mapping[str, int]
    """Occurrences by metric name and action, such as `rv_regressions:ignored`."""
    order: Order = "global"
    """What resource versions are taken to prove."""


@final
class Guard:
    """Judges the events of one reflector, in the order of their arrival.

    Args:
        metrics: where occurrences are counted.
        resource: the label of this guard's counts.
        resume_before: resume watches at the last distinct version before the position. For
            resources whose objects expire together and share a resource version.
        order: what resource versions are taken to prove.
    """

    __slots__ = (
        "_order",
        "_previous",
        "_readings",
        "_regressions",
        "_resource",
        "_resume_before",
        "_tombstones",
        "_unordered",
        "distrusts",
        "epoch",
        "is_resetting",
        "position",
        "suspicion",
        "tally",
        "to_verify",
    )

    def __init__(
        self,
        *,
        metrics: Metrics = NO_METRICS,
        resource: str = "",
        resume_before: bool = False,
        order: Order = "global",
    ) -> None:
        self.position: str = ""
        """Every change up to here is applied; empty before the first list."""
        self.epoch: int = 0
        self.suspicion: Suspicion | None = None
        self.to_verify: str = ""
        """The key whose event could not be judged; empty if there is none."""
        self.tally: Tally = Tally(metrics, resource)
        """What is counted; whoever counts beside the table does it there."""
        self.distrusts: bool = False
        """A list showed that the server went back in time: the next one compares contents."""
        self.is_resetting: bool = False
        """A list that begins a new epoch is being taken over: its updates may go back in time."""
        self._previous = ""
        self._resume_before = resume_before
        self._regressions = 0
        self._unordered = 0
        self._tombstones = Tombstones()
        self._readings = Readings()
        self._resource = resource
        self._order: Order = order
        self.tally.show_order(order)

    @property
    def order(self) -> Order:
        """What resource versions are taken to prove."""
        return self._order

    def use_order(self, order: Order) -> None:
        """Take resource versions to prove something else from now on, and say so.

        What is cached stays; load again where the order has become a stricter one.
        """
        if order == self._order:
            return
        _log.error(
            "%s: resource versions are taken as %s instead of %s from now on",
            self._resource,
            order,
            self._order,
            extra={"resource": self._resource, "order": order, "order_before": self._order},
        )
        self._order = order
        self._previous = self.position
        self._unordered = 0
        self._readings.clear()
        self.tally.show_order(order)

    def sees_no_order(self) -> bool:
        """Tell whether several streams in a row went back though each object's versions grew.

        That is how an API looks whose versions compare only within an object. A server that
        replays or lags also shows objects as they were, which ends this suspicion.
        """
        return self._unordered >= _UNORDERED_CONNECTIONS

    @property
    def can_resume(self) -> bool:
        """Whether a watch can start at the position; if not, only lists tell what changed."""
        return self.position not in _NOT_RESUMABLE

    @property
    def resume_position(self) -> str:
        """Where a new watch starts: it must bring again what may be incomplete."""
        return self._previous if self._resume_before else self.position

    @property
    def complete_position(self) -> str:
        """Every change up to here is applied for certain: a witness of history is asked for here.

        At the position itself more changes of the same version may be on their way.
        """
        return self._previous

    def connected(self) -> None:
        """Start over with what is counted per connection."""
        self.suspicion = None
        self.to_verify = ""
        self.tally.event_type = "MODIFIED"
        self._regressions = 0

    def judge_change(self, key: str, new: ObjectMeta, cached: ObjectMeta | None) -> Verdict:
        """Judge an ADDED or MODIFIED event; `applied` is to follow unless it is skipped."""
        version, position = new.resource_version, self.position
        if (
            cached is not None
            and cached.uid == new.uid
            and len(version) == len(position)
            and version > position
            and version.isdecimal()
            and version.isascii()
            and _newer(version, cached.resource_version)
        ):
            return Verdict.UPDATE  # in any order: it is newer, and it is not what is cached
        return self._judge_change_slowly(key, new, cached)

    def _judge_change_slowly(self, key: str, new: ObjectMeta, cached: ObjectMeta | None) -> Verdict:
        version = new.resource_version
        if self._order != "opaque" and not resource_version_is_well_formed(version):
            return self._malformed()
        if self._order != "global":
            return self._judge_change_unordered(key, new, cached)
        is_known = cached is not None and _identity(cached) == _identity(new)
        stale = cached is not None and not _newer(version, cached.resource_version)
        stale = stale or self._is_past(key, new)
        if older(version, self.position) and not is_known:
            return self._ignore_regression() if stale else self._cannot_prove(key)
        if stale:
            return self._skip_duplicate(version)
        if version == self.position:
            self._note_equal()
        return self._take(key, new, cached)

    def _judge_change_unordered(
        self, key: str, new: ObjectMeta, cached: ObjectMeta | None
    ) -> Verdict:
        if self._order == "opaque":
            passing = change_of_opaque(new, cached)
        else:
            passing = change_per_object(key, new, cached, self._tombstones)
        return self._take(key, new, cached) if passing is None else self._pass(key, new, passing)

    def _take(self, key: str, new: ObjectMeta, cached: ObjectMeta | None) -> Verdict:
        self._tombstones.lift(key, new.uid)
        if cached is None:
            return Verdict.ADD
        if cached.uid == new.uid:
            return Verdict.UPDATE
        self.tally.count("uid_replacements")
        is_global = self._order == "global"
        died = new.resource_version if is_global else cached.resource_version
        self._tombstones.bury(key, cached.uid, died)
        return Verdict.REPLACE

    def _pass(self, key: str, meta: ObjectMeta, passing: Passing) -> Verdict:
        """Pass an event over where there is no global order."""
        if passing is Passing.UNPROVEN:
            return self._suspect(key)
        if passing is Passing.DUPLICATE:
            self.tally.count("duplicate_events")
        else:
            self.tally.regressed("ignored")
        if passing is Passing.DUPLICATE or self._order == "opaque":
            self._advance(meta.resource_version)
        return Verdict.SKIP

    def judge_deletion(self, key: str, gone: ObjectMeta, cached: ObjectMeta | None) -> Verdict:
        """Judge a DELETED event; `applied` is to follow unless it is skipped."""
        version = gone.resource_version
        if self._order != "opaque" and not resource_version_is_well_formed(version):
            return self._malformed()
        if cached is None:
            return self._judge_deletion_of_unknown(key, gone)
        if self._order != "global":
            return self._judge_deletion_unordered(key, gone, cached)
        if cached.uid != gone.uid:
            return self._judge_deletion_of_other(key, gone, cached)
        if older(version, cached.resource_version):
            return self._judge_deletion_of_earlier(key, gone)
        is_news = older(self.position, version)
        if not is_news:
            self._note_old_deletion(version, cached)
        is_dated = is_news and version != cached.resource_version
        self._tombstones.bury(key, gone.uid, version, is_dated=is_dated)
        return Verdict.REMOVE

    def _note_old_deletion(self, version: str, cached: ObjectMeta) -> None:
        if version == self.position and version != cached.resource_version:
            self._note_equal()
        else:
            self.tally.count("delete_old_rv")

    def _judge_deletion_unordered(self, key: str, gone: ObjectMeta, cached: ObjectMeta) -> Verdict:
        if self._order == "opaque":
            passing = deletion_of_opaque(gone, cached)
        else:
            passing = deletion_per_object(key, gone, cached, self._tombstones)
        if passing is not None:
            return self._pass(key, gone, passing)
        self._tombstones.bury(key, cached.uid, gone.resource_version)
        return Verdict.REMOVE

    def _judge_deletion_of_unknown(self, key: str, gone: ObjectMeta) -> Verdict:
        version = gone.resource_version
        is_replay = self._tombstones.covers(key, gone.uid, version)
        is_news = self._order == "global" and older(self.position, version)
        self._tombstones.bury(key, gone.uid, version, is_dated=is_news)
        if self._order == "global":
            if older(version, self.position):
                return self._ignore_regression()
            if version == self.position and not is_replay:
                self._note_equal()
        self._advance(version)
        return Verdict.SKIP

    def _judge_deletion_of_other(self, key: str, gone: ObjectMeta, cached: ObjectMeta) -> Verdict:
        version = gone.resource_version
        is_past = self._readings.cover(key, version)
        is_news = older(self.position, version)
        self._tombstones.bury(key, gone.uid, version, is_dated=is_news)
        if is_past or not _newer(version, cached.resource_version):
            return self._ignore_deletion(version)
        self._tombstones.bury(key, cached.uid, version)
        self._suspect(key)
        return Verdict.REMOVE_UNSEEN

    def _judge_deletion_of_earlier(self, key: str, gone: ObjectMeta) -> Verdict:
        """Judge the deletion of the cached object before its cached state."""
        version = gone.resource_version
        if self._readings.cover(key, version):
            return self._ignore_deletion(version)  # a selector let it go and had it back
        self._advance_if_newer(version)
        return self._suspect(key)

    def _ignore_deletion(self, version: str) -> Verdict:
        if older(self.position, version):
            return self._skip_duplicate(version)
        return self._ignore_regression()

    def judge_bookmark(self, resource_version: str) -> bool:
        """Take a bookmark; return whether the position moved to it."""
        if self._order == "opaque":
            self._settle(resource_version or self.position)
            return bool(resource_version)
        if not resource_version_is_well_formed(resource_version):
            self._malformed()
            return False
        if self.is_behind(resource_version):
            self.tally.regressed("probe", source="bookmark")
            self.suspicion = Suspicion.BOOKMARK
            return False
        self._settle(resource_version)
        return True

    def judge_verified(
        self, key: str, found: ObjectMeta | None, cached: ObjectMeta | None, read_at: str
    ) -> Verdict:
        """Judge what a list of one key shows; the position stays where it is.

        Args:
            key: what was looked at.
            found: what exists, or None.
            cached: what the sink has of it.
            read_at: the list's resource version.

        Returns:
            What to do. If the list is older than what is known, nothing, and `suspicion` is
            CONTRADICTED: it proves nothing, and the server's history is to be asked about.
        """
        self.suspicion = None
        self.to_verify = ""
        versions = [read_at] if found is None else [read_at, found.resource_version]
        if self._order != "opaque" and not all(map(resource_version_is_well_formed, versions)):
            return self._malformed()
        if self._is_contradicted(key, found, cached, read_at):
            self.tally.regressed("probe", source="verify")
            self.suspicion = Suspicion.CONTRADICTED
            return Verdict.SKIP
        is_news = _identity(found) != _identity(cached)
        if self._order == "global":
            self._readings.note(key, Reading(_identity(found)[1], read_at, is_source=is_news))
        if not is_news:
            return Verdict.SKIP
        if found is not None:
            return self._take(key, found, cached)
        if cached is not None:
            self._tombstones.bury(key, cached.uid, read_at)
        return Verdict.REMOVE_UNSEEN

    def _is_contradicted(
        self, key: str, found: ObjectMeta | None, cached: ObjectMeta | None, read_at: str
    ) -> bool:
        if self._order == "opaque":
            return False
        uid, version = _identity(found)
        if self._tombstones.covers(key, uid, version):
            return True
        if self._order == "per_object":
            return (
                cached is not None
                and cached.uid == uid
                and _newer(cached.resource_version, version)
            )
        if self.is_behind(read_at) or key in self._readings.beyond(read_at):
            return True
        return contradicts(found, cached, read_at)

    def applied(self, resource_version: str) -> None:
        """Move the position, now that the sink has taken an event of this version."""
        position = self.position
        if len(resource_version) == len(position) and resource_version > position:
            self._previous = position
            self.position = resource_version
        elif self._order == "global":
            self._advance_if_newer(resource_version)
        else:
            self._advance(resource_version)

    def is_behind(self, resource_version: str) -> bool:
        """Tell whether a bookmark or a complete list is older than what is applied already."""
        return self._order == "global" and older(resource_version, self.position)

    def taking_over(
        self, resource_version: str, *, rewound: bool = False, broken: bool = False
    ) -> bool:
        """Take note that a list is about to be handed to the sink; the arguments are `loaded`'s.

        Returns:
            Whether it begins a new epoch; `is_resetting` says so, too, until it is loaded.
        """
        begins = rewound or broken or self.is_behind(resource_version)
        self.is_resetting = bool(self.position) and begins
        return self.is_resetting

    def loaded(self, resource_version: str, *, rewound: bool = False, broken: bool = False) -> bool:
        """Take the version of a complete, consistent list over as the position.

        Args:
            resource_version: the list's own, well formed unless the order is opaque.
            rewound: an item of the list proves that the server went back in time.
            broken: the server's history was proven to be another one than the one followed.

        Returns:
            Whether this is a new epoch: the server's history is not the one we followed.
        """
        new_epoch = self.taking_over(resource_version, rewound=rewound, broken=broken)
        if new_epoch:
            if rewound:
                self.tally.regressed("reset", source="list_item")
            elif self.is_behind(resource_version):
                self.tally.regressed("reset", source="list")
            self.epoch += 1
            self.tally.count("lineage_resets")
            self._tombstones.clear()
            self._readings.clear()
        self.is_resetting = self.distrusts = False
        self._settle(resource_version)
        return new_epoch

    def has_buried(self, key: str, uid: str) -> bool:
        """Tell whether this object is dead, as far as is remembered."""
        return self._tombstones.has(key, uid)

    def burial(self, key: str) -> str:
        """Return the version of the latest deletion under a key, as far as is remembered."""
        return self._tombstones.died_at(key)

    def newest_tombstone(self) -> tuple[str, str, str] | None:
        """Return key, uid and version of the latest deletion up to there, or None.

        A witness of the history that was followed: it does not exist at `complete_position`.
        """
        return self._tombstones.newest(self._previous) if self._order == "global" else None

    def proves_rewind(self, key: str, listed: ObjectMeta, cached: ObjectMeta | None) -> bool:
        """Judge an item of a list: it may only come from a history that went back in time.

        What is cached proves that only if a list or a watch brought it: a verify can have been
        answered by another server. An object that a selector has back is dead no more.
        """
        if self._order == "opaque":
            return False
        version = listed.resource_version
        if cached is not None and cached.uid == listed.uid:
            known = cached.resource_version
            return older(version, known) and not self._readings.is_source(key, known)
        if self._tombstones.covers(key, listed.uid, version):
            return not self._readings.cover(key, version)
        self._tombstones.lift(key, listed.uid)
        return False

    def read_after(self, resource_version: str) -> Collection[str]:
        """Return the keys of which a verify has shown a state later than a list's."""
        return self._readings.beyond(resource_version).keys()

    def count(self, name: str, value: str = "", *, label: str = "action") -> None:
        """Count something that happened beside the table."""
        self.tally.count(name, value, label=label)

    def statistics(self) -> GuardStatistics:
        """Return where the guard stands."""
        buried, counts = len(self._tombstones), self.tally.counts()
        return GuardStatistics(self.position, self.epoch, buried, counts, self._order)

    def _settle(self, resource_version: str) -> None:
        # Nothing before this version is outstanding, so a watch may resume exactly here; a quiet
        # stream that resumed earlier would one day resume at a version the server has forgotten.
        self.position = self._previous = resource_version
        self._readings.reached(resource_version)

    def _advance(self, resource_version: str) -> None:
        if resource_version not in {self.position, ""}:
            self._previous, self.position = self.position, resource_version

    def _advance_if_newer(self, resource_version: str) -> None:
        if older(self.position, resource_version):
            self._advance(resource_version)

    def _is_past(self, key: str, meta: ObjectMeta) -> bool:
        version = meta.resource_version
        dead = self._tombstones.covers(key, meta.uid, version)
        return dead or self._readings.cover(key, version)

    def _note_equal(self) -> None:
        self.tally.count("equal_rv")
        self._resume_before = True

    def _skip_duplicate(self, version: str) -> Verdict:
        self.tally.count("duplicate_events")
        self._advance_if_newer(version)
        return Verdict.SKIP

    def _ignore_regression(self) -> Verdict:
        self.tally.regressed("ignored")
        self._unordered = 0  # objects themselves go back: this server replays or lags
        self._regressions += 1
        if self._regressions >= _REGRESSIONS_PER_CONNECTION:
            self.suspicion = Suspicion.REGRESSIONS
        return Verdict.SKIP

    def _cannot_prove(self, key: str) -> Verdict:
        self._unordered += 1
        return self._suspect(key)

    def _suspect(self, key: str) -> Verdict:
        self.tally.regressed("verified")
        self.suspicion = Suspicion.UNPROVEN
        self.to_verify = key
        return Verdict.SKIP

    def _malformed(self) -> Verdict:
        self.tally.count("rv_malformed")
        self.suspicion = Suspicion.MALFORMED
        return Verdict.SKIP


def _newer(version: str, cached: str) -> bool:
    """Return whether a version is newer than a cached one, which may be of any form."""
    if len(version) != len(cached):
        return len(version) > len(cached)
    return version > cached


def _identity(meta: ObjectMeta | None) -> tuple[str, str]:
    return ("", "") if meta is None else (meta.uid, meta.resource_version)
