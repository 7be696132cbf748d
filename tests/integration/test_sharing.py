"""Replicas that share keys on both servers: who handles what, and with which rights."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import yaml

import pyinformer
from pyinformer.leaderelection import LeaderElectionOptions
from tests.integration.accounts import ACCOUNT, apply, as_the_account
from tests.waiting import pause, until

if TYPE_CHECKING:
    from pyinformer import Cluster, OperatorRun
    from tests.integration.servers import Server

_QUICK = LeaderElectionOptions(
    lease_duration_seconds=5.0, renew_deadline_seconds=3.0, retry_period_seconds=1.0
)
_PATIENT = LeaderElectionOptions(
    lease_duration_seconds=600.0, renew_deadline_seconds=300.0, retry_period_seconds=1.0
)
_OBJECTS = 30


def _map(name: str, namespace: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _fill(server: Server, namespace: str) -> None:
    for number in range(_OBJECTS):
        server.api.create(_map(f"m{number}", namespace, wanted="0"))


class _Replica:
    """One replica, and what it has reconciled with which state."""

    def __init__(
        self, identity: str, namespace: str, options: LeaderElectionOptions = _PATIENT
    ) -> None:
        buckets = pyinformer.Buckets(identity=identity, namespace=namespace, options=options)
        self.app = pyinformer.Operator("db-operator", sharding=buckets)
        self.seen: Counter[tuple[str, str]] = Counter()
        self.app.reconcile("v1", "configmaps")(self._reconcile)

    async def _reconcile(self, request: pyinformer.Request, obj: Any, cluster: Cluster) -> None:
        if obj is None or "wanted" not in obj.to_dict().get("data", {}):
            return
        wanted = obj.to_dict()["data"]["wanted"]
        self.seen[request.key, wanted] += 1
        changed = obj.to_dict()
        changed["data"]["done"] = wanted
        if changed != obj.to_dict():
            await cluster.patch(obj, changed)


def _open(run: OperatorRun) -> int:
    return 0 if run.sharing is None else run.sharing.open


async def _change_all(cluster: Cluster, namespace: str, wanted: str) -> None:
    for number in range(_OBJECTS):
        body = _map(f"m{number}", namespace, wanted=wanted)
        await cluster.apply(body, field_manager="test", force=True)


def _keys_of(replica: _Replica, wanted: str) -> set[str]:
    return {key for key, seen in replica.seen if seen == wanted}


async def test_each_key_has_one_replica_and_moves_when_that_leaves(server: Server) -> None:
    namespace = server.namespace()
    await asyncio.to_thread(_fill, server, namespace)
    one, two = _Replica("one", namespace), _Replica("two", namespace)
    async with server.connect() as admin, server.connect() as other:
        leaving = one.app.running(admin, namespaces=namespace)
        await leaving.start()
        async with two.app.running(other, namespaces=namespace) as staying:
            await until(lambda: _open(leaving) == _open(staying) == 64)
            await _change_all(admin, namespace, "1")
            both = (one, two)
            await until(lambda: sum(len(_keys_of(each, "1")) for each in both) >= _OBJECTS)
            assert not _keys_of(one, "1") & _keys_of(two, "1")
            await leaving.aclose()
            await until(lambda: _open(staying) == 128)
            await _change_all(admin, namespace, "2")
            await until(lambda: len(_keys_of(two, "2")) == _OBJECTS)
            assert not _keys_of(one, "2")


async def test_the_keys_of_a_replica_that_crashed_go_to_the_others(server: Server) -> None:
    namespace = server.namespace()
    await asyncio.to_thread(_fill, server, namespace)
    one, two = _Replica("one", namespace, _QUICK), _Replica("two", namespace, _QUICK)
    async with server.connect() as admin, server.connect() as other:
        crashing = one.app.running(other, namespaces=namespace)
        await crashing.start()
        async with two.app.running(admin, namespaces=namespace) as staying:
            await until(lambda: _open(crashing) == _open(staying) == 64)
            elector = crashing.elector
            assert elector is not None
            elector.abort()  # its Lease is not released
            await until(lambda: _open(staying) == 128)
            await _change_all(admin, namespace, "1")
            await until(lambda: len(_keys_of(two, "1")) == _OBJECTS)
            assert not _keys_of(one, "1")
            await crashing.aclose()


async def test_the_printed_role_is_enough_for_replicas_that_share(strict: Server) -> None:
    namespace = strict.namespace()
    await asyncio.to_thread(_fill, strict, namespace)
    one = _Replica("one", namespace)
    async with strict.connect() as admin, one.app.running(admin, namespaces=namespace) as run:
        text = run.required_rbac(name="db", service_account=f"{namespace}/{ACCOUNT}")
    found = list(yaml.safe_load_all(text))
    for document in found:
        if document["kind"].endswith("Role"):
            for rule in document["rules"]:
                if rule["resources"] == ["configmaps"]:
                    rule["verbs"] = [*rule["verbs"], "patch"]
    await apply(strict, *found)
    two = _Replica("two", namespace)
    async with (
        as_the_account(strict, namespace) as cluster,
        two.app.running(cluster, namespaces=namespace) as run,
    ):
        await until(lambda: _open(run) == 128)
        await until(lambda: len(_keys_of(two, "0")) == _OBJECTS)
        joined = "two joined the replicas that share the keys"
        await until(lambda: joined in _notes(strict, namespace))
    assert "two left the replicas that share the keys" in _notes(strict, namespace)


def _notes(server: Server, namespace: str) -> list[str]:
    events = server.api.list("events.k8s.io/v1", "events", namespace)
    return [str(one.get("note")) for one in events]


async def test_replicas_that_elect_a_leader_wait_until_the_last_that_shares_has_left(
    server: Server,
) -> None:
    namespace = server.namespace()
    one = _Replica("one", namespace)
    led = asyncio.Event()

    async def lead(_term: pyinformer.leaderelection.Term) -> None:
        led.set()
        await asyncio.Event().wait()

    async with server.connect() as cluster:
        sharing = one.app.running(cluster, namespaces=namespace)
        await sharing.start()
        await until(lambda: _open(sharing) == 128)
        elector = pyinformer.LeaderElector(
            cluster, "db-operator", namespace=namespace, options=_QUICK
        )
        electing = asyncio.create_task(elector.run(lead))
        await until(lambda: elector.status().holder == "pyinformer.dev/buckets")
        await asyncio.wait((asyncio.create_task(led.wait()),), timeout=7)
        assert not led.is_set()
        await sharing.aclose()
        await until(led.is_set)
        electing.cancel()
        await asyncio.wait((electing,))


async def test_replicas_that_share_wait_until_a_leader_has_ended(server: Server) -> None:
    namespace = server.namespace()
    one = _Replica("one", namespace)

    async def lead(_term: pyinformer.leaderelection.Term) -> None:
        await asyncio.Event().wait()

    async with server.connect() as cluster:
        elector = pyinformer.LeaderElector(
            cluster, "db-operator", namespace=namespace, options=_QUICK
        )
        electing = asyncio.create_task(elector.run(lead))
        await until(lambda: elector.is_leading)
        async with one.app.running(cluster, namespaces=namespace) as sharing:
            await until(lambda: sharing.sharing is not None and sharing.sharing.is_member)
            await pause(7.0)
            assert _open(sharing) == 0
            assert elector.is_leading
            electing.cancel()
            await asyncio.wait((electing,))
            await until(lambda: _open(sharing) == 128)
