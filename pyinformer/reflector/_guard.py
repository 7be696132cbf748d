"""The monotonic guard: what an event may do to the store and to the position.

What enters is an event's identity and resource version, and what the sink has of its key; what
leaves is a verdict. The position never goes back within an epoch, an event that was not applied
never advances it, and nothing older than what is cached replaces it: not after a replay, not by a
deletion that carries an old version, not for another object under the same name. Pure: no I/O, no
clock. The rules are a table; `tests/reflector/test_guard.py` has a test for each of its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer.apimachinery import Updated, older
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.reflector._orders import identity
from pyinformer.reflector._readings import Reading
from pyinformer.reflector._ruling import Order, Passing, Suspicion, Verdict
from pyinformer.reflector._standing import Standing
from pyinformer.reflector._tally import GuardStatistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.apimachinery import Event, KubeObject, ObjectMeta, V

_REGRESSIONS_PER_CONNECTION = 3  # two can be a replay's edge; three mean the stream is not ordered


@final
class Guard(Standing):
    """Judges the events of one reflector, in the order of their arrival.

    Args:
        metrics: where occurrences are counted.
        resource: the label of this guard's counts.
        order: what resource versions are taken to prove.
    """

    __slots__ = (
        "_regressions",
        "ignores_old_bookmarks",
        "suspicion",
        "to_verify",
    )

    def __init__(
        self,
        *,
        metrics: Metrics = NO_METRICS,
        resource: str = "",
        order: Order = "global",
    ) -> None:
        super().__init__(metrics=metrics, resource=resource, order=order)
        self.suspicion: Suspicion | None = None
        self.to_verify: str = ""
        """The key whose event could not be judged; empty if there is none."""
        self.ignores_old_bookmarks: bool = False
        """The server has sent too many: a bookmark behind the position is no breach any more."""
        self._regressions = 0

    def connected(self) -> None:
        """Start over with what is counted per connection."""
        self.suspicion = None
        self.to_verify = ""
        self.tally.event_type = "MODIFIED"
        self._regressions = 0

    def take_usual(
        self, old: KubeObject[V], new: KubeObject[V], apply: Callable[[Event[V]], None]
    ) -> bool:
        """Have a change of what is cached applied, if it is newer than that and the position.

        So is nearly every event, and in any order it is an update: the one whole way of judging,
        applying and moving on, in one call.

        Returns:
            Whether it was; if not, nothing happened, and the event is to be judged.
        """
        meta, cached, position = new.metadata, old.metadata, self.position
        version, known = meta.resource_version, cached.resource_version
        if (
            len(version) == len(position)
            and version > position
            and (version > known if len(version) == len(known) else len(version) > len(known))
            and cached.uid == meta.uid
            and version.isdecimal()
            and version.isascii()
        ):
            apply(Updated(old, new))
            self._previous = position
            self.position: str = version  # as `applied`, which would be one more call
            return True
        return False

    def judge_change(self, key: str, new: ObjectMeta, cached: ObjectMeta | None) -> Verdict:
        """Judge an ADDED or MODIFIED event; `applied` is to follow unless it is skipped."""
        version = new.resource_version
        if not self._is_readable(version):
            return self._malformed()
        passing = self._rules.change(key, new, cached, self.position, self._memory)
        if passing is not None:
            return self._pass(key, version, passing)
        if version == self.position and self._order == "global":
            self.tally.count("equal_rv")
        return self._take(key, new, cached)

    def _take(self, key: str, new: ObjectMeta, cached: ObjectMeta | None) -> Verdict:
        self._memory.dead.lift(key, new.uid)
        if cached is None:
            return Verdict.ADD
        if cached.uid == new.uid:
            return Verdict.UPDATE
        self.tally.count("uid_replacements")
        is_global = self._order == "global"
        died = new.resource_version if is_global else cached.resource_version
        self._memory.dead.bury(key, cached.uid, died)
        return Verdict.REPLACE

    def judge_deletion(self, key: str, gone: ObjectMeta, cached: ObjectMeta | None) -> Verdict:
        """Judge a DELETED event; `applied` is to follow unless it is skipped."""
        version = gone.resource_version
        if not self._is_readable(version):
            return self._malformed()
        if cached is None:
            return self._judge_deletion_of_unknown(key, gone)
        passing = self._rules.deletion(key, gone, cached, self.position, self._memory)
        if cached.uid != gone.uid and passing is not None:
            self._memory.dead.bury(key, gone.uid, version, is_dated=self._is_news(version))
        if passing is None:
            return self._remove(key, version, cached)
        if passing is Passing.UNSEEN:
            self._memory.dead.bury(key, cached.uid, version)
            self._suspect(key)
            return Verdict.REMOVE_UNSEEN
        verdict = self._pass(key, version, passing)
        if passing is Passing.UNPROVEN:
            self._unordered = 0  # an object that goes back itself
        return verdict

    def _remove(self, key: str, version: str, cached: ObjectMeta) -> Verdict:
        is_news, is_last = self._is_news(version), version == cached.resource_version
        # Old servers send a deletion with the object's last version: that does not date it.
        self._memory.dead.bury(key, cached.uid, version, is_dated=is_news and not is_last)
        if self._order == "global" and not is_news:
            if version == self.position and not is_last:
                self.tally.count("equal_rv")
            else:
                self.tally.count("delete_old_rv")
        return Verdict.REMOVE

    def _judge_deletion_of_unknown(self, key: str, gone: ObjectMeta) -> Verdict:
        version, is_news = gone.resource_version, self._is_news(gone.resource_version)
        is_replay = self._memory.dead.covers(key, gone.uid, version)
        self._memory.dead.bury(key, gone.uid, version, is_dated=is_news)
        if self.is_behind(version):
            return self._pass(key, version, Passing.STALE)
        if self._order == "global" and not is_news and not is_replay:
            self.tally.count("equal_rv")
        self._advance(version)
        return Verdict.SKIP

    def _pass(self, key: str, version: str, passing: Passing) -> Verdict:
        """Pass an event over."""
        if passing is Passing.DUPLICATE:
            self.tally.count("duplicate_events")
            self._move(version)
        elif passing is Passing.UNPROVEN:
            self._unordered += 1
            if self._order == "global":
                self._move(version)
            self._suspect(key)
        else:
            self._ignore_regression(version)
        return Verdict.SKIP

    def _ignore_regression(self, version: str) -> None:
        self.tally.regressed("ignored")
        if self._order == "global":
            self._unordered = 0  # objects themselves go back: this server replays or lags
            self._regressions += 1
            if self._regressions >= _REGRESSIONS_PER_CONNECTION:
                self.suspicion = Suspicion.REGRESSIONS
        elif self._order == "opaque":
            self._move(version)

    def judge_bookmark(self, resource_version: str) -> bool:
        """Take a bookmark; return whether the position moved to it."""
        if not self._is_readable(resource_version):
            self._malformed()
            return False
        if self.is_behind(resource_version):
            if self.ignores_old_bookmarks:
                self.tally.regressed("ignored", source="bookmark")
                return False
            self.tally.regressed("probe", source="bookmark")
            self.suspicion = Suspicion.BOOKMARK
            return False
        self._settle(resource_version or self.position)
        return bool(resource_version)

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
        if not self._is_readable(
            *([read_at] if found is None else [read_at, found.resource_version])
        ):
            return self._malformed()
        known = [identity(cached)[1], identity(found)[1], self.position]
        is_contradicted = self._order == "global" and (
            any(older(read_at, version) for version in known)
            or key in self._memory.readings.beyond(read_at)
        )
        is_news = identity(found) != identity(cached)
        contradicts = self._rules.contradicts
        if is_contradicted or (is_news and contradicts(key, found, cached, self._memory)):
            self.tally.regressed("probe", source="verify")
            self.suspicion = Suspicion.CONTRADICTED
            return Verdict.SKIP
        if self._order == "global":
            reading = Reading(identity(found)[1], read_at, is_source=is_news)
            self._memory.readings.note(key, reading)
        if not is_news:
            return Verdict.SKIP
        if found is not None:
            return self._take(key, found, cached)
        if cached is not None:
            self._memory.dead.bury(key, cached.uid, read_at)
        return Verdict.REMOVE_UNSEEN

    def proves_rewind(self, key: str, listed: ObjectMeta, cached: ObjectMeta | None) -> bool:
        """Judge an item of a list: it may only come from a history that went back in time.

        What is cached proves that only if a list or a watch brought it: a verify can have been
        answered by another server. An object that a selector has back is dead no more.
        """
        if self._rules.proves_rewind(key, listed, cached, self._memory):
            return True
        if not self._memory.is_past(key, listed):
            self._memory.dead.lift(key, listed.uid)
        return False

    def _suspect(self, key: str) -> Verdict:
        self.tally.regressed("verified")
        self.suspicion = Suspicion.UNPROVEN
        self.to_verify = key
        return Verdict.SKIP

    def _malformed(self) -> Verdict:
        self.tally.count("rv_malformed")
        self.suspicion = Suspicion.MALFORMED
        return Verdict.SKIP


__all__ = ["Guard", "GuardStatistics"]
