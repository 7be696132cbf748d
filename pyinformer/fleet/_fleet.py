"""The clusters of a program: opened, engaged, tried again and closed as their names come and go.

The names are a list, or the objects of an informer. Each cluster has a task of its own, so none
waits for another one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import Host, LoopOwner, Startable, check_callable, run_shielded
from pyinformer.cache.informer import SharedInformer
from pyinformer.client.cluster import Cluster, ClusterPool
from pyinformer.controller import Controller, ControllerGroup
from pyinformer.controller.conventions import EventRecorder
from pyinformer.errors import (
    InformerError,
    InternalError,
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
)
from pyinformer.fleet._fleet_cluster import FleetCluster
from pyinformer.fleet._names import FollowedNames, changes, checked_name_list, content_of
from pyinformer.fleet._shared_clusters import SharedClusters
from pyinformer.fleet._status import FleetStatus, without_address
from pyinformer.objects import check_type
from pyinformer.sharding import Buckets, GroupMember, check_group
from pyinformer.telemetry.metrics import NO_METRICS, Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from anyio.abc import TaskGroup

    from pyinformer.fleet._names import Address
    from pyinformer.sharding import BucketLease

_log = get_logger(__name__)

_T = TypeVar("_T")

_SPREAD_SECONDS: Final = 0.1  # many names change together: they are read once
_CLOSE_SECONDS: Final = 60.0  # beyond the drains: a pool closes a cluster in half a minute


@final
class Fleet(Startable, Generic[_T]):
    """Keeps the clusters of names open and engaged, as the names come and go.

        @asynccontextmanager
        async def follow(cluster):
            async with SharedInformerFactory(cluster) as factory:
                yield Controller("sync", partial(sync, cluster), factory.informer("v1", "pods"))

        async with (
            ClusterPool(follow) as pool,
            ControllerGroup() as group,
            Fleet(pool, group, ["east", "west"]) as fleet,
        ):
            await group.wait_ended()

    For each name the pool opens the cluster, and the group engages its controllers. A cluster that
    cannot be opened, or breaks, is tried again until it works: no caller has to ask for it. One
    whose name goes is disengaged, and evicted from the pool. One whose address changes is closed,
    and opened again.

    Args:
        pool: opens the clusters; it is started before, and closed afterwards.
        group: runs their controllers; it is started before. None for a program that only reads.
        names: the names that the pool knows, which `set_names` changes; or a running informer, the
            keys of whose objects are the names.
        controllers: returns the controllers of what the pool has opened; None if that is what it
            opens: a Controller, or several.
        address: with an informer, returns what the connection to the cluster of an object depends
            on, to be compared with `==`, or None if the cluster is not to be used, because it is
            paused, say. None compares the uid, and everything but the metadata and the status.
        sharding: `Buckets(by="cluster")` has all replicas of the program work, each with its share
            of the clusters: it opens no others.
        name: with `sharding`, the name of the Lease with the table of all replicas.
        cluster: with `sharding`, where the Leases are; None for the cluster of the informer.
        metrics: with `sharding`, where its metrics go.

    Raises:
        InvalidArgumentError: a name is empty; `address` needs an informer; `sharding` needs
            `by="cluster"`, a name and a cluster.
        InvalidTypeError: an argument is of another type.
    """

    def __init__(
        self,
        pool: ClusterPool[_T],
        group: ControllerGroup | None,
        names: Iterable[str] | SharedInformer[Any],
        *,
        controllers: Callable[[_T], Controller[Any] | Sequence[Controller[Any]]] | None = None,
        address: Address | None = None,
        sharding: Buckets | None = None,
        name: str = "",
        cluster: Cluster | None = None,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        check_type("pool", pool, ClusterPool)
        if group is not None:
            check_type("group", group, ControllerGroup)
        if controllers is not None:
            check_callable(controllers, "controllers(opened)", arguments=1)
        self._pool = pool
        self._group = group
        self._controllers_of = controllers or _as_it_is
        self._followed: FollowedNames | None = None
        self._addresses: dict[str, object] = {}
        if isinstance(names, SharedInformer):
            if address is not None:
                check_callable(address, "address(obj)", arguments=1)
            self._followed = FollowedNames(names, address or content_of)
            cluster = cluster or names.cluster
        else:
            if address is not None:
                raise InvalidArgumentError("address", "needs an informer as `names`")
            self._addresses = dict.fromkeys(checked_name_list(names))
        self._kept: dict[str, FleetCluster[_T]] = {}
        self._wake: anyio.Event | None = None
        self._is_closing = False
        self._failure = self._waits_for = ""
        self._loop = LoopOwner("the fleet")
        self._host = Host("the fleet", self._main, on_crash=self._crashed)
        self._member: GroupMember | None = None
        self._recorder: EventRecorder | None = None
        self._share_host: Host | None = None
        self._shared: SharedClusters | None = None
        if sharding is not None:
            check_type("sharding", sharding, Buckets)
            self._share(sharding, name, cluster, metrics)

    def _share(
        self, sharding: Buckets, name: str, cluster: Cluster | None, metrics: Metrics
    ) -> None:
        if sharding.by != "cluster":
            reason = (
                f'must be Buckets(by="cluster"), got by={sharding.by!r}: a fleet shares clusters'
            )
            raise InvalidArgumentError("sharding", reason)
        if not name:
            reason = "is missing: the Lease with the table of all replicas needs one"
            raise InvalidArgumentError("name", reason)
        check_group("name", name)
        if cluster is None:
            raise InvalidArgumentError("cluster", "is missing: where are the Leases of replicas?")
        check_type("cluster", cluster, Cluster)
        self._shared = SharedClusters(
            sharding,
            clusters=self._kept.values,
            changed=self._changed,
            start_soon=self._soon,
        )
        self._recorder = EventRecorder(cluster, name)
        self._member = GroupMember(
            cluster,
            name,
            buckets=sharding,
            work=self._shared,
            recorder=self._recorder,
            grace_seconds=_CLOSE_SECONDS,
            metrics=metrics,
            ends_process=False,
        )
        self._share_host = Host("the share of the fleet", self._compete, on_crash=self._crashed)

    async def start(self) -> None:
        """Begin with the names; no cluster is waited for.

        Raises:
            LifecycleError: it was started before, or closed; or the informer of the names is not
                running.

        Cancellation:
            Safe.
        """
        if self._is_closing:
            raise LifecycleError("the fleet is closed: make a new one")
        if self._followed is not None and not self._followed.informer.is_running:
            raise LifecycleError(f"{self._followed.informer!r} is not running: start it first")
        self._loop.claim()
        await self._host.start()
        if self._share_host is not None:
            try:
                await self._share_host.start()
            except BaseException:
                await run_shielded("the end of the fleet's start", self._host.aclose())
                raise

    def set_names(self, names: Iterable[str]) -> None:
        """Use exactly these clusters from now on.

        Args:
            names: those that are used already are not affected.

        Raises:
            InvalidArgumentError: one is empty, or the names are those of an informer's objects.
            InvalidTypeError: one of them is not a text.
            LifecycleError: it is closed, or runs in another event loop.
        """
        if self._followed is not None:
            raise InvalidArgumentError("names", "are those of an informer's objects")
        if self._is_closing:
            raise LifecycleError("the fleet is closed: make a new one")
        self._loop.check()
        self._addresses = dict.fromkeys(checked_name_list(names))
        self._changed()

    def status(self) -> FleetStatus:
        """Return its state: a frozen record; from any thread."""
        pooled = {one.name: one for one in self._pool.status()}
        failures = {} if self._followed is None else dict(self._followed.failures)
        clusters = [
            one.status(pooled.get(one.name), failures.pop(one.name, ""))
            for one in tuple(self._kept.values())
        ]
        return FleetStatus(
            clusters=(*clusters, *(without_address(name, why) for name, why in failures.items())),
            known=len(self._addresses),
            sharing=None if self._member is None else self._member.status(),
            waits_for=self._waits_for,
            failure=self._failure,
        )

    async def aclose(self) -> None:
        """Give up its share, and disengage and close all clusters concurrently.

        A second call only waits.

        Raises:
            InternalError: something inside had crashed.

        Cancellation:
            Takes effect when everything has ended, which the deadlines bound.
        """
        self._loop.check(may_be_closed=True)
        self._is_closing = True
        try:
            if self._share_host is not None and self._member is not None:
                await self._share_host.aclose(self._member.end_timeout_seconds + _CLOSE_SECONDS)
        finally:
            await self._host.aclose(self._grace_seconds)

    @property
    def _grace_seconds(self) -> float:
        options = [
            controller.engine.options
            for cluster in self._kept.values()
            for controller in cluster.controllers
        ]
        ends = [one.drain_timeout_seconds + one.grace_seconds for one in options]
        return max(ends, default=0.0) + _CLOSE_SECONDS

    def _crashed(self, error: InformerError) -> None:
        self._fail(str(error))

    async def _main(self, group: TaskGroup, ready: Callable[[], None]) -> None:
        """Begin and end with clusters whenever their names or the share have changed.

        One task does it: a change may arrive in a callback of a socket.
        """
        if self._followed is not None:
            group.start_soon(self._follow, self._followed)
        ready()
        while True:
            self._wake = anyio.Event()
            self._apply(group)
            await self._wake.wait()

    def _changed(self) -> None:
        if self._wake is not None:
            self._wake.set()

    async def _follow(self, followed: FollowedNames) -> None:
        """Read the names whenever an object, or the state of the informer, changes."""
        informer, wake = followed.informer, anyio.Event()

        def read_again(_: object) -> None:
            """Wake the follower."""
            wake.set()

        registration = informer.add_event_handler(read_again)
        ignore = informer.on_state_change(read_again)
        try:
            while True:
                wake = anyio.Event()
                self._read(followed)
                await wake.wait()
                await anyio.sleep(_SPREAD_SECONDS)
        except InternalError:
            raise
        except InformerError as error:
            self._fail(f"it does not follow the names of its clusters any more: {error}")
        finally:
            ignore()
            await run_shielded("the end of the names", registration.remove())

    def _read(self, followed: FollowedNames) -> None:
        failing = set(followed.failures)
        self._addresses = followed.read()
        for name, why in followed.failures.items():
            if name not in failing:
                _log.warning("the address of cluster %s is not known: %s", name, why)
        informer = followed.informer
        self._waits_for = "" if informer.has_synced else "; ".join(informer.status().pending())
        self._changed()

    async def _compete(self, _group: TaskGroup, ready: Callable[[], None]) -> None:
        """Share the clusters until the fleet is closed."""
        ready()
        recorder, member = self._recorder, self._member
        if recorder is None or member is None:
            raise InternalError("a fleet shares that has no member")
        try:
            await recorder.start()
            await member.run()
        except InternalError:
            raise
        except InformerError as error:
            self._fail(f"it takes no share any more: {error}")
        finally:
            await run_shielded("the close of the fleet's Events", recorder.aclose())

    def _fail(self, failure: str) -> None:
        self._failure = failure
        _log.error("the fleet: %s", failure)

    def _apply(self, group: TaskGroup) -> None:
        shared = self._shared
        leases = {} if shared is None else {one: shared.lease_of(one) for one in self._addresses}
        wanted: dict[str, object] = {
            # Of another life of the same bucket, everything begins again.
            name: (address, leases.get(name))
            for name, address in self._addresses.items()
            if shared is None or leases[name] is not None
        }
        kept = {name: one.address for name, one in self._kept.items()}
        begins, ends = changes(wanted, kept)
        for name in ends:
            self._kept[name].end_nowait(self._why(name))
        for name in begins:
            cluster = self._kept[name] = FleetCluster(
                name,
                wanted[name],
                pool=self._pool,
                group=self._group,
                controllers=self._controllers_of,
                engages=partial(self._engages, leases.get(name)),
            )
            group.start_soon(self._keep, cluster)

    def _why(self, name: str) -> str:
        if name not in self._addresses:
            return "its name is gone"
        if self._shared is not None and self._shared.lease_of(name) is None:
            return "its bucket is given up"
        return "its address, or the life of its bucket, is another one"

    def _engages(self, lease: BucketLease | None, cluster: FleetCluster[_T]) -> None:
        if self._shared is not None and lease is not None:
            self._shared.engages(cluster, lease)

    async def _keep(self, cluster: FleetCluster[_T]) -> None:
        try:
            await cluster.keep()
        finally:
            del self._kept[cluster.name]
            self._changed()  # it may begin again, at another address

    def _soon(self, function: Callable[[], Any]) -> None:
        if self._host.is_running and not self._is_closing:
            self._host.start_soon(function)

    def __repr__(self) -> str:
        return f"<Fleet of {len(self._kept)} clusters>"


def _as_it_is(opened: object) -> Controller[Any] | Sequence[Controller[Any]]:
    """Return what the pool has opened, which is a Controller or several.

    Raises:
        InvalidTypeError: it is neither.
    """
    several = opened if isinstance(opened, list | tuple) else (opened,)
    if not all(isinstance(one, Controller) for one in several):
        reason = f"is needed: the pool opens no Controller, but {type(opened).__name__}"
        raise InvalidTypeError("controllers", reason)
    return cast("Controller[Any] | Sequence[Controller[Any]]", opened)
