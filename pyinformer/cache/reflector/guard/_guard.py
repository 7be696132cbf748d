"""The monotonic guard: what an event may do to the store and to the position.

The position never goes back within an epoch, an event that was not applied never advances it, and
nothing older than what is cached replaces it: not after a replay, not by a deletion that carries an
old version, not for another object under the same name. The guard does no I/O and has no clock.
`tests/cache/reflector/test_guard.py` has a test for each rule.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import TYPE_CHECKING, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.cache.reflector.guard._counts import Counts, GuardStatistics
from pyinformer.cache.reflector.guard._tombstones import KeyMemory, PointRead
from pyinformer.cache.reflector.guard._version_order_rules import (
    RULES,
    Decision,
    Order,
    SkipReason,
    identity,
)
from pyinformer.objects import Updated, older, resource_version_is_well_formed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.objects import Event, KubeObject, ObjectMeta, V

_log = get_logger(__name__)
_REGRESSIONS_PER_CONNECTION = 3  # two can be a replay's edge; three mean the stream is not ordered
_UNORDERED_LISTS = 2  # the second was requested because of the first
_UNORDERED_CONNECTIONS = 3  # one can be a lagging server, two a coincidence
_NOT_RESUMABLE = frozenset({"", "0"})  # "0" asks for any state at all


class Suspicion(enum.Enum):
    """Why a stream cannot be followed any further."""

    MALFORMED = "a resource version that cannot be compared"
    UNPROVEN = "an event older than the position that cannot be proven stale"
    REGRESSIONS = "several events older than the position"
    BOOKMARK = "a bookmark older than the position"
    CONTRADICTED = "a look at one key that is older than what is cached"


@final
class Guard:
    """Judges the events of one reflector in the order of their arrival, and holds the position.

    Args:
        resource: its name in logs.
        order: what resource versions are taken to prove.
    """

    __slots__ = (
        "_memory",
        "_regressions",
        "_resource",
        "_rules",
        "_unordered",
        "counts",
        "epoch",
        "expects_rewind",
        "ignores_old_bookmarks",
        "is_resetting",
        "order",
        "position",
        "resume_position",
        "suspicion",
        "to_verify",
        "unordered_lists",
    )

    def __init__(self, *, resource: str = "", order: Order = "global") -> None:
        self.position: str = ""
        """Every change up to here is applied; empty before the first list."""
        self.epoch: int = 0
        """How often the server's history turned out not to be the one that was followed."""
        self.counts: Counts = Counts()
        """The counts of this guard, and of what happens around it."""
        self.suspicion: Suspicion | None = None
        """Why the current stream cannot be followed any further; None while it can."""
        self.to_verify: str = ""
        """The key whose event could not be judged; empty if there is none."""
        self.ignores_old_bookmarks: bool = False
        """The server has sent too many: a bookmark behind the position no longer ends a stream."""
        self.expects_rewind: bool = False
        """A list showed that the server went back in time: the next one is to confirm it."""
        self.is_resetting: bool = False
        """A list that begins a new epoch is being applied: its updates may go back in time."""
        self.unordered_lists: int = 0
        """How many lists in a row held objects newer than themselves."""
        self.resume_position: str = ""
        """The last distinct version before the position, where a new watch starts.

        Every change up to here is certainly applied. Several changes can have one resource version
        (the end of a lease, a transaction of an aggregated API), and the stream may have been cut
        off after the first of them. A watch from here repeats the changes of the position itself,
        and the rules drop those that were applied.
        """
        self._regressions = 0
        self._unordered = 0
        self._memory = KeyMemory()
        self._resource = resource
        self.order: Order = order
        """What resource versions are taken to prove; changed by `use_order` alone."""
        self._rules = RULES[order]

    def use_order(self, order: Order) -> None:
        """Change what resource versions are taken to prove, and log it.

        What is cached stays. The caller lists again if the new order is a stricter one.
        """
        if order == self.order:
            return
        _log.error(
            "%s: resource versions are taken as %s instead of %s from now on",
            self._resource,
            order,
            self.order,
            extra={"resource": self._resource, "order": order, "order_before": self.order},
        )
        self.order, self._rules = order, RULES[order]
        self.resume_position = self.position
        self._unordered = 0
        self._memory.point_reads.clear()

    def sees_no_order(self) -> bool:
        """Return whether lists or streams in a row were out of order, but each object's states not.

        An API whose versions compare only within an object looks like that. A server that replays
        or lags also shows earlier states of objects, which resets the count.
        """
        lists = self.unordered_lists >= _UNORDERED_LISTS
        return lists or self._unordered >= _UNORDERED_CONNECTIONS

    @property
    def can_resume(self) -> bool:
        """Whether a watch can start at the position; if not, only lists show what changed."""
        return self.position not in _NOT_RESUMABLE

    def applied(self, resource_version: str) -> None:
        """Move the position, now that the sink has taken an event of this version."""
        position = self.position
        if len(resource_version) == len(position) and resource_version > position:
            self.resume_position = position
            self.position = resource_version
        else:
            self._move(resource_version)

    def is_behind(self, resource_version: str) -> bool:
        """Return whether a bookmark or a complete list is older than what is applied already."""
        return self.order == "global" and older(resource_version, self.position)

    def begin_load(
        self, resource_version: str, *, rewound: bool = False, broken: bool = False
    ) -> bool:
        """Record that a complete list is about to be passed to the sink; arguments as `loaded`.

        Returns:
            Whether it begins a new epoch; `is_resetting` is that until `loaded` is called.
        """
        begins = rewound or broken or self.is_behind(resource_version)
        self.is_resetting = bool(self.position) and begins
        return self.is_resetting

    def loaded(self, resource_version: str, *, rewound: bool = False, broken: bool = False) -> bool:
        """Make the version of a complete, consistent list the position.

        Args:
            resource_version: the list's, well formed unless the order is opaque.
            rewound: an item of the list proves that the server went back in time.
            broken: the server's history was proven not to be the one that was followed.

        Returns:
            Whether this is a new epoch: the server's history is not the one that was followed.
        """
        new_epoch = self.begin_load(resource_version, rewound=rewound, broken=broken)
        if new_epoch:
            if rewound:
                self.counts.regressed("reset", source="list_item")
            elif self.is_behind(resource_version):
                self.counts.regressed("reset", source="list")
            self.epoch += 1
            self.counts.add("lineage_resets")
            self._memory.clear()
        self.is_resetting = self.expects_rewind = False
        self.unordered_lists = 0
        self._settle(resource_version)
        return new_epoch

    def has_tombstone(self, key: str, uid: str) -> bool:
        """Return whether this object is remembered as deleted."""
        return self._memory.tombstones.has(key, uid)

    def tombstone_version(self, key: str) -> str:
        """Return the version of the latest remembered deletion under a key, or an empty text."""
        return self._memory.tombstones.latest_version(key)

    def newest_tombstone(self) -> tuple[str, str, str] | None:
        """Return key, uid and version of the latest deletion, or None without a global order.

        In the history that was followed that object does not exist at the later of that version and
        `resume_position`.
        """
        return self._memory.tombstones.newest(self.position) if self.order == "global" else None

    def read_after(self, resource_version: str) -> Collection[str]:
        """Return the keys of which a point read has shown a state later than a list's version."""
        return self._memory.point_reads.beyond(resource_version).keys()

    def statistics(self) -> GuardStatistics:
        """Return the position and the counts."""
        tombstones, counts = len(self._memory.tombstones), self.counts.by_name()
        return GuardStatistics(self.position, self.epoch, tombstones, counts, self.order)

    def connected(self) -> None:
        """Reset what is counted for each connection."""
        self.suspicion = None
        self.to_verify = ""
        self.counts.event_type = "MODIFIED"
        self._regressions = 0

    def apply_newer(
        self, old: KubeObject[V], new: KubeObject[V], apply: Callable[[Event[V]], None]
    ) -> bool:
        """Apply an update that is newer than the cached object and the position; move the position.

        Nearly every event is one, and it is an update in any order, so this one call judges,
        applies and moves on.

        Returns:
            Whether it was applied; if not, nothing has changed and the caller judges the event.
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
            self.resume_position = position
            self.position = version  # like `applied`, without one more call
            return True
        return False

    def judge_change(self, key: str, new: ObjectMeta, cached: ObjectMeta | None) -> Decision:
        """Judge an ADDED or MODIFIED event; the caller then calls `applied` unless it skips it."""
        version = new.resource_version
        if not self._is_readable(version):
            return self._malformed()
        reason = self._rules.change(key, new, cached, self.position, self._memory)
        if reason is not None:
            return self._skip(key, version, reason)
        if version == self.position and self.order == "global":
            self.counts.add("equal_rv")
        return self._take(key, new, cached)

    def _take(self, key: str, new: ObjectMeta, cached: ObjectMeta | None) -> Decision:
        self._memory.tombstones.lift(key, new.uid)
        if cached is None:
            return Decision.ADD
        if cached.uid == new.uid:
            return Decision.UPDATE
        self.counts.add("uid_replacements")
        is_global = self.order == "global"
        died = new.resource_version if is_global else cached.resource_version
        self._memory.tombstones.add(key, cached.uid, died)
        return Decision.REPLACE

    def judge_deletion(self, key: str, gone: ObjectMeta, cached: ObjectMeta | None) -> Decision:
        """Judge a DELETED event; the caller then calls `applied` unless it skips it."""
        version = gone.resource_version
        if not self._is_readable(version):
            return self._malformed()
        if cached is None:
            return self._judge_deletion_of_unknown(key, gone)
        reason = self._rules.deletion(key, gone, cached, self.position, self._memory)
        if cached.uid != gone.uid and reason is not None:
            self._memory.tombstones.add(key, gone.uid, version, is_dated=self._is_news(version))
        if reason is None:
            return self._remove(key, version, cached)
        if reason is SkipReason.UNSEEN:
            self._memory.tombstones.add(key, cached.uid, version)
            self._suspect(key)
            return Decision.REMOVE_UNSEEN
        decision = self._skip(key, version, reason)
        if reason is SkipReason.UNPROVEN:
            self._unordered = 0  # the object itself went back
        return decision

    def _remove(self, key: str, version: str, cached: ObjectMeta) -> Decision:
        is_news, is_last = self._is_news(version), version == cached.resource_version
        # Old servers send a deletion with the object's last version, which does not date it.
        self._memory.tombstones.add(key, cached.uid, version, is_dated=is_news and not is_last)
        if self.order == "global" and not is_news:
            if version == self.position and not is_last:
                self.counts.add("equal_rv")
            else:
                self.counts.add("delete_old_rv")
        return Decision.REMOVE

    def _judge_deletion_of_unknown(self, key: str, gone: ObjectMeta) -> Decision:
        version, is_news = gone.resource_version, self._is_news(gone.resource_version)
        is_replay = self._memory.tombstones.covers(key, gone.uid, version)
        self._memory.tombstones.add(key, gone.uid, version, is_dated=is_news)
        if self.is_behind(version):
            return self._skip(key, version, SkipReason.STALE)
        if self.order == "global" and not is_news and not is_replay:
            self.counts.add("equal_rv")
        self._advance(version)
        return Decision.SKIP

    def _skip(self, key: str, version: str, reason: SkipReason) -> Decision:
        if reason is SkipReason.DUPLICATE:
            self.counts.add("duplicate_events")
            self._move(version)
        elif reason is SkipReason.UNPROVEN:
            self._unordered += 1
            if self.order == "global":
                self._move(version)
            self._suspect(key)
        else:
            self._ignore_regression(version)
        return Decision.SKIP

    def _ignore_regression(self, version: str) -> None:
        self.counts.regressed("ignored")
        if self.order == "global":
            self._unordered = 0  # objects themselves went back: this server replays or lags
            self._regressions += 1
            if self._regressions >= _REGRESSIONS_PER_CONNECTION:
                self.suspicion = Suspicion.REGRESSIONS
        elif self.order == "opaque":
            self._move(version)

    def judge_bookmark(self, resource_version: str) -> bool:
        """Move the position to a bookmark; return whether it was moved."""
        if not self._is_readable(resource_version):
            self._malformed()
            return False
        if self.is_behind(resource_version):
            if self.ignores_old_bookmarks:
                self.counts.regressed("ignored", source="bookmark")
                return False
            self.counts.regressed("probe", source="bookmark")
            self.suspicion = Suspicion.BOOKMARK
            return False
        self._settle(resource_version or self.position)
        return bool(resource_version)

    def judge_verified(
        self, key: str, found: ObjectMeta | None, cached: ObjectMeta | None, read_at: str
    ) -> Decision:
        """Judge what a list of one key shows; the position stays where it is.

        Args:
            key: the key that was listed.
            found: the object in the list, or None.
            cached: the object in the sink, or None.
            read_at: the list's resource version.

        Returns:
            What the sink does. It is SKIP, with the `suspicion` CONTRADICTED, if the list is older
            than what is known: such a list proves nothing, and the caller checks the server's
            history.
        """
        self.suspicion = None
        self.to_verify = ""
        if not self._is_readable(
            *([read_at] if found is None else [read_at, found.resource_version])
        ):
            return self._malformed()
        known = [identity(cached)[1], identity(found)[1], self.position]
        is_contradicted = self.order == "global" and (
            any(older(read_at, version) for version in known)
            or key in self._memory.point_reads.beyond(read_at)
        )
        is_news = identity(found) != identity(cached)
        contradicts = self._rules.contradicts
        if is_contradicted or (is_news and contradicts(key, found, cached, self._memory)):
            self.counts.regressed("probe", source="verify")
            self.suspicion = Suspicion.CONTRADICTED
            return Decision.SKIP
        if self.order == "global":
            read = PointRead(identity(found)[1], read_at, is_source=is_news)
            self._memory.point_reads.record(key, read)
        if not is_news:
            return Decision.SKIP
        if found is not None:
            return self._take(key, found, cached)
        if cached is not None:
            self._memory.tombstones.add(key, cached.uid, read_at)
        return Decision.REMOVE_UNSEEN

    def proves_rewind(self, key: str, listed: ObjectMeta, cached: ObjectMeta | None) -> bool:
        """Return whether an item of a list can only come from a history that went back in time.

        A cached object proves that only if a list or a watch brought it, since another server may
        have answered a point read. The tombstone of an object that matches its selector again is
        removed.
        """
        if self._rules.proves_rewind(key, listed, cached, self._memory):
            return True
        if not self._memory.is_past(key, listed):
            self._memory.tombstones.lift(key, listed.uid)
        return False

    def _suspect(self, key: str) -> Decision:
        self.counts.regressed("verified")
        self.suspicion = Suspicion.UNPROVEN
        self.to_verify = key
        return Decision.SKIP

    def _malformed(self) -> Decision:
        self.counts.add("rv_malformed")
        self.suspicion = Suspicion.MALFORMED
        return Decision.SKIP

    def _settle(self, resource_version: str) -> None:
        # Nothing before this version is outstanding, so a watch may resume exactly here. A quiet
        # stream that resumed earlier would one day resume at a version the server has forgotten.
        self.position = self.resume_position = resource_version
        self._memory.point_reads.reached(resource_version)

    def _advance(self, resource_version: str) -> None:
        if resource_version not in {self.position, ""}:
            self.resume_position, self.position = self.position, resource_version

    def _move(self, resource_version: str) -> None:
        """Move to the version of an event; in a global order only forward."""
        if self.order != "global" or self._is_news(resource_version):
            self._advance(resource_version)

    def _is_news(self, resource_version: str) -> bool:
        return self.order == "global" and older(self.position, resource_version)

    def _is_readable(self, *versions: str) -> bool:
        return self.order == "opaque" or all(map(resource_version_is_well_formed, versions))
