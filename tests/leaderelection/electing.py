"""Electors in the virtual time of a World, and a connection that tests can disturb."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pyinformer.client.cluster import Cluster, WriteOptions
from pyinformer.errors import ForbiddenError, ServerError, TransportError
from pyinformer.leaderelection import LeaderElector, Term
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from pyinformer.client.transport import Body, ClusterConfig, ConnectionProtocol, Query
    from pyinformer.leaderelection import LeaderElectionOptions
    from pyinformer.testing import World

Call = tuple[float, str, str]
"""When a request was sent, its verb and its last path segment."""


class _Body:
    """The body of a stream, which can be held back from its reader."""

    def __init__(self, beyond: Body, *, is_held: bool) -> None:
        self._beyond = beyond
        self._piece: bytes | None = None
        self._released = asyncio.Event()
        self.hold(held=is_held)

    @property
    def received_bytes(self) -> int:
        """How many bytes have arrived, those that are held included."""
        return self._beyond.received_bytes

    def hold(self, *, held: bool) -> None:
        """Hold what arrives back from the reader, or release it."""
        (self._released.clear if held else self._released.set)()

    async def read(self) -> bytes:
        """Wait for the next bytes, and until they are released.

        Cancellation:
            Safe; a cancelled read takes nothing.
        """
        if self._piece is None:
            self._piece = await self._beyond.read()
        await self._released.wait()
        piece, self._piece = self._piece, None
        return piece

    def expire(self, waited_seconds: float) -> None:
        """End the body with an error."""
        self._beyond.expire(waited_seconds)

    def close(self) -> None:
        """Close the connection."""
        self._beyond.close()


class Line:
    """A connection of one replica to a World, which counts, delays, loses or refuses requests."""

    def __init__(self, beyond: ConnectionProtocol) -> None:
        self._beyond = beyond
        self.calls: list[Call] = []
        self.is_down = False
        self.is_forbidden = False
        self.watch_is_forbidden = False
        self.list_is_forbidden = False
        self.refused_lists = ""
        """The resource whose lists get 503."""
        self.refuses_after_seconds = 0.0
        self.forbidden_namespace = ""
        """The namespace whose lists and watches get 403."""
        self.forbidden_path = ""
        """The end of the path of the streams that get 403."""
        self.read_only_path = ""
        """The end of the path whose writes get 403."""
        self.before: Callable[[str], Any] | None = None
        self.after: Callable[[str], Any] | None = None
        self.holds_new = False
        self.answers: list[bytes] = []
        """Answers of a gateway, which take the place of the server's."""
        self.ignores_selectors = False
        self.store: Callable[[bytes], bytes] = bytes
        """What the server stores of a body that is written."""
        self.show: Callable[[bytes], bytes] = bytes
        """What it answers."""
        self._bodies: list[tuple[str, _Body]] = []

    @property
    def config(self) -> ClusterConfig:
        """The configuration of the World."""
        return self._beyond.config

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
        accept: str = "",
    ) -> bytes:
        """Pass a request on.

        Cancellation:
            Safe.
        """
        now = asyncio.get_running_loop().time()
        self.calls.append((now, method, path.rpartition("/")[2]))
        if self.before is not None:
            await self.before(method)
        if self.is_down:
            raise TransportError(path, "the line is down", is_unreachable=True)
        is_read_only = bool(self.read_only_path) and path.endswith(self.read_only_path)
        if self.is_forbidden or (is_read_only and method != "GET"):
            raise ForbiddenError(status=403, reason="Forbidden", request=f"{method} {path}")
        if self.answers:
            return self.answers.pop(0)
        if body is not None:
            body = self.store(body)
        answer = await self._beyond.request(
            method, path, query=query, body=body, content_type=content_type, accept=accept
        )
        if self.after is not None:
            await self.after(method)
        return self.show(answer)

    def stream(
        self, path: str, query: Query = (), **options: Any
    ) -> AbstractAsyncContextManager[Body]:
        """Open a stream, unless streams are refused."""
        verb = "watch" if options.get("watch") else "list"
        if self.is_down or (self.watch_is_forbidden if verb == "watch" else self.list_is_forbidden):
            return self._refused(verb, path)
        if self.forbidden_path and path.endswith(self.forbidden_path):
            return self._refused(verb, path)
        if self.forbidden_namespace and f"/namespaces/{self.forbidden_namespace}/" in path:
            return self._refused(verb, path)
        if verb == "list" and path.rpartition("/")[2] == self.refused_lists:
            return self._unavailable(path)
        now = asyncio.get_running_loop().time()
        self.calls.append((now, verb.upper(), path))
        return self._followed(path, query, options)

    @asynccontextmanager
    async def _followed(
        self, path: str, query: Query, options: Mapping[str, Any]
    ) -> AsyncIterator[Body]:
        if self.ignores_selectors:
            query = tuple(one for one in query if one[0] != "fieldSelector")
        async with self._beyond.stream(path, query, **options) as body:
            one = _Body(body, is_held=self.holds_new)
            self._bodies.append((path, one))
            yield one

    def hold(self, plural: str, *, held: bool) -> None:
        """Hold the lists and events of a resource back from this replica, or release them."""
        for path, body in self._bodies:
            if path.endswith(f"/{plural}"):
                body.hold(held=held)

    def drop(self) -> None:
        """Break every stream that is open."""
        for _, body in self._bodies:
            body.expire(0.0)
        self._bodies.clear()

    @asynccontextmanager
    async def _refused(self, verb: str, path: str) -> AsyncIterator[Body]:
        if self.is_down:
            raise TransportError(path, "the line is down", is_unreachable=True)
        raise ForbiddenError(status=403, reason="Forbidden", request=f"{verb} {path}")
        yield  # the type of a generator

    @asynccontextmanager
    async def _unavailable(self, path: str) -> AsyncIterator[Body]:
        await pause(self.refuses_after_seconds)
        raise ServerError(status=503, reason="ServiceUnavailable", request=f"list {path}")
        yield  # the type of a generator

    async def aclose(self) -> None:
        """Do nothing: the World closes its connection.

        Cancellation:
            Safe.
        """

    def count(self, method: str) -> int:
        """Return how many requests of a verb were sent."""
        return sum(1 for call in self.calls if call[1] == method)


class Replica:
    """One elector, on its own line, and what its work saw."""

    def __init__(
        self,
        world: World,
        identity: str,
        *,
        name: str = "db-operator",
        options: LeaderElectionOptions | None = None,
        **elector: Any,
    ) -> None:
        self.line = Line(world.cluster.connection)
        self.cluster = Cluster(
            world.cluster.config,
            write_options=WriteOptions(writes_per_second=None, retry_limit=0),
            connection=self.line,
        )
        self.elector = LeaderElector(
            self.cluster,
            name,
            namespace="default",
            identity=identity,
            options=options,
            **elector,
        )
        self.terms: list[Term] = []
        self.began_at: list[float] = []
        self.ended_at: list[float] = []
        self.drain_seconds = 0.0
        self.task: asyncio.Task[None] | None = None
        self.leads = asyncio.Event()

    async def lead(self, term: Term) -> None:
        """Lead until cancelled, and then drain."""
        loop = asyncio.get_running_loop()
        self.terms.append(term)
        self.began_at.append(loop.time())
        self.leads.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.leads.clear()
            if self.drain_seconds and not term.has_ended:
                await pause(self.drain_seconds)
            self.ended_at.append(loop.time())

    def start(self) -> None:
        """Run the elector in a task."""
        self.task = asyncio.create_task(self.elector.run(self.lead))

    async def stop(self) -> None:
        """Cancel the elector and wait for its end."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.result()

    async def crash(self) -> None:
        """End without a release, as a killed process does."""
        self.line.is_down = True
        await self.stop()
