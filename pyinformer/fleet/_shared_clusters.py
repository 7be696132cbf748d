"""The share of the clusters that this process has, where replicas of a program split them.

A cluster belongs to the bucket of its name. While this process has the bucket, it opens and engages
the cluster; every write for it passes the guard of the bucket.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.cache.informer import caught_up, unknown_version
from pyinformer.controller.sources import Reason, request_for
from pyinformer.sharding import KeyBuckets

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from pyinformer.controller import Controller
    from pyinformer.controller.sources import RequestId
    from pyinformer.errors import FencedError
    from pyinformer.fleet._fleet_cluster import FleetCluster
    from pyinformer.sharding import BucketLease, Buckets

_log = get_logger(__name__)

_LIST_SECONDS: Final = 10.0  # how long lists may bring nothing, until they are sent again
_AGAIN_SECONDS: Final = 10.0
_REMEMBERED: Final = 10_000  # of one controller, requests that came at a bad moment
_DROPPED: Final = Reason(source="sharing", event="enqueued")


@final
class ClusterGate:
    """Admits the requests of one controller of a cluster, while this process has the cluster.

    It is opened when the caches hold what an earlier owner wrote.

    Args:
        lease: the bucket of the cluster.
        on_started: called when the controller has started.
    """

    def __init__(self, lease: BucketLease, on_started: Callable[[ClusterGate], None]) -> None:
        self.lease: BucketLease = lease
        self.is_open: bool = False
        self._on_started = on_started
        self._dropped: dict[RequestId, None] = {}  # no list shows those of objects that are gone

    def admits(self, request_id: RequestId) -> bool:
        """Return whether a request may wait in the queue; from any thread."""
        return self.guard_of(request_id) is not None

    def guard_of(self, request_id: RequestId) -> BucketLease | None:
        """Return what guards the writes of a reconcile that starts now; None if it may not."""
        bucket = self.lease.bucket
        if self.is_open and not bucket.is_leaving:
            return self.lease
        if not bucket.shut and len(self._dropped) < _REMEMBERED:
            self._dropped[request_id] = None
        return None

    def take_dropped(self) -> list[RequestId]:
        """Return and forget the requests that were not admitted while the bucket was ours."""
        dropped, self._dropped = self._dropped, {}
        return list(dropped)

    def on_started(self) -> None:
        """Record that the controller has started."""
        self._on_started(self)


@final
class SharedClusters:
    """Begins and ends with the clusters of this process's buckets.

    Args:
        buckets: how the clusters are shared.
        clusters: returns the clusters that are used, those that are being closed included.
        changed: called when others have to be used.
        start_soon: runs a function in a task.
    """

    def __init__(
        self,
        buckets: Buckets,
        *,
        clusters: Callable[[], Iterable[FleetCluster[Any]]],
        changed: Callable[[], None],
        start_soon: Callable[[Callable[[], Coroutine[None, None, None]]], None],
    ) -> None:
        self._clusters = clusters
        self._changed = changed
        self._start_soon = start_soon
        self._leases: dict[int, BucketLease] = {}
        self._keys = KeyBuckets(buckets)

    @property
    def last_error(self) -> str:
        """Why some clusters have no bucket; empty if all have one."""
        return self._keys.last_error

    def lease_of(self, name: str) -> BucketLease | None:
        """Return the bucket of a cluster; None if this process does not have it."""
        return self._leases.get(self._keys.of(("", name)))

    def engages(self, cluster: FleetCluster[Any], lease: BucketLease) -> None:
        """Put the gate of a bucket before the controllers of a cluster."""
        for controller in cluster.controllers:

            def started(gate: ClusterGate, controller: Controller[Any] = controller) -> None:
                """Open the gate when its caches have caught up."""
                self._start_soon(partial(self._open, gate, controller))

            controller.engine.requests.gate = ClusterGate(lease, started)

    def begin(self, leases: Sequence[BucketLease]) -> None:
        """Begin with buckets: their clusters are opened, and have caches that nothing is known of.

        So what an earlier owner recorded of its writes is not needed.
        """
        for lease in leases:
            lease.bucket.is_open = True
            self._leases[lease.bucket.number] = lease
        self._changed()

    def leave(self, leases: Sequence[BucketLease]) -> None:
        """Cancel the daemons of buckets, which would not end by themselves."""
        for lease in leases:
            self._cancel_daemons(lease)

    def _cancel_daemons(self, lease: BucketLease) -> None:
        for controller in self._controllers(lease.bucket.number):
            if controller.engine.object_tasks is not None:
                controller.engine.object_tasks.cancel_all()

    def resume(self, lease: BucketLease) -> None:
        """Dispatch keys again; what came meanwhile was not admitted."""
        for controller in self._controllers(lease.bucket.number):
            gate = controller.engine.requests.gate
            if isinstance(gate, ClusterGate) and gate.lease is lease:
                self._start_soon(partial(_replay, gate, controller))

    def cancel(self, lease: BucketLease, reason: str) -> None:
        """Cancel the reconciles of a bucket."""

        def because() -> FencedError:
            return lease.refusal(reason)

        for controller in self._controllers(lease.bucket.number):
            controller.engine.cancel_nowait(_every, because)
        self._cancel_daemons(lease)

    def end(self, lease: BucketLease) -> None:
        """End with a bucket that is shut: its clusters are disengaged and closed."""
        if self._leases.get(lease.bucket.number) is lease:
            del self._leases[lease.bucket.number]
        self.cancel(lease, lease.bucket.shut)
        self._changed()

    def is_busy(self, number: int) -> bool:
        """Return whether a reconcile or a daemon of a bucket runs."""
        return any(
            one.engine.is_reconciling(_every) or one.engine.has_tasks
            for one in self._controllers(number)
        )

    def is_costly(self, number: int) -> bool:
        """Return whether a reconcile of a bucket runs, or a daemon ignores its cancellation."""
        return any(
            one.engine.is_reconciling(_every) or one.engine.has_stuck_tasks
            for one in self._controllers(number)
        )

    def is_unfinished(self, _number: int) -> bool:
        """Return False: the next owner's caches and timers begin again, and repeat everything."""
        return False

    def _controllers(self, number: int) -> list[Controller[Any]]:
        return [
            controller
            for cluster in self._clusters()
            if self._keys.of(("", cluster.name)) == number
            for controller in cluster.controllers
        ]

    async def _open(self, gate: ClusterGate, controller: Controller[Any]) -> None:
        """Open a gate when the caches hold what an earlier owner of the cluster wrote."""
        is_logged = False
        while not gate.lease.bucket.shut and controller.is_running:
            found = await caught_up(
                controller.engine.informers, unknown_version, list_timeout_seconds=_LIST_SECONDS
            )
            if not found.unlisted:
                break
            if not is_logged:
                is_logged = True
                lacks = "; ".join(f"{one.name}: {why}" for one, why in found.unlisted.items())
                _log.error("controller %s is not called yet: %s", controller.name, lacks)
            await anyio.sleep(_AGAIN_SECONDS)
        gate.is_open = True
        await _replay(gate, controller)


async def _replay(gate: ClusterGate, controller: Controller[Any]) -> None:
    for request_id in gate.take_dropped():
        controller.engine.requests.put_nowait(request_for(request_id), _DROPPED, priority=0)
    await controller.engine.replay(_every, since_at=-math.inf)


def _every(_request_id: RequestId) -> bool:
    return True
