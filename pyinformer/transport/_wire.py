"""What everything above asks of a connection to an API server, whatever it is made of."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from pyinformer.transport._body import Body
from pyinformer.transport._config import ClusterConfig
from pyinformer.transport._http import Query


class Wire(Protocol):
    """One API server: a Connection, or a double of it."""

    @property
    def config(self) -> ClusterConfig:
        """How the server is reached."""
        ...

    def stream(
        self,
        path: str,
        query: Query = (),
        *,
        watch: bool,
        what: str = "",
        deadline_seconds: float | None = None,
        accept: str = "",
    ) -> AbstractAsyncContextManager[Body]:
        """Open a GET whose body is read as it arrives; see Connection.stream."""
        ...

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Send a request and read its whole answer; see Connection.request.

        Cancellation:
            Safe for the connection. Whether the server carried out a change is not known.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections; streams that are open fail.

        Cancellation:
            Shielded, and bounded.
        """
        ...


@runtime_checkable
class ProbedWire(Protocol):
    """A wire over a network, behind which there may be no server for a while."""

    async def answers(self, timeout_seconds: float) -> bool:
        """Tell whether the server, and no load balancer, answers; see Connection.answers.

        Cancellation:
            Safe; the connection is closed.
        """
        ...


@runtime_checkable
class WireThatWaits(Protocol):
    """A wire over a network, which can say what its requests wait for."""

    def waits_for(self, path: str) -> str:
        """Return what the oldest request for a path waits for; see Connection.waits_for."""
        ...
