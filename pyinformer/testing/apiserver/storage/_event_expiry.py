"""Leases of Events: which Events expire together.

A real server attaches many Events to one etcd lease, whose end deletes them in one revision. Time
is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyinformer.testing.apiserver.resources import ResourceType

_REUSE_SHARE = 0.05
_REUSE_SECONDS = 60.0
_KEYS_PER_LEASE = 1000
_REUSE_LEAST_SECONDS = 0.2  # Events that are created together share a lease, even with a tiny TTL


@dataclass(slots=True, eq=False)
class _Lease:
    opened: float
    expires: float
    keys: set[tuple[ResourceType, str]] = field(default_factory=set)


class EventExpiry:
    """The leases of all Events; protected by the storage's lock.

    Args:
        ttl_seconds: how long an Event lives; None keeps it.
    """

    def __init__(self, ttl_seconds: float | None) -> None:
        self.ttl_seconds = ttl_seconds
        self._leases: list[_Lease] = []

    def attach(self, resource: ResourceType, key: str, now: float) -> None:
        """Attach a written object to the current lease."""
        self.detach(resource, key)
        ttl = float("inf") if self.ttl_seconds is None else self.ttl_seconds
        reuse = max(min(_REUSE_SECONDS, ttl * _REUSE_SHARE), _REUSE_LEAST_SECONDS)
        lease = self._leases[-1] if self._leases else None
        if lease is None or now > lease.opened + reuse or len(lease.keys) >= _KEYS_PER_LEASE:
            lease = _Lease(opened=now, expires=now + ttl + reuse)
            self._leases.append(lease)
        lease.keys.add((resource, key))

    def detach(self, resource: ResourceType, key: str) -> None:
        """Remove a deleted object from its lease."""
        for lease in self._leases:
            lease.keys.discard((resource, key))

    def take_expired(self, now: float) -> list[list[tuple[ResourceType, str]]]:
        """Take the objects of ended leases; each group must be deleted in one revision."""
        ended = [lease for lease in self._leases if lease.expires <= now]
        self._leases = [lease for lease in self._leases if lease.expires > now]
        return [sorted(lease.keys, key=_by_key) for lease in ended if lease.keys]

    def take_all(self) -> list[list[tuple[ResourceType, str]]]:
        """Take the objects of all leases, as if they had ended."""
        return self.take_expired(float("inf"))


def _by_key(entry: tuple[ResourceType, str]) -> tuple[str, str]:
    return entry[0].api_version, entry[1]
