"""The Leases of replicas that share the work of an operator in another way than this process.

Both ways at once would handle objects twice. So a replica competes only while it sees no rival, and
begins to work after a read that its own Lease precedes: of two that begin at once, at least one
sees the other.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

import anyio
import msgspec

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import run_shielded
from pyinformer.errors import InformerError, NotFoundError
from pyinformer.leaderelection import (
    TABLE_HOLDER,
    LeaseRequests,
    Read,
    Write,
    released,
    system_clocks,
)
from pyinformer.sharding._members import Members
from pyinformer.sharding._shard import election_of, shard_named, uid_range_of
from pyinformer.sharding._table import GROUP_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.client.cluster import Cluster
    from pyinformer.leaderelection import LeaderElectionOptions, LeaseRecord, Term
    from pyinformer.objects import JSONObject
    from pyinformer.sharding._shard import Shard

_log = get_logger(__name__)

_RETRY_SECONDS: Final = 0.5  # after a request that failed
_NAMED: Final = 4  # rivals in a line
_STEP_BACK_SECONDS: Final = (0.5, 3.0)  # spread: of two that stepped back, one is first


@final
class Rivals:
    """Follows the Leases of rivals.

    Args:
        cluster: where the Leases are.
        group: the operator's name, which is also that of the Lease with the table.
        namespace: of the Leases.
        own: the name of this process's Lease.
        ours: how this process works, for errors: `shard 0 of 4`.
        kind_of: returns how the holder of another Lease works, for errors; empty if it is not a
            rival.
        options: the durations of the Leases.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        namespace: str,
        *,
        own: str,
        ours: str,
        kind_of: Callable[[LeaseRecord], str],
        options: LeaderElectionOptions,
    ) -> None:
        self.group: str = group
        """The operator's name, which is also that of the Lease with the table."""
        self._cluster, self._namespace = cluster, namespace
        self._own, self._ours = own, ours
        self._kind_of = kind_of
        self._options = options
        self._leases = Members(options.lease_duration_seconds)
        self._kinds: dict[str, str] = {}
        self._gone_until: dict[str, float] = {}
        self._compete_at = float("-inf")
        self._logged = ""

    @property
    def waits_for(self) -> str:
        """Why this process may not compete for its Lease; empty if it may."""
        now = self._now()
        if found := self._described(now):
            return found
        return "it steps back for a moment" if now < self._compete_at else ""

    def on_watched(self, lease: LeaseRecord) -> None:
        """Take a version of a Lease of the group."""
        if lease.name == self._own:
            return
        kind = self._kind_of(lease)
        if kind or lease.name in self._kinds:
            self._kinds[lease.name] = kind
            self._leases.on_watched(lease.name, lease, self._now())
        self._log_once(self._described(self._now()))

    def on_watched_deletion(self, name: str, uid: str) -> None:
        """Take the deletion of a Lease, or of its label: its holder may not know for a while."""
        del uid
        now = self._now()
        if any(one.lease == name for one in self._leases.living(now)):
            self._gone_until[name] = now + self._options.lease_duration_seconds
        self._leases.on_left(name)

    async def settle(self, term: Term) -> None:
        """Return when no rival can work any more, now that the own Lease is held.

        Otherwise release the Lease, which ends the term.

        Cancellation:
            Safe; it is the end of the term.
        """
        seconds = self._options.request_timeout_seconds
        requests = LeaseRequests(self._cluster, self._namespace, timeout_seconds=seconds)
        try:
            while True:
                if await self._has_settled(requests, term):
                    return
                await anyio.sleep(_RETRY_SECONDS)
        finally:
            await run_shielded("the close of requests for Leases", requests.aclose())

    async def _has_settled(self, requests: LeaseRequests, term: Term) -> bool:
        try:
            own = await self._look(requests)
            life = None if own is None or not own.holder else (own.uid, own.transitions)
            if own is None or life != (term.uid, term.transitions):
                return False  # the term is about to end: rivals may begin, which this read precedes
            found = self._described(self._now())
            if not found:
                await self._free_silent(requests)
                return True
            self._log_once(found)
            self._compete_at = self._now() + random.uniform(*_STEP_BACK_SECONDS)
            await requests.send(self._own, Write(self._released(own)))
        except (InformerError, msgspec.DecodeError) as error:
            _log.debug("%s: the Leases of the others are not read: %s", self._own, error)
        return False

    async def _look(self, requests: LeaseRequests) -> LeaseRecord | None:
        """Read all Leases of the group, and return the own one."""
        found = await requests.list(GROUP_LABEL, self.group)
        with suppress(NotFoundError):  # of an elector without a group it has no label
            found[self.group] = await requests.send(self.group, Read())
        for lease in found.values():
            self.on_watched(lease)
        return found.get(self._own)

    async def _free_silent(self, requests: LeaseRequests) -> None:
        """Free the Leases of rivals that have crashed: otherwise each start waits for them."""
        for name, lease in self._leases.silent(self._now()):
            if self._kinds.get(name) and name != self.group:
                with suppress(InformerError, msgspec.DecodeError):
                    await requests.send(name, Write(self._released(lease)))

    def _released(self, lease: LeaseRecord) -> JSONObject:
        return released(lease, at=system_clocks(self._cluster)[1](), written=None)

    def _described(self, now: float) -> str:
        """Return which rivals may work, and what to do; empty if none may."""
        holders = {one.lease for one in self._leases.living(now)}
        holders |= {name for name, until in self._gone_until.items() if now < until}
        living = sorted(name for name in holders if self._kinds[name])
        if not living:
            return ""
        names = ", ".join(f"{name} ({self._kinds[name]})" for name in living[:_NAMED])
        more = f" and {len(living) - _NAMED} more" if len(living) > _NAMED else ""
        return (
            f"this process is {self._ours}, and others of {self._namespace}/{self.group} still"
            f" work in another way: {names}{more}; it waits until they have ended"
        )

    def _log_once(self, found: str) -> None:
        if found and found != self._logged:
            _log.error("%s does not work: %s", self._own, found)
        self._logged = found

    def _now(self) -> float:
        return system_clocks(self._cluster)[0]()


def rivals_of_shard(cluster: Cluster, group: str, shard: Shard) -> Rivals:
    """Return the rivals of a process with a fixed share.

    Args:
        cluster: where the Leases are.
        group: the operator's name.
        shard: the share; another process with the same `total` is not a rival.
    """

    def kind_of(lease: LeaseRecord) -> str:
        if lease.name == group:  # the table alone does nothing: its members do
            return "" if lease.holder == TABLE_HOLDER else "a leader"
        other = shard_named(lease.name, group)
        if other is None:
            return "one of Buckets()"
        return "" if other.total == shard.total else str(other)

    return Rivals(
        cluster,
        group,
        shard.namespace or cluster.config.namespace,
        own=election_of(shard, group).name or "",
        ours=str(uid_range_of(shard)),
        kind_of=kind_of,
        options=shard.options,
    )


def rivals_of_member(
    cluster: Cluster, group: str, namespace: str, *, own: str, options: LeaderElectionOptions
) -> Rivals:
    """Return the rivals of a replica that shares the keys in buckets.

    Args:
        cluster: where the Leases are.
        group: the operator's name.
        namespace: of the Leases.
        own: the name of the replica's Lease.
        options: the durations of the Leases.
    """

    def kind_of(lease: LeaseRecord) -> str:
        return str(shard_named(lease.name, group) or "")

    return Rivals(
        cluster,
        group,
        namespace,
        own=own,
        ours="one of Buckets()",
        kind_of=kind_of,
        options=options,
    )
