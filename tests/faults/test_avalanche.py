"""A herd of informers whose server dies and returns: they come back in line, and list nothing.

A watch that broke is resumed where it was. Only when the server has forgotten what happened since,
everything is listed, few lists at a time. A cluster whose lists hang delays no other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer import SharedInformer, SharedInformerFactory
from pyinformer.cache import ReflectorOptions
from pyinformer.cache.reflector import RequestBudgetOptions
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import cluster_of
from tests.followed import limited
from tests.integration.asked import Asked
from tests.soak import in_soak
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.objects import JSONObject
    from pyinformer.testing import RequestRecord

INFORMERS = in_soak(200, otherwise=40)
MOST_LISTS = RequestBudgetOptions().max_lists
FAILURES = 2  # of each informer while the server is away
LIST_SECONDS = 0.02  # how long the server delays each list
LOADS = {"load", "page", "watch-list"}


def config_map(namespace: str, name: str) -> JSONObject:
    """Return an object to create."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


class Herd:
    """Many informers of one server, each of a namespace of its own."""

    def __init__(self, api: APIServer, factory: SharedInformerFactory) -> None:
        self.api = api
        self.deleted: list[str] = []
        self.asked = Asked(api)
        self.informers: list[SharedInformer[None]] = []
        for number in range(INFORMERS):
            api.create(config_map(f"ns-{number}", "old"))
            informer = factory.informer("v1", "configmaps", namespaces=f"ns-{number}")
            informer.add_event_handler(self._note)
            self.informers.append(informer)

    def _note(self, event: pyinformer.Event) -> None:
        if isinstance(event, pyinformer.Deleted):
            self.deleted.append(event.key)

    async def until_each(self, claim: Callable[[int, SharedInformer[None]], object]) -> None:
        """Wait until a claim has held of each of them."""
        left = list(enumerate(self.informers))

        def none_is_left() -> bool:
            """Ask the next ones; who has said yes is not asked again."""
            while left and claim(*left[-1]):
                left.pop()
            return not left

        await until(none_is_left, timeout_seconds=100.0)

    async def until_all_watch(self) -> None:
        """Wait until the server has a watch of each of them."""
        await until(
            lambda: self.api.open_watches == INFORMERS, timeout_seconds=100.0, what="all watch"
        )

    async def server_dies(self) -> None:
        """Cut every connection, refuse new ones, and wait until each informer failed twice."""
        self.asked.look_away()
        self.api.clear_requests()
        self.asked = Asked(self.api)
        await asyncio.to_thread(self.api.stop_accepting)
        await asyncio.to_thread(self.api.drop_connections)
        await self.until_each(lambda _, one: one.status().reflector.attempts >= FAILURES)

    async def is_back(self) -> None:
        """Check that every informer follows, and receives what is new."""
        await self.until_all_watch()
        for number in range(0, INFORMERS, 20):
            await asyncio.to_thread(self.api.create, config_map(f"ns-{number}", "new"))
        await self.until_each(lambda number, one: len(one.lister.list()) == 1 + (number % 20 == 0))
        assert not self.deleted


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_while_history_lasts_the_watches_resume_without_a_list() -> None:
    with APIServer() as api:
        async with cluster_of(api) as cluster, SharedInformerFactory(cluster) as factory:
            herd = Herd(api, factory)
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            await herd.until_all_watch()

            await herd.server_dies()
            began = asyncio.get_running_loop().time()
            await asyncio.to_thread(api.accept_again)
            await herd.is_back()
            took = asyncio.get_running_loop().time() - began

            counts = herd.asked.counts()
            assert not LOADS & counts.keys(), counts
            watches = [one for one in api.requests if one.verb == "watch"]
            assert len(watches) == INFORMERS
            # On a busy machine they arrive in bunches; how long all of them take is ours alone.
            budget = RequestBudgetOptions()
            assert took >= (INFORMERS - budget.burst) / budget.attempts_per_second
            # Each continues from its own position.
            versions = {one.namespace: one.query["resourceVersion"] for one in watches}
            assert len(versions) == INFORMERS


PATIENCE_SECONDS = 2  # what the server asks for
REFUSALS = 1  # of each informer


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("status", [429, 503])
async def test_clients_obey_retry_after_and_do_not_return_at_once(
    status: int,
) -> None:
    """A server that is back, and too busy for all."""
    with APIServer() as api:
        async with cluster_of(api) as cluster, SharedInformerFactory(cluster) as factory:
            herd = Herd(api, factory)
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            await herd.until_all_watch()
            herd.asked.look_away()
            api.clear_requests()
            herd.asked = Asked(api)
            refusal = Fault(
                match=Refusing(),
                status=status,
                retry_after_seconds=PATIENCE_SECONDS,
                times=INFORMERS * REFUSALS,
            )
            api.faults.add(refusal)
            clock = asyncio.get_running_loop().time
            began = clock()
            await asyncio.to_thread(api.end_watches)
            # Watches that have ended and are not gone yet count as open: each has to ask again.
            await until(
                lambda: (
                    sum(one.verb == "watch" for one in api.requests) >= INFORMERS * (REFUSALS + 1)
                ),
                timeout_seconds=100.0,
            )
            await herd.is_back()

            assert api.faults.struck == INFORMERS * REFUSALS
            counts = herd.asked.counts()
            assert not LOADS & counts.keys(), counts
            watches = [one for one in api.requests if one.verb == "watch"]
            assert len(watches) == INFORMERS * (REFUSALS + 1)
            for number in range(INFORMERS):
                own = [one.arrived_at for one in watches if one.namespace == f"ns-{number}"]
                pauses = [later - sooner for sooner, later in pairwise(own)]
                assert min(pauses) >= PATIENCE_SECONDS, (number, pauses)
            # On a busy machine they arrive in bunches; how long all of them take is ours alone.
            budget = RequestBudgetOptions()
            in_line = len(watches) - budget.burst
            assert clock() - began >= in_line / budget.attempts_per_second


class Refusing:
    """Matches the first watches of each informer."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def __call__(self, request: RequestRecord) -> bool:
        """Count, and take the first ones."""
        if request.verb != "watch":
            return False
        self._seen[request.namespace] += 1
        return self._seen[request.namespace] <= REFUSALS


class ListsUnderWay:
    """How many lists the server has at a time; each request passes by here."""

    def __init__(self, api: APIServer) -> None:
        self.api = api
        self.peak = 0

    def __call__(self, request: RequestRecord) -> bool:
        """Count, and take every list for slow."""
        self.peak = max(self.peak, sum(map(self._is_under_way, self.api.requests)))
        return self._is_load(request)

    def _is_load(self, request: RequestRecord) -> bool:
        is_list = request.verb == "list" and request.query.get("limit") != "1"
        return is_list or request.query.get("sendInitialEvents") == "true"

    def _is_under_way(self, request: RequestRecord) -> bool:
        # What exists comes with the answer to a watch-list; then it is a watch, and stays open.
        is_over = request.is_finished or (request.verb == "watch" and request.status is not None)
        return self._is_load(request) and not is_over


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("watch_list", [False, True], ids=["list", "watch-list"])
async def test_after_the_loss_of_history_few_list_at_a_time(watch_list: bool) -> None:
    options = ReflectorOptions(use_watch_list=watch_list)
    eager = RequestBudgetOptions(
        attempts_per_second=INFORMERS, burst=INFORMERS
    )  # lists have their own
    with APIServer() as api:
        async with (
            pyinformer.connect(server=api.url) as cluster,
            SharedInformerFactory(cluster, options=options) as factory,
        ):
            limited(cluster, eager)
            herd = Herd(api, factory)
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            await herd.until_all_watch()

            await herd.server_dies()
            api.create(config_map("ns-0", "lost"))  # else a position is as new as the server
            api.delete("v1", "configmaps", "lost", "ns-0")
            lists = ListsUnderWay(api)
            api.faults.add(Fault(match=lists, delay_seconds=LIST_SECONDS, times=None))
            await asyncio.to_thread(api.restart, keep_history=False)
            await herd.is_back()
            # The server counts a watch-list as open before its client has applied the answer.
            await herd.until_each(lambda _, one: one.status().reflector.loads >= 2)

            assert 1 < lists.peak <= MOST_LISTS
            loads = [one for one in api.requests if lists._is_load(one)]
            assert {one.namespace for one in loads} == {f"ns-{n}" for n in range(INFORMERS)}
            assert len(loads) <= INFORMERS * 1.1
            arrived = [one.arrived_at for one in loads]
            in_turn_seconds = (len(loads) - MOST_LISTS) * LIST_SECONDS / MOST_LISTS
            assert max(arrived) - min(arrived) >= in_turn_seconds
            assert all(one.status().reflector.loads == 2 for one in herd.informers)


async def test_a_cluster_hanging_in_all_its_slots_never_delays_another() -> None:
    with APIServer() as hanging, APIServer() as good:
        hanging.faults.add(Fault(resource="configmaps", hang=True, times=None))
        good.create(config_map("default", "a"))
        # No list of the hanging cluster loses its place meanwhile.
        budget = RequestBudgetOptions(list_idle_seconds=600.0)
        async with (
            pyinformer.connect(server=hanging.url) as first,
            cluster_of(good) as second,
            SharedInformerFactory(first) as stuck,
            SharedInformerFactory(second) as factory,
        ):
            limited(first, budget)
            for number in range(10):
                stuck.informer("v1", "configmaps", namespaces=f"ns-{number}")
            await stuck.start()
            await until(lambda: hanging.faults.held == MOST_LISTS)

            informer = factory.informer("v1", "configmaps")
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            assert [obj.key for obj in informer.lister.list()] == ["default/a"]
            waits = [str(one) for one in stuck.status().informers]
            assert sum("waiting for its turn to list" in line for line in waits) == 6
            assert sum("waiting for an answer" in line for line in waits) == MOST_LISTS
            await asyncio.to_thread(hanging.faults.clear)


async def test_lists_that_hang_give_their_slots_to_those_that_do_not() -> None:
    with APIServer() as api:
        api.faults.add(Fault(resource="configmaps", hang=True, times=None))
        budget = RequestBudgetOptions(list_idle_seconds=0.3)
        async with (
            pyinformer.connect(server=api.url) as cluster,
            SharedInformerFactory(cluster) as factory,
        ):
            shared = limited(cluster, budget)
            for number in range(MOST_LISTS):
                factory.informer("v1", "configmaps", namespaces=f"ns-{number}")
            await factory.start()
            await until(lambda: shared.request_budget.statistics().listing == MOST_LISTS)
            pods = factory.informer("v1", "pods")
            assert not pods.has_synced
            await pods.wait_for_cache_sync(timeout_seconds=100)

            assert shared.request_budget.statistics().overdue >= 1
            await asyncio.to_thread(api.faults.clear)
