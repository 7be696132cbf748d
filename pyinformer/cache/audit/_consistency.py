"""The comparison of a cache with what its server lists, without I/O and without a clock.

The cache as it was at a resource version is compared with the identities that the server lists at
exactly that version. A difference counts only if the cache still holds at the end what it held at
the beginning: what an event has changed meanwhile is no longer compared.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from pyinformer._printable import printable
from pyinformer.objects import (
    KubeObject,
    ObjectMeta,
    older,
    resource_version_is_well_formed,
)

MismatchKind: TypeAlias = Literal["missing", "phantom", "stale"]
AuditVerdict: TypeAlias = Literal["consistent", "inconsistent", "inconclusive"]
AuditRepair: TypeAlias = Literal["none", "demanded", "withheld"]

MAX_NAMED: Final = 100
"""How many keys of each kind a report names; all keys of a large cluster would fill the log."""

_SLICE = 256  # differences per step: a step stays below a millisecond


@final
@dataclass(frozen=True, slots=True)
class Mismatches:
    """The differences of one kind."""

    count: int = 0
    """The number of differences."""
    keys: tuple[str, ...] = ()
    """The first hundred of them: `namespace/name`, or `name`."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The outcome of one comparison of a cache with its server; holds no object content."""

    informer: str
    """What the informer follows, such as `pods.v1 in default`."""
    cause: str
    """Why it was made: `asked for`, `due`, or a suspicion."""
    verdict: AuditVerdict
    """`inconclusive` proves nothing about the cache; `reason` says why."""
    position: str
    """The resource version at which both were compared; empty if they were not."""
    checked: int
    """How many objects the server listed."""
    missing: Mismatches = Mismatches()
    """Objects that the server has and the cache lacks."""
    phantom: Mismatches = Mismatches()
    """Objects that the cache has and the server lacks."""
    stale: Mismatches = Mismatches()
    """Objects that both have, with another uid or version."""
    repair: AuditRepair = "none"
    """`demanded`: everything is listed again. `withheld`: a relist did not help, or is too soon."""
    reason: str = ""
    """Why the verdict is inconclusive, or the repair withheld; empty otherwise."""
    seconds: float = 0.0
    """How long it took."""

    @property
    def is_consistent(self) -> bool:
        """Whether the cache certainly held what the server had."""
        return self.verdict == "consistent"

    @property
    def mismatches(self) -> int:
        """The number of differences of all kinds."""
        return self.missing.count + self.phantom.count + self.stale.count

    def __str__(self) -> str:
        text = f"{self.informer}: {self.verdict}"
        if self.position:
            text += f" at {self.position}, {self.checked} objects"
        found = [("missing", self.missing), ("phantom", self.phantom), ("stale", self.stale)]
        for kind, mismatches in found:
            if mismatches.count:
                names = ", ".join(mismatches.keys[:_SHOWN])
                more = ", ..." if mismatches.count > _SHOWN else ""
                text += f"; {mismatches.count} {kind}: {names}{more}"
        return printable(f"{text} ({self.reason})" if self.reason else text)


_SHOWN: Final = 10  # keys of each kind in a sentence; the report has the others
_Identity: TypeAlias = "tuple[str, str] | None"  # uid, resource version; None if it does not exist


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """One key that differs, with the identities on both sides; it compares by value."""

    key: str
    kind: MismatchKind
    held: _Identity
    listed: _Identity


class _Candidate(Struct, frozen=True, gc=False):
    """A key that differs so far; a hundred thousand tuples would wake the garbage collector."""

    held: ObjectMeta | None
    uid: str
    version: str


@final
class Comparison:
    """Compares a cache with what is listed.

    Args:
        held: the cache by key, `namespace/name` or `name`, as it was at the position; the
            comparison takes ownership and empties it.
        position: the resource version whose changes, and no later ones, are in `held`.
    """

    def __init__(self, held: dict[str, KubeObject[object]], position: str) -> None:
        self.checked: int = 0
        """How many objects were listed."""
        self.counts: dict[MismatchKind, int] = {"missing": 0, "phantom": 0, "stale": 0}
        """The differences that were confirmed."""
        self.named: list[Difference] = []
        """The first hundred of each kind."""
        self._unseen = held
        self._candidates: dict[str, _Candidate] = {}
        self._position = position
        self._is_ordered = resource_version_is_well_formed(position)

    def take(self, key: str, uid: str, resource_version: str) -> None:
        """Compare one object that the server lists."""
        self.checked += 1
        known = self._unseen.pop(key, None)
        if known is None:
            self._candidates[key] = _Candidate(None, uid, resource_version)
            return
        meta = known.metadata
        if meta.resource_version != resource_version or meta.uid != uid:
            self._candidates[key] = _Candidate(meta, uid, resource_version)

    @property
    def found_any(self) -> bool:
        """Whether something differs so far; meant for the end of the list, before `settle`."""
        return bool(self._candidates or self._unseen)

    def settle(self, current: Callable[[str], KubeObject[object] | None]) -> Iterator[None]:
        """Confirm the differences in short steps, when everything was listed.

        Args:
            current: returns the object that the cache holds under a key now.
        """
        number = 0
        listed: _Identity
        while self._candidates or self._unseen:
            if self._candidates:
                key, candidate = self._candidates.popitem()
                before, listed = candidate.held, (candidate.uid, candidate.version)
            else:
                key, record = self._unseen.popitem()
                before, listed = record.metadata, None
            now = current(key)
            held = _identity(before)
            if _identity(None if now is None else now.metadata) == held != listed:
                self._confirm(key, before, held, listed)
            number += 1
            if number % _SLICE == 0:
                yield

    def _confirm(
        self, key: str, before: ObjectMeta | None, held: _Identity, listed: _Identity
    ) -> None:
        if before is not None and self._is_ahead(before.resource_version):
            return
        kind: MismatchKind = "stale"
        if before is None:
            kind = "missing"
        elif listed is None:
            kind = "phantom"
        self.counts[kind] += 1
        if self.counts[kind] <= MAX_NAMED:
            self.named.append(Difference(key, kind, held, listed))

    def _is_ahead(self, version: str) -> bool:
        """Return whether a read of this one key has brought it beyond the position."""
        is_comparable = self._is_ordered and resource_version_is_well_formed(version)
        return is_comparable and older(self._position, version)

    def mismatches(self, kind: MismatchKind) -> Mismatches:
        """Return the confirmed differences of a kind."""
        keys = sorted(found.key for found in self.named if found.kind == kind)
        return Mismatches(self.counts[kind], tuple(keys))

    @property
    def names_all(self) -> bool:
        """Whether every difference is among those that are named."""
        return sum(self.counts.values()) == len(self.named)


def _identity(meta: ObjectMeta | None) -> _Identity:
    return None if meta is None else (meta.uid, meta.resource_version)
