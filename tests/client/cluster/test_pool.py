"""A pool opens each cluster once, keeps no cluster waiting for another, and says why there is none.

The clusters here are real ones that nothing is asked of; what is opened for them is the test's.
"""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import pyinformer
from pyinformer import CacheSyncTimeoutError, ClusterPool
from pyinformer.client.transport import CURRENT_GUARD
from pyinformer.errors import (
    ClusterUnavailableError,
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
)
from tests.guards import Guard, guarded
from tests.virtual_time import elapse
from tests.waiting import now, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from pyinformer import Cluster

pytestmark = pytest.mark.virtual_time


class Longest(random.Random):
    """Chance that always draws the most: delays are exactly their ceilings."""

    def uniform(self, a: float, b: float) -> float:
        """Return the upper end."""
        return max(a, b)


def connect(name: str) -> Any:
    """Connect to a server that is never asked anything."""
    return pyinformer.connect(server="http://127.0.0.1:9", name=name)


class Openings:
    """What a pool opens: a text per cluster; by name slow, failing, or never ready."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.open: set[str] = set()
        self.closed: list[str] = []
        self.seconds: dict[str, float] = {}
        """How long opening takes."""
        self.errors: dict[str, BaseException] = {}
        """What opening raises."""
        self.missing: dict[str, str] = {}
        """What ready() misses."""
        self.closing_seconds = 0.0
        self.breaks = asyncio.Event()
        """Set when what is open shall break."""

    @asynccontextmanager
    async def __call__(self, cluster: Cluster) -> AsyncIterator[str]:
        name = cluster.name
        self.begun.append(name)
        await elapse(self.seconds.get(name, 0.0))
        if name in self.errors:
            raise self.errors[name]
        self.open.add(name)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._break)
                yield f"what was opened for {name}"
                group.cancel_scope.cancel()
        finally:
            self.open.discard(name)
            self.closed.append(name)
            await elapse(self.closing_seconds)

    async def _break(self) -> None:
        await self.breaks.wait()
        raise RuntimeError("it broke")

    async def ready(self, opened: str, timeout_seconds: float) -> None:
        """Wait until the timeout if something is missing."""
        missing = self.missing.get(opened.rpartition(" ")[2])
        if missing is not None:
            await elapse(timeout_seconds)
            raise TimeoutError(f"no {missing} after {timeout_seconds:g} s")


@asynccontextmanager
async def pool_of(openings: Openings) -> AsyncIterator[ClusterPool[str]]:
    """Run a pool, and see that nothing of it is left."""
    pool = ClusterPool(openings, connect=connect, ready=openings.ready, rng=Longest())
    async with pool:
        yield pool
    assert not openings.open
    assert pool.status() == ()


async def refused(get: Awaitable[object]) -> ClusterUnavailableError:
    """Return with which error a get ends."""
    with pytest.raises(ClusterUnavailableError) as raised:
        await get
    return raised.value


async def test_a_cluster_is_opened_outside_of_the_term_of_its_first_caller() -> None:
    """It outlives that term: its controllers would be refused in the next one, without an end."""
    guards: list[object] = []

    @asynccontextmanager
    async def note(_cluster: Cluster) -> AsyncIterator[str]:
        guards.append(CURRENT_GUARD.get())
        yield "open"

    async def ready(_value: str, _timeout_seconds: float) -> None:
        guards.append(CURRENT_GUARD.get())

    async with ClusterPool(note, connect=connect, ready=ready) as pool:
        with guarded(Guard()):
            await pool.get("a")
    with guarded(Guard()) as outer:
        async with ClusterPool(note, connect=connect) as pool:
            await pool.get("a")
    assert guards == [None, None, outer]


async def test_a_cluster_is_opened_when_it_is_asked_for_and_once() -> None:
    async with pool_of(openings := Openings()) as pool:
        assert not openings.begun
        assert await pool.get("a") == "what was opened for a"
        assert await pool.get("b") == "what was opened for b"
        assert await pool.get("a", timeout_seconds=0) == "what was opened for a"
        assert openings.begun == ["a", "b"]
        assert [(one.name, one.state) for one in pool.status()] == [("a", "open"), ("b", "open")]
    assert sorted(openings.closed) == ["a", "b"]


async def test_a_hundred_concurrent_callers_open_a_cluster_once() -> None:
    openings = Openings()
    openings.seconds["a"] = 5.0
    async with pool_of(openings) as pool, asyncio.TaskGroup() as group:
        waiters = [group.create_task(pool.get("a")) for _ in range(100)]
        await settle()
        (status,) = pool.status()
        assert (status.state, status.waiters) == ("opening", 100)
        assert status.reason == "open() has not finished yet"
        assert {await waiter for waiter in waiters} == {"what was opened for a"}
        assert openings.begun == ["a"]
        assert now() == pytest.approx(5.0)


async def test_a_hundred_callers_of_a_dead_cluster_share_one_attempt_and_its_cause() -> None:
    openings = Openings()
    openings.seconds["a"], openings.errors["a"] = 3.0, ConnectionError("connection refused")
    async with pool_of(openings) as pool, asyncio.TaskGroup() as group:
        waiters = [group.create_task(refused(pool.get("a"))) for _ in range(100)]
        errors = [await waiter for waiter in waiters]

        assert openings.begun == ["a"]
        assert now() == pytest.approx(3.0)
        assert len({id(error) for error in errors}) == 100
        assert all(error.__cause__ is openings.errors["a"] for error in errors)
        assert str(errors[0]) == (
            "cluster 'a' is unavailable (cannot be opened, 1 failed attempt): ConnectionError:"
            " connection refused; the next one may begin in 1.0 s"
        )


async def test_no_cluster_waits_for_another() -> None:
    openings = Openings()
    openings.seconds["slow"] = 15.0
    openings.errors["dead"] = ConnectionError("connection refused")
    async with pool_of(openings) as pool, asyncio.TaskGroup() as group:
        slow = group.create_task(pool.get("slow"))
        dead = group.create_task(refused(pool.get("dead")))
        await settle()

        assert await pool.get("good", timeout_seconds=0.5) == "what was opened for good"
        assert dead.done()
        assert now() == 0.0
        assert not slow.done()


async def test_a_timed_out_wait_names_what_is_missing_and_opening_continues() -> None:
    openings = Openings()
    openings.missing["a"] = "answer"
    async with pool_of(openings) as pool:
        error = await refused(pool.get("a", timeout_seconds=1.0))
        assert now() == pytest.approx(1.0)
        assert error.retry_after_seconds is None
        assert error.waited_seconds == pytest.approx(1.0)
        assert isinstance(error, ConnectionError)
        assert isinstance(error.__cause__, TimeoutError)
        assert str(error) == (
            "cluster 'a' is unavailable (not open after 1.0 s, 0 failed attempts): TimeoutError:"
            " no answer after 0 s; pyinformer keeps trying: try again later"
        )
        assert openings.open == {"a"}
        assert openings.begun == ["a"]


async def test_unsynced_resources_are_named_without_the_time_of_the_last_check() -> None:
    async def ready(opened: str, timeout_seconds: float) -> None:
        await elapse(timeout_seconds)
        raise CacheSyncTimeoutError(waited_seconds=timeout_seconds, pending=["pods.v1: loading"])

    pool = ClusterPool(Openings(), connect=connect, ready=ready)
    async with pool:
        error = await refused(pool.get("a", timeout_seconds=1.0))

    assert str(error) == (
        "cluster 'a' is unavailable (not open after 1.0 s, 0 failed attempts): not synced:"
        " pods.v1: loading; pyinformer keeps trying: try again later"
    )


async def test_a_timeout_of_zero_checks_once_and_starts_to_open() -> None:
    openings = Openings()
    openings.seconds["a"] = 5.0
    async with pool_of(openings) as pool:
        error = await refused(pool.get("a", timeout_seconds=0))
        assert "connect() has not finished yet" in error.reason
        await elapse(5.1)
        assert await pool.get("a", timeout_seconds=0) == "what was opened for a"
        assert openings.begun == ["a"]


async def test_the_cancellation_of_one_waiter_does_not_affect_the_others() -> None:
    openings = Openings()
    openings.seconds["a"] = 5.0
    async with pool_of(openings) as pool, asyncio.TaskGroup() as group:
        first, second = (group.create_task(pool.get("a")) for _ in range(2))
        await elapse(1.0)
        first.cancel()
        assert await second == "what was opened for a"
        assert first.cancelled()
        assert openings.begun == ["a"]
        assert now() == pytest.approx(5.0)


async def test_a_cluster_is_opened_though_all_waiters_have_left() -> None:
    openings = Openings()
    openings.seconds["a"] = 5.0
    async with pool_of(openings) as pool:
        with anyio.move_on_after(1.0):
            await pool.get("a")
        await elapse(4.5)
        assert await pool.get("a", timeout_seconds=0) == "what was opened for a"
        assert openings.begun == ["a"]


async def test_a_failed_cluster_is_closed_and_retried_at_growing_intervals_on_request() -> None:
    openings = Openings()
    openings.errors["a"] = ConnectionError("connection refused")
    async with pool_of(openings) as pool:
        for attempt, delay in enumerate((1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0), start=1):
            error = await refused(pool.get("a"))
            assert (error.attempts, error.retry_after_seconds) == (attempt, delay)
            await elapse(delay - 1.0)
            error = await refused(pool.get("a", timeout_seconds=3600.0))
            assert error.retry_after_seconds == pytest.approx(1.0)
            assert len(openings.begun) == attempt
            assert pool.status()[0].state == "failed"
            await elapse(1.0)
            assert len(openings.begun) == attempt

        del openings.errors["a"]
        assert await pool.get("a") == "what was opened for a"
        (status,) = pool.status()
        assert (status.state, status.failed_attempts, status.last_error) == ("open", 0, None)


async def test_an_attempt_that_takes_too_long_is_closed_and_has_failed() -> None:
    openings = Openings()
    openings.missing["a"] = "answer"
    openings.seconds["b"] = 3600.0
    async with pool_of(openings) as pool, asyncio.TaskGroup() as group:
        for name in ("a", "b"):
            await refused(pool.get(name, timeout_seconds=0.0))  # begins the attempt
        never_ready = group.create_task(refused(pool.get("a", timeout_seconds=120.0)))
        never_made = group.create_task(refused(pool.get("b", timeout_seconds=120.0)))
        assert "no answer after 60 s" in (await never_ready).reason
        assert now() == pytest.approx(60.0)
        assert (await never_made).reason == (
            "TimeoutError: not open within 60 s: open() has not finished yet"
        )
        assert not openings.open
        assert openings.closed == ["a"]


async def test_an_attempt_takes_as_long_as_the_caller_waits_who_began_it() -> None:
    openings = Openings()
    openings.seconds["a"] = 250.0
    async with pool_of(openings) as pool:
        assert await pool.get("a", timeout_seconds=300.0) == "what was opened for a"
        assert openings.begun == ["a"]


@pytest.mark.parametrize("phase", ["open", "ready"])
async def test_what_loads_for_longer_than_a_minute_is_opened_though_no_caller_waits_for_so_long(
    phase: str,
) -> None:
    openings = Openings()

    async def ready(opened: str, timeout_seconds: float) -> None:
        await elapse(min(timeout_seconds, 200.0))
        if timeout_seconds < 200.0:
            raise CacheSyncTimeoutError(
                waited_seconds=timeout_seconds, pending=["pods.v1: loading"]
            )

    openings.seconds["a"] = 200.0 if phase == "open" else 0.0
    pool = ClusterPool(
        openings, connect=connect, ready=ready if phase == "ready" else None, rng=Longest()
    )
    async with pool:
        while now() < 600.0:
            try:
                assert await pool.get("a", timeout_seconds=5.0) == "what was opened for a"
            except ClusterUnavailableError:
                await elapse(1.0)
            else:
                break
        assert len(openings.begun) == 3  # for 60, 120 and 240 s
        assert now() < 60.0 + 120.0 + 200.0 + 20.0


async def test_a_failed_attempt_promises_no_retries_of_informers_that_are_closed() -> None:
    async def ready(opened: str, timeout_seconds: float) -> None:
        await elapse(timeout_seconds)
        raise CacheSyncTimeoutError(waited_seconds=timeout_seconds, pending=["pods.v1: loading"])

    async with ClusterPool(Openings(), connect=connect, ready=ready, rng=Longest()) as pool:
        await refused(pool.get("a", timeout_seconds=59.0))
        error = await refused(pool.get("a", timeout_seconds=59.0))
        assert error.reason == "not synced after 60.0 s: pods.v1: loading"


async def test_a_failed_attempt_is_remembered_while_the_next_one_continues() -> None:
    openings = Openings()
    openings.errors["a"] = ConnectionError("connection refused")
    async with pool_of(openings) as pool:
        await refused(pool.get("a"))
        await elapse(1.0)
        openings.seconds["a"] = 10.0
        error = await refused(pool.get("a", timeout_seconds=1.0))
        assert error.reason == (
            "open() has not finished yet, and the last attempt failed: ConnectionError: connection"
            " refused"
        )
        assert error.attempts == 1


async def test_a_cluster_that_breaks_is_opened_again() -> None:
    async with pool_of(openings := Openings()) as pool:
        await pool.get("a")
        openings.breaks.set()
        await settle()
        error = await refused(pool.get("a"))
        assert error.reason == "RuntimeError: it broke"
        openings.breaks.clear()
        await elapse(1.0)
        assert await pool.get("a") == "what was opened for a"
        assert openings.begun == ["a", "a"]


async def test_an_evicted_cluster_is_closed_and_its_failures_forgotten() -> None:
    openings = Openings()
    openings.errors["dead"] = ConnectionError("connection refused")
    async with pool_of(openings) as pool:
        await pool.get("a")
        await refused(pool.get("dead"))
        await pool.evict("a")
        await pool.evict("dead")
        await pool.evict("unknown")
        assert openings.closed == ["a"]
        assert pool.status() == ()

        del openings.errors["dead"]
        assert await pool.get("dead") == "what was opened for dead"
        assert await pool.get("a") == "what was opened for a"


async def test_a_caller_during_the_close_gets_a_new_cluster() -> None:
    openings = Openings()
    openings.closing_seconds = 2.0
    async with pool_of(openings) as pool, asyncio.TaskGroup() as group:
        await pool.get("a")
        eviction = group.create_task(pool.evict("a"))
        await settle()
        assert pool.status()[0].state == "closing"
        assert await pool.get("a") == "what was opened for a"
        assert eviction.done()
        assert openings.begun == ["a", "a"]
        assert now() == pytest.approx(2.0)


async def test_eviction_abandons_an_opening_and_waiters_start_another() -> None:
    openings = Openings()
    openings.seconds["a"] = 3600.0
    async with pool_of(openings) as pool, asyncio.TaskGroup() as group:
        waiter = group.create_task(pool.get("a"))
        await elapse(1.0)
        openings.seconds["a"] = 1.0
        await pool.evict("a")
        assert await waiter == "what was opened for a"
        assert now() == pytest.approx(2.0)


async def test_a_cluster_that_does_not_close_is_cancelled() -> None:
    openings = Openings()
    openings.closing_seconds = 3600.0
    async with pool_of(openings) as pool:
        await pool.get("a")
        await pool.evict("a")
        assert now() == pytest.approx(30.0)


async def test_closing_the_pool_closes_all_clusters_and_wakes_waiters() -> None:
    openings = Openings()
    openings.closing_seconds = 2.0
    openings.seconds["slow"] = 3600.0
    async with pool_of(openings) as pool:
        for name in ("a", "b", "c"):
            await pool.get(name)
        waiter = asyncio.create_task(pool.get("slow", timeout_seconds=3600.0))
        await settle()
        await pool.aclose()
        assert now() == pytest.approx(2.0)
        with pytest.raises(LifecycleError, match="the cluster pool is closed"):
            await waiter
        for call in (pool.get("a"), pool.evict("a")):
            with pytest.raises(LifecycleError):
                await call
    assert sorted(openings.closed) == ["a", "b", "c"]


@pytest.mark.parametrize("how", ["cancel", "cancel-twice", "timeout", "anyio"])
async def test_a_close_that_is_cancelled_closes_everything_first(how: str) -> None:
    """`asyncio` cancels the task itself, which a shielded scope of anyio does not prevent."""
    openings = Openings()
    openings.closing_seconds = 2.0
    pool = ClusterPool(openings, connect=connect, rng=Longest())
    await pool.start()
    for name in ("a", "b"):
        await pool.get(name)

    async def close() -> None:
        if how == "timeout":
            async with asyncio.timeout(1.0):
                await pool.aclose()
        elif how == "anyio":
            with anyio.fail_after(1.0):
                await pool.aclose()
        else:
            await pool.aclose()

    task = asyncio.create_task(close())
    for _ in range({"cancel": 1, "cancel-twice": 2}.get(how, 0)):
        await settle()
        task.cancel()
    await asyncio.wait((task,))
    assert now() == pytest.approx(2.0)
    if how != "anyio":  # whose cancellation takes effect at the next await
        assert task.cancelled() or isinstance(task.exception(), TimeoutError)
    assert sorted(openings.closed) == ["a", "b"]
    assert pool.status() == ()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_before_the_start_waiting_raises_at_once() -> None:
    pool = ClusterPool(Openings(), connect=connect)
    with pytest.raises(LifecycleError, match="start it first"):
        await pool.get("a")
    await pool.aclose()


async def test_without_a_ready_function_a_cluster_is_usable_once_opened() -> None:
    async with ClusterPool(Openings(), connect=connect) as pool:
        assert await pool.get("a") == "what was opened for a"


async def test_a_connect_that_fails_is_a_cause_like_any_other() -> None:
    def nowhere(name: str) -> Any:
        raise pyinformer.errors.ConfigurationError("the inventory", f"no cluster {name}")

    async with ClusterPool(Openings(), connect=nowhere) as pool:
        error = await refused(pool.get("a"))
    assert error.reason == "the inventory: no cluster a"


async def test_old_failures_are_forgotten() -> None:
    openings = Openings()
    async with pool_of(openings) as pool:
        for number in range(50):
            openings.errors[str(number)] = ConnectionError("connection refused")
            await refused(pool.get(str(number)))
        await elapse(700.0)
        await pool.get("another")
        assert [one.name for one in pool.status()] == ["another"]


async def test_a_failure_holds_nothing_of_what_was_opened() -> None:
    """Else the caches of a dead cluster would stay in memory for as long as it rests."""
    opened: list[weakref.ref[object]] = []

    @asynccontextmanager
    async def open_cache(cluster: Cluster) -> AsyncIterator[set[str]]:
        cache = {cluster.name}
        opened.append(weakref.ref(cache))
        async with anyio.create_task_group():
            yield cache

    async def fail(cache: set[str], timeout_seconds: float) -> None:
        raise TimeoutError("no answer")

    async with ClusterPool(open_cache, connect=connect, ready=fail) as pool:
        error = await refused(pool.get("a"))
        gc.collect()
        assert [ref() for ref in opened] == [None]
        assert isinstance(error.__cause__, TimeoutError)


async def test_a_ready_function_that_returns_false_is_refused() -> None:
    """The cluster would count as usable."""

    async def never(opened: str, timeout_seconds: float) -> bool:
        return False

    async with ClusterPool(Openings(), connect=connect, ready=never) as pool:
        error = await refused(pool.get("a", timeout_seconds=1.0))
        assert "must raise what is missing, not return False" in str(error)


async def generates(cluster: Cluster) -> AsyncIterator[None]:
    """Lack @asynccontextmanager."""
    yield


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"open": None}, "open: must be a function, not NoneType", id="nothing"),
        pytest.param({"open": generates}, "open: .* @asynccontextmanager", id="undecorated"),
        pytest.param(
            {"open": connect, "connect": "prod"}, "connect: must be a function, not str", id="text"
        ),
        pytest.param(
            {"open": connect, "ready": 5}, "ready: must be a function, not int", id="number"
        ),
    ],
)
def test_an_object_that_is_not_callable_is_refused_at_once(arguments: Any, words: str) -> None:
    with pytest.raises(InvalidTypeError, match=words):
        ClusterPool(**arguments)


async def test_invalid_names_and_durations_are_refused() -> None:
    async with pool_of(Openings()) as pool:
        with pytest.raises(InvalidArgumentError, match="name"):
            await pool.get("")
        with pytest.raises(InvalidArgumentError, match="timeout_seconds"):
            await pool.get("a", timeout_seconds=-1.0)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_cluster_whose_task_was_cancelled_before_its_first_step_is_not_waited_for() -> None:
    """As asyncio.run does when another part of the program fails in that moment."""
    pool = ClusterPool(Openings(), connect=connect)
    await pool.start()
    before = asyncio.all_tasks()
    getting = asyncio.create_task(pool.get("a"))
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - before:
        task.cancel()
    begun = asyncio.get_running_loop().time()
    await pool.aclose()
    assert asyncio.get_running_loop().time() - begun < 30.0  # the time to close
    with pytest.raises((asyncio.CancelledError, LifecycleError)):
        await getting
    gc.collect()
