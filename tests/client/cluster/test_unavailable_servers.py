"""What is sent again, or read again, after an answer of a scripted server, in virtual time.

Reads are repeated after a 503 or 504 that says when; writes never are.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast

import anyio
import pytest

from pyinformer import Cluster
from pyinformer.client import ClusterConfig
from pyinformer.client.cluster import WriteOptions
from pyinformer.errors import APIStatusError, ServerError, TooManyRequestsError
from tests.waiting import now, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pyinformer.client.transport import Body, ConnectionProtocol

pytestmark = pytest.mark.virtual_time

_POD: Final = (
    b'{"apiVersion":"v1","kind":"Pod","metadata":'
    b'{"namespace":"default","name":"a","uid":"u","resourceVersion":"1"}}'
)
_TABLE: Final = (
    b'{"kind":"APIResourceList","groupVersion":"v1","resources":'
    b'[{"name":"pods","kind":"Pod","namespaced":true}]}'
)
_LIST: Final = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}'


class _Whole:
    """A body that is there at once."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def read(self) -> bytes:
        """Return what is left."""
        content, self._content = self._content, b""
        return content


class Gateway:
    """A connection to a gateway that answers some requests itself, and forwards the others."""

    config = ClusterConfig(server="http://gateway.example.com")

    def __init__(self, *refusals: APIStatusError, seconds: float = 0.0) -> None:
        self.sent: list[tuple[float, str]] = []
        self._refusals = list(refusals)
        self._seconds = seconds

    async def request(self, method: str, path: str, **_: object) -> bytes:
        """Answer."""
        if path == "/api/v1":
            return _TABLE
        self.sent.append((now(), method))
        with anyio.move_on_after(self._seconds):
            await anyio.sleep_forever()
        if self._refusals:
            raise self._refusals.pop(0)
        return _POD

    @asynccontextmanager
    async def stream(self, path: str, *_: object, **__: object) -> AsyncIterator[Body]:
        """Answer a list, or with a log."""
        content = await self.request("GET", path)
        yield cast("Body", _Whole(content if path.endswith("/log") else _LIST))

    async def aclose(self) -> None:
        """Do nothing."""


def refusal(status: int = 503, after: float | None = 1.0) -> ServerError:
    return ServerError(status=status, message="no upstream", retry_after_seconds=after)


def cluster_behind(gateway: Gateway, options: WriteOptions | None = None) -> Cluster:
    connection = cast("ConnectionProtocol", gateway)
    return Cluster(gateway.config, connection=connection, write_options=options)


async def _list(cluster: Cluster) -> None:
    assert [one async for one in cluster.list("v1", "pods")] == []


async def _read_log(cluster: Cluster) -> None:
    async with cluster.logs("default/a") as lines:
        assert [line async for line in lines]


_READS: Final = [
    pytest.param(lambda cluster: cluster.get("v1", "pods", "default/a"), id="get"),
    pytest.param(lambda cluster: cluster.request("GET", "/api/v1/pods"), id="request"),
    pytest.param(_list, id="list"),
    pytest.param(_read_log, id="log"),
]
_BODY: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1"},
}
_WRITES: Final = [
    pytest.param(lambda cluster: cluster.create(_BODY), id="create"),
    pytest.param(lambda cluster: cluster.replace(_BODY), id="replace"),
    pytest.param(lambda cluster: cluster.patch(_BODY, {**_BODY, "spec": {"a": 1}}), id="patch"),
    pytest.param(lambda cluster: cluster.apply(_BODY, field_manager="test"), id="apply"),
    pytest.param(lambda cluster: cluster.delete(_BODY), id="delete"),
    pytest.param(
        lambda cluster: cluster.delete_collection("v1", "pods", namespace="default"), id="many"
    ),
    pytest.param(lambda cluster: cluster.request("POST", "/api/v1/pods"), id="request"),
]


@pytest.mark.covers(
    "client-go rest: TestCheckRetryHandles429And5xx", "kube-client src: test_retryable_status"
)
@pytest.mark.parametrize("read", _READS)
@pytest.mark.parametrize("status", [503, 504])
async def test_a_read_is_repeated_when_the_server_asks(
    read: Callable[[Cluster], Awaitable[object]], status: int
) -> None:
    gateway = Gateway(refusal(status, 2.0), refusal(status, 3.0))
    async with cluster_behind(gateway) as cluster:
        await read(cluster)
        assert cluster.write_statistics().retried == 2
    assert gateway.sent == [(0.0, "GET"), (2.0, "GET"), (5.0, "GET")]


@pytest.mark.covers("client-go rest: TestCheckRetryHandles429And5xx")
@pytest.mark.parametrize("write", _WRITES)
@pytest.mark.parametrize("status", [503, 504])
async def test_a_write_is_sent_once(
    write: Callable[[Cluster], Awaitable[object]], status: int
) -> None:
    """It is unknown whether the server behind the gateway has carried it out."""
    gateway = Gateway(refusal(status))
    async with cluster_behind(gateway) as cluster:
        with pytest.raises(ServerError):
            await write(cluster)
    assert len(gateway.sent) == 1


async def test_a_gateway_that_asks_for_an_hour_is_asked_after_ten_seconds() -> None:
    gateway = Gateway(refusal(after=3600.0))
    async with cluster_behind(gateway) as cluster:
        await cluster.get("v1", "pods", "default/a")
    assert [at for at, _ in gateway.sent] == [0.0, 10.0]


@pytest.mark.covers("client-go rest: TestIsNextRetry")
@pytest.mark.parametrize("refused", [refusal(after=None), refusal(500), refusal(502)])
async def test_other_failures_are_raised_at_once(refused: ServerError) -> None:
    gateway = Gateway(refused)
    async with cluster_behind(gateway) as cluster:
        with pytest.raises(ServerError):
            await cluster.get("v1", "pods", "default/a")
    assert len(gateway.sent) == 1


@pytest.mark.parametrize(
    ("options", "after", "seconds", "times"),
    [
        pytest.param(WriteOptions(), 1.0, 0.0, 11, id="retries"),
        pytest.param(WriteOptions(retry_limit=0), 1.0, 0.0, 1, id="never"),
        pytest.param(WriteOptions(), 9.0, 0.0, 4, id="waits"),
        pytest.param(WriteOptions(), 1.0, 20.0, 2, id="slow-answers"),
    ],
)
async def test_a_read_ends_at_its_deadline(
    options: WriteOptions, after: float, seconds: float, times: int
) -> None:
    gateway = Gateway(*[refusal(after=after) for _ in range(50)], seconds=seconds)
    async with cluster_behind(gateway, options) as cluster:
        with pytest.raises(ServerError, match="no upstream"):
            await cluster.get("v1", "pods", "default/a")
    assert len(gateway.sent) == times


async def test_a_write_that_a_busy_server_refuses_is_sent_again_each_second() -> None:
    busy = TooManyRequestsError(status=429, reason="TooManyRequests", request="PUT")
    gateway = Gateway(busy, busy)
    async with cluster_behind(gateway) as cluster:
        await cluster.request("PUT", "/a", body=b"{}")
    assert gateway.sent == [(0.0, "PUT"), (1.0, "PUT"), (2.0, "PUT")]


@pytest.mark.parametrize("by", ["task", "scope"])
async def test_a_read_that_is_cancelled_while_it_waits_is_not_sent_again(by: str) -> None:
    gateway = Gateway(refusal(after=9.0))
    async with cluster_behind(gateway) as cluster:
        if by == "scope":
            with anyio.move_on_after(5):
                await cluster.get("v1", "pods", "default/a")
        else:
            reading = asyncio.ensure_future(cluster.get("v1", "pods", "default/a"))
            await settle()
            assert cluster.write_statistics().waiting == 1
            reading.cancel()
            await asyncio.wait([reading])
            assert reading.cancelled()
        with anyio.move_on_after(60):
            await anyio.sleep_forever()
        assert cluster.write_statistics().waiting == 0
    assert len(gateway.sent) == 1


class Rescoped(Gateway):
    """A server whose kind has got namespaces since discovery was read, and that answers 405."""

    is_namespaced = "false"

    async def request(self, method: str, path: str, **_: object) -> bytes:
        """Answer."""
        if path == "/api/v1":
            return _TABLE.replace(b"true", self.is_namespaced.encode())
        self.sent.append((now(), method))
        raise APIStatusError(status=405, reason="MethodNotAllowed", message="no such method")


async def test_a_405_of_a_write_in_the_old_scope_names_the_new_one() -> None:
    gateway = Rescoped()
    cluster = cluster_behind(gateway)
    await cluster.find_resource("v1/pods")
    with pytest.raises(APIStatusError, match=r"no such method$"):
        await cluster.delete_collection("v1", "pods")
    gateway.is_namespaced = "true"
    with pytest.raises(APIStatusError, match="Pod is in namespaces by now: name one"):
        await cluster.delete_collection("v1", "pods")
    assert len(gateway.sent) == 2
