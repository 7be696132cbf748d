"""Hostile functions of a pool's user affect one cluster only, and are reported.

They raise a BaseException, are cancelled from outside, end silently, keep what was to be released,
and are interrupted at every step.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from pyinformer import ClusterPool
from pyinformer.errors import ClusterUnavailableError, InvalidTypeError, LifecycleError
from tests.client.cluster.test_pool import Openings, connect, pool_of, refused
from tests.virtual_time import elapse
from tests.waiting import now, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pyinformer import Cluster

pytestmark = pytest.mark.virtual_time


class NoException(BaseException):
    """What extensions in other languages raise when they panic."""


class Unspeakable(Exception):  # noqa: N818 - its name is not the point
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


async def cancelled_from_outside() -> None:
    """Wait for a task that was cancelled, as clients do when they lose their connection."""
    task = asyncio.create_task(asyncio.Event().wait())
    task.cancel()
    await task


async def panic() -> None:
    """Raise a BaseException that is not an Exception."""
    raise NoException("panicked")


async def unspeakable() -> None:
    """Raise what has no text."""
    raise Unspeakable


HOSTILE = [
    pytest.param(cancelled_from_outside, "CancelledError", id="cancelled-from-outside"),
    pytest.param(panic, "NoException: panicked", id="no-exception"),
    pytest.param(unspeakable, "Unspeakable", id="no-text"),
]


class Hooks:
    """The functions of a pool, one of which does something hostile for cluster `bad`."""

    def __init__(self, where: str, what: Callable[[], Awaitable[None]]) -> None:
        self._where = where
        self._what = what

    async def _pass(self, where: str, name: str) -> None:
        if (self._where, name) == (where, "bad"):
            await self._what()

    @asynccontextmanager
    async def connect(self, name: str) -> AsyncIterator[Cluster]:
        """Connect."""
        await self._pass("connect", name)
        async with connect(name) as cluster:
            yield cluster

    @asynccontextmanager
    async def open(self, cluster: Cluster) -> AsyncIterator[str]:
        """Open."""
        await self._pass("open", cluster.name)
        yield cluster.name
        await self._pass("close", cluster.name)

    async def ready(self, opened: str, timeout_seconds: float) -> None:
        """Be ready at once."""
        await self._pass("ready" if timeout_seconds else "look", opened)
        if self._where == "look" and opened == "bad":
            await elapse(timeout_seconds)


@pytest.mark.parametrize("where", ["connect", "open", "ready"])
@pytest.mark.parametrize(("what", "words"), HOSTILE)
async def test_an_exception_of_a_function_affects_one_cluster(
    where: str, what: Callable[[], Awaitable[None]], words: str
) -> None:
    hooks = Hooks(where, what)
    async with ClusterPool(hooks.open, connect=hooks.connect, ready=hooks.ready) as pool:
        assert await pool.get("good") == "good"
        error = await refused(pool.get("bad"))
        assert error.reason.startswith(words)
        assert error.attempts == 1
        assert now() == 0.0

        assert {one.name: one.state for one in pool.status()} == {"good": "open", "bad": "failed"}
        assert await pool.get("good") == "good"
        assert await pool.get("another") == "another"


@pytest.mark.parametrize(("what", "words"), HOSTILE)
async def test_an_exception_while_closing_is_reported_and_affects_no_other(
    what: Callable[[], Awaitable[None]], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = Hooks("close", what)
    async with ClusterPool(hooks.open, connect=hooks.connect) as pool:
        await pool.get("bad")
        await pool.evict("bad")
        assert pool.status() == ()
        assert f"cluster bad was not closed cleanly: {words}" in caplog.text
        assert await pool.get("bad") == "bad"
        assert await pool.get("good") == "good"


@pytest.mark.parametrize(("what", "words"), HOSTILE)
async def test_an_exception_of_a_last_check_affects_no_other(
    what: Callable[[], Awaitable[None]], words: str
) -> None:
    hooks = Hooks("look", what)

    async def never(opened: str, timeout_seconds: float) -> None:
        """Never be ready, and do the hostile thing when it is only looked."""
        await hooks.ready(opened, timeout_seconds)
        await elapse(3600.0)

    async with ClusterPool(hooks.open, connect=connect, ready=never) as pool:
        error = await refused(pool.get("bad", timeout_seconds=1.0))
        assert error.reason.startswith(words)
        assert {one.state for one in pool.status()} == {"opening"}
        with pytest.raises(ClusterUnavailableError):
            await pool.get("good", timeout_seconds=1.0)


async def test_a_cluster_that_ends_without_an_error_is_reported_as_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends = asyncio.Event()

    @asynccontextmanager
    async def follow(cluster: Cluster) -> AsyncIterator[str]:
        async with anyio.create_task_group() as group:

            async def end() -> None:
                await ends.wait()
                group.cancel_scope.cancel()

            group.start_soon(end)
            yield cluster.name

    async with ClusterPool(follow, connect=connect) as pool:
        await pool.get("a")
        ends.set()
        await settle()
        error = await refused(pool.get("a"))
        assert error.reason == "the value of open() ended by itself"
        assert "cluster a was open and broke: the value of open() ended" in caplog.text


async def test_a_pool_without_ready_does_not_say_that_a_server_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "pyinformer.client.cluster")

    @asynccontextmanager
    async def follow(cluster: Cluster) -> AsyncIterator[str]:
        yield cluster.name

    async def ready(_value: str, _timeout_seconds: float) -> None:
        """Find nothing missing."""

    async with ClusterPool(follow, connect=connect) as pool:
        await pool.get("a")
    async with ClusterPool(follow, connect=connect, ready=ready) as pool:
        await pool.get("b")
    assert [one.getMessage() for one in caplog.records if " is open" in one.getMessage()] == [
        "cluster a is open; without ready= its server may not have answered yet",
        "cluster b is open",
    ]


async def test_a_close_that_is_cancelled_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    openings = Openings()
    openings.closing_seconds = 3600.0
    async with pool_of(openings) as pool:
        await pool.get("a")
        await pool.evict("a")
        assert now() == pytest.approx(30.0)
        assert "cluster a was not closed cleanly: TimeoutError: cancelled after 30 s" in caplog.text


async def test_reported_errors_do_not_end_a_running_cluster() -> None:
    """An error of a loop that still runs, for example an informer, may be the cause of another."""

    class Retries:
        """Fails again and again, and keeps its last error."""

        def __init__(self) -> None:
            self.error: BaseException | None = None
            self.attempts = 0

        async def run(self) -> None:
            """Retry without an end."""
            while True:
                try:
                    raise ConnectionError("connection refused")
                except ConnectionError as error:
                    self.error = error
                    self.attempts += 1
                    await elapse(0.1)

    followed: list[Retries] = []

    @asynccontextmanager
    async def follow(_: Cluster) -> AsyncIterator[Retries]:
        retries = Retries()
        followed.append(retries)
        async with anyio.create_task_group() as group:
            group.start_soon(retries.run)
            yield retries
            group.cancel_scope.cancel()

    async def synced(retries: Retries, timeout_seconds: float) -> None:
        await elapse(timeout_seconds)
        raise TimeoutError("not synced") from retries.error

    async with ClusterPool(follow, connect=connect, ready=synced) as pool:
        error = await refused(pool.get("a", timeout_seconds=1.0))
        (retries,) = followed
        before = retries.attempts
        await elapse(1.0)
        assert retries.attempts > before
        assert isinstance(error.__cause__, TimeoutError)


async def test_a_broken_cluster_is_not_returned_while_it_is_being_closed() -> None:
    openings = Openings()
    openings.closing_seconds = 5.0
    async with pool_of(openings) as pool, asyncio.TaskGroup() as group:
        await pool.get("a")
        openings.breaks.set()
        await settle()
        (status,) = pool.status()
        assert (status.state, status.reason) == ("closing", "it broke, and is being closed")
        impatient = await refused(pool.get("a", timeout_seconds=1.0))
        assert impatient.reason == "it broke, and is being closed"
        waiter = group.create_task(refused(pool.get("a", timeout_seconds=600.0)))
        assert (await waiter).reason == "RuntimeError: it broke"
        assert now() == pytest.approx(5.0)


async def test_a_broken_cluster_that_does_not_close_is_cancelled() -> None:
    openings = Openings()
    openings.closing_seconds = 3600.0
    async with pool_of(openings) as pool:
        await pool.get("a")
        openings.breaks.set()
        error = await refused_later(pool, "a")
        assert "broke" in error.reason
        assert now() == pytest.approx(30.0)
        openings.breaks.clear()
        openings.closing_seconds = 0.0
        await elapse(1.0)
        assert await pool.get("a") == "what was opened for a"


async def refused_later(pool: ClusterPool[str], name: str) -> ClusterUnavailableError:
    """Return the error once it is no longer open."""
    await settle()
    return await refused(pool.get(name, timeout_seconds=600.0))


async def test_a_failure_of_ready_is_reported_during_the_close() -> None:
    openings = Openings()
    openings.closing_seconds = 5.0

    async def fail(opened: str, timeout_seconds: float) -> None:
        raise ConnectionError("connection refused")

    async with ClusterPool(openings, connect=connect, ready=fail) as pool:
        impatient = await refused(pool.get("a", timeout_seconds=1.0))
        assert impatient.reason == (
            "what was opened is being closed: ConnectionError: connection refused"
        )
        error = await refused(pool.get("a", timeout_seconds=600.0))
        assert error.reason == "ConnectionError: connection refused"


async def test_a_ready_function_that_never_ends_is_named_at_the_timeout() -> None:
    async def never(opened: str, timeout_seconds: float) -> None:
        await elapse(3600.0)

    async with ClusterPool(Openings(), connect=connect, ready=never) as pool:
        await refused(pool.get("a", timeout_seconds=0.0))  # begins the attempt
        error = await refused(pool.get("a", timeout_seconds=600.0))
        assert error.reason == "TimeoutError: not open within 60 s: ready() has not finished yet"


_ENDS_IN_OPEN = """
import asyncio, contextlib, sys
import pyinformer

async def end(*_):
    raise getattr(__builtins__, sys.argv[2])(7)

@contextlib.asynccontextmanager
async def follow(cluster):
    if sys.argv[1] == "open":
        await end()
    yield cluster.name

def connect(name):
    return pyinformer.connect(server="http://127.0.0.1:9", name=name)

async def main():
    async with pyinformer.ClusterPool(follow, connect=connect, ready=end) as pool:
        await pool.get("a")

asyncio.run(main())
"""


@pytest.mark.parametrize(("kind", "status"), [("SystemExit", 7), ("KeyboardInterrupt", -2)])
@pytest.mark.parametrize("where", ["open", "ready"])
def test_what_ends_the_program_in_a_function_of_the_user_does_so(
    where: str, kind: str, status: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ENDS_IN_OPEN, where, kind],
        check=False,
        timeout=100,
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stderr
    assert "crashed" not in done.stderr
    assert "bug" not in done.stderr


@pytest.mark.parametrize("by", ["open_timeout", "ready_timeout", "evict", "close"])
async def test_the_clean_up_of_an_opening_that_is_given_up_is_awaited(by: str) -> None:
    cleaned: list[float] = []

    @asynccontextmanager
    async def follow(cluster: Cluster) -> AsyncIterator[str]:
        try:
            if by != "ready_timeout":
                await asyncio.Event().wait()
            yield cluster.name
        finally:
            for seconds in (1.0, 2.0):
                await elapse(seconds)
                cleaned.append(seconds)

    async def never(_: str, __: float) -> None:
        await asyncio.Event().wait()

    async with ClusterPool(follow, connect=connect, ready=never) as pool:
        getting = asyncio.create_task(pool.get("a", timeout_seconds=600.0))
        await settle()
        if by == "evict":
            await pool.evict("a")
            getting.cancel()
        elif by != "close":
            assert isinstance(await refused(getting), ClusterUnavailableError)
    await asyncio.wait((getting,))
    assert cleaned[:2] == [1.0, 2.0]


@pytest.mark.parametrize("then", ["timeout", "evict", "close"])
async def test_the_clean_up_after_a_failed_ready_has_the_time_of_a_close(then: str) -> None:
    """The deadline of the attempt has passed, or comes, or the cluster is not wanted any more."""
    cleaned: list[str] = []

    @asynccontextmanager
    async def slow(_: Cluster) -> AsyncIterator[str]:
        try:
            yield "value"
        finally:
            await elapse(5.0)  # releases a lock, with some requests
            cleaned.append(then)

    async def fails(_: str, timeout_seconds: float) -> None:
        await elapse(timeout_seconds if then == "timeout" else 1.0)
        raise ValueError("not synced")

    async with ClusterPool(slow, connect=connect, ready=fails) as pool:
        waiting = asyncio.create_task(pool.get("one", timeout_seconds=1000.0))
        await elapse(61.0 if then == "timeout" else 2.0)
        if then == "evict":
            waiting.cancel()
            await pool.evict("one")
        elif then == "timeout":
            await elapse(5.0)
    await asyncio.wait([waiting])
    assert cleaned[:1] == [then]


async def test_a_clean_up_that_takes_too_long_is_cancelled_again() -> None:
    cleaning: list[float] = []

    @asynccontextmanager
    async def follow(cluster: Cluster) -> AsyncIterator[str]:
        try:
            yield cluster.name
        finally:
            began = now()
            try:
                await asyncio.Event().wait()
            finally:
                cleaning.append(now() - began)

    async def never(_: str, __: float) -> None:
        await asyncio.Event().wait()

    async with ClusterPool(follow, connect=connect, ready=never) as pool:
        await refused(pool.get("a", timeout_seconds=600.0))
    assert cleaning[0] == pytest.approx(30.0, abs=1.0)


async def test_an_abandoned_opening_never_becomes_open() -> None:
    """Else it is forgotten while it closes, and opened a second time meanwhile."""
    at_once, most = 0, 0

    @asynccontextmanager
    async def follow(cluster: Cluster) -> AsyncIterator[str]:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            yield cluster.name
        finally:
            with anyio.CancelScope(shield=True):
                await elapse(1.0)
            at_once -= 1

    async with ClusterPool(follow, connect=connect) as pool:
        for steps in range(6):
            first = asyncio.create_task(pool.get("a", timeout_seconds=600.0))
            await step(first, steps)
            evictions = [asyncio.create_task(pool.evict("a")) for _ in range(2)]
            await settle()
            # One that was cancelled before it began is opened again for the first caller.
            if pool.status() and pool.status()[0].state == "open":
                assert await first == "a"
                assert at_once == 1
            assert await pool.get("a", timeout_seconds=600.0) == "a"
            await asyncio.wait((first, *evictions))
            assert most == 1
            await pool.evict("a")


@pytest.mark.parametrize("name", [5, None, b"prod", ["prod"], ("prod",), 0.5])
async def test_a_name_that_is_not_text_is_refused(name: Any) -> None:
    async with pool_of(openings := Openings()) as pool:
        for call in (pool.get(name), pool.evict(name)):
            with pytest.raises(InvalidTypeError, match="name"):
                await call
        assert not openings.begun


async def step(task: asyncio.Task[Any], steps: int) -> None:
    """Let the loop turn so many times, or until a task is done."""
    for _ in range(steps):
        if task.done():
            return
        await asyncio.sleep(0)


async def called(pool: ClusterPool[str], call: str) -> None:
    """Make one of a pool's calls."""
    match call:
        case "get":
            await pool.get("a")
        case "evict":
            await pool.evict("a")
        case _:
            await pool.aclose()


@pytest.mark.parametrize("call", ["get", "evict", "aclose"])
@pytest.mark.parametrize("state", ["new", "slow", "open", "failing", "closing"])
@pytest.mark.exhaustive
async def test_a_call_that_is_cancelled_at_any_step_leaves_a_pool_that_works(
    call: str, state: str
) -> None:
    for steps in range(40):
        openings = Openings()
        openings.seconds["a"] = 3.0 if state == "slow" else 0.0
        openings.closing_seconds = 1.0 if state == "closing" else 0.0
        if state == "failing":
            openings.errors["a"] = ConnectionError("connection refused")
        async with pool_of(openings) as pool:
            other = asyncio.create_task(pool.get("a", timeout_seconds=600.0))
            if state in {"open", "closing"}:
                await other
            if state == "closing":
                closing = asyncio.create_task(pool.evict("a"))
                await settle()
            task = asyncio.create_task(called(pool, call))
            await step(task, steps)
            is_early = not task.done()
            task.cancel()
            await asyncio.wait((task,))
            await asyncio.wait((other,), timeout=30.0)
            assert other.done()
            if call == "aclose" and (steps or not is_early):
                with pytest.raises(LifecycleError):
                    await pool.get("b")
            else:
                assert await pool.get("b") == "what was opened for b"
            if state == "closing":
                await closing
            if not other.cancelled():
                other.exception()
            assert all(one.waiters == 0 for one in pool.status())
        await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()
