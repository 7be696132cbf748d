"""The controllers of an operator whose replicas share its keys, each those of its buckets.

The controllers and caches live as long as the program; buckets come and go. A bucket is opened when
the caches hold what its earlier owners wrote: then its requests are admitted, and everything that
exists or was deleted lately is enqueued. When it leaves, its requests are forgotten.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import loop_time, spread
from pyinformer.cache.informer import CaughtUp, caught_up, unknown_version
from pyinformer.controller import ControllerGroup
from pyinformer.leaderelection import WrittenVersions, later_written, system_clocks
from pyinformer.operator._replica import CLOSE_SECONDS, Replica
from pyinformer.sharding import NO_BUCKET, GroupMember, KeyBuckets

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from pyinformer.cache.informer import SharedInformer
    from pyinformer.client.cluster import Cluster
    from pyinformer.controller import Controller, ControllerGroupStatus, ObjectTask
    from pyinformer.controller.sources import RequestId
    from pyinformer.errors import FencedError
    from pyinformer.leaderelection import LeaderElector
    from pyinformer.operator._builder import ControllerBuilder
    from pyinformer.operator._reconciler import Reconciler
    from pyinformer.sharding import BucketLease, Buckets
    from pyinformer.telemetry.metrics import Metrics

_log = get_logger(__name__)

_LIST_SECONDS: Final = 10.0  # how long lists may bring nothing, until other functions are called
_OPEN_AGAIN_SECONDS: Final = 10.0
_DELETED_SECONDS: Final = 3600.0  # so long a deletion is remembered for a bucket that is elsewhere
_PLACE_AGAIN_SECONDS: Final = 10.0


@final
class BucketGate:
    """Admits the requests of one controller that are in an open bucket of this replica.

    Args:
        controller: the controller.
        each: its function; None for a timer.
        number_of: returns the bucket of a request.
        on_started: called when the controller has started.
    """

    def __init__(
        self,
        controller: Controller[None],
        each: Reconciler | None,
        number_of: Callable[[RequestId], int],
        on_started: Callable[[BucketGate], None],
    ) -> None:
        self.controller: Controller[None] = controller
        self.each: Reconciler | None = each
        self.number_of: Callable[[RequestId], int] = number_of
        """Returns the bucket of a request."""
        self._on_started = on_started
        self._leases: dict[int, BucketLease] = {}
        self._tasks: dict[int, list[ObjectTask[Any]]] = {}  # by bucket, as of so many changes:
        self._tasks_at = -1

    def tasks(self, number: int) -> Sequence[ObjectTask[Any]]:
        """Return the daemons of a bucket; all are sorted again when one has started or ended."""
        tasks = self.controller.engine.object_tasks
        if tasks is None:
            return ()
        if self._tasks_at != tasks.changes:
            self._tasks_at, self._tasks = tasks.changes, {}
            for task in tasks.running:
                self._tasks.setdefault(self.number_of(task.request_id), []).append(task)
        return self._tasks.get(number, ())

    def cancel_tasks(self, number: int) -> None:
        """Cancel the daemons of a bucket, which would not end by themselves."""
        tasks = self.controller.engine.object_tasks
        if tasks is not None:
            for task in self.tasks(number):
                tasks.cancel(task)

    def admits(self, request_id: RequestId) -> bool:
        """Return whether a request may wait in the queue; from any thread."""
        return self.guard_of(request_id) is not None

    def guard_of(self, request_id: RequestId) -> BucketLease | None:
        """Return what guards the writes of a reconcile that starts now; None if it may not."""
        lease = self._leases.get(self.number_of(request_id))
        return None if lease is None or lease.bucket.is_leaving else lease

    def on_started(self) -> None:
        """Record that the controller has started."""
        self._on_started(self)

    def open(self, leases: Sequence[BucketLease]) -> None:
        """Admit the requests of buckets."""
        self._leases.update({one.bucket.number: one for one in leases})

    def has(self, lease: BucketLease) -> bool:
        """Return whether a bucket is open here."""
        return self._leases.get(lease.bucket.number) is lease

    def close(self, lease: BucketLease) -> None:
        """Admit none of a bucket any more."""
        if self.has(lease):
            del self._leases[lease.bucket.number]


@final
class SharedControllers(Replica):
    """Runs the controllers of an operator, each for the keys that are this replica's.

    Args:
        cluster: the cluster.
        group: the operator's name, which is that of the Lease with the table.
        buckets: how the keys are shared.
        builder: has the caches, and makes the controllers.
        metrics: where the metrics of sharing go.
        ends_process: whether a thread ends the process when work outlives its Lease.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        buckets: Buckets,
        builder: ControllerBuilder,
        *,
        metrics: Metrics,
        ends_process: bool,
    ) -> None:
        self._keys = KeyBuckets(buckets)
        # So long before a bucket is taken over, the owner before may have ceased to call timers.
        self._gap_seconds = buckets.drain_seconds + buckets.options.lease_duration_seconds
        self._gates: tuple[BucketGate, ...] = ()
        builder.share(self._gate, system_clocks(cluster)[1])
        self.group: ControllerGroup = ControllerGroup(*builder.controllers())
        """The controllers."""
        grace_seconds = max(one.grace_seconds for one in builder.options)
        self.member: GroupMember = GroupMember(
            cluster,
            group,
            buckets=buckets,
            work=self,
            grace_seconds=grace_seconds + CLOSE_SECONDS,
            recorder=builder.event_recorder,
            metrics=metrics,
            ends_process=ends_process,
        )
        """This replica among those that share."""
        self._leases: dict[int, BucketLease] = {}
        self._is_sweeping = False
        self._cut_short: set[int] = set()  # buckets with a timer whose call was cancelled
        self._is_started = False
        super().__init__(
            f"the sharing of {group}",
            builder,
            grace_seconds=self.member.end_timeout_seconds + CLOSE_SECONDS,
        )

    @property
    def last_error(self) -> str:
        """Why some keys have no bucket; empty if all have one."""
        return self._keys.last_error

    @property
    def controllers(self) -> tuple[Controller[None], ...]:
        """The controllers."""
        return tuple(one.controller for one in self._gates)

    @property
    def elector(self) -> LeaderElector:
        """Competes for the Lease of this replica alone."""
        return self.member.elector

    async def _prepare(self) -> None:
        await self.group.start()
        self._is_started = True

    async def _compete(self) -> None:
        self._host.start_soon(self._follow_group)
        if self._keys.may_fail:
            self._host.start_soon(self._place_again)
        await self.member.run()

    async def _close(self) -> None:
        """Close the controllers.

        Cancellation:
            It is shielded.
        """
        await self.group.aclose()

    async def _follow_group(self) -> None:
        await self.group.wait_ended()
        self._ended.set()

    def force_nowait(self) -> None:
        """Stop waiting for reconciles."""
        self.member.abort()
        self.group.lifecycle.force_nowait()

    def close_abandoned(self) -> None:
        """End the reconciles that ignored everything else: the program is ending."""
        self.group.lifecycle.close_abandoned()

    def status(self) -> ControllerGroupStatus:
        """Return the state of the controllers; from any thread."""
        return self._with_failure(self.group.status())

    def _gate(self, controller: Controller[None], each: Reconciler | None) -> BucketGate:
        number_of = self._keys.of_timer if each is None else self._keys.of
        return BucketGate(controller, each, number_of, self._started)

    def _started(self, gate: BucketGate) -> None:
        """Record a controller that has started; of a later one, open its buckets."""
        self._gates = (*self._gates, gate)
        if self._is_started:
            self._soon(partial(self._join, gate))

    async def _join(self, gate: BucketGate) -> None:
        if gate.each is not None:
            self._follow_deletions(gate.each)
        leases = list(self._leases.values())
        await self._open(leases, (gate,), unknown_version)

    def begin(self, leases: Sequence[BucketLease]) -> None:
        """Begin with buckets: open each when the caches hold what earlier owners wrote."""
        self._leases.update({one.bucket.number: one for one in leases})
        self._cut_short.difference_update(one.bucket.number for one in leases)
        dirty = [one for one in leases if one.bucket.is_dirty]
        clean = [one for one in leases if not one.bucket.is_dirty]
        if dirty:
            self._soon(partial(self._open, dirty, self._gates, unknown_version))
        if clean:
            self._soon(partial(self._open, clean, self._gates, _awaited(clean).version_of))

    def leave(self, leases: Sequence[BucketLease]) -> None:
        """Cancel the daemons of buckets: they would not end by themselves."""
        for lease in leases:
            for gate in self._gates:
                gate.cancel_tasks(lease.bucket.number)

    def resume(self, lease: BucketLease) -> None:
        """Dispatch keys again; what came meanwhile was not admitted."""
        is_cut = lease.bucket.number in self._cut_short
        since_at = -math.inf if is_cut else loop_time() - self._gap_seconds
        self._cut_short.discard(lease.bucket.number)
        for gate in self._gates:
            is_wanted = _is_in(gate, lease.bucket.number)
            self._soon(partial(self._replay, gate, is_wanted, since_at))

    def cancel(self, lease: BucketLease, reason: str) -> None:
        """Cancel the reconciles of a bucket."""
        number = lease.bucket.number

        def because() -> FencedError:
            return lease.refusal(reason)

        for gate in self._gates:
            engine, is_of_it = gate.controller.engine, _is_in(gate, number)
            if gate.each is None and engine.is_reconciling(is_of_it):
                self._cut_short.add(number)
            engine.cancel_nowait(is_of_it, because)
            gate.cancel_tasks(number)

    def end(self, lease: BucketLease) -> None:
        """End with a bucket that is shut: cancel what still runs, and forget its requests."""
        if self._leases.get(lease.bucket.number) is lease:
            del self._leases[lease.bucket.number]
        for gate in self._gates:
            gate.close(lease)
        self.cancel(lease, lease.bucket.shut)
        if not self._is_sweeping:
            self._is_sweeping = True
            self._soon(self._sweep)

    def is_busy(self, number: int) -> bool:
        """Return whether a reconcile or a daemon of a bucket runs."""
        return any(  # what has no bucket now had one when it started, perhaps this one
            gate.controller.engine.is_reconciling(_is_in(gate, number, NO_BUCKET))
            or gate.tasks(number)
            or gate.tasks(NO_BUCKET)
            for gate in self._gates
        )

    def is_costly(self, number: int) -> bool:
        """Return whether a reconcile of a bucket runs, or a daemon ignores its cancellation."""
        return any(
            gate.controller.engine.is_reconciling(_is_in(gate, number, NO_BUCKET))
            or any(one.ignores_cancellation for one in gate.tasks(number))
            for gate in self._gates
        )

    def is_unfinished(self, number: int) -> bool:
        """Return whether a timer of a bucket was cut short or has failed: no event repeats it."""
        return number in self._cut_short or any(
            gate.each is None and gate.controller.engine.is_failing(_is_in(gate, number))
            for gate in self._gates
        )

    def _soon(self, function: Callable[[], Coroutine[None, None, None]]) -> None:
        if self._host.is_running:  # otherwise everything is about to be closed
            self._host.start_soon(function)

    async def _sweep(self) -> None:
        self._is_sweeping = False  # a bucket that leaves from now on is another sweep's
        for gate in self._gates:
            await gate.controller.engine.forget_foreign()

    async def _open(
        self,
        leases: Sequence[BucketLease],
        gates: Sequence[BucketGate],
        version_of: Callable[[str], str | None],
    ) -> None:
        """Open buckets for each controller whose caches hold what earlier owners wrote."""
        since_at = -math.inf if version_of is unknown_version else loop_time() - self._gap_seconds
        pending = list(gates)
        while leases and pending:
            found = await caught_up(
                self._builder.informers.values(), version_of, list_timeout_seconds=_LIST_SECONDS
            )
            leases = [one for one in leases if not one.bucket.shut]
            if not leases:
                found = CaughtUp({}, {})  # nothing waits any more
            lacks = {gate: self._lack(gate, found) for gate in pending}
            pending = [gate for gate in pending if lacks[gate]]
            opened = [gate for gate in lacks if not lacks[gate]]
            self._follow_held({gate.controller.name: lacks[gate] for gate in pending}, opened)
            for gate in opened:
                gate.open(leases)
            for lease in leases:
                lease.bucket.is_open = all(gate.has(lease) for gate in self._gates)
            numbers = [one.bucket.number for one in leases]
            for gate in opened:
                await self._replay(gate, _is_in(gate, *numbers), since_at)
            if pending:
                await anyio.sleep(_OPEN_AGAIN_SECONDS)

    def _lack(self, gate: BucketGate, found: CaughtUp) -> str:
        """Return why a controller has to wait; empty if it has not."""
        if gate.each is None:
            return ""
        needed: set[SharedInformer[Any]] = self._builder.informers_of(gate.each)
        return "; ".join(
            f"waits for {informer.name}: {error}"
            for informer, error in found.unlisted.items()
            if informer in needed
        )

    def _follow_held(self, held: dict[str, str], opened: Sequence[BucketGate]) -> None:
        for name, why in held.items():
            if name not in self._waiting:
                what = "is not called for new buckets yet; it"
                _log.error("%s: %s %s %s", self._title, name, what, why)
        self._waiting.update(held)
        for gate in opened:
            self._waiting.pop(gate.controller.name, None)

    async def _place_again(self) -> None:
        """Enqueue the requests that had no bucket, and have one now."""
        while True:
            await anyio.sleep(_PLACE_AGAIN_SECONDS)
            found: set[RequestId] = set()
            await spread(self._keys.try_again(found))
            if found:
                for gate in self._gates:
                    if gate.each is not None:
                        await self._replay(gate, found.__contains__, -math.inf)

    async def _replay(
        self, gate: BucketGate, is_wanted: Callable[[RequestId], bool], since_at: float
    ) -> None:
        """Enqueue what exists, and what was deleted lately, of the wanted requests."""
        if gate.each is not None:
            primary = self._builder.informers[gate.each.scope]
            self._deletions.enqueue(
                gate.controller,
                primary,
                since_at=loop_time() - _DELETED_SECONDS,
                is_wanted=is_wanted,
            )
        await gate.controller.engine.replay(is_wanted, since_at=since_at)


def _is_in(gate: BucketGate, *numbers: int) -> Callable[[RequestId], bool]:
    """Return a function that returns whether a request of a controller is in these buckets."""
    wanted, number_of = frozenset(numbers), gate.number_of
    return lambda request_id: number_of(request_id) in wanted


def _awaited(leases: Sequence[BucketLease]) -> WrittenVersions:
    """Return the highest versions that earlier owners wrote before they gave buckets up."""
    versions: dict[str, str] = {}
    for lease in leases:
        for resource, version in lease.bucket.awaited.items():
            versions[resource] = later_written(versions.get(resource), version)
    return WrittenVersions(transitions=0, versions=versions)
