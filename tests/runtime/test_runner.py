"""The loop of a whole program is uvloop's only where threads can run beside it."""

from __future__ import annotations

import asyncio
import http.client
import sys
from collections.abc import Iterator
from contextlib import closing
from types import ModuleType
from urllib.parse import urlsplit

import pytest
import uvloop

import pyinformer
from pyinformer._runtime.tasks import program_runner
from pyinformer.testing import APIServer, Fault


class Monkey(ModuleType):
    """gevent's module that replaces those of the standard library."""

    def __init__(self, patched: tuple[str, ...]) -> None:
        super().__init__("gevent.monkey")
        self._patched = patched

    def is_module_patched(self, name: str) -> bool:
        """As the one of gevent."""
        return name in self._patched


@pytest.fixture(params=[(), ("socket",), ("socket", "threading")])
def patched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.setitem(sys.modules, "gevent.monkey", Monkey(request.param))
    chosen: tuple[str, ...] = request.param
    return chosen


def test_uvloop_is_not_used_where_gevent_has_replaced_threads(patched: tuple[str, ...]) -> None:
    """It waits in C, where no greenlet runs."""
    with program_runner() as runner:
        module = type(runner.get_loop()).__module__

    assert module.startswith("asyncio" if "threading" in patched else "uvloop")


@pytest.mark.parametrize("name", ["socket", "thread"])
def test_uvloop_is_not_used_where_eventlet_has_replaced_threads(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    patcher = ModuleType("eventlet.patcher")
    patcher.is_monkey_patched = lambda asked: asked == name  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "eventlet.patcher", patcher)
    with program_runner() as runner:
        module = type(runner.get_loop()).__module__

    assert module.startswith("asyncio" if name == "thread" else "uvloop")


@pytest.fixture(params=[asyncio.DefaultEventLoopPolicy, uvloop.EventLoopPolicy])
def policy(request: pytest.FixtureRequest) -> Iterator[None]:
    """A program has a policy of its own, as after `uvloop.install()`."""
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(request.param())
    yield
    asyncio.set_event_loop_policy(before)


async def _loop_and_child() -> tuple[bool, int]:
    child = await asyncio.create_subprocess_exec("true")
    return isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop), await child.wait()


@pytest.mark.usefixtures("policy")
def test_asyncios_own_loop_is_chosen_whatever_the_policy_is() -> None:
    """Where a program must not be on uvloop, as with leader election; its child processes work."""
    with program_runner(may_use_uvloop=False) as runner:
        assert runner.run(_loop_and_child()) == (True, 0)


@pytest.mark.usefixtures("policy")
def test_threads_of_the_library_are_on_asyncios_own_loop() -> None:
    """A program may start an elector there."""

    async def is_own() -> bool:
        return isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop)

    with pyinformer.run_in_thread() as thread:
        assert thread.call(is_own)


@pytest.mark.usefixtures("policy")
def test_the_embedded_server_cuts_connections_whatever_the_policy_is() -> None:
    with APIServer() as server:
        server.faults.add(Fault(cut_after_bytes=10))
        client = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=100)
        client.request("GET", "/api/v1/pods")
        with pytest.raises((http.client.HTTPException, OSError)), closing(client):
            client.getresponse().read()
