"""Daemons on both servers: one for each object, also if replicas die, and with which rights."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import yaml

import pyinformer
from pyinformer.leaderelection import LeaderElectionOptions
from tests.integration.accounts import ACCOUNT, apply, as_the_account
from tests.waiting import pause, until

if TYPE_CHECKING:
    from pyinformer import Cluster, OperatorRun
    from pyinformer.operator import Versions
    from tests.integration.servers import Server

_QUICK = LeaderElectionOptions(
    lease_duration_seconds=5.0, renew_deadline_seconds=3.0, retry_period_seconds=1.0
)
_FINALIZER = "acme.io/daemon"
_OBJECTS = 20


def _map(name: str, namespace: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"daemon": "yes"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _fill(server: Server, namespace: str) -> None:
    for number in range(_OBJECTS):
        server.api.create(_map(f"m{number}", namespace, wanted="0"))


class _Daemons:
    """The daemons of all replicas, by their object."""

    def __init__(self) -> None:
        self.owner: dict[str, str] = {}
        self.given: dict[str, str] = {}
        self.overlaps: list[str] = []

    def of(self, identity: str) -> int:
        """Return the number of a replica's daemons."""
        return sum(one == identity for one in self.owner.values())


class _Replica:
    """One replica, whose daemons write what they were given."""

    def __init__(self, identity: str, daemons: _Daemons, **settings: Any) -> None:
        self.identity = identity
        self._daemons = daemons
        self.app = pyinformer.Operator("db-operator", **settings)
        register = self.app.daemon(
            "v1", "configmaps", label_selector="daemon=yes", finalizer=_FINALIZER, name="follow"
        )
        register(self._follow)

    async def _follow(
        self, request: pyinformer.Request, versions: Versions[Any], cluster: Cluster
    ) -> None:
        if request.name in self._daemons.owner:
            self._daemons.overlaps.append(request.name)
        self._daemons.owner[request.name] = self.identity
        try:
            async for version in versions:
                body = version.to_dict()
                self._daemons.given[request.name] = body["data"]["wanted"]
                if body["data"].get("done") != body["data"]["wanted"]:
                    body["data"]["done"] = body["data"]["wanted"]
                    await cluster.patch(version, body)
        finally:
            del self._daemons.owner[request.name]


def _done(server: Server, namespace: str, wanted: str) -> bool:
    found = server.api.list("v1", "configmaps", namespace)
    ours = [one for one in found if "daemon" in one["metadata"].get("labels", {})]
    return len(ours) == _OBJECTS and all(one["data"].get("done") == wanted for one in ours)


async def _change_all(cluster: Cluster, namespace: str, wanted: str) -> None:
    for number in range(_OBJECTS):
        body = _map(f"m{number}", namespace, wanted=wanted)
        await cluster.apply(body, field_manager="test", force=True)


async def _all_done(server: Server, namespace: str, wanted: str) -> None:
    while not await asyncio.to_thread(_done, server, namespace, wanted):
        await pause(0.1)


async def test_daemons_follow_their_objects_to_the_end(server: Server) -> None:
    namespace = server.namespace()
    await asyncio.to_thread(_fill, server, namespace)
    daemons = _Daemons()
    one = _Replica("one", daemons)
    async with server.connect() as cluster, one.app.running(cluster, namespaces=namespace):
        await _all_done(server, namespace, "0")
        await _change_all(cluster, namespace, "1")
        await _all_done(server, namespace, "1")
        for number in range(_OBJECTS):
            await cluster.delete("v1", "configmaps", f"{namespace}/m{number}")
        await until(lambda: not daemons.owner)
        await cluster.create(_map("m0", namespace, wanted="again"))
        await until(lambda: daemons.given["m0"] == "again")
        await until(lambda: daemons.owner == {"m0": "one"})
        left = [
            each.metadata.name
            async for each in cluster.list("v1", "configmaps", namespace=namespace)
        ]
        assert [name for name in left if name.startswith("m")] == ["m0"]
    assert daemons.owner == {}
    assert daemons.overlaps == []


async def test_the_next_leader_has_the_daemons_of_one_that_was_killed(server: Server) -> None:
    namespace = server.namespace()
    await asyncio.to_thread(_fill, server, namespace)
    daemons = _Daemons()
    replicas = [
        _Replica(
            identity,
            daemons,
            leader_election=pyinformer.LeaderElection(
                identity=identity, namespace=namespace, options=_QUICK
            ),
        )
        for identity in ("one", "two")
    ]
    one, two = replicas
    async with server.connect() as admin, server.connect() as other:
        leading = one.app.running(other, namespaces=namespace)
        await leading.start()
        await until(lambda: daemons.of("one") == _OBJECTS)
        async with two.app.running(admin, namespaces=namespace):
            elector = leading.elector
            assert elector is not None
            elector.abort()  # its Lease is not released
            await until(lambda: daemons.of("two") == _OBJECTS)
            await _change_all(admin, namespace, "1")
            await _all_done(server, namespace, "1")
            await leading.aclose()
    assert daemons.overlaps == []


async def test_daemons_move_with_their_buckets(server: Server) -> None:
    namespace = server.namespace()
    await asyncio.to_thread(_fill, server, namespace)
    daemons = _Daemons()
    one, two = (
        _Replica(
            identity,
            daemons,
            sharding=pyinformer.Buckets(identity=identity, namespace=namespace, options=_QUICK),
        )
        for identity in ("one", "two")
    )
    async with server.connect() as admin, server.connect() as other:
        leaving = one.app.running(other, namespaces=namespace)
        await leaving.start()
        await until(lambda: daemons.of("one") == _OBJECTS)
        async with two.app.running(admin, namespaces=namespace) as staying:
            await until(lambda: _open(leaving) == _open(staying) == 64)
            await until(lambda: len(daemons.owner) == _OBJECTS)
            assert daemons.of("one")
            assert daemons.of("two")
            await _change_all(admin, namespace, "1")
            await _all_done(server, namespace, "1")
            elector = leaving.elector
            assert elector is not None
            elector.abort()
            await until(lambda: daemons.of("two") == _OBJECTS)
            await leaving.aclose()
    assert daemons.owner == {}
    assert daemons.overlaps == []


def _open(run: OperatorRun) -> int:
    return 0 if run.sharing is None else run.sharing.open


async def test_the_printed_role_is_enough_for_a_daemon_with_a_finalizer(strict: Server) -> None:
    namespace = strict.namespace()
    await asyncio.to_thread(_fill, strict, namespace)
    daemons = _Daemons()
    one = _Replica("one", daemons)
    async with strict.connect() as admin, one.app.running(admin, namespaces=namespace) as run:
        text = run.required_rbac(name="db", service_account=f"{namespace}/{ACCOUNT}")
    await apply(strict, *yaml.safe_load_all(text))
    async with (
        as_the_account(strict, namespace) as cluster,
        strict.connect() as admin,
        one.app.running(cluster, namespaces=namespace) as run,
    ):
        await _all_done(strict, namespace, "0")
        await admin.delete("v1", "configmaps", f"{namespace}/m1")
        await until(lambda: len(daemons.owner) == _OBJECTS - 1)
        assert run.controllers[0].status().outcomes["error"] == 0
