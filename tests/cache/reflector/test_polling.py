"""Watches that are refused while lists are answered: everything is listed again and again.

A cache that waits for a watch is as old as its last list. client-go lists again after each refused
watch; the reflector does so once it knows that lists are answered, and reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from pyinformer.cache.reflector import ReflectorState
from pyinformer.cache.reflector.lineage import HistoryVerdict
from pyinformer.cache.reflector.machine.steps import (
    Loaded,
    LoadFailed,
    LoadMode,
    Prove,
    Proved,
    Sleep,
    Watch,
    WatchEnded,
    WatchFailed,
    Woke,
)
from pyinformer.errors import InformerError
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.machine_bench import HANGING, LOST, PAGED, Bench, status
from tests.cache.reflector.running import options, put, reflecting, remove
from tests.waiting import until


@pytest.fixture
def server() -> Iterator[APIServer]:
    """Return a server with one pod."""
    with APIServer() as made:
        put(made, "a")
        yield made


def refused(bench: Bench, error: InformerError) -> float:
    """Refuse a watch, wait as commanded, answer a proof, and return the delay."""
    command = bench.step(WatchFailed(error, established=False))
    assert isinstance(command, Sleep)
    bench.now += command.seconds
    return command.seconds


def polling(error: InformerError) -> Bench:
    """Refuse watches until a list comes instead."""
    bench = Bench(use_watch_list=False).watching()
    bench.machine.connected()
    bench.machine.progressed()
    watches = 0
    command = None
    while command != PAGED:
        refused(bench, error)
        watches += 1
        command = bench.proven(bench.step(Woke()))
    assert watches == 4
    return bench


@pytest.mark.parametrize("error", [LOST, HANGING, *map(status, (401, 403, 405, 429, 500, 503))])
def test_watches_refused_while_lists_are_answered_are_replaced_by_lists(
    error: InformerError,
) -> None:
    bench = polling(error)
    assert bench.state() is ReflectorState.POLLING
    assert bench.machine.load_cause == "poll"
    for loads in range(2, 6):
        assert bench.step(Loaded(LoadMode.PAGED)) == Watch(), "it may be accepted again"
        assert bench.machine.loads == loads
        assert bench.state() is ReflectorState.POLLING
        assert "watches are refused" in bench.machine.reason
        assert bench.machine.last_error is error
        refused(bench, error)
        assert bench.step(Woke()) == PAGED, "no proof: the list is one"


@pytest.mark.parametrize("error", [LOST, status(403), status(503)])
def test_lists_are_polled_at_delays_that_grow_to_half_a_minute(error: InformerError) -> None:
    bench = polling(error)
    delays = []
    for _ in range(60):
        bench.step(Loaded(LoadMode.PAGED))
        bench.machine.connected()  # as a gateway that accepts each watch and then resets it
        delays.append(refused(bench, error))
        bench.proven(bench.step(Woke()))
    assert delays[0] <= 0.8
    assert 15.0 < max(delays) <= 30.0
    assert max(delays[5:]) > max(delays[:4])


def test_an_accepted_watch_ends_the_polling() -> None:
    bench = polling(status(403))
    assert bench.step(Loaded(LoadMode.PAGED)) == Watch()
    bench.machine.connected()
    assert bench.state() is ReflectorState.WATCHING
    assert bench.machine.reason == ""
    bench.machine.progressed()
    assert bench.troubles == (0, None)
    assert bench.step(WatchEnded(3, 200.0)) == Watch()
    assert bench.after_delay(WatchFailed(status(503), established=False)) == Watch()
    assert bench.machine.loads == 2


def test_the_delays_between_polled_lists_start_over_after_a_watch_that_works() -> None:
    bench = polling(status(503))
    for _ in range(10):
        bench.step(Loaded(LoadMode.PAGED))
        refused(bench, status(503))
        bench.step(Woke())
    bench.step(Loaded(LoadMode.PAGED))
    bench.machine.connected()
    bench.machine.progressed()
    for _ in range(4):
        refused(bench, status(503))
        command = bench.proven(bench.step(Woke()))
    assert command == PAGED
    bench.step(Loaded(LoadMode.PAGED))
    assert refused(bench, status(503)) <= 0.8


def test_a_server_that_answers_nothing_is_not_listed_when_it_is_back() -> None:
    """The position is still good; to list everything at that moment would cost it most."""
    bench = Bench(use_watch_list=False).watching().during_an_outage()
    bench.machine.connected()
    bench.machine.progressed()
    for _ in range(20):
        refused(bench, status(503))
        assert bench.proven(bench.step(Woke())) == Watch()
    bench.lists_work = True
    refused(bench, status(503))
    assert bench.proven(bench.step(Woke())) == Watch()
    bench.machine.connected()
    assert bench.machine.loads == 1


def test_a_refused_watch_is_proven_by_a_list_of_the_same_resource() -> None:
    """That another resource can be listed says nothing: one role may have lost both verbs."""
    bench = Bench(use_watch_list=False).watching()
    refused(bench, status(403))
    assert bench.step(Woke()) == Prove()
    assert bench.machine.proves_alone
    assert bench.step(Proved(HistoryVerdict.INTACT)) == Watch()
    assert not bench.machine.proves_alone


def test_a_list_that_proves_nothing_counts_as_one_that_is_answered() -> None:
    """Versions without an order prove nothing, and the cache must not stand still for that."""
    bench = Bench(use_watch_list=False).watching()
    undecided, command = 0, None
    while command != PAGED:
        refused(bench, status(405))
        command = bench.step(Woke())
        if command == Prove():
            undecided += 1
            command = bench.step(Proved(HistoryVerdict.UNDECIDED, lists_work=True))
    assert undecided == 3
    assert bench.state() is ReflectorState.POLLING


def test_lists_that_fail_while_polling_are_repeated_as_other_lists() -> None:
    bench = polling(status(403))
    for _ in range(3):
        assert bench.after_delay(LoadFailed(LoadMode.PAGED, status(503))) == PAGED
    assert bench.step(Loaded(LoadMode.PAGED)) == Watch()
    assert bench.state() is ReflectorState.POLLING


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(verb="watch", status=503, times=None), id="503"),
        pytest.param(Fault(verb="watch", status=403, times=None), id="403"),
        pytest.param(Fault(verb="watch", status=405, times=None), id="405"),
        pytest.param(Fault(verb="watch", status=429, times=None), id="429"),
        pytest.param(Fault(verb="watch", refuse=True, times=None), id="refused"),
        pytest.param(Fault(verb="watch", cut_after_bytes=0, times=None), id="accepted-and-reset"),
    ],
)
@pytest.mark.parametrize(
    ("use_watch_list", "order"),
    [(False, "global"), (True, "global"), (False, "per_object"), (False, "opaque")],
)
async def test_a_cache_without_watches_holds_what_the_lists_show(
    server: APIServer, fault: Fault, use_watch_list: bool, order: str
) -> None:
    chosen = options(use_watch_list=use_watch_list, order=order)
    async with reflecting(server, with_options=chosen) as running:
        await running.until_watching()
        server.faults.add(fault)
        server.drop_connections()
        put(server, "b", "c")
        await running.until_equal()
        remove(server, "a")
        put(server, "b", value="elsewhere")
        await running.until_equal()
        await until(lambda: running.reflector.state is ReflectorState.POLLING)
        assert "watches are refused" in running.reflector.status().reason
        outcomes = running.reflector.counts()
        assert outcomes["loads", "paged", "poll"] >= 1

        server.faults.clear()
        await until(lambda: running.reflector.state is ReflectorState.WATCHING)
        await until(lambda: server.open_watches)
        put(server, "d")
        await running.until_equal()
        await until(lambda: running.reflector.status().attempts == 0)
        assert running.reflector.status().reason == ""


@pytest.mark.parametrize("status", [400, 422, 500])
async def test_a_server_without_watches_and_without_lists_at_a_version_is_polled(
    server: APIServer, status: int
) -> None:
    """A plain list proves as much as one that may not be older than a version."""
    server.faults.add(Fault(verb="watch", status=405, times=None))
    at_a_version = Fault(
        verb="list", status=status, times=None, match=lambda one: "resourceVersion" in one.query
    )
    server.faults.add(at_a_version)
    async with reflecting(server, with_options=options()) as running:
        await running.until_equal()
        put(server, "b")
        await running.until_equal()
        assert running.reflector.state is ReflectorState.POLLING


async def test_a_program_that_starts_without_watches_polls(server: APIServer) -> None:
    server.faults.add(Fault(verb="watch", status=503, times=None))
    async with reflecting(server, with_options=options(use_watch_list=True)) as running:
        await running.until_equal()
        put(server, "b")
        await running.until_equal()
        assert running.reflector.state is ReflectorState.POLLING


def test_polled_lists_are_not_a_loop() -> None:
    bench = polling(LOST)
    times = []
    while bench.now < 10_000:
        bench.step(Loaded(LoadMode.PAGED))
        times.append(bench.now)
        refused(bench, LOST)
        bench.step(Woke())
    gaps = [after - before for before, after in pairwise(times)]
    assert min(gaps) >= 0.2
    assert sum(gaps[-20:]) / 20 > 5.0
