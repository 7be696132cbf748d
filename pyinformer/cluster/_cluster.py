"""A cluster: one connection, and what is known about the server behind it.

Everything that talks to one API server is made from here, so that limits and what was learned (that
it refuses watch-lists, say) are shared. Nothing is opened before the first request.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self, final

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
        options: the bounds of the connection.

    Raises:
        ConfigurationError: a certificate of the configuration cannot be read.
    """

    def __init__(self, config: ClusterConfig, *, options: ConnectionOptions | None = None) -> None:
        self.connection: Connection = Connection(config, options=options)
        self.watch_list_memory: WatchListMemory = WatchListMemory()

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
        return f"<Cluster {self.config.server} from {self.config.source}>"
