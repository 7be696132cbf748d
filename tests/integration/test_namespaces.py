"""Several namespaces in one informer, on both servers: rights, changes during traffic, labels."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from tests.cache.informer.clusters import HURRIED, Notes
from tests.integration.history import positions
from tests.integration.objects import CONFIG_MAPS, changed, unique
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer import SharedInformer
    from tests.integration.servers import Server

_ROUNDS = 25


def listed(server: Server, *namespaces: str) -> dict[str, tuple[str, str]]:
    """Return what the server has of the config maps of these namespaces, and of no other.

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
    """Create an informer of them, and record what its handler receives."""
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
                one.attempts >= refused[str(one.namespace)] for one in informer.status().namespaces
            )
        )
        with pytest.raises(pyinformer.CacheSyncTimeoutError) as raised:
            await factory.wait_for_cache_sync(timeout_seconds=0.2)
        (line,) = raised.value.pending
        assert f"in {theirs}" in line
        assert "403" in line

        await asyncio.to_thread(server.allow, token, theirs, "configmaps", ["list", "watch"])
        await factory.wait_for_cache_sync(timeout_seconds=100)
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
        await factory.wait_for_cache_sync(timeout_seconds=100)
        async with asyncio.TaskGroup() as group:
            group.create_task(keep_writing())
            while not stop.is_set():
                for wish in ([a, b], [b], [b, c], [a, c], [a, b, c], [c]):
                    await informer.set_namespaces(wish)
                    await factory.wait_for_cache_sync(timeout_seconds=100)
        await informer.set_namespaces([a, c])
        await factory.wait_for_cache_sync(timeout_seconds=100)
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
        await factory.wait_for_cache_sync(timeout_seconds=100)
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
            await factory.wait_for_cache_sync(timeout_seconds=100)
            truth = await asyncio.to_thread(listed, server, *namespaces)
            assert positions(informer.lister.list()) == truth
            await until(lambda truth=truth: notes.mirror == truth)  # type: ignore[misc]
        assert notes.faults == []


class Calls:
    """A reconcile that records what it was given."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool]] = []
        """Keys, and whether there was an object."""

    async def __call__(self, request: pyinformer.Request, obj: object) -> None:
        """Record one call."""
        self.seen.append((str(request.key), obj is not None))

    def last(self, key: str) -> bool | None:
        """Return whether there was an object when a key was reconciled last; None if never."""
        return dict(self.seen).get(key)


async def end(cluster: pyinformer.Cluster, namespace: str) -> None:
    """Delete a Namespace before its content: its event is first, and may be the only one."""
    await cluster.delete(await cluster.get("v1", "namespaces", namespace))
    doomed = (await cluster.get("v1", "namespaces", namespace)).to_dict()
    doomed["spec"] = {"finalizers": []}
    path = f"/api/v1/namespaces/{namespace}/finalize"
    await cluster.connection.request("PUT", path, body=json.dumps(doomed).encode())


async def test_objects_deleted_with_their_namespace_are_reconciled(server: Server) -> None:
    stays, ends = server.namespace(), server.namespace()
    team = unique("team")
    for namespace in (stays, ends):
        for name in ("one", "two"):
            make(server, name, namespace)
        chosen: Any = server.api.get("v1", "namespaces", namespace)
        chosen["metadata"].setdefault("labels", {})["team"] = team
        server.api.update(chosen)
    calls = Calls()
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        informer, notes = config_maps(factory, namespace_selector=f"team={team}")
        async with pyinformer.Controller("maps", calls, informer):
            await until(lambda: calls.last(f"{ends}/two") and calls.last(f"{stays}/two"))
            await end(cluster, ends)
            await until(lambda: informer.namespaces == {stays})
            await until(
                lambda: calls.last(f"{ends}/one") is False and calls.last(f"{ends}/two") is False
            )
            await until(lambda: sorted(notes.mirror) == [f"{stays}/one", f"{stays}/two"])
    assert notes.faults == []
    assert [called for called in calls.seen if called == (f"{stays}/one", False)] == []


@pytest.mark.parametrize("chosen_by", ["names", "labels"])
async def test_objects_deleted_while_their_namespace_was_removed_are_reconciled(
    server: Server, chosen_by: str
) -> None:
    a, b = server.namespace(), server.namespace()
    team = unique("team")
    for name in ("kept", "gone"):
        make(server, name, b)
    make(server, "one", a)

    def join(namespace: str, joined: str) -> None:
        obj: Any = server.api.get("v1", "namespaces", namespace)
        obj["metadata"].setdefault("labels", {})["team"] = joined
        server.api.update(obj)

    async def follow(*namespaces: str) -> None:
        for namespace in (a, b):
            if chosen_by == "labels":
                joined = team if namespace in namespaces else "none"
                await asyncio.to_thread(join, namespace, joined)
        if chosen_by == "names":
            await informer.set_namespaces(namespaces)
        await until(lambda: informer.namespaces == set(namespaces))

    calls = Calls()
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        scope: Any = (
            {"namespaces": [a]} if chosen_by == "names" else {"namespace_selector": f"team={team}"}
        )
        informer, notes = config_maps(factory, **scope)
        await factory.start()
        await follow(a, b)
        async with pyinformer.Controller("maps", calls, informer):
            await until(lambda: calls.last(f"{b}/gone") and calls.last(f"{b}/kept"))
            await follow(a)
            await until(lambda: list(notes.mirror) == [f"{a}/one"])
            assert (f"{b}/gone", False) not in calls.seen  # it exists
            server.api.delete("v1", "configmaps", "gone", b)
            await follow(a, b)
            await until(lambda: calls.last(f"{b}/gone") is False)
    assert (f"{b}/kept", False) not in calls.seen
    assert (f"{a}/one", False) not in calls.seen


async def test_a_retry_for_a_deleted_object_survives_the_removal_of_its_namespace(
    server: Server,
) -> None:
    a, b = server.namespace(), server.namespace()
    make(server, "gone", b)
    calls, is_broken = Calls(), asyncio.Event()
    is_broken.set()

    async def reconcile(request: pyinformer.Request, obj: object) -> None:
        await calls(request, obj)
        if obj is None and is_broken.is_set():
            raise pyinformer.RetryAfter(0.05, "what it cleans up is out of reach")

    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        informer, _ = config_maps(factory, namespaces=[a, b])
        await factory.start()
        controller = pyinformer.Controller("maps", reconcile, informer)
        async with controller:
            await until(lambda: calls.last(f"{b}/gone"))
            server.api.delete("v1", "configmaps", "gone", b)
            await until(lambda: calls.last(f"{b}/gone") is False)
            await informer.set_namespaces([a])
            await until(lambda: controller.status().outcomes["terminal"] == 1)
            is_broken.clear()
            before = len(calls.seen)
            await informer.set_namespaces([a, b])
            await until(lambda: calls.seen[before:] == [(f"{b}/gone", False)])
