"""A watch side that stands still while lists are answered, and ages that only a round trip proves.

One replica's watch cache is held: its watches are accepted and bring bookmarks of the old position,
and quorum lists are answered from the newest state, as by a kube-apiserver whose watch of etcd is
held back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from pyinformer.cache.reflector import Lineage, ReflectorState
from pyinformer.cache.reflector.machine.steps import (
    Breach,
    Loaded,
    LoadMode,
    Sleep,
    Watch,
    WatchBroken,
    WatchStill,
    Woke,
)
from pyinformer.client.transport import StaticCredentials
from pyinformer.objects import GroupVersionResource
from pyinformer.testing import APIServer, Fault, FaultProxy, RequestRecord, Token
from tests.cache.reflector.machine_bench import BAD, PAGED, Bench
from tests.cache.reflector.running import Running, options, put, reflecting, remove, verbs, watches
from tests.waiting import pause, until

CERTAIN = WatchStill(is_certain=True)


@pytest.fixture
def server() -> Iterator[APIServer]:
    """Return a server whose second replica can be held."""
    with APIServer(replicas=2) as made:
        put(made, "a")
        yield made


def now() -> float:
    return asyncio.get_running_loop().time()


def is_of_one(request: RequestRecord) -> bool:
    """Return whether it asks how old a cache is."""
    return request.query.get("limit") == "1"


async def until_proven(running: Running, since: float) -> None:
    """Wait until the cache is as new as an instant."""
    await until(lambda: (running.reflector.last_proof_at or 0.0) >= since)


async def test_a_load_is_as_old_as_its_first_request(server: APIServer) -> None:
    server.faults.add(Fault(verb="list", hang=True))
    began_at = now()
    async with reflecting(server) as running:
        await until(lambda: server.faults.held == 1)
        assert running.reflector.last_proof_at is None
        sent_at = now()
        server.faults.release()
        await running.until_watching()
        proven_at = running.reflector.last_proof_at
        assert proven_at is not None
        assert began_at <= proven_at <= sent_at


async def test_the_second_page_does_not_renew_the_age_of_a_list(server: APIServer) -> None:
    put(server, "b", "c")
    server.faults.add(Fault(verb="list", match=lambda one: "continue" in one.query, hang=True))
    async with reflecting(server, with_options=options(page_size=2)) as running:
        await until(lambda: server.faults.held == 1)
        sent_at = now()
        server.faults.release()
        await running.until_watching()
        assert (running.reflector.last_proof_at or sent_at) < sent_at


async def test_a_watch_list_is_as_old_as_its_request(server: APIServer) -> None:
    server.faults.add(Fault(verb="watch", stall_after_bytes=20))
    async with reflecting(server, with_options=options(use_watch_list=True)) as running:
        await until(lambda: server.faults.held == 1)
        sent_at = now()
        server.faults.release()
        await running.until_watching()
        assert (running.reflector.last_proof_at or sent_at) < sent_at


async def test_a_list_that_any_server_may_answer_has_no_age_before_the_first_round_trip(
    server: APIServer,
) -> None:
    server.faults.add(Fault(match=is_of_one, hang=True))
    async with reflecting(server, with_options=options(consistency="any")) as running:
        await until(lambda: server.faults.held == 1)
        assert running.reflector.last_proof_at is None
        server.faults.release()
        await until(lambda: running.reflector.last_proof_at is not None)


async def test_an_event_and_a_bookmark_do_not_renew_the_age(server: APIServer) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        proven_at = running.reflector.last_proof_at
        put(server, "b")
        await running.until_equal()
        server.send_bookmarks()
        await until(lambda: running.reflector.liveness().last_bookmark_at is not None)
        assert running.reflector.last_proof_at == proven_at


async def test_a_history_that_is_intact_does_not_renew_the_age(server: APIServer) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        proven_at = running.reflector.last_proof_at
        running.reflector.request_proof("a test")
        await until(lambda: "look" in verbs(server))
        await until(lambda: running.reflector.state is ReflectorState.WATCHING)
        assert running.reflector.last_proof_at == proven_at


async def test_a_quiet_cache_is_renewed_by_a_list_of_one_object(server: APIServer) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        asked_at = now()
        running.reflector.want_age(2.0)
        await until_proven(running, asked_at)
        looks = [one for one in server.requests if one.query.get("limit") == "1"]
        assert looks
        assert all("resourceVersion" not in one.query for one in looks), "a quorum answers"
        assert verbs(server).count("list") == 1
        assert verbs(server).count("watch") == 1, "the version has been reached"


async def test_a_quiet_cache_is_renewed_though_other_resources_change(server: APIServer) -> None:
    """The position stays behind the version of every list until the next bookmark."""
    async with reflecting(server) as running:
        await running.until_watching()
        position = running.reflector.position
        server.create(config_map("other"))
        asked_at = now()
        running.reflector.want_age(2.0)
        await until_proven(running, asked_at)
        assert running.reflector.position == position
        assert verbs(server).count("watch") >= 2, "a short one has shown that nothing changed"
        assert running.reflector.status().loads == 1


async def test_confirm_asks_at_once(server: APIServer) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        server.create(config_map("other"))
        assert await running.reflector.confirm(100.0)
        put(server, "b")
        assert await running.reflector.confirm(100.0)
        assert "default/b" in running.sink.versions()


async def test_where_lists_are_refused_what_arrives_is_the_age() -> None:
    """A role with `watch` alone is enough where watch-lists are; it shows no newest version."""
    may_watch = Token(value="t", verbs=("watch",))
    with APIServer(tokens=[may_watch]) as server:
        put(server, "a")
        async with reflecting(
            server,
            credentials=StaticCredentials.bearer("t"),
            with_options=options(use_watch_list=True),
        ) as running:
            await running.until_watching()
            put(server, "b")
            await running.until_equal()

            def is_proven_by_what_arrived() -> bool:
                running.reflector.want_age(2.0)  # lists are refused again and again
                facts = running.reflector.liveness()
                return facts.last_proof_at == facts.last_event_at is not None

            await until(is_proven_by_what_arrived)


async def test_a_server_that_has_just_started_and_refuses_does_not_make_what_arrives_the_age(
    server: APIServer,
) -> None:
    """It does not know its roles yet, and no list of one object was answered before."""
    server.faults.add(Fault(verb="list", status=403, match=is_of_one))
    async with reflecting(server) as running:
        await running.until_watching()
        running.reflector.want_age(2.0)
        await until(lambda: any(one.status == 403 for one in server.requests))
        put(server, "b")
        await running.until_equal()
        facts = running.reflector.liveness()
        assert facts.last_event_at is not None
        assert facts.last_proof_at != facts.last_event_at
        await until_proven(running, facts.last_event_at)


async def test_one_refused_list_does_not_let_what_arrives_be_the_age(server: APIServer) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        assert await running.reflector.confirm(100.0)
        server.faults.add(Fault(verb="list", status=403, match=is_of_one))
        asked_at = now()
        running.reflector.want_age(2.0)
        await until(lambda: any(one.status == 403 for one in server.requests))
        server.send_bookmarks()
        await until(lambda: running.reflector.liveness().last_bookmark_at is not None)
        await until_proven(running, asked_at)  # by a later list
        facts = running.reflector.liveness()
        assert facts.last_proof_at != facts.last_bookmark_at


async def test_while_rights_to_list_are_missing_nothing_that_arrives_is_the_age(
    server: APIServer,
) -> None:
    """It may be late, and lists were answered before: they are sent again soon."""
    async with reflecting(server) as running:
        await running.until_watching()
        assert await running.reflector.confirm(100.0)
        server.faults.add(Fault(verb="list", status=403, match=is_of_one, times=3))
        running.reflector.want_age(2.0)
        await until(lambda: sum(one.status == 403 for one in server.requests) == 2)
        put(server, "b")
        await running.until_equal()
        facts = running.reflector.liveness()
        assert facts.last_event_at is not None
        assert facts.last_proof_at is not None
        assert facts.last_proof_at < facts.last_event_at
        await until_proven(running, facts.last_event_at)


async def test_rights_that_are_lost_after_a_shared_round_trip_make_nothing_that_arrives_the_age(
    server: APIServer,
) -> None:
    """A list that another reflector has sent was an answer, too."""
    async with reflecting(server) as first:
        lineage = lineage_of(first)
        config_maps = GroupVersionResource.of("v1", "configmaps")
        async with reflecting(server, resource=config_maps, lineage=lineage) as second:
            await first.until_watching()
            await second.until_watching()
            since = now()
            for one in (first, second):
                one.reflector.want_age(30.0)
                await until_proven(one, since)
            refused = Fault(
                verb="list",
                status=403,
                match=lambda sent: is_of_one(sent) and sent.resource == "configmaps",
                times=None,
            )
            server.faults.add(refused)
            for _ in range(18):  # longer than after a refusal that no answer preceded
                second.reflector.want_age(2.0)
                first.reflector.want_age(30.0)
                await pause(1.0)
            server.send_bookmarks()
            facts = second.reflector.liveness()
            await until(
                lambda: second.reflector.liveness().last_bookmark_at != facts.last_bookmark_at
            )
            facts = second.reflector.liveness()
            assert facts.last_proof_at != facts.last_bookmark_at


async def test_after_a_time_without_rights_the_age_is_not_that_of_what_arrives(
    server: APIServer,
) -> None:
    """It may have been on its way for as long: no list has been answered since."""
    async with reflecting(server) as running:
        await running.until_watching()
        assert await running.reflector.confirm(100.0)
        server.faults.add(Fault(verb="list", status=403, match=is_of_one, times=None))
        running.reflector.want_age(2.0)
        await until(lambda: sum(one.status == 403 for one in server.requests) >= 2)
        server.faults.clear()
        server.faults.add(Fault(verb="list", match=is_of_one, hang=True, times=None))
        server.end_watches()
        await until(lambda: len(watches(server)) > 1)
        put(server, "b")
        await running.until_equal()
        facts = running.reflector.liveness()
        assert facts.last_event_at is not None
        assert facts.last_proof_at is not None
        assert facts.last_proof_at < facts.last_event_at
        server.faults.release()


async def test_confirm_ends_when_nothing_can_be_proven(server: APIServer) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        server.faults.add(Fault(match=is_of_one, status=503))
        assert not await running.reflector.confirm(1000.0)


async def test_a_cancelled_confirm_leaves_nothing_behind(server: APIServer) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        server.faults.add(Fault(verb="list", hang=True, times=None))
        waiting = asyncio.create_task(running.reflector.confirm(100.0))
        await until(lambda: server.faults.held == 1)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        server.faults.clear()
        server.faults.release()
        assert await running.reflector.confirm(100.0)


def lineage_of(running: Running) -> Lineage:
    """Return what a reflector shares with others of its connection."""
    return running.reflector._lineage


async def test_caches_of_one_connection_share_a_round_trip(server: APIServer) -> None:
    async with reflecting(server) as first:
        lineage = lineage_of(first)
        config_maps = GroupVersionResource.of("v1", "configmaps")
        async with reflecting(server, resource=config_maps, lineage=lineage) as second:
            await first.until_watching()
            await second.until_watching()
            server.clear_requests()
            asked_at = now()
            for one in (first, second):
                one.reflector.want_age(30.0)
            await until_proven(first, asked_at)
            await until_proven(second, asked_at)
            looks = [one for one in server.requests if one.query.get("limit") == "1"]
            assert len(looks) == lineage.round_trips.sent == 1


async def test_a_watch_side_that_stands_still_is_listed_until_it_follows_again(
    server: APIServer,
) -> None:
    (replica,) = server.replicas
    async with reflecting(server, url=replica.url) as running:
        await until(lambda: replica.open_watches)
        server.create(config_map("other"))
        running.reflector.want_age(2.0)
        await until(lineage_of(running).round_trips.knows_followed)
        replica.hold()
        held_at = now()
        put(server, "b", "c")
        remove(server, "a")
        await running.until_equal()
        await until(lambda: running.reflector.state is ReflectorState.POLLING)
        reflector = running.reflector
        assert "stand still" in reflector.status().reason
        await until_proven(running, held_at)
        put(server, "d")
        await running.until_equal()
        assert reflector.counts()["loads", "paged", "poll"] >= 1
        assert reflector.counts()["watches_ended", "still"] >= 1

        replica.release()
        await until(lambda: reflector.state is ReflectorState.WATCHING)
        assert reflector.status().reason == ""
        put(server, "e")
        await running.until_equal()
        assert running.reflector.epoch == 0
        assert not reflector.status().breaks_order


async def test_an_age_does_not_cover_what_was_missed(server: APIServer) -> None:
    """Of a watch side that stands still; bookmarks at the old position keep coming."""
    (replica,) = server.replicas
    async with reflecting(server, url=replica.url) as running:
        await until(lambda: replica.open_watches)
        replica.hold()
        put(server, "b")
        missed_at = now()
        trips = lineage_of(running).round_trips
        running.reflector.want_age(2.0)
        for _ in range(2):
            sent = trips.sent
            await until(lambda: trips.sent > sent)  # noqa: B023 - it ends within the turn
            if "default/b" in running.sink.versions():
                return
            assert (running.reflector.last_proof_at or 0.0) < missed_at


@pytest.mark.parametrize("first", [0, 1])
async def test_an_age_does_not_cover_what_one_of_two_servers_missed(
    server: APIServer, first: int
) -> None:
    """Behind a balancer that passes connections on in turn, whichever gets the next one."""
    (replica,) = server.replicas
    ports = [urlsplit(one.url).port or 0 for one in (server, replica)]
    with FaultProxy(server, ports=ports[1:]) as balancer:
        async with reflecting(server, url=balancer.url) as running:
            await until(lambda: replica.open_watches)
            balancer.use_ports([ports[first], ports[1 - first]])
            replica.hold()
            put(server, "b")
            missed_at = now()
            running.reflector.want_age(2.0)

            def is_cached() -> bool:
                """Return whether the change is here, and judge the age if it is not."""
                running.reflector.want_age(2.0)
                found = "default/b" in running.sink.versions()
                assert found or (running.reflector.last_proof_at or 0.0) < missed_at
                return found

            await until(is_cached)


def config_map(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    }


def test_a_watch_that_stands_still_is_followed_by_a_list_at_once() -> None:
    bench = Bench().watching()
    bench.machine.connected()
    bench.machine.progressed()
    assert bench.step(CERTAIN) == PAGED, "a watch-list is a watch"
    assert bench.state() is ReflectorState.POLLING
    assert bench.machine.load_cause == "poll"
    assert bench.step(Loaded(LoadMode.PAGED)) == Watch()
    bench.machine.connected()
    bench.machine.progressed()
    assert bench.state() is ReflectorState.POLLING, "that it is accepted shows nothing"
    assert "stand still" in bench.machine.reason


def test_watches_that_stand_still_are_polled_at_growing_delays() -> None:
    bench = Bench().watching()
    assert bench.step(CERTAIN) == PAGED
    delays = []
    for _ in range(40):
        bench.step(Loaded(LoadMode.PAGED))
        bench.machine.connected()
        command = bench.step(CERTAIN)
        assert isinstance(command, Sleep)
        delays.append(command.seconds)
        bench.now += command.seconds
        assert bench.step(Woke()) == PAGED
    assert delays[0] <= 0.8
    assert 15.0 < max(delays) <= 30.0


def test_a_watch_that_follows_again_ends_the_polling() -> None:
    bench = Bench().watching()
    bench.step(CERTAIN)
    bench.step(Loaded(LoadMode.PAGED))
    bench.machine.connected()
    assert bench.machine.followed()
    assert bench.state() is ReflectorState.WATCHING
    assert bench.machine.reason == ""
    assert not bench.machine.followed()


def test_an_old_bookmark_of_a_watch_that_stands_still_is_not_a_breach_of_order() -> None:
    bench = Bench().watching()
    bench.step(CERTAIN)
    for _ in range(5):
        bench.step(Loaded(LoadMode.PAGED))
        bench.machine.connected()
        command = bench.step(WatchBroken(Breach.BOOKMARK, BAD))
        assert isinstance(command, Sleep)
        assert bench.step(Woke()) == PAGED
    assert not bench.machine.breaks_order


def test_a_watch_that_shows_nothing_is_listed_without_a_trouble() -> None:
    bench = Bench().watching()
    bench.machine.connected()
    assert bench.step(WatchStill(is_certain=False)) == PAGED
    assert bench.state() is ReflectorState.LOADING
    assert bench.step(Loaded(LoadMode.PAGED)) == Watch()
    bench.machine.connected()
    assert bench.state() is ReflectorState.WATCHING
