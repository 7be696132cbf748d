"""A connection reports what its pending requests wait for, at each step."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import TYPE_CHECKING, Literal

import pytest

from pyinformer.client.transport import ListWatch
from pyinformer.errors import RequestTimeoutError
from pyinformer.objects import GroupVersionResource
from pyinformer.testing import World
from tests.client.transport.serving import always, connected, response, serving, silence
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.client.transport import Connection

PODS = GroupVersionResource("", "v1", "pods")


async def ask(connection: Connection, *, watch: bool) -> None:
    """Open a stream and read it."""
    async with connection.stream("/api/v1/pods", watch=watch) as body:
        await body.read()


async def words_while_asking(connection: Connection, *, watch: bool, words: str) -> str:
    """Return the description of a request once it contains `words`, and end the request."""
    task = asyncio.create_task(ask(connection, watch=watch))
    try:
        await until(lambda: words in connection.describe_pending("/api/v1/pods"))
        return connection.describe_pending("/api/v1/pods")
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert connection.describe_pending("/api/v1/pods") == ""


@pytest.mark.parametrize(
    ("client", "step"),
    [
        pytest.param("direct", "an answer", id="direct"),
        pytest.param("aiohttp", "a connection or an answer", id="aiohttp"),
    ],
)
@pytest.mark.parametrize("watch", [True, False], ids=["watch", "list"])
async def test_a_server_that_accepts_and_never_answers(
    watch: bool, client: Literal["direct", "aiohttp"], step: str
) -> None:
    async with serving(silence) as server, connected(server.url, http_client=client) as connection:
        words = await words_while_asking(connection, watch=watch, words=step)
        pattern = rf"{server.url}/api/v1/pods: waiting for {step} for \d\.\d s"
        assert re.fullmatch(pattern, words)
        list_watch = ListWatch(connection, PODS)
        assert list_watch.describe_pending() == ""


async def test_a_handshake_that_stalls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts, never answers
        port = listener.getsockname()[1]
        async with connected(f"https://127.0.0.1:{port}") as connection:
            step = f"the TLS handshake with 127.0.0.1:{port}"
            assert step in await words_while_asking(connection, watch=True, words=step)


async def test_the_error_of_a_handshake_that_stalls_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        async with connected(url, connect_seconds=0.1) as connection:
            with pytest.raises(RequestTimeoutError, match="it waited for the TLS handshake"):
                await ask(connection, watch=True)


async def test_an_answered_request_waits_for_nothing() -> None:
    async with serving(always(response())) as server, connected(server.url) as connection:
        assert connection.describe_pending("/api/v1/pods") == ""
        async with connection.stream("/api/v1/pods", watch=True):
            assert connection.describe_pending("/api/v1/pods") == ""


def test_a_connection_without_a_network_waits_for_nothing() -> None:
    with World() as world:
        assert ListWatch(world.cluster.connection, PODS).describe_pending() == ""
