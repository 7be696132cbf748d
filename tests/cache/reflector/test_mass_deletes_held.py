"""Lists that would empty a cache, over real HTTP: held, asked for again, and then believed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import json

from pyinformer.cache.reflector import MassDeletePolicy, ReflectorOptions
from pyinformer.client.transport import StaticCredentials
from pyinformer.errors import InvalidArgumentError
from pyinformer.testing import APIServer, Fault, RequestRecord, Token
from tests.cache.reflector.running import (
    Running,
    is_load,
    is_watch_list,
    options,
    put,
    reflecting,
    remove,
    until_held,
    verbs,
)
from tests.cache.reflector.wire_tap import tapping
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = [f"p{number:02}" for number in range(12)]
PATH = "/api/v1/pods"
_EMPTY = {"kind": "PodList", "apiVersion": "v1", "items": []}


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        put(running, *NAMES)
        yield running


def named(name: str) -> dict[str, str]:
    """Return the metadata by which an object is found."""
    return {"name": name, "namespace": "default"}


def empty_list(server: APIServer) -> bytes:
    """Return what a peer would answer that has lost everything, at the server's own version."""
    return json.encode({**_EMPTY, "metadata": {"resourceVersion": server.resource_version}})


def lies(server: APIServer, **more: Any) -> Fault:
    """Return one list of nothing."""
    return Fault(match=is_load, body=empty_list(server), **more)


def relist(server: APIServer) -> None:
    """Let the next watch expire, and end the one that is open."""
    server.faults.add(Fault(verb="watch", status=410))
    server.end_watches()


def actions(running: Running) -> dict[str, int]:
    """Return how often the breaker did what."""
    counts = running.counts()
    return {
        name.partition(":")[2]: counts[name] for name in counts if name.startswith("mass_deletes")
    }


def asked(server: APIServer) -> list[str]:
    """Return the verbs of all requests, but those that look after the server's history."""
    return [verb for verb in verbs(server) if verb != "look"]


async def test_an_empty_list_deletes_nothing_that_a_second_list_has(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        relist(server)
        server.faults.add(lies(server))
        await running.until_watching(loads=2)
        await running.until_equal()
        assert actions(running) == {"held": 1, "averted": 1}
        assert all(len(history) == 1 for history in running.sink.history.values())
        assert asked(server) == ["list", "watch", "watch", "list", "list", "watch"]
    said = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert [("held" in words, "averted" in words) for words in said] == [
        (True, False),
        (False, True),
    ]


async def test_a_list_of_others_under_the_same_names_is_held_too(server: APIServer) -> None:
    """Another cluster behind the address has the same kube-system: handlers would see deletions."""
    async with reflecting(server) as running:
        await running.until_watching()
        version = server.resource_version
        others = [
            {"metadata": {**named(name), "uid": f"other-{name}", "resourceVersion": version}}
            for name in NAMES
        ]
        answer = {**_EMPTY, "metadata": {"resourceVersion": version}, "items": others}
        relist(server)
        server.faults.add(Fault(match=is_load, body=json.encode(answer)))
        await running.until_watching(loads=2)
        await running.until_equal()
        assert actions(running) == {"held": 1, "averted": 1}
        assert all(len(history) == 1 for history in running.sink.history.values())


async def test_a_true_mass_deletion_is_believed_when_the_second_list_says_the_same(
    server: APIServer,
) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        server.faults.add(Fault(verb="watch", hang=True))
        server.end_watches()
        await until_held(server)
        remove(server, *NAMES)
        server.compact()
        server.faults.clear()
        server.drop_connections()
        await running.until_equal()
        assert running.sink.objects == {}
        assert actions(running) == {"held": 1, "confirmed": 1}
        assert {history[-1].split()[0] for history in running.sink.history.values()} == {"delete?"}


async def test_the_second_list_is_asked_of_the_quorum_on_another_connection(
    server: APIServer,
) -> None:
    """A pooled connection may lead to the very replica that gave the first answer."""
    paged = options(page_size=5)
    async with (
        tapping(server.url) as tap,
        reflecting(server, with_options=paged, url=tap.url) as running,
    ):
        await running.until_watching()
        relist(server)
        server.faults.add(lies(server))
        before = len(server.requests)
        await running.until_watching(loads=2)
        await running.until_equal()
        lists = [one for one in server.requests[before:] if is_load(one)]
        assert len(lists) == 1 + 3
        assert all("resourceVersion" not in one.query for one in lists)
        pages = [asked for asked in tap.that_asked(PATH) if any("limit=5" in one for one in asked)]
        # The first four lists share a connection or two; each page of the second has its own.
        assert [len(asked) for asked in pages[-3:]] == [1, 1, 1]


async def test_a_second_list_that_fails_deletes_nothing_and_is_tried_again(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        relist(server)
        server.faults.add(
            lies(server), Fault(match=is_load, status=503), Fault(match=is_load, hang=True)
        )
        await until_held(server)
        assert actions(running) == {"held": 1, "unconfirmed": 1}
        assert len(running.sink.objects) == len(NAMES)
        server.faults.release()
        await running.until_watching(loads=2)
        await running.until_equal()
        assert all(len(history) == 1 for history in running.sink.history.values())
    assert any("nothing is deleted" in record.message for record in caplog.records)


async def test_expired_second_lists_do_not_block_a_true_deletion_forever(
    server: APIServer,
) -> None:
    """Never a deadlock: what pages do not confirm, one body does."""

    def is_next_page(request: RequestRecord) -> bool:
        return "continue" in request.query

    async with reflecting(server, with_options=options(page_size=2)) as running:
        await running.until_watching()
        server.faults.add(Fault(verb="watch", hang=True))
        server.end_watches()
        await until_held(server)
        remove(server, *NAMES)
        put(server, *(f"new{number}" for number in range(5)))
        server.compact()
        server.faults.clear()
        server.faults.add(Fault(match=is_next_page, skip=2, status=410, times=None))
        server.drop_connections()
        await running.until_equal()
        assert sorted(running.sink.objects) == [f"default/new{number}" for number in range(5)]


async def test_a_watch_list_of_nothing_gives_way_to_a_list(server: APIServer) -> None:
    end = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": server.resource_version,
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    }
    line = json.encode({"type": "BOOKMARK", "object": end}) + b"\n"
    async with reflecting(server, with_options=options(use_watch_list=True)) as running:
        await running.until_watching()
        server.faults.add(
            Fault(match=lambda one: one.verb == "watch" and not is_watch_list(one), status=410),
            Fault(match=is_watch_list, body=line),
        )
        server.end_watches()
        await running.until_watching(loads=2)
        put(server, "late")
        await running.until_equal()
        assert actions(running) == {}  # a list was loaded before any deletion was considered
        assert {len(history) for history in running.sink.history.values()} == {1}
    assert asked(server) == ["watch-list", "watch", "watch-list", "list", "watch"]


async def test_where_lists_are_refused_a_second_watch_list_confirms_a_mass_deletion() -> None:
    """A role with `watch` alone; the load was refused for good, and nothing was followed."""
    may_watch = Token(value="t", verbs=("watch",))
    with APIServer(tokens=[may_watch]) as server:
        put(server, *NAMES)
        async with reflecting(
            server,
            credentials=StaticCredentials.bearer("t"),
            with_options=options(use_watch_list=True),
        ) as running:
            await running.until_watching()
            await running.until_equal()
            server.faults.add(Fault(verb="watch", hang=True))
            server.end_watches()
            await until_held(server)
            remove(server, *NAMES)
            server.compact()
            server.faults.clear()
            server.drop_connections()
            await running.until_equal()
            assert actions(running) == {"held": 1, "confirmed": 1}
            put(server, "new")
            await running.until_equal()


async def test_few_objects_and_small_losses_are_believed_at_once(server: APIServer) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        server.faults.add(Fault(verb="watch", hang=True))
        server.end_watches()
        await until_held(server)
        remove(server, *NAMES[1:])
        server.compact()
        server.faults.clear()
        server.drop_connections()
        await running.until_equal()
        assert actions(running) == {}
        assert verbs(server).count("list") == 2


async def test_without_a_policy_one_list_is_enough(server: APIServer) -> None:
    async with reflecting(server, with_options=options(mass_delete=None)) as running:
        await running.until_watching()
        server.faults.add(
            Fault(verb="watch", status=410), lies(server), Fault(verb="watch", hang=True)
        )
        server.end_watches()
        await until(lambda: not running.sink.objects)
        assert actions(running) == {}


async def test_the_breaker_holds_when_the_servers_history_is_another_too(
    server: APIServer,
) -> None:
    """A server that came up with an empty data directory is looked at twice, then believed."""
    empty = APIServer()
    saved = empty.save()
    async with reflecting(server) as running:
        await running.until_watching()
        server.restore(saved)
        await running.until_equal()
        assert running.sink.objects == {}
        assert actions(running)["held"] >= 1
        assert actions(running)["confirmed"] == 1


@pytest.mark.parametrize("wrong", [0.5, "half", True, MassDeletePolicy])
def test_an_invalid_policy_is_refused_when_the_options_are_made(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must be a MassDeletePolicy or None"):
        ReflectorOptions(mass_delete=wrong)
