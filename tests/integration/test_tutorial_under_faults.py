"""The operator of the tutorial under faults: it does its work, and its caches lose nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import docs.examples.database_operator as tutorial

from pyinformer.testing import FaultLab, FaultSchedule, TimedFault
from pyinformer.testing.histories import History, Recorder, ServerTruth, check_history
from tests.waiting import settle, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from pyinformer import Cluster
    from pyinformer.apimachinery import JSONObject
    from pyinformer.testing import APIServer, FaultProxy

_DATABASES = ("acme.io/v1", "databases")
_SETS = ("apps/v1", "statefulsets")
_COUNT = 20


def _fault(name: str, at: float, lasts: float = 0.0, **arguments: str) -> TimedFault:
    return TimedFault(name=name, at_seconds=at, lasts_seconds=lasts, arguments=arguments)


_FAULTS = FaultSchedule(
    [
        _fault("split", 0.1, 1.0, bytes="100"),
        _fault("truncated-chunk", 0.3, 1.0, cut="no", bytes="200", verb="patch"),
        _fault("cut", 1.2, reset="yes"),
        _fault("status", 1.5, 1.0, verb="patch", status="503"),
        _fault("drip", 1.6, 0.8, bytes_per_second="2000"),
        _fault("reset", 2.8, 1.0, cut="no", verb="patch"),
        _fault("cut", 3.0, reset="no"),
        _fault("status", 4.0, 1.0, verb="watch", status="503"),
        _fault("expired-event", 5.2, 0.8, cut="yes"),
        _fault("refuse", 5.5, 0.5),
        _fault("expired-status", 6.2, 0.8, cut="yes"),
        _fault("cut", 6.5, reset="yes"),
    ]
)


def _database(number: int) -> JSONObject:
    metadata = {"name": f"db-{number}", "namespace": "default"}
    kind = {"apiVersion": _DATABASES[0], "kind": "Database"}
    return {**kind, "metadata": metadata, "spec": {"replicas": 1 + number % 3}}


class _Users:
    """Users and the cluster's own controllers, which write past the faults."""

    def __init__(self, server: APIServer) -> None:
        self._server = server

    def make_pods_ready(self) -> None:
        """Set the status of each StatefulSet, as its controller does."""
        for one in self._server.list(*_SETS):
            replicas, name = one["spec"]["replicas"], one["metadata"]["name"]
            status = {"replicas": replicas, "readyReplicas": replicas}
            if one.get("status", {}).get("readyReplicas") != replicas:
                self._server.patch(*_SETS, name, {"status": status}, "default")

    def write(self, step: int) -> None:
        """Create, scale and delete databases, and interfere with what the operator owns."""
        if step < _COUNT:
            self._server.create(_database(step))
            return
        name = f"db-{step % _COUNT}"
        owned = {one["metadata"]["name"] for one in self._server.list(*_SETS)}
        if step % 3 == 0:
            self._server.patch(*_DATABASES, name, {"spec": {"replicas": 1 + step % 4}}, "default")
        elif name in owned and step % 3 == 1:
            self._server.delete(*_SETS, name, "default")
        elif name in owned:
            self._server.patch(*_SETS, name, {"spec": {"replicas": 99}}, "default")

    def is_settled(self) -> bool:
        """Return whether each Database has what its spec says, and its status shows that."""
        self.make_pods_ready()
        sets = {one["metadata"]["name"]: one for one in self._server.list(*_SETS)}
        return all(
            name in sets
            and sets[name]["spec"]["replicas"] == one["spec"]["replicas"]
            and sets[name]["spec"]["template"]["spec"]["containers"][0]["image"] == "postgres:17"
            and one.get("status") == {"ready": one["spec"]["replicas"]}
            for one in self._server.list(*_DATABASES)
            for name in [one["metadata"]["name"]]
        )


async def test_the_operator_of_the_tutorial_does_its_work_under_faults(
    apiserver: APIServer,
    fault_proxy: FaultProxy,
    cluster: Callable[..., AbstractAsyncContextManager[Cluster]],
    tmp_path: Path,
) -> None:
    (definition,) = tutorial.app.custom_resource_definitions()
    apiserver.create(definition)
    history, users = History(tmp_path / "history.jsonl"), _Users(apiserver)
    lab = FaultLab(proxy=fault_proxy, log=history.add)
    async with (
        Recorder(history, counts_resources=False) as recorder,
        cluster(fault_proxy) as connected,
    ):
        with ServerTruth(history, apiserver) as truth:
            async with tutorial.app.running(connected) as run:
                (databases,) = run.controllers
                for informer in databases.engine.informers:
                    recorder.follow(informer)
                storm = asyncio.create_task(asyncio.to_thread(lab.run, _FAULTS))
                step = 0
                while not storm.done():
                    await asyncio.to_thread(users.write, step)
                    await asyncio.to_thread(users.make_pods_ready)
                    step += 1
                    await settle()
                await storm
                await until(users.is_settled, what=databases.status())
                await recorder.rest(truth)
    verdict = check_history(history)
    history.close()
    assert verdict.holds, str(verdict)
    assert step > _COUNT


def test_a_database_without_its_stateful_set_is_seen(apiserver: APIServer) -> None:
    """The judge of the test above can fail."""
    (definition,) = tutorial.app.custom_resource_definitions()
    apiserver.create(definition)
    users, made = _Users(apiserver), _database(0)
    assert users.is_settled()
    apiserver.create(made)
    assert not users.is_settled()
    request: Any = type("Request", (), {"namespace": "default", "name": "db-0"})
    apiserver.create(tutorial.stateful_set(request, tutorial.DatabaseSpec(replicas=1)))
    assert not users.is_settled(), "its status is missing"
    apiserver.patch(*_DATABASES, "db-0", {"status": {"ready": 1}}, "default")
    assert users.is_settled()
