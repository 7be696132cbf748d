"""The end of an outage: one probe a second for all reflectors, in virtual time and real."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from pyinformer.cache.reflector import ReflectorState, RequestBudget
from pyinformer.cache.reflector._recovery_probe import ProbeSchedule, RecoveryProbe
from pyinformer.cache.reflector.machine.steps import WakeCause
from pyinformer.client.transport import ClusterConfig
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.running import options, put, reflecting, verbs
from tests.virtual_time import elapse
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pyinformer.client.transport import Body, Query

DOWN_SECONDS = 100.0
SEED = 3


@dataclass
class AbsentServer:
    """A wire whose server answers from an instant on."""

    answers_from: float = DOWN_SECONDS
    takes_seconds: float = 0.01
    asked_at: list[float] = field(default_factory=list)
    config: ClusterConfig = field(default_factory=lambda: ClusterConfig(server="http://absent"))

    async def probe(self, timeout_seconds: float) -> bool:
        """Answer late, or after the whole timeout."""
        now = asyncio.get_running_loop().time()
        self.asked_at.append(now)
        is_back = now >= self.answers_from
        await elapse(self.takes_seconds if is_back else min(self.takes_seconds, timeout_seconds))
        return is_back

    def describe_pending(self, path: str) -> str:
        """Return that no request waits."""
        del path
        return ""

    async def request(self, *_: object, **__: object) -> bytes:
        """Refuse."""
        raise ConnectionRefusedError

    @asynccontextmanager
    async def stream(self, path: str, query: Query = (), **_: object) -> AsyncIterator[Body]:
        """Refuse."""
        raise ConnectionRefusedError(path, query)
        yield

    async def aclose(self) -> None:
        """Do nothing."""


def outage() -> RecoveryProbe:
    return RecoveryProbe(random.Random(SEED))


async def returned_at(
    wait: RecoveryProbe, wire: AbsentServer, seconds: float, wake_on: WakeCause = WakeCause.ANSWER
) -> float:
    """Wait, and return when the wait ended; below 0 if the server had not answered."""
    answered = await wait.wait(wire, seconds, wake_on=wake_on)
    now = asyncio.get_running_loop().time()
    return -now if answered is WakeCause.TIME else now


@pytest.mark.virtual_time
async def test_one_probe_a_second_wakes_all_within_two_seconds() -> None:
    wire, wait = AbsentServer(), outage()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(returned_at(wait, wire, 600.0)) for _ in range(50)]
    ends = [task.result() for task in tasks]
    assert max(ends) < DOWN_SECONDS + 2.0
    assert min(ends) >= DOWN_SECONDS
    assert len(wire.asked_at) <= DOWN_SECONDS + 2, "one a second, however many wait"
    assert min(later - sooner for sooner, later in pairwise(wire.asked_at)) > 0.999


@pytest.mark.virtual_time
async def test_a_probe_that_hangs_is_repeated_every_two_seconds() -> None:
    wire, wait = AbsentServer(takes_seconds=60.0), outage()
    assert await returned_at(wait, wire, 50.0) == -50.0
    assert 23 <= len(wire.asked_at) <= 26


@pytest.mark.virtual_time
async def test_without_a_waiting_reflector_no_probe_is_sent() -> None:
    wire, wait = AbsentServer(), outage()
    assert await returned_at(wait, wire, 10.0) == -10.0
    asked = len(wire.asked_at)
    await elapse(1000.0)
    assert len(wire.asked_at) == asked == wait.probes


@pytest.mark.virtual_time
async def test_probe_answers_end_no_wait_until_the_server_was_unreachable() -> None:
    wire, wait = AbsentServer(answers_from=0.0), outage()
    async with asyncio.TaskGroup() as group:
        wary = group.create_task(returned_at(wait, wire, 600.0, WakeCause.RECOVERY))
        await elapse(10.0)
        assert await returned_at(wait, wire, 600.0, WakeCause.ANSWER) < 12.0
        assert not wary.done()
        wire.answers_from = 100.0
    assert 100.0 <= wary.result() < 102.0


@pytest.mark.virtual_time
async def test_while_nothing_is_away_probes_become_rare() -> None:
    wire, wait = AbsentServer(answers_from=0.0), outage()
    assert await returned_at(wait, wire, 600.0, WakeCause.RECOVERY) == -600.0
    gaps = [later - sooner for sooner, later in pairwise(wire.asked_at)]
    assert [round(gap, 3) for gap in gaps[:4]] == [1.0, 2.0, 4.0, 4.0]
    assert len(wire.asked_at) <= 600 / 4 + 3


@pytest.mark.virtual_time
async def test_a_server_that_goes_while_probes_are_rare_is_seen_away_and_back() -> None:
    wire, wait = AbsentServer(answers_from=0.0), outage()
    async with asyncio.TaskGroup() as group:
        waits = [returned_at(wait, wire, 600.0, WakeCause.RECOVERY) for _ in range(20)]
        tasks = [group.create_task(one) for one in waits]
        await elapse(100.0)
        wire.answers_from = 125.0
    assert all(125.0 <= task.result() < 127.0 for task in tasks)
    away = [at for at in wire.asked_at if 100.0 <= at < 125.0]
    assert away[0] < 104.1
    assert all(later - sooner < 1.001 for sooner, later in pairwise(away))


@pytest.mark.virtual_time
@pytest.mark.parametrize("seconds", [10.0, 50.2, 51.7, 53.0])
async def test_a_reflector_that_reached_no_server_is_not_kept_waiting_by_rare_probes(
    seconds: float,
) -> None:
    wire, wait = AbsentServer(answers_from=0.0), outage()
    async with asyncio.TaskGroup() as group:
        wary = group.create_task(returned_at(wait, wire, 600.0, WakeCause.RECOVERY))
        await elapse(seconds)
        for task in [group.create_task(returned_at(wait, wire, 600.0)) for _ in range(20)]:
            assert seconds <= await task < seconds + 1.1
        wary.cancel()
    assert min(later - sooner for sooner, later in pairwise(wire.asked_at)) > 0.999


@pytest.mark.virtual_time
async def test_a_server_that_is_away_already_need_not_be_seen_away_again() -> None:
    wire, wait = AbsentServer(), outage()
    await returned_at(wait, wire, 50.5)
    wire.answers_from = 0.0
    assert 50.5 < await returned_at(wait, wire, 600.0, WakeCause.RECOVERY) < 52.0
    began = asyncio.get_running_loop().time()
    assert await returned_at(wait, wire, 30.0, WakeCause.RECOVERY) == -(began + 30.0)


@pytest.mark.virtual_time
async def test_it_is_known_whether_the_server_was_seen_to_be_away() -> None:
    wire, wait = AbsentServer(), outage()
    assert await wait.wait(wire, 600.0, wake_on=WakeCause.ANSWER) is WakeCause.RECOVERY
    assert await wait.wait(wire, 600.0, wake_on=WakeCause.ANSWER) is WakeCause.ANSWER
    assert await wait.wait(wire, 10.0, wake_on=WakeCause.RECOVERY) is WakeCause.TIME


@pytest.mark.virtual_time
async def test_only_time_ends_the_wait_for_a_server_that_was_reached() -> None:
    wire, wait = AbsentServer(answers_from=0.0), outage()
    assert await returned_at(wait, wire, 50.0, WakeCause.TIME) == -50.0
    assert not wire.asked_at


@pytest.mark.virtual_time
async def test_another_one_probes_when_the_first_is_cancelled() -> None:
    wire, wait = AbsentServer(takes_seconds=60.0), outage()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(returned_at(wait, wire, 600.0))
        second = group.create_task(returned_at(wait, wire, 600.0))
        await elapse(10.0)
        wire.takes_seconds = 0.01
        first.cancel()
    assert first.cancelled()
    assert DOWN_SECONDS <= second.result() < DOWN_SECONDS + 2.0


@pytest.mark.parametrize("seed", range(20))
def test_the_first_probe_of_a_quiet_time_is_due_at_random_within_a_second(seed: int) -> None:
    schedule = ProbeSchedule(random.Random(seed))
    first = schedule.seconds_until_due(1000.0)
    assert 0.0 <= first <= 1.0
    schedule.probed(1000.0 + first, 1000.5 + first, answered=False)
    assert schedule.seconds_until_due(1000.5 + first) == pytest.approx(0.5)
    assert not schedule.ends(0.0, WakeCause.ANSWER)
    assert schedule.is_away
    assert ProbeSchedule(random.Random(seed + 100)).seconds_until_due(1000.0) != first


class Patient(random.Random):
    """Chance that makes every delay of the backoff ten minutes long."""

    def uniform(self, a: float, b: float) -> float:
        return 600.0 if b <= 30.0 else super().uniform(a, b)


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        put(running, "a")
        yield running


async def test_a_server_that_answers_again_is_watched_long_before_the_delay_is_over(
    server: APIServer,
) -> None:
    request_budget = RequestBudget()
    patient = options(rng=Patient(), watch_timeout_seconds=(200.0, 200.0))
    async with reflecting(server, with_options=patient, request_budget=request_budget) as running:
        await running.until_watching()
        await asyncio.to_thread(server.stop_accepting)
        await asyncio.to_thread(server.drop_connections)
        await until(lambda: running.reflector.state is ReflectorState.WAITING)
        await until(lambda: request_budget.outage.probes >= 2)
        await asyncio.to_thread(server.accept_again)
        put(server, "b")
        await running.until_equal()
        assert verbs(server).count("list") == 1
        sent = request_budget.outage.probes
        put(server, "c")
        await running.until_equal()
        assert request_budget.outage.probes == sent, "nothing is probed while nothing waits"


async def test_a_first_list_that_no_server_answers_is_made_as_soon_as_there_is_one(
    server: APIServer,
) -> None:
    await asyncio.to_thread(server.stop_accepting)
    request_budget = RequestBudget()
    async with reflecting(
        server, with_options=options(rng=Patient()), request_budget=request_budget
    ) as running:
        await until(lambda: request_budget.outage.probes >= 1)
        await asyncio.to_thread(server.accept_again)
        await running.until_equal()


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_server_behind_a_load_balancer_is_watched_as_soon_as_it_is_back(
    server: APIServer, status: int
) -> None:
    """While the server is away the load balancer answers everything, the probes too."""
    request_budget = RequestBudget()
    patient = options(rng=Patient(), watch_timeout_seconds=(200.0, 200.0))
    async with reflecting(server, with_options=patient, request_budget=request_budget) as running:
        await running.until_watching()
        server.faults.add(Fault(status=status, times=None))
        await asyncio.to_thread(server.drop_connections)
        await until(lambda: running.reflector.state is ReflectorState.WAITING)
        await until(lambda: request_budget.outage.probes >= 2)
        await asyncio.to_thread(server.faults.clear)
        put(server, "b")
        await running.until_equal()
        assert verbs(server).count("list") == 1


async def test_a_recovery_ends_the_wait_that_a_load_balancer_asked_for(server: APIServer) -> None:
    """While the server is away, the probes are answered 503 as well."""
    request_budget = RequestBudget()
    async with reflecting(server, request_budget=request_budget) as running:
        await running.until_watching()
        server.faults.add(Fault(status=503, retry_after_seconds=86_400, times=None))
        await asyncio.to_thread(server.drop_connections)
        await until(lambda: running.reflector.state is ReflectorState.WAITING)
        await until(lambda: request_budget.outage.probes >= 2)
        await asyncio.to_thread(server.faults.clear)
        put(server, "b")
        await until(lambda: "default/b" in running.sink.objects, timeout_seconds=110)


async def test_a_server_that_is_busy_is_not_probed(server: APIServer) -> None:
    request_budget = RequestBudget()
    server.faults.add(Fault(verb="watch", status=429, retry_after_seconds=2, times=2))
    async with reflecting(server, request_budget=request_budget) as running:
        await running.until_watching()
        assert request_budget.outage.probes == 0
