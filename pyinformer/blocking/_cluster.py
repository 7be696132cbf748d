"""The blocking twin of Cluster.

Every request is made on the event loop, and objects and errors are those of the asynchronous API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, final, overload

from pyinformer.blocking._factory import BlockingInformerFactory
from pyinformer.blocking._log_stream import BlockingLogStream
from pyinformer.blocking._object_list import BlockingObjectList
from pyinformer.blocking._sync_proxy import (
    SyncProxy,
    direct,
    on_loop,
    same_face,
    synchronous,
    with_arguments_of,
)
from pyinformer.cache.informer import SharedInformerFactory
from pyinformer.client.cluster import Cluster, LogStream, VersionMatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.client.transport import ClusterConfig
    from pyinformer.objects import FieldSelector, KubeObject, LabelSelector, Selector

P = ParamSpec("P")
M = TypeVar("M")


def _making_factories(
    original: Callable[Concatenate[Cluster, P], SharedInformerFactory],
) -> Callable[Concatenate[BlockingCluster, P], BlockingInformerFactory]:
    """Return the method that makes factories, with the arguments of the asynchronous one."""

    @with_arguments_of(original)
    def informer_factory(
        self: BlockingCluster, /, *args: P.args, **kwargs: P.kwargs
    ) -> BlockingInformerFactory:
        """Return a new factory of informers of this cluster, as SharedInformerFactory(cluster).

        Use it as `with cluster.informer_factory() as factory`, or close it by close(). The
        arguments are those of a SharedInformerFactory.

        Raises:
            InvalidArgumentError: an argument is invalid.
            LifecycleError: the runner is closed.
        """

        def make() -> SharedInformerFactory:
            factory = original(self.asynchronous, *args, **kwargs)
            self._thread.adopt(factory, factory.aclose)
            return factory

        return BlockingInformerFactory(self._thread, self._thread.do(make))

    return informer_factory


def _reading_logs(
    original: Callable[Concatenate[Cluster, P], LogStream],
) -> Callable[Concatenate[BlockingCluster, P], BlockingLogStream]:
    """Return the method that reads logs, with the arguments of the asynchronous one."""

    @same_face(original)
    def logs(self: BlockingCluster, /, *args: P.args, **kwargs: P.kwargs) -> BlockingLogStream:
        found = self._thread.do(lambda: original(self.asynchronous, *args, **kwargs))
        return BlockingLogStream(self._thread, found)

    return logs


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

    @property
    def field_manager(self) -> str | None:
        """The owner of the fields that it writes, where a write does not name one."""
        return self.asynchronous.field_manager

    informer_factory: Final = _making_factories(SharedInformerFactory)
    """Return a new factory of informers of this cluster, as SharedInformerFactory(cluster)."""

    find_resource: Final = synchronous(Cluster.find_resource)
    """Find the resource that a name as people type it stands for, as kubectl does."""

    get: Final = synchronous(Cluster.get)
    """Read one object from the server; caches are faster: `informer.lister.get(key)`."""

    @overload
    def list(
        self,
        api_version: str,
        plural: str,
        *,
        namespace: str | None = None,
        label_selector: Selector | LabelSelector = None,
        field_selector: Selector | FieldSelector = None,
        resource_version: str = "",
        resource_version_match: VersionMatch = "NotOlderThan",
        page_size: int = 500,
        metadata_only: bool = False,
    ) -> BlockingObjectList[KubeObject]: ...
    @overload
    def list(
        self,
        api_version: str,
        plural: str,
        *,
        namespace: str | None = None,
        label_selector: Selector | LabelSelector = None,
        field_selector: Selector | FieldSelector = None,
        resource_version: str = "",
        resource_version_match: VersionMatch = "NotOlderThan",
        page_size: int = 500,
        metadata_only: bool = False,
        model: type[M],
    ) -> BlockingObjectList[M]: ...
    @same_face(Cluster.list)
    def list(self, api_version: str, plural: str, **kwargs: Any) -> BlockingObjectList[Any]:
        """List objects on the server: `for pod in cluster.list("v1", "pods")`."""
        make = self.asynchronous.list
        found = self._thread.do(lambda: make(api_version, plural, **kwargs))
        return BlockingObjectList(self._thread, found)

    logs: Final = _reading_logs(Cluster.logs)
    """Read the log of a container: `with cluster.logs("shop/web-0") as lines`."""

    delete_collection: Final = synchronous(Cluster.delete_collection)
    """Delete all objects of one namespace, or of a cluster-scoped resource, that match."""

    exec: Final = synchronous(Cluster.exec)
    """Run a command in a container and wait for its end, as `kubectl exec` does."""

    request: Final = synchronous(Cluster.request)
    """Send any request to the server, and return the body of its response."""

    create: Final = synchronous(Cluster.create)
    """Create an object, or something of an object: an Eviction or a TokenRequest."""

    replace: Final = synchronous(Cluster.replace)
    """Replace an object by another version of it."""

    patch: Final = synchronous(Cluster.patch)
    """Send what was edited in an object, and nothing else."""

    status: Final = synchronous(Cluster.status)
    """Send what is new in an object's status, and nothing else."""

    apply: Final = synchronous(Cluster.apply)
    """Make an object have these fields, by server-side apply; create it if need be."""

    apply_if_changed: Final = synchronous(Cluster.apply_if_changed)
    """Apply an object unless it still is as this process has applied it."""

    delete: Final = synchronous(Cluster.delete)
    """Delete an object: `delete(pod)`, or `delete("v1", "pods", "default/a")`."""

    wait_ready: Final = synchronous(Cluster.wait_ready)
    """Read an object until it is ready, as `readiness.of` decides it; for scripts and tests."""

    record_write: Final = on_loop(Cluster.record_write)
    """Make a write that the program made by other means visible to this process's reads."""

    record_delete: Final = on_loop(Cluster.record_delete)
    """Make a deletion visible to this process's reads; call it on the event loop."""

    write_statistics: Final = direct(Cluster.write_statistics)
    """Return the counters of the writes so far."""

    def __repr__(self) -> str:
        return f"<BlockingCluster {self.config.server} from {self.config.source}>"
