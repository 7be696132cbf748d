"""The members of a group, as one of them sees their Leases: who is alive, and which life is over.

Times are those of one clock that suspends do not stop. A Lease counts as changed when this process
has seen it change; the times that are in it are those of other clocks, and are not read.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer.sharding._table import Owner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyinformer.leaderelection import LeaseRecord

_LOOK_SECONDS = 1.0  # between two reads of a Lease that is missing in the watch


@final
class Members:
    """The Leases of all members of one group.

    Args:
        duration_seconds: that of a Lease whose holder gave none, and the longest that this process
            gives its own.
    """

    def __init__(self, duration_seconds: float) -> None:
        self._duration_seconds = duration_seconds
        self._leases: dict[str, LeaseRecord] = {}
        self._watched: set[str] = set()
        self._seen_at: dict[str, float] = {}
        self._first_seen_at: dict[tuple[str, str], float] = {}  # by name and uid
        self._absent_since: dict[str, float] = {}
        self._look_at: dict[str, float] = {}

    def on_watched(self, name: str, lease: LeaseRecord, now: float) -> None:
        """Record a version of a member's Lease that the watch shows; maybe an older one."""
        self._watched.add(name)
        self.on_lease(name, lease, now)

    def on_lease(self, name: str, lease: LeaseRecord, now: float) -> None:
        """Record a version that a request was answered with; the watch may not show it."""
        known = self._leases.get(name)
        if known is not None and lease.is_newer_than(known) is not True:
            return
        self._leases[name] = lease
        self._seen_at[name] = now
        self._first_seen_at.setdefault((name, lease.uid), now)
        self._absent_since.pop(name, None)

    def on_left(self, name: str) -> None:
        """Record that the watch has lost a Lease: it was deleted, or only its label was."""
        self._watched.discard(name)
        lease = self._leases.pop(name, None)
        if lease is not None:
            del self._seen_at[name]

    def on_absent(self, name: str, now: float) -> None:
        """Record that a read by name has found no Lease."""
        self.on_left(name)
        self._absent_since.setdefault(name, now)

    def sees(self, name: str) -> bool:
        """Return whether the watch shows a Lease, so that others see it as well."""
        return name in self._watched

    def living(self, now: float) -> frozenset[Owner]:
        """Return the lives of all members whose Leases are held and not silent."""
        return frozenset(
            Owner(name, lease.uid, lease.transitions)
            for name, lease in self._leases.items()
            if lease.holder and now < self._silent_at(name, lease)
        )

    def silent(self, now: float) -> list[tuple[str, LeaseRecord]]:
        """Return the Leases that are held and were not renewed in time."""
        return [
            (name, lease)
            for name, lease in self._leases.items()
            if lease.holder and now >= self._silent_at(name, lease)
        ]

    def next_silence(self, *, but: str) -> float:
        """Return when the next Lease is silent, if nothing changes; that of `but` is left out."""
        return min(
            (
                self._silent_at(name, lease)
                for name, lease in self._leases.items()
                if lease.holder and name != but
            ),
            default=float("inf"),
        )

    def _silent_at(self, name: str, lease: LeaseRecord) -> float:
        return self._seen_at[name] + (lease.duration_seconds or self._duration_seconds)

    def is_over(self, owner: Owner, now: float) -> bool:
        """Return whether a life has ended for certain.

        Its Lease was seen free in it, or in a later one: it cannot renew any more. Of a Lease that
        is gone, or has another uid, its member may not know yet, for as long as a term can last.
        """
        lease = self._leases.get(owner.lease)
        if lease is not None and lease.uid == owner.uid:
            is_free = lease.transitions == owner.transitions and not lease.holder
            return is_free or lease.transitions > owner.transitions
        if lease is not None:
            since: float | None = self._first_seen_at[owner.lease, lease.uid]
        else:
            since = self._absent_since.get(owner.lease)
        return since is not None and now >= since + self._duration_seconds

    def to_look_at(self, owners: Iterable[Owner], now: float) -> str:
        """Return the name of an owner's Lease to read, which the watch does not show; or nothing.

        A watch of a label shows a removed label as a deletion, so only a read shows which.
        """
        for name in sorted({owner.lease for owner in owners} - self._leases.keys()):
            if now >= self._look_at.get(name, now):
                self._look_at[name] = now + _LOOK_SECONDS
                return name
        return ""
