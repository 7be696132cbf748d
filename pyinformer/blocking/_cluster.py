"""The blocking twin of Cluster.

Every request is made on the event loop, and objects and errors are those of the asynchronous API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final, overload

from pyinformer.apimachinery import JSONObject, KubeObject, View
from pyinformer.blocking._factory import BlockingInformerFactory
from pyinformer.blocking._proxy import SyncProxy, direct, synchronous
from pyinformer.cluster import APIResource, Body, Cluster, Propagation, WriteStatistics
from pyinformer.informer import SharedInformerFactory
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.tasks import DEFAULT_GRACE_SECONDS

if TYPE_CHECKING:
    from pyinformer.audit import MutationDetector
    from pyinformer.reflector import ReflectorOptions
    from pyinformer.transport import ClusterConfig


@final
class BlockingCluster(SyncProxy[Cluster]):
    """A connection to a cluster, for threads that may block; made by `runner.connect()`.

    Args:
        thread: runs its event loop.
        asynchronous: the cluster on that loop.
    """

    @property
    def name(self) -> str:
        """The name that distinguishes it from other clusters."""
        return self.asynchronous.name

    @property
    def config(self) -> ClusterConfig:
        """How the server is reached."""
        return self.asynchronous.config

    def informer_factory(
        self,
        *,
        options: ReflectorOptions | None = None,
        metrics: Metrics = NO_METRICS,
        grace_seconds: float = DEFAULT_GRACE_SECONDS,
        audit_period_seconds: float = 0.0,
        mutation_detector: MutationDetector | None = None,
    ) -> BlockingInformerFactory:
        """Return a new factory of informers of this cluster, as SharedInformerFactory(cluster).

        Use it as `with cluster.informer_factory() as factory`, or close it by close().

        Args:
            options: how the reflectors list and watch.
            metrics: counts what happens.
            grace_seconds: how long closing waits for handlers.
            audit_period_seconds: the mean time between audits of each informer; 0 for none.
            mutation_detector: detects edits of objects that readers share.

        Raises:
            InvalidArgumentError: an argument is invalid.
            LifecycleError: the runner is closed.
        """

        def make() -> SharedInformerFactory:
            factory = SharedInformerFactory(
                self.asynchronous,
                options=options,
                metrics=metrics,
                grace_seconds=grace_seconds,
                audit_period_seconds=audit_period_seconds,
                mutation_detector=mutation_detector,
            )
            self._thread.adopt(factory, factory.aclose)
            return factory

        return BlockingInformerFactory(self._thread, self._thread.do(make))

    @synchronous(Cluster.find_resource)
    def find_resource(self, name: str) -> APIResource:
        """Find the resource that a name as people type it stands for, as kubectl does."""

    @synchronous(Cluster.get)
    def get(self, api_version: str, plural: str, key: str) -> KubeObject:
        """Read one object from the server; caches are faster: `informer.lister.get(key)`."""

    @synchronous(Cluster.create)
    def create(
        self,
        obj: Body,
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> KubeObject:
        """Create an object."""

    @synchronous(Cluster.replace)
    def replace(
        self, obj: Body, *, field_manager: str | None = None, dry_run: bool = False
    ) -> KubeObject:
        """Replace an object by another version of it."""

    @synchronous(Cluster.patch)
    def patch(
        self,
        obj: KubeObject[View | None] | JSONObject,
        edited: Body,
        *,
        check_uid: bool = True,
        check_version: bool = False,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> KubeObject:
        """Send what was edited in an object, and nothing else."""

    @synchronous(Cluster.status)
    def status(
        self,
        obj: KubeObject[View | None] | JSONObject,
        status: Body,
        *,
        check_uid: bool = True,
        check_version: bool = False,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> KubeObject:
        """Send what is new in an object's status, and nothing else."""

    @synchronous(Cluster.apply)
    def apply(
        self,
        desired: Body,
        *,
        field_manager: str,
        force: bool = False,
        dry_run: bool = False,
    ) -> KubeObject:
        """Make an object have these fields, by server-side apply; create it if need be."""

    @synchronous(Cluster.apply_if_changed)
    def apply_if_changed(
        self,
        desired: Body,
        current: KubeObject[View | None] | None,
        *,
        field_manager: str,
        force: bool = False,
    ) -> KubeObject:
        """Apply an object unless it still is as this process has applied it."""

    @overload
    def delete(
        self,
        obj: Body,
        /,
        *,
        check_uid: bool = True,
        check_version: bool = False,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> KubeObject | None: ...
    @overload
    def delete(
        self,
        api_version: str,
        plural: str,
        key: str,
        /,
        *,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> KubeObject | None: ...
    @synchronous(Cluster.delete)
    def delete(
        self,
        obj: Body | str,
        plural: str = "",
        key: str = "",
        /,
        *,
        check_uid: bool = True,
        check_version: bool = False,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> KubeObject | None:
        """Delete an object: `delete(pod)`, or `delete("v1", "pods", "default/a")`."""

    @synchronous(Cluster.record_write)
    def record_write(
        self, api_version: str, plural: str, obj: Body | bytes, *, deleting: bool = False
    ) -> None:
        """Make a write that the program made by other means visible to this process's reads."""

    @synchronous(Cluster.record_delete)
    def record_delete(
        self,
        api_version: str,
        plural: str,
        key: str,
        *,
        uid: str,
        resource_version: str | None = None,
    ) -> None:
        """Make a deletion visible to this process's reads; call it on the event loop."""

    @direct(Cluster.write_statistics)
    def write_statistics(self) -> WriteStatistics:
        """Return the counters of the writes so far."""

    def __repr__(self) -> str:
        return f"<BlockingCluster {self.config.server} from {self.config.source}>"
