"""The monotonic guard: what an event may do to the store and to the position.

What enters is an event's identity and resource version, and what the sink has of its key; what
leaves is a verdict. The position never goes back within an epoch, an event that was not applied
never advances it, and nothing older than what is cached replaces it: not after a replay, not by a
deletion that carries an old version, not for another object under the same name. Pure: no I/O, no
clock. The rules are a table; `tests/reflector/test_guard.py` has a test for each of its rows.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from pyinformer.apimachinery import older, resource_version_is_well_formed
from pyinformer.metrics import NO_METRICS, Metrics

if TYPE_CHECKING:
    from pyinformer.apimachinery import ObjectMeta

_MAX_TOMBSTONES = 10_000  # enough for the replays of a busy namespace, small enough to forget about
_REGRESSIONS_PER_CONNECTION = 3  # two can be a replay's edge; three mean the stream is not ordered


class Verdict(enum.Enum):
    """What is to be done with an event."""

    ADD = enum.auto()
    UPDATE = enum.auto()
    REPLACE = enum.auto()
    """Another object under the same name: delete the cached one, then add."""
    REMOVE = enum.auto()
    REMOVE_UNSEEN = enum.auto()
    """The cached object is proven dead, though its own deletion was missed."""
    SKIP = enum.auto()
    """Nothing to do; the position may have moved."""


class Suspicion(enum.Enum):
    """Why a stream cannot be followed any further."""

    MALFORMED = "a resource version that cannot be compared"
    UNPROVEN = "an event older than the position that cannot be proven stale"
    REGRESSIONS = "several events older than the position"
    BOOKMARK = "a bookmark older than the position"


@final
@dataclass(frozen=True, slots=True)
class GuardStatistics:
    """Where a guard stands and what it met."""

    position: str
    epoch: int
    tombstones: int
    counts: Mapping[str, int]
    """Occurrences by metric name and action, such as `rv_regressions:ignored`."""


@final
class Guard:
    """Judges the events of one reflector, in the order of their arrival.

    Args:
        metrics: where occurrences are counted.
        resource: the label of this guard's counts.
        resume_before: resume watches at the last distinct version before the position. For
            resources whose objects expire together and share a resource version.
    """

    __slots__ = (
        "_counts",
        "_metrics",
        "_previous",
        "_regressions",
        "_resource",
        "_resume_before",
        "_tombstones",
        "epoch",
        "position",
        "suspicion",
    )

    def __init__(
        self, *, metrics: Metrics = NO_METRICS, resource: str = "", resume_before: bool = False
    ) -> None:
        self.position: str = ""
        """Every change up to here is applied; empty before the first list."""
        self.epoch: int = 0
        self.suspicion: Suspicion | None = None
        self._previous = ""
        self._resume_before = resume_before
        self._regressions = 0
        self._tombstones: OrderedDict[tuple[str, str], str] = OrderedDict()
        # By key and uid: a name can have been deleted more than once, each time another object.
        self._counts: dict[str, int] = {}
        self._metrics = metrics
        self._resource = resource

    @property
    def resume_position(self) -> str:
        """Where a new watch starts: it must bring again what may be incomplete."""
        return self._previous if self._resume_before else self.position

    def connected(self) -> None:
        """Start over with what is counted per connection."""
        self.suspicion = None
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
            return Verdict.UPDATE
        return self._judge_change_slowly(key, new, cached)

    def _judge_change_slowly(self, key: str, new: ObjectMeta, cached: ObjectMeta | None) -> Verdict:
        version = new.resource_version
        if not resource_version_is_well_formed(version):
            return self._malformed()
        stale = cached is not None and not _newer(version, cached.resource_version)
        is_known = cached is not None and (cached.uid, cached.resource_version) == (
            new.uid,
            version,
        )
        if older(version, self.position) and not is_known:
            return self._judge_regression(key, new, stale=stale)
        if stale or self._is_buried(key, new):
            self._count("duplicate_events")
            self._advance_if_newer(version)
            return Verdict.SKIP
        if version == self.position:
            self._note_equal()
        if cached is None:
            return Verdict.ADD
        if cached.uid == new.uid:
            return Verdict.UPDATE
        self._count("uid_replacements")
        self._bury(key, cached.uid, version)
        return Verdict.REPLACE

    def _judge_regression(self, key: str, new: ObjectMeta, *, stale: bool) -> Verdict:
        if stale or self._is_buried(key, new):
            return self._ignore_regression()
        return self._suspect(Suspicion.UNPROVEN)

    def judge_deletion(self, key: str, gone: ObjectMeta, cached: ObjectMeta | None) -> Verdict:
        """Judge a DELETED event; `applied` is to follow unless it is skipped."""
        version = gone.resource_version
        if not resource_version_is_well_formed(version):
            return self._malformed()
        if cached is None:
            return self._judge_deletion_of_unknown(key, gone)
        if cached.uid != gone.uid:
            return self._judge_deletion_of_other(key, gone, cached)
        if older(version, cached.resource_version):
            self._advance_if_newer(version)
            return self._suspect(Suspicion.UNPROVEN)
        if not older(self.position, version):
            self._note_old_deletion(version, cached)
        self._bury(key, gone.uid, version)
        return Verdict.REMOVE

    def _note_old_deletion(self, version: str, cached: ObjectMeta) -> None:
        if version == self.position and version != cached.resource_version:
            self._note_equal()
        else:
            self._count("delete_old_rv")

    def _judge_deletion_of_unknown(self, key: str, gone: ObjectMeta) -> Verdict:
        version = gone.resource_version
        is_replay = self._is_buried(key, gone)
        self._bury(key, gone.uid, version)
        if older(version, self.position):
            return self._ignore_regression()
        if version == self.position and not is_replay:
            self._note_equal()
        self._advance(version)
        return Verdict.SKIP

    def _judge_deletion_of_other(self, key: str, gone: ObjectMeta, cached: ObjectMeta) -> Verdict:
        version = gone.resource_version
        self._bury(key, gone.uid, version)
        if not _newer(version, cached.resource_version):
            return self._ignore_regression()
        self._bury(key, cached.uid, version)
        self._suspect(Suspicion.UNPROVEN)
        return Verdict.REMOVE_UNSEEN

    def judge_bookmark(self, resource_version: str) -> bool:
        """Take a bookmark; return whether the position moved to it."""
        if not resource_version_is_well_formed(resource_version):
            self._malformed()
            return False
        if older(resource_version, self.position):
            self._count("rv_regressions", "probe")
            self.suspicion = Suspicion.BOOKMARK
            return False
        self._settle(resource_version)
        return True

    def applied(self, resource_version: str) -> None:
        """Move the position, now that the sink has taken an event of this version."""
        position = self.position
        if len(resource_version) == len(position) and resource_version > position:
            self._previous = position
            self.position = resource_version
        else:
            self._advance_if_newer(resource_version)

    def loaded(self, resource_version: str, *, rewound: bool = False) -> bool:
        """Take the version of a complete, consistent list over as the position.

        Args:
            resource_version: the list's own, well formed.
            rewound: an item of the list proves that the server went back in time.

        Returns:
            Whether this is a new epoch: the server's history is not the one we followed.
        """
        new_epoch = bool(self.position) and (rewound or older(resource_version, self.position))
        if new_epoch:
            self.epoch += 1
            self._count("lineage_resets")
            self._tombstones.clear()
        self._settle(resource_version)
        return new_epoch

    def has_buried(self, key: str, uid: str) -> bool:
        """Tell whether a deletion of this object was applied, as far as is remembered."""
        return (key, uid) in self._tombstones

    def count(self, name: str, value: str = "", *, label: str = "action") -> None:
        """Count something that happened beside the table."""
        self._count(name, value, label)

    def statistics(self) -> GuardStatistics:
        """Return where the guard stands."""
        return GuardStatistics(self.position, self.epoch, len(self._tombstones), dict(self._counts))

    def _settle(self, resource_version: str) -> None:
        # Nothing before this version is outstanding, so a watch may resume exactly here; a quiet
        # stream that resumed earlier would one day resume at a version the server has forgotten.
        self.position = self._previous = resource_version

    def _advance(self, resource_version: str) -> None:
        if resource_version != self.position:
            self._previous, self.position = self.position, resource_version

    def _advance_if_newer(self, resource_version: str) -> None:
        if older(self.position, resource_version):
            self._advance(resource_version)

    def _note_equal(self) -> None:
        self._count("equal_rv")
        self._resume_before = True

    def _ignore_regression(self) -> Verdict:
        self._count("rv_regressions", "ignored")
        self._regressions += 1
        if self._regressions >= _REGRESSIONS_PER_CONNECTION:
            self.suspicion = Suspicion.REGRESSIONS
        return Verdict.SKIP

    def _suspect(self, suspicion: Suspicion) -> Verdict:
        self._count("rv_regressions", "verified")
        self.suspicion = suspicion
        return Verdict.SKIP

    def _malformed(self) -> Verdict:
        self._count("rv_malformed")
        self.suspicion = Suspicion.MALFORMED
        return Verdict.SKIP

    def _bury(self, key: str, uid: str, version: str) -> None:
        known = self._tombstones.pop((key, uid), version)
        self._tombstones[key, uid] = known if older(version, known) else version
        if len(self._tombstones) > _MAX_TOMBSTONES:
            self._tombstones.popitem(last=False)

    def _is_buried(self, key: str, meta: ObjectMeta) -> bool:
        version = self._tombstones.get((key, meta.uid))
        return version is not None and not older(version, meta.resource_version)

    def _count(self, name: str, value: str = "", label: str = "action") -> None:
        counted = f"{name}:{value}" if value else name
        self._counts[counted] = self._counts.get(counted, 0) + 1
        labels = {"resource": self._resource, label: value}
        self._metrics.increment(f"informer_{name}_total", labels)


def _newer(version: str, cached: str) -> bool:
    """Return whether a version is newer than a cached one, which may be of any form."""
    if len(version) != len(cached):
        return len(version) > len(cached)
    return version > cached
