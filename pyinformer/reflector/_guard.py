"""The monotonic guard: what an event may do to the store and to the position.

What enters is an event's identity and resource version, and what the sink has of its key; what
leaves is a verdict. The position never goes back within an epoch, an event that was not applied
never advances it, and nothing older than what is cached replaces it: not after a replay, not by a
deletion that carries an old version, not for another object under the same name. Pure: no I/O, no
clock. The rules are a table; `tests/reflector/test_guard.py` has a test for each of its rows.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, final

from pyinformer.apimachinery import older, resource_version_is_well_formed
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.reflector._memory import Memory
from pyinformer.reflector._orders import RULES, identity, newer
from pyinformer.reflector._readings import Reading
from pyinformer.reflector._ruling import Order, Passing, Suspicion, Verdict
from pyinformer.reflector._tally import GuardStatistics, Tally

if TYPE_CHECKING:
    from pyinformer.apimachinery import ObjectMeta

_log = logging.getLogger(__name__)
_REGRESSIONS_PER_CONNECTION = 3  # two can be a replay's edge; three mean the stream is not ordered
_UNORDERED_LISTS = 2  # the second was asked for because of the first
_UNORDERED_CONNECTIONS = 3  # one can be a lagging server, two a coincidence
_UPDATE = Verdict.UPDATE  # of nearly every event; read off the class, it costs 0.05 us on 3.11
_NOT_RESUMABLE = frozenset({"", "0"})  # "0" asks for any state at all


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
        "_memory",
        "_order",
        "_previous",
        "_regressions",
        "_resource",
        "_resume_before",
        "_rules",
        "_unordered",
        "distrusts",
        "epoch",
        "ignores_old_bookmarks",
        "is_resetting",
        "position",
        "suspicion",
        "tally",
        "to_verify",
        "unordered_lists",
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
        self.ignores_old_bookmarks: bool = False
        """The server has sent too many: a bookmark behind the position is no breach any more."""
        self.is_resetting: bool = False
        """A list that begins a new epoch is being taken over: its updates may go back in time."""
        self.unordered_lists: int = 0
        """So many lists in a row held objects newer than themselves."""
        self._previous = ""
        self._resume_before = resume_before
        self._regressions = 0
        self._unordered = 0
        self._memory = Memory()
        self._resource = resource
        self._order: Order = order
        self._rules = RULES[order]
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
        self._order, self._rules = order, RULES[order]
        self._previous = self.position
        self._unordered = 0
        self._memory.readings.clear()
        self.tally.show_order(order)

    def sees_no_order(self) -> bool:
        """Tell whether streams in a row went back though each object's versions grew, or lists did.

        That is how an API looks whose versions compare only within an object. A server that
        replays or lags also shows objects as they were, which ends this suspicion.
        """
        lists = self.unordered_lists >= _UNORDERED_LISTS
        return lists or self._unordered >= _UNORDERED_CONNECTIONS

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
            and newer(version, cached.resource_version)
        ):
            return _UPDATE  # in any order: it is newer, and it is not what is cached
        return self._judge_change_slowly(key, new, cached)

    def _judge_change_slowly(self, key: str, new: ObjectMeta, cached: ObjectMeta | None) -> Verdict:
        version = new.resource_version
        if not self._is_readable(version):
            return self._malformed()
        passing = self._rules.change(key, new, cached, self.position, self._memory)
        if passing is not None:
            return self._pass(key, version, passing)
        if version == self.position and self._order == "global":
            self._note_equal()
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
                self._note_equal()
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
            self._note_equal()
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

    def applied(self, resource_version: str) -> None:
        """Move the position, now that the sink has taken an event of this version."""
        position = self.position
        if len(resource_version) == len(position) and resource_version > position:
            self._previous = position
            self.position = resource_version
        else:
            self._move(resource_version)

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
            self._memory.clear()
        self.is_resetting = self.distrusts = False
        self.unordered_lists = 0
        self._settle(resource_version)
        return new_epoch

    def has_buried(self, key: str, uid: str) -> bool:
        """Tell whether this object is dead, as far as is remembered."""
        return self._memory.dead.has(key, uid)

    def burial(self, key: str) -> str:
        """Return the version of the latest deletion under a key, as far as is remembered."""
        return self._memory.dead.died_at(key)

    def newest_tombstone(self) -> tuple[str, str, str] | None:
        """Return key, uid and version of the latest deletion, or None.

        A witness of the history that was followed: it does not exist at the later of that version
        and `complete_position`.
        """
        return self._memory.dead.newest(self.position) if self._order == "global" else None

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

    def read_after(self, resource_version: str) -> Collection[str]:
        """Return the keys of which a verify has shown a state later than a list's."""
        return self._memory.readings.beyond(resource_version).keys()

    def count(self, name: str, value: str = "", *, label: str = "action") -> None:
        """Count something that happened beside the table."""
        self.tally.count(name, value, label=label)

    def statistics(self) -> GuardStatistics:
        """Return where the guard stands."""
        buried, counts = len(self._memory.dead), self.tally.counts()
        return GuardStatistics(self.position, self.epoch, buried, counts, self._order)

    def _settle(self, resource_version: str) -> None:
        # Nothing before this version is outstanding, so a watch may resume exactly here; a quiet
        # stream that resumed earlier would one day resume at a version the server has forgotten.
        self.position = self._previous = resource_version
        self._memory.readings.reached(resource_version)

    def _advance(self, resource_version: str) -> None:
        if resource_version not in {self.position, ""}:
            self._previous, self.position = self.position, resource_version

    def _move(self, resource_version: str) -> None:
        """Move to the version of an event; in a global order only forward."""
        if self._order != "global" or self._is_news(resource_version):
            self._advance(resource_version)

    def _is_news(self, resource_version: str) -> bool:
        return self._order == "global" and older(self.position, resource_version)

    def _is_readable(self, *versions: str) -> bool:
        return self._order == "opaque" or all(map(resource_version_is_well_formed, versions))

    def _note_equal(self) -> None:
        self.tally.count("equal_rv")
        self._resume_before = True

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
