"""What every test is held to: it leaves nothing behind.

After each test no asyncio task, no socket and no non-daemon thread may be left that was not there
before it. What a fixture of a wider scope opens (a server that several tests share) belongs to
that fixture and is not held against the test that happened to come first.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.virtual_time import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

_OPEN_FILES = Path("/proc/self/fd")
_SETTLE_SECONDS = 1.0  # a server in another thread closes its end a moment after the client
_POLL_SECONDS = 0.01
_shared_sockets: set[str] = set()
_shared_threads: set[threading.Thread] = set()


def _sockets() -> set[str]:
    """Name the open sockets of this process; empty where the system has no /proc."""
    names = set[str]()
    for entry in _OPEN_FILES.glob("*"):
        try:
            target = str(entry.readlink())
        except OSError:  # closed since the listing
            continue
        if target.startswith("socket:"):
            names.add(target)
    return names


def _threads() -> set[threading.Thread]:
    """Name the threads that would keep the interpreter alive."""
    return {thread for thread in threading.enumerate() if not thread.daemon}


def pytest_configure() -> None:
    """Let programs that tests start hear Ctrl-C, even where the shell made us deaf to it."""
    # What runs in the background of a script ignores SIGINT and hands that down to its children;
    # a signal that is handled is none that is ignored, and starts anew in a child.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Give tests marked `virtual_time` a loop that jumps to the next timer, others a real one."""
    if item.get_closest_marker("virtual_time") is not None:
        return {"virtual": VirtualTimeLoop}
    if item.get_closest_marker("every_loop") is not None:
        import uvloop

        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"real": asyncio.new_event_loop}


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
    """Book what a fixture of a wider scope opens on that fixture."""
    if fixturedef.scope == "function":
        return (yield)
    sockets, threads = _sockets(), _threads()
    try:
        return (yield)
    finally:
        _shared_sockets.update(_sockets() - sockets)
        _shared_threads.update(_threads() - threads)


@pytest.fixture
async def _no_task_left() -> AsyncIterator[None]:
    """Fail the test whose loop still has tasks once the test and its fixtures are done."""
    before = asyncio.all_tasks()
    yield
    for _ in range(5):  # tasks that were cancelled or are on their last step
        await asyncio.sleep(0)
    me = asyncio.current_task()
    left = {task for task in asyncio.all_tasks() - before if task is not me and not task.done()}
    assert not left, f"tasks left: {sorted(map(repr, left))}"


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Fail the test that leaves a socket or a thread behind, its event loop's own included."""
    sockets, threads = _sockets(), _threads()
    yield
    pause = threading.Event()
    for _ in range(int(_SETTLE_SECONDS / _POLL_SECONDS)):
        left_sockets = _sockets() - sockets - _shared_sockets
        left_threads = _threads() - threads - _shared_threads
        if not (left_sockets or left_threads):
            return
        pause.wait(_POLL_SECONDS)
    assert not left_sockets, f"sockets left: {sorted(left_sockets)}"
    assert not left_threads, f"threads left: {sorted(thread.name for thread in left_threads)}"


@pytest.fixture(autouse=True)
def _watch_loop(_nothing_left: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """Watch the tasks of asynchronous tests; after _nothing_left, which sees the loop closed."""
    is_async = request.node.get_closest_marker("asyncio") is not None
    if is_async:
        request.getfixturevalue("_no_task_left")
    yield
    if is_async:
        gc.collect(1)  # a ResourceWarning belongs to the test that caused it
