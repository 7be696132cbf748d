"""Rules for every test: it leaves nothing behind, and it does not depend on a fast machine.

After each test no asyncio task, no socket and no non-daemon thread may be left that was not there
before. What a fixture of a wider scope opens (a server that several tests share) belongs to that
fixture, and does not fail the test that happened to run first.
"""

from __future__ import annotations

import asyncio
import asyncio.constants
import gc
import logging
import os
import signal
import sys
import threading
import traceback
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.measured import is_measured
from tests.soak import IS_SOAK, examples
from tests.virtual_time import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

_UNMEASURED = ("exhaustive", "hypothesis", "soak")
_OPEN_FILES = "/proc/self/fd"
_COLLECT_AFTER = 10_000  # new objects
_SETTLE_SECONDS = 1.0  # a server in another thread closes its end a moment after the client
_POLL_SECONDS = 0.01
_shared_sockets: set[str] = set()
_shared_threads: set[threading.Thread] = set()


def _sockets() -> set[str]:
    """Name the open sockets of this process; empty where the system has no /proc."""
    names = set[str]()
    try:
        entries = os.listdir(_OPEN_FILES)  # noqa: PTH208 - pathlib takes five times as long
    except OSError:
        return names
    for entry in entries:
        try:
            target = os.readlink(f"{_OPEN_FILES}/{entry}")  # noqa: PTH115 - so does this
        except OSError:  # closed since the listing
            continue
        if target.startswith("socket:"):
            names.add(target)
    return names


def _threads() -> set[threading.Thread]:
    """Name the threads that would keep the interpreter alive."""
    return {thread for thread in threading.enumerate() if not thread.daemon}


def pytest_configure() -> None:
    """Prepare this process, and Hypothesis, for the tests."""
    # Tests name hosts that do not exist; the proxy of a developer's machine would answer for them.
    for scheme in ("http", "https"):
        os.environ.pop(f"{scheme}_proxy", None)
        os.environ.pop(f"{scheme}_proxy".upper(), None)
    # A script's background job ignores SIGINT, and its children inherit that. A signal that is
    # handled is reset to its default in a child.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # So does nohup with SIGHUP, which shall not end these tests and shall end programs under test.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    # asyncio's debug mode records where each callback, task and future was created: ten frames, and
    # of a future all. That is half of the time of the tests; PYTHONASYNCIODEBUG=1 records it.
    if not os.environ.get("PYTHONASYNCIODEBUG"):
        asyncio.constants.DEBUG_STACK_DEPTH = 0  # type: ignore[misc]  # final to typeshed only
        traceback.extract_stack.__defaults__ = (None, 0)  # futures pass no limit
    # By default, collections of the youngest objects alone take 15 s of all tests.
    gc.set_threshold(_COLLECT_AFTER, 10, 10)
    # asyncio warns of slow steps by the names of tests; tests of logs would count that.
    logging.getLogger("asyncio").addFilter(
        lambda record: not str(record.msg).startswith("Executing ")
    )
    # A busy machine neither fails a property nor makes it a slow one.
    busy = (HealthCheck.too_slow,)
    # The same examples each time: a change must not fail by a rare find in code that it left alone.
    # `make soak` searches at random.
    settings.register_profile(
        "tests",
        deadline=None,
        derandomize=True,
        max_examples=examples(50),
        suppress_health_check=busy,
    )
    settings.register_profile("soak", settings.get_profile("tests"), derandomize=False)
    settings.load_profile("soak" if IS_SOAK else "tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files with slow tests first, so that no process ends long after the others."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Let no garbage collection walk what the collection of tests makes: a million objects.

    Many tests collect; the stations of the benchmarks do so before each of some hundred samples.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


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


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure no coverage of some tests and their fixtures, whose servers run in threads."""
    is_long = any(item.get_closest_marker(name) for name in _UNMEASURED)
    if is_measured(item.path) and not is_long:
        return (yield)
    if "coverage" not in sys.modules:  # it is not installed everywhere
        return (yield)
    import coverage

    measured = coverage.Coverage.current()
    if measured is None:
        return (yield)
    measured.stop()
    try:
        return (yield)
    finally:
        measured.start()


@pytest.fixture(scope="session", autouse=True)
def _no_line_is_lost() -> Iterator[None]:
    """Raise what a program survives: a line that cannot be formatted is a fault of ours."""

    def raise_again(error: BaseException) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyinformer._runtime.escaping_loggers.report_lost", raise_again)
        yield


@pytest.fixture(scope="module", autouse=True)
def _unmeasured_programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep coverage, which doubles their time, out of the programs that some tests start."""
    with pytest.MonkeyPatch.context() as patch:
        if not is_measured(request.path):
            for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
                patch.delenv(name, raising=False)
        yield


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
def _restored_logs() -> Iterator[None]:
    """Undo what a program in the test configures for its process, as kopf and the commands do."""
    loggers = logging.getLogger(), logging.getLogger("asyncio")
    before = [(one, one.level, one.propagate, one.handlers[:]) for one in loggers]
    yield
    for logger, level, propagate, handlers in before:
        if logger.level != level:
            logger.setLevel(level)
        logger.propagate = propagate
        # Those of pytest come and go with the phases of a test.
        logger.handlers[:] = [
            one
            for one in logger.handlers
            if one in handlers or type(one).__module__.startswith("_pytest")
        ]


@pytest.fixture(autouse=True)
def _watch_loop(_nothing_left: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """Watch the tasks of asynchronous tests; after _nothing_left, which sees the loop closed."""
    is_async = request.node.get_closest_marker("asyncio") is not None
    if is_async:
        request.getfixturevalue("_no_task_left")
    yield
    if is_async:
        gc.collect(1)  # a ResourceWarning belongs to the test that caused it
