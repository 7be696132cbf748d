"""A cluster: one connection, and what is known about the server behind it.

Everything that talks to one API server is made from here, so that limits and what was learned (that
it refuses watch-lists, say) are shared. Nothing is opened before the first request.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self, final

from pyinformer.cluster._catalogue import APIResource
from pyinformer.cluster._object_client import ObjectClient
from pyinformer.cluster._options import WriteOptions
from pyinformer.reflector import Admission, AdmissionOptions, Lineage, WatchListMemory
from pyinformer.transport import Connection, ConnectionProtocol, ListWatch

if TYPE_CHECKING:
    from pyinformer.apimachinery import FieldSelector, GroupVersionResource, LabelSelector
    from pyinformer.transport import ClusterConfig, ConnectionOptions


@final
class Cluster(ObjectClient):
    """An API server: informers are pointed at it, objects read and written; made by `connect()`.

    It opens nothing before the first request, belongs to the event loop of its `async with` or of
    that request, and is released by `aclose()` or by leaving its `async with`.

    Args:
        config: how the server is reached.
        name: what to call it beside others, in requests, logs and errors; it is not checked.
        options: the bounds of the connection.
        write_options: how fast writes may leave, and how patient they are.
        admission_options: how much its informers together may ask of the server at a time.
        wire: what stands for the connection, in tests for example; it is closed with the rest.

    Raises:
        ConfigurationError: a certificate of the configuration cannot be read.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        name: str = "",
        options: ConnectionOptions | None = None,
        write_options: WriteOptions | None = None,
        admission_options: AdmissionOptions | None = None,
        wire: ConnectionProtocol | None = None,
    ) -> None:
        super().__init__(wire or Connection(config, options=options), options=write_options)
        self.name: str = name
        self.own_finalizers: frozenset[str] = frozenset()
        """The finalizers that this process has held objects with: what it has to remove."""
        self.watch_list_memory: WatchListMemory = WatchListMemory()
        self.admission: Admission = Admission(admission_options)
        """How much its informers ask of the server at a time."""
        self.lineage: Lineage = Lineage(attempt=self.admission.attempt)
        """Whether the server's history is still the one that was followed."""

    @property
    def config(self) -> ClusterConfig:
        """How the server is reached."""
        return self.connection.config

    async def find_resource(self, name: str) -> APIResource:
        """Find the resource that a name as people type it stands for, as kubectl does.

        Args:
            name: a plural, singular, kind or short name in any case (`deploy`), alone or with its
                group (`deployments.apps`, `deployments.v1.apps`); or in full with its version, as
                `v1/pods` or `apps/v1/deployments`, for which nothing else is asked.

        Returns:
            What the server says of it, in its group's preferred version. Where several groups have
            the name, the likeliest, the core group's first; `discovery.find` returns all of them.

        Raises:
            UnknownResourceError: nothing that is served has this name; it says what comes near.
            InvalidArgumentError: it cannot be a name.
            ForbiddenError: the server does not say what it serves; factories need no such right.
            TransportError: it was not reached.

        Cancellation:
            Safe.
        """
        return (await self.discovery.find(name))[0]

    def list_watch(
        self,
        resource: GroupVersionResource,
        *,
        namespace: str | None = None,
        label_selector: LabelSelector | None = None,
        field_selector: FieldSelector | None = None,
        metadata_only: bool = False,
    ) -> ListWatch:
        """Return what a Reflector needs to follow one resource in one scope."""
        return ListWatch(
            self.connection,
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
        )

    def note_finalizer(self, name: str) -> None:
        """Record that this process holds objects with a finalizer; of many, the first 64."""
        if name not in self.own_finalizers and len(self.own_finalizers) < _MOST_FINALIZERS:
            self.own_finalizers |= {name}

    def claim_loop(self) -> None:
        """Belong to the running event loop from now on, as from the first request on.

        Raises:
            LifecycleError: it belongs to another one, or none runs here.
        """
        self._sender.loop.claim()
        if isinstance(self.connection, Connection):
            self.connection.claim_loop()

    async def aclose(self) -> None:
        """Close every connection; a second call does nothing.

        Raises:
            LifecycleError: it belongs to another event loop; nothing was closed.

        Cancellation:
            Safe; what is left is closed by a second call.
        """
        self._sender.loop.check(may_be_closed=True)
        await self.connection.aclose()

    async def __aenter__(self) -> Self:
        self.claim_loop()
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


_MOST_FINALIZERS = 64  # a program has a few; names made on the fly must not add up
