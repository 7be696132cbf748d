"""Several namespaces in one informer, on both servers: rights, changes during traffic, labels."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from tests.informer.clusters import HURRIED, Notes
from tests.integration.history import positions
from tests.integration.objects import CONFIG_MAPS, changed, unique
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer import SharedInformer
    from tests.integration.servers import Server

_ROUNDS = 25


def listed(server: Server, *namespaces: str) -> dict[str, tuple[str, str]]:
    """Return what the server has of the config maps of these namespaces, those of others left out.

    A real server puts a config map of its own into every namespace.
    """
    found: dict[str, tuple[str, str]] = {}
    for namespace in namespaces:
        for obj in server.api.list("v1", "configmaps", namespace, "suite=namespaces"):
            meta: Any = obj["metadata"]
            found[f"{namespace}/{meta['name']}"] = (meta["uid"], meta["resourceVersion"])
    return found


def make(server: Server, name: str, namespace: str) -> None:
    """Create a config map."""
    server.api.create(CONFIG_MAPS.make(name, namespace, labels={"suite": "namespaces"}))


def config_maps(
    factory: pyinformer.SharedInformerFactory, **scope: Any
) -> tuple[SharedInformer[None], Notes]:
    """Ask for an informer of them, and note what a handler hears."""
    informer = factory.informer(
        "v1", "configmaps", label_selector="suite=namespaces", private=True, **scope
    )
    notes = Notes()
    informer.add_event_handler(notes)
    return informer, notes


async def test_a_forbidden_namespace_stops_no_other_and_heals_with_the_right(
    server: Server,
) -> None:
    ours, theirs = server.namespace(), server.namespace()
    make(server, "one", ours)
    make(server, "two", theirs)
    token = await asyncio.to_thread(server.user, ours, "configmaps", ["list", "watch"])
    async with (
        server.connect(token=token) as cluster,
        pyinformer.SharedInformerFactory(cluster, options=HURRIED) as factory,
    ):
        informer, notes = config_maps(factory, namespaces=[ours, theirs])
        await factory.start()
        await until(lambda: list(notes.mirror) == [f"{ours}/one"], what=informer.status())
        assert [obj.key for obj in informer.lister.namespace(ours).list()] == [f"{ours}/one"]
        refused = {ours: 0, theirs: 1}
        await until(
            lambda: all(
                one.attempts >= refused[str(one.namespace)] for one in informer.status().scopes
            )
        )
        with pytest.raises(pyinformer.CacheSyncTimeoutError) as raised:
            await factory.wait_for_cache_sync(timeout_seconds=0.2)
        (line,) = raised.value.pending
        assert f"in {theirs}" in line
        assert "403" in line

        await asyncio.to_thread(server.allow, token, theirs, "configmaps", ["list", "watch"])
        await factory.wait_for_cache_sync(timeout_seconds=30)
        assert positions(informer.lister.list()) == listed(server, ours, theirs)
        await until(lambda: notes.mirror == listed(server, ours, theirs))
        assert notes.faults == []


async def test_namespaces_that_change_during_traffic_lose_nothing(server: Server) -> None:
    names = [server.namespace() for _ in range(3)]
    a, b, c = names
    for namespace in names:
        make(server, "kept", namespace)
    stop = asyncio.Event()

    def write(number: int) -> None:
        """Do something in each namespace."""
        for namespace in names:
            make(server, f"n{number}", namespace)
            kept = server.api.get("v1", "configmaps", "kept", namespace)
            server.api.update(changed(kept, number))
            if number % 3 == 2:
                server.api.delete("v1", "configmaps", f"n{number - 1}", namespace)

    async def keep_writing() -> None:
        for number in range(_ROUNDS):
            await asyncio.to_thread(write, number)
        stop.set()

    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        informer, notes = config_maps(factory, namespaces=[a])
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        async with asyncio.TaskGroup() as group:
            group.create_task(keep_writing())
            while not stop.is_set():
                for wish in ([a, b], [b], [b, c], [a, c], [a, b, c], [c]):
                    await informer.set_namespaces(wish)
                    await factory.wait_for_cache_sync(timeout_seconds=30)
        await informer.set_namespaces([a, c])
        await factory.wait_for_cache_sync(timeout_seconds=10)
        truth = await asyncio.to_thread(listed, server, a, c)

        await until(lambda: positions(informer.lister.list()) == truth)
        await until(lambda: notes.mirror == truth)
        assert notes.faults == []


async def test_a_selector_of_namespaces_follows_their_labels(server: Server) -> None:
    a, b = server.namespace(), server.namespace()
    team = unique("team")
    for namespace in (a, b):
        make(server, "one", namespace)

    def join(namespace: str, joined: str) -> None:
        """Give a Namespace a team."""
        obj: Any = server.api.get("v1", "namespaces", namespace)
        obj["metadata"].setdefault("labels", {})["team"] = joined
        server.api.update(obj)

    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        informer, notes = config_maps(factory, namespace_selector=f"team={team}")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        assert informer.lister.list() == []
        for namespaces, change in (
            ([a], (a, team)),
            ([a, b], (b, team)),
            ([b], (a, "another")),
            ([], (b, "another")),
            ([b], (b, team)),
        ):
            await asyncio.to_thread(join, *change)
            await until(lambda wanted=namespaces: informer.namespaces == set(wanted))  # type: ignore[misc]
            await factory.wait_for_cache_sync(timeout_seconds=10)
            truth = await asyncio.to_thread(listed, server, *namespaces)
            assert positions(informer.lister.list()) == truth
            await until(lambda truth=truth: notes.mirror == truth)  # type: ignore[misc]
        assert notes.faults == []
