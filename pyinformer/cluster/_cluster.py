"""A cluster: one connection, and what is known about the server behind it.

Everything that talks to one API server is made from here, so that limits and what was learned (that
it refuses watch-lists, say) are shared. Nothing is opened before the first request.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self, final

from pyinformer.cluster._discovery import Discovery
from pyinformer.cluster._write_observer import WriteObserver, WriteObservers
from pyinformer.reflector import WatchListMemory
from pyinformer.transport import Connection, ListWatch

if TYPE_CHECKING:
    from pyinformer.apimachinery import FieldSelector, GroupVersionResource, LabelSelector
    from pyinformer.transport import ClusterConfig, ConnectionOptions


@final
class Cluster:
    """An API server that informers can be pointed at; made by `connect()`.

    It opens nothing before the first request, belongs to the event loop of that request, and is
    released by `aclose()` or by leaving its `async with`.

    Args:
        config: how the server is reached.
        name: what to call it beside others, in requests, logs and errors; it is not checked.
        options: the bounds of the connection.

    Raises:
        ConfigurationError: a certificate of the configuration cannot be read.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        name: str = "",
        options: ConnectionOptions | None = None,
    ) -> None:
        self.name: str = name
        self.connection: Connection = Connection(config, options=options)
        self.discovery: Discovery = Discovery(self.connection)
        self.watch_list_memory: WatchListMemory = WatchListMemory()
        self._observers = WriteObservers()

    @property
    def config(self) -> ClusterConfig:
        """How the server is reached."""
        return self.connection.config

    def list_watch(
        self,
        resource: GroupVersionResource,
        *,
        namespace: str | None = None,
        label_selector: LabelSelector | None = None,
        field_selector: FieldSelector | None = None,
    ) -> ListWatch:
        """Return what a Reflector needs to follow one resource in one scope."""
        return ListWatch(
            self.connection,
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )

    def observe_writes(self, resource: GroupVersionResource, observer: WriteObserver) -> None:
        """Let an observer hear of every write to a resource; a second time changes nothing.

        Args:
            resource: the resource, in exactly the version that is written.
            observer: called on the event loop, in the step in which an answer arrives.
        """
        self._observers.add(resource, observer)

    def forget_observer(self, resource: GroupVersionResource, observer: WriteObserver) -> None:
        """Tell an observer nothing more; one that is not known is no error."""
        self._observers.remove(resource, observer)

    async def aclose(self) -> None:
        """Close every connection; a second call does nothing.

        Cancellation:
            Safe; what is left is closed by a second call.
        """
        await self.connection.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        return f"<Cluster {name}{self.config.server} from {self.config.source}>"
