"""The health server's /metrics: to whom, in what format, and what a rendering may cost."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.operator import Health, HealthServer
from pyinformer.telemetry.metrics import MetricsRegistry
from pyinformer.telemetry.prometheus import PrometheusMetrics
from tests.operator.inside import connections
from tests.operator.test_health_server import ask, connected, get, is_dropped
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable


class Rendered:
    """Metrics whose rendering a test holds up, or lets fail."""

    def __init__(self) -> None:
        self.may_render = threading.Event()
        self.began = 0
        self.running = 0
        self.peak = 0
        self.error: Exception | None = None

    def exposition(self, accept: str) -> tuple[str, Callable[[], bytes]]:
        if accept == "bad":
            raise RuntimeError("secret")
        return accept or "text/plain", self.render

    def render(self) -> bytes:
        self.began += 1
        self.running += 1
        self.peak = max(self.peak, self.running)
        number = self.began
        self.may_render.wait(100)
        self.running -= 1
        if self.error is not None:
            raise self.error
        return f"figures {number}\n".encode()


class Large:
    """Metrics of many bytes, other ones for each rendering."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rendered = 0

    def exposition(self, _: str) -> tuple[str, Callable[[], bytes]]:
        return "text/plain", self.render

    def render(self) -> bytes:
        self.rendered += 1
        return bytes(bytearray(self.size))


def scrape(accept: str) -> bytes:
    """Return a request that accepts a format."""
    return f"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n".encode()


async def test_clients_that_may_ask_probes_get_metrics_in_the_format_that_they_accept() -> None:
    metrics = PrometheusMetrics()
    metrics.counter("app_calls_total", {}).inc()
    async with Health().server(metrics=metrics) as server:
        for host in ("localhost", "10.0.0.7:8080"):  # a page is refused under a foreign Host
            request = f"GET /metrics HTTP/1.1\r\nHost: {host}\r\nVia: proxy\r\n\r\n"
            status, body = await ask(server.port, request.encode())
            assert (status, "app_calls_total 1.0\n" in body) == (200, True)
        status, body = await ask(server.port, scrape("application/openmetrics-text;version=1.0.0"))
        assert (status, body.endswith("# EOF\n")) == (200, True)
        assert await ask(server.port, get("/metrics", "HEAD")) == (200, "")
        assert (await ask(server.port, get("/metrics", "POST")))[0] == 405
        assert "/metrics" in (await ask(server.port, get("/")))[1]


async def test_without_metrics_there_is_no_such_path_and_the_answer_says_what_adds_it() -> None:
    async with Health().server() as server:
        status, body = await ask(server.port, get("/metrics"))
        assert (status, "/metrics" in body, "metrics= of" in body) == (404, False, True)
        assert "metrics" not in (await ask(server.port, get("/unknown")))[1]


async def has_read_what_was_sent(server: HealthServer) -> None:
    """Wait until the server has read what was written before: it serves sockets in turns."""
    assert (await ask(server.port, get("/unknown")))[0] == 404


async def test_a_rendering_runs_alone_and_scrapes_that_wait_share_the_next() -> None:
    metrics = Rendered()
    async with (
        HealthServer({}, metrics=metrics) as server,
        contextlib.AsyncExitStack() as stack,
        asyncio.TaskGroup() as tasks,
    ):
        first = tasks.create_task(ask(server.port, scrape("a")))
        await until(lambda: metrics.began == 1)
        later = [await stack.enter_async_context(connected(server.port)) for _ in "aaab"]
        for kind, (_, writer) in zip("aaab", later, strict=True):
            writer.write(scrape(kind))
        await has_read_what_was_sent(server)
        metrics.may_render.set()
        assert await first == (200, "figures 1\n")
        answers = [(await reader.read()).decode().partition("\r\n\r\n")[2] for reader, _ in later]
    assert set(answers) == {"figures 2\n", "figures 3\n"}
    assert len(set(answers[:3])) == 1
    assert metrics.peak == 1


async def test_the_loop_answers_probes_while_metrics_are_rendered() -> None:
    metrics = Rendered()
    async with (
        HealthServer({"/livez": list}, metrics=metrics) as server,
        asyncio.TaskGroup() as tasks,
    ):
        waiting = tasks.create_task(ask(server.port, get("/metrics")))
        await until(lambda: metrics.began == 1)
        assert await ask(server.port, get("/livez")) == (200, "ok\n")
        assert not waiting.done()
        metrics.may_render.set()


@pytest.mark.parametrize("accept", ["good", "bad"])
async def test_a_rendering_that_fails_is_answered_and_the_next_one_works(accept: str) -> None:
    metrics = Rendered()
    metrics.may_render.set()
    metrics.error = RuntimeError("secret")
    async with HealthServer({}, metrics=metrics) as server:
        answer = await ask(server.port, scrape(accept))
        assert answer == (503, "the scrape failed with RuntimeError\n")
        metrics.error = None
        assert (await ask(server.port, scrape("good")))[0] == 200


async def test_scrapes_are_refused_while_one_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = (loop := asyncio.get_running_loop()).time
    metrics = Rendered()
    async with (
        HealthServer({}, metrics=metrics) as server,
        connected(server.port) as (_, writer),
    ):
        writer.write(get("/metrics"))
        await until(lambda: metrics.began == 1)
        monkeypatch.setattr(loop, "time", lambda: real() + 11.0)
        status, text = await ask(server.port, get("/metrics"))
        assert (status, text) == (503, "an earlier scrape has been read for 11 s\n")
        metrics.may_render.set()
        await until(lambda: not metrics.running)
        await until_answered(server.port)


async def until_answered(port: int) -> None:
    """Scrape until the end of an earlier rendering has reached the loop."""
    while (await ask(port, get("/metrics")))[0] != 200:
        """Ask again."""


async def unread_scrape(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a scrape from a client that reads nothing yet and has hardly room for it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.connect(("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=client, limit=1_024)
    writer.write(scrape("text/plain"))
    return reader, writer


@pytest.mark.every_loop
async def test_answers_that_clients_do_not_read_are_bounded_in_bytes() -> None:
    """The oldest are dropped; scrapes of one rendering share it; a reader gets all of it."""
    size = 10 << 20  # of 32 MiB
    metrics = Large(size)
    async with HealthServer({"/livez": list}, metrics=metrics) as server:
        clients = list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]()
        held = connections(server).unread
        for number in range(1, 9):
            clients.append(await unread_scrape(server.port))
            await until(lambda number=number: metrics.rendered == number and len(held) > 0)  # type: ignore[misc]
            await until(lambda number=number: len(held) == min(number, 3))  # type: ignore[misc]
            assert len({id(payload) for payload in held.values()}) <= 3
        assert await ask(server.port, get("/livez")) == (200, "ok\n")
        reader, _ = clients[-1]
        answer = await reader.read()
        assert answer.endswith(b"\r\n\r\n" + bytes(size))
        await until(lambda: len(held) == 2)
        for _, writer in clients:
            writer.transport.abort()
    assert not held


async def test_a_rendering_whose_clients_have_all_left_is_not_begun() -> None:
    metrics = Rendered()
    async with HealthServer({}, metrics=metrics) as server, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(ask(server.port, scrape("a")))
        await until(lambda: metrics.began == 1)
        async with connected(server.port) as (_, writer):
            writer.write(scrape("b"))
            await has_read_what_was_sent(server)
            writer.transport.abort()
            await has_read_what_was_sent(server)
        metrics.may_render.set()
        assert await first == (200, "figures 1\n")
    assert metrics.began == 1


async def test_a_scrape_while_the_server_closes_is_dropped_and_hurts_nothing() -> None:
    metrics = Rendered()
    async with HealthServer({}, metrics=metrics) as server:
        async with connected(server.port) as (reader, writer):
            writer.write(get("/metrics"))
            await until(lambda: metrics.began == 1)
            await server.aclose()
            assert await is_dropped(reader)
        metrics.may_render.set()
        await until(lambda: metrics.running == 0)


def test_metrics_that_cannot_be_shown_are_refused() -> None:
    registry: Any = MetricsRegistry()
    with pytest.raises(InvalidTypeError, match="metrics: must have exposition"):
        Health().server(metrics=registry)


async def test_the_path_of_metrics_is_taken_only_once() -> None:
    with pytest.raises(InvalidArgumentError, match="/metrics is the path of a check or page"):
        HealthServer({"/metrics": list}, metrics=Rendered())
