"""The budgets of a cluster connection: few lists at a time, in order, and none held forever."""

from __future__ import annotations

import asyncio
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import pytest

from pyinformer.cache.reflector import RequestBudget, RequestBudgetOptions
from pyinformer.errors import InvalidArgumentError
from tests.virtual_time import elapse
from tests.waiting import now, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.cache.reflector import ListingSlot

pytestmark = pytest.mark.virtual_time


class Lists:
    """Lists that run until the test ends them."""

    def __init__(self, request_budget: RequestBudget) -> None:
        self.request_budget = request_budget
        self.began: list[str] = []
        self.slots: dict[str, ListingSlot] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def begin(self, *names: str, resource: str = "", is_first: bool = False) -> None:
        """Let lists ask for a place, in this order."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._list(name, resource, is_first=is_first))
            await settle()

    async def end(self, *names: str) -> None:
        """Let lists come to their end, which they have read."""
        for name in names:
            if name in self.slots:
                self.slots[name].progress(1)
            self._ends[name].set()
        await settle()

    async def cancel(self, *names: str) -> None:
        """Cancel lists, wherever they are."""
        for name in names:
            self.tasks[name].cancel()
        await settle()

    @property
    def listing(self) -> int:
        """How many run."""
        return self.request_budget.statistics().listing

    async def _list(self, name: str, resource: str, *, is_first: bool) -> None:
        async with self.request_budget.listing(resource, is_first=is_first) as slot:
            self.began.append(name)
            self.slots[name] = slot
            await self._ends[name].wait()


@asynccontextmanager
async def lists_of(options: RequestBudgetOptions | None = None) -> AsyncIterator[Lists]:
    """Make lists, and end whatever is left of them."""
    lists = Lists(RequestBudget(options))
    try:
        yield lists
    finally:
        await lists.cancel(*lists.tasks)
    at_rest = lists.request_budget.statistics()
    assert (at_rest.listing, at_rest.waiting_to_list) == (0, 0)


async def test_the_number_of_concurrent_lists_is_bounded() -> None:
    async with lists_of(RequestBudgetOptions(max_lists=2)) as lists:
        await lists.begin("a", "b", "c", "d", "e")
        assert lists.began == ["a", "b"]
        figures = lists.request_budget.statistics()
        assert (figures.listing, figures.waiting_to_list) == (2, 3)

        await lists.end("b")
        await lists.begin("f")
        assert lists.began == ["a", "b", "c"]
        await lists.end("a", "c")
        assert lists.began == ["a", "b", "c", "d", "e"]
        assert lists.request_budget.statistics().peak_listing == 2


async def test_a_stalled_list_gives_its_place_away_and_continues() -> None:
    options = RequestBudgetOptions(max_lists=1, list_idle_seconds=30.0)
    async with lists_of(options) as lists:
        await lists.begin("hangs", "next")
        await elapse(29.9)
        assert lists.began == ["hangs"]
        await elapse(0.2)

        assert lists.began == ["hangs", "next"]
        assert not lists.tasks["hangs"].done()
        assert lists.request_budget.statistics().overdue == 1

        # What lost its place has none to give back at its end.
        await lists.begin("third")
        lists.slots["hangs"].progress(1)
        await lists.end("hangs")
        assert lists.began == ["hangs", "next"]
        await lists.end("next")
        assert lists.began == ["hangs", "next", "third"]


async def test_a_list_that_progresses_keeps_its_place() -> None:
    options = RequestBudgetOptions(max_lists=1, list_idle_seconds=30.0)
    async with lists_of(options) as lists:
        await lists.begin("slow", "next")
        for _ in range(20):
            await elapse(29.0)
            lists.slots["slow"].progress(1_000_000)
        assert lists.began == ["slow"]

        last = now()
        while lists.began == ["slow"]:
            await elapse(0.5)
        assert now() - last == pytest.approx(30.0, abs=0.51)


async def test_a_list_that_only_trickles_loses_its_place_though_it_is_never_idle() -> None:
    options = RequestBudgetOptions(max_lists=1, list_idle_seconds=30.0)
    async with lists_of(options) as lists:
        await lists.begin("trickles", "next")
        while lists.began == ["trickles"]:
            await elapse(1.0)
            lists.slots["trickles"].progress(100)

        assert now() == pytest.approx(30.0, abs=1.1)
        assert lists.request_budget.statistics().overdue == 1


async def test_slow_lists_do_not_delay_lists_of_other_resources() -> None:
    options = RequestBudgetOptions(max_lists=2, list_slow_seconds=2.0)
    async with lists_of(options) as lists:
        await lists.begin("bad-1", "bad-2", "bad-3", resource="bad.v1.example.com")
        await lists.begin("good-1", "good-2")
        await elapse(1.9)
        assert lists.began == ["bad-1", "bad-2"]
        await elapse(0.2)

        # One at a time, so that a server that is slow with everything is asked for little.
        assert lists.began == ["bad-1", "bad-2", "good-1"]
        await lists.end("good-1")
        assert lists.began == ["bad-1", "bad-2", "good-1", "good-2"]
        await lists.begin("other", resource="deployments.v1.apps")
        assert lists.began[-1] == "other"
        assert lists.request_budget.statistics().listing == 4
        assert lists.request_budget.statistics().waiting_to_list == 1


async def test_stalled_resources_of_one_group_delay_its_others_by_seconds() -> None:
    options = RequestBudgetOptions(max_lists=4, list_slow_seconds=2.0, list_idle_seconds=30.0)
    async with lists_of(options) as lists:
        for number in range(8):
            await lists.begin(f"stalled-{number}", resource=f"bad{number}.v1.example.com")
        for number in range(3):
            await lists.begin(f"good-{number}", resource="good.v1.example.com")
        await elapse(4.1)
        assert lists.began[-1] == "good-0"
        await lists.end("good-0")
        await lists.end("good-1")
        assert lists.began[-2:] == ["good-1", "good-2"]
        assert lists.request_budget.statistics().listing == 9


async def test_lists_that_lost_their_place_still_count_as_their_resources_own() -> None:
    options = RequestBudgetOptions(max_lists=1, list_slow_seconds=1.0, list_idle_seconds=5.0)
    async with lists_of(options) as lists:
        await lists.begin("bad-1", "bad-2", "bad-3", resource="bad.v1.example.com")
        await elapse(5.1)
        assert lists.began == ["bad-1", "bad-2"]
        await lists.begin("good-1", "good-2")
        await elapse(1.0)
        assert lists.began == ["bad-1", "bad-2", "good-1"]
        await lists.end("good-1")
        assert lists.began == ["bad-1", "bad-2", "good-1", "good-2"]


async def test_all_resources_wait_for_a_list_that_progresses_quickly() -> None:
    options = RequestBudgetOptions(max_lists=1, list_slow_seconds=2.0, list_idle_seconds=30.0)
    async with lists_of(options) as lists:
        await lists.begin("large")
        await lists.begin("next", resource="deployments.v1.apps")
        while lists.began == ["large"]:
            await elapse(1.0)
            lists.slots["large"].progress(10 << 20)

        assert now() == pytest.approx(30.0, abs=1.1)  # but not forever
        assert lists.request_budget.statistics().overdue == 0


async def test_a_cancelled_wait_beside_slow_lists_takes_no_place() -> None:
    options = RequestBudgetOptions(max_lists=1, list_slow_seconds=1.0)
    async with lists_of(options) as lists:
        await lists.begin("bad", resource="bad.v1.example.com")
        await lists.begin("a", "b")
        await lists.cancel("a")
        await elapse(1.1)
        assert lists.began == ["bad", "b"]
        await lists.begin("c")
        await lists.cancel("b")
        assert lists.began == ["bad", "b", "c"]


async def test_a_place_that_was_released_early_serves_the_next_once() -> None:
    async with lists_of(RequestBudgetOptions(max_lists=1)) as lists:
        await lists.begin("a", "b", "c")
        lists.slots["a"].release()
        lists.slots["a"].release()
        await settle()
        assert lists.began == ["a", "b"]
        await lists.end("a")
        assert lists.began == ["a", "b"]


async def test_a_cancelled_waiter_takes_no_place() -> None:
    async with lists_of(RequestBudgetOptions(max_lists=1)) as lists:
        await lists.begin("a", "b", "c")
        await lists.cancel("b")
        assert lists.request_budget.statistics().waiting_to_list == 1
        await lists.end("a")
        assert lists.began == ["a", "c"]


async def test_a_place_that_comes_together_with_the_cancellation_is_not_lost() -> None:
    async with lists_of(RequestBudgetOptions(max_lists=1)) as lists:
        await lists.begin("a", "b", "c")
        lists.slots["a"].release()  # hands the place to b, which has not run yet
        lists.tasks["b"].cancel()
        await settle()
        assert lists.began == ["a", "c"]


async def test_a_list_that_fails_or_is_cancelled_frees_its_place() -> None:
    request_budget = RequestBudget(RequestBudgetOptions(max_lists=1))
    for error in (ValueError, asyncio.CancelledError):
        with pytest.raises(error):
            async with request_budget.listing():
                raise error
    with anyio.move_on_after(0):
        async with request_budget.listing():
            await anyio.sleep_forever()
    async with request_budget.listing():
        assert request_budget.statistics().listing == 1
    assert request_budget.statistics().listing == 0


def names(count: int, *, start: int = 0) -> list[str]:
    """Return names of lists."""
    return [str(number) for number in range(start, start + count)]


async def test_first_lists_go_more_at_a_time_while_they_end_small() -> None:
    async with lists_of() as lists:
        await lists.begin(*names(100), is_first=True)
        assert lists.listing == 4
        await lists.end(*names(4))
        assert lists.listing == 16
        await lists.end(*names(16, start=4))
        assert lists.listing == 32  # and never more
        await lists.end(*names(32, start=20))
        assert lists.listing == 32


async def test_large_lists_go_few_at_a_time_though_small_ones_went_before() -> None:
    async with lists_of() as lists:
        await lists.begin(*names(20), is_first=True)
        await lists.end(*names(4))
        assert lists.listing == 16
        for name in names(16, start=4):
            lists.slots[name].progress(1 << 20)
        await lists.begin("next", *names(20, start=20), is_first=True)
        await lists.end(*names(12, start=4))
        assert "next" not in lists.began  # four of the large ones are left
        await lists.end("16")
        assert lists.began[-1] == "next"
        assert lists.listing == 4


async def test_while_a_list_is_slow_first_lists_go_few_at_a_time() -> None:
    async with lists_of() as lists:
        await lists.begin(*names(20), is_first=True)
        await lists.end(*names(4))
        assert lists.listing == 16
        await elapse(2.1)
        await lists.begin(*names(30, start=20), is_first=True)
        await lists.end(*names(12, start=4))
        assert lists.listing == 4
        await lists.end(*names(4, start=16))  # these were slow as well
        assert lists.listing == 4


async def test_lists_that_were_given_up_before_they_began_are_no_growth() -> None:
    """As when a start times out, while the server answers nothing."""
    async with lists_of() as lists:
        await lists.begin(*names(24), is_first=True)
        await lists.cancel(*names(24))
        assert lists.request_budget.statistics().peak_listing <= 4
        await lists.begin(*(f"later-{name}" for name in names(24)), is_first=True)
        assert lists.listing == 4


async def test_after_a_list_has_failed_the_growth_begins_again() -> None:
    async with lists_of() as lists:
        await lists.begin(*names(60), is_first=True)
        await lists.end(*names(4))
        assert lists.listing == 16
        await lists.cancel("4")
        await lists.end("5")
        assert lists.listing == 14
        await lists.end(*names(4, start=6))
        assert lists.listing == 19


async def test_what_was_listed_before_is_listed_few_at_a_time_after_any_start() -> None:
    async with lists_of() as lists:
        await lists.begin(*names(4), is_first=True)
        await lists.end(*names(4))
        await lists.begin(*names(20, start=4))
        assert lists.listing == 4
        await lists.end(*names(4, start=4))
        assert lists.listing == 4


async def test_single_connections_are_immediate_and_many_are_paced() -> None:
    request_budget = RequestBudget(RequestBudgetOptions(attempts_per_second=10.0, burst=5))
    went: list[tuple[int, float]] = []

    async def connect(number: int) -> None:
        await request_budget.attempt()
        went.append((number, now()))

    async with anyio.create_task_group() as group:
        for number in range(25):
            group.start_soon(connect, number)
        await settle()
        assert len(went) == 5
        assert request_budget.statistics().waiting_to_attempt == 20
        await elapse(1.05)
        assert len(went) == 15

    assert [number for number, _ in went] == list(range(25))
    assert now() == pytest.approx(2.0)
    assert request_budget.statistics().attempts == 25


async def test_an_attempt_that_is_cancelled_leaves_its_turn_to_others() -> None:
    request_budget = RequestBudget(RequestBudgetOptions(attempts_per_second=1.0, burst=1))
    await request_budget.attempt()
    with anyio.move_on_after(0.5) as scope:
        await request_budget.attempt()
    assert scope.cancelled_caught
    assert request_budget.statistics().attempts == 1

    await request_budget.attempt()
    assert now() == pytest.approx(1.0)


async def test_cancellations_do_not_raise_the_rate_of_connections() -> None:
    """Turns that were given back must not come due together with those that were not."""
    request_budget = RequestBudget(RequestBudgetOptions(attempts_per_second=1.0, burst=1))
    release: list[tuple[float, int]] = []

    async def attempt(number: int) -> None:
        """Record when it may begin."""
        await request_budget.attempt()
        release.append((now(), number))

    kept: list[asyncio.Task[None]] = []
    for round_ in range(5):
        herd = [asyncio.create_task(attempt(100 * round_ + number)) for number in range(10)]
        await settle()
        for task in herd[:-2]:
            task.cancel()
        await settle()
        kept += herd[-2:]
    await asyncio.wait(kept, timeout=60.0)

    instants = [at for at, _ in release]
    assert instants == pytest.approx([float(second) for second in range(len(instants))])
    numbers = [number for _, number in release]
    assert numbers == sorted(numbers)  # in the order in which they came
    assert all(task.done() for task in kept)
    assert request_budget.statistics().waiting_to_attempt == 0


async def test_the_budgets_of_clusters_are_independent() -> None:
    hanging, other = RequestBudget(), RequestBudget()
    async with lists_of() as lists:
        lists.request_budget = hanging
        await lists.begin(*map(str, range(10)))
        assert hanging.statistics().listing == 4
        for _ in range(25):
            await hanging.attempt()

        before = now()
        async with other.listing():
            await other.attempt()
        assert now() == before


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"max_lists": 0}, id="no-lists"),
        pytest.param({"burst": 0}, id="no-burst"),
        pytest.param({"list_idle_seconds": 0.0}, id="no-patience"),
        pytest.param({"list_idle_seconds": math.inf}, id="held-for-ever"),
        pytest.param({"list_slow_seconds": 0.0}, id="slow-at-once"),
        pytest.param({"attempts_per_second": -1.0}, id="negative-rate"),
        pytest.param({"attempts_per_second": math.nan}, id="nan"),
        pytest.param({"attempts_per_second": None}, id="nothing"),
        pytest.param({"list_idle_seconds": "30"}, id="text-for-seconds"),
        pytest.param({"max_lists": math.nan}, id="nan-lists"),
        pytest.param({"max_lists": 2.5}, id="half-a-list"),
        pytest.param({"max_lists": "4"}, id="text-for-lists"),
        pytest.param({"burst": math.inf}, id="no-budget"),
        pytest.param({"burst": True}, id="yes"),
    ],
)
def test_invalid_budgets_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        RequestBudgetOptions(**options)  # type: ignore[arg-type] # two of them are ints
