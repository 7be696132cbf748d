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
        self._durations: dict[str, float] = {}  # the longest that were seen
        self._contradicted_at: dict[Owner, float] = {}  # since when another Lease is there, or none
        self._absent: set[str] = set()  # found absent by a read, and not seen since
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
        self._absent.discard(name)
        longest = self._durations.get(name, self._duration_seconds)
        self._durations[name] = max(longest, lease.duration_seconds or 0.0)

    def on_left(self, name: str) -> None:
        """Record that the watch has lost a Lease: it was deleted, or only its label was."""
        self._watched.discard(name)
        lease = self._leases.pop(name, None)
        if lease is not None:
            del self._seen_at[name]

    def on_absent(self, name: str) -> None:
        """Record that a read by name has found no Lease."""
        self.on_left(name)
        self._absent.add(name)

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

    def left_behind(self, now: float, seconds: float) -> list[LeaseRecord]:
        """Return the Leases that were released, and did not change for some time."""
        return [
            lease
            for name, lease in self._leases.items()
            if lease.was_released and now >= self._seen_at[name] + seconds
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

        Its Lease was released in it, or held in a later one: it cannot renew any more. Of a Lease
        that is gone, has another uid, or was freed by hand, its member may not know yet, for as
        long as a term can last. That time begins when this owner was first asked about: what was
        known before may be older than the owner.
        """
        lease = self._leases.get(owner.lease)
        if lease is not None and lease.uid == owner.uid:
            if lease.transitions > owner.transitions:
                return True
            is_free = lease.transitions == owner.transitions and not lease.holder
            if is_free and lease.was_released:
                return True
            is_contradicted = is_free
        else:
            is_contradicted = lease is not None or owner.lease in self._absent
        if not is_contradicted:
            self._contradicted_at.pop(owner, None)
            return False
        since = self._contradicted_at.setdefault(owner, now)
        return now >= since + self._durations.get(owner.lease, self._duration_seconds)

    def to_look_at(self, owners: Iterable[Owner], now: float) -> str:
        """Return the name of an owner's Lease to read, which is not known; or nothing.

        A watch of a label shows a removed label as a deletion, so only a read shows which. What is
        not of an owner is forgotten.
        """
        owners = set(owners)
        names = {owner.lease for owner in owners}
        for kept in (self._look_at, self._durations):
            for name in kept.keys() - names - self._leases.keys():
                del kept[name]
        for owner in self._contradicted_at.keys() - owners:
            del self._contradicted_at[owner]
        self._absent &= names
        known = {owner.lease for owner in owners if self._uid_of(owner.lease) == owner.uid}
        for name in sorted(names - known):
            if now >= self._look_at.get(name, now):
                self._look_at[name] = now + _LOOK_SECONDS
                return name
        return ""

    def _uid_of(self, name: str) -> str:
        lease = self._leases.get(name)
        return "" if lease is None else lease.uid
