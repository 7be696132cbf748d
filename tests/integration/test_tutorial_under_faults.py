"""The operator of the tutorial under faults: it does its work, and nothing is lost or forgotten."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import docs.examples.database_operator as tutorial

from pyinformer import Operator
from pyinformer.testing import FaultSchedule, TimedFault
from pyinformer.testing.histories import ReconciledRecord, ReconcilingRecord, read_history
from tests.waiting import settle, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    import pytest

    from pyinformer import KubeObject, Reconcile, Request, Result, SharedInformer
    from pyinformer.children import Children
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer, FaultProxy, FaultRun, Recorder

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
            and one.get("status", {}).get("ready") == one["spec"]["replicas"]
            for one in self._server.list(*_DATABASES)
            for name in [one["metadata"]["name"]]
        )


class _Recorded:
    """The tutorial's function for an Operator, each call recorded by its request and object."""

    def __init__(self, function: Callable[[Request, Any, Children], Awaitable[Result]]) -> None:
        self._function = function
        self._given: ContextVar[tuple[Any, Children]] = ContextVar("given")
        self._recorded: Reconcile[Any] | None = None

    def begin(self, recorder: Recorder, databases: SharedInformer[Any]) -> None:
        """Record from now on; there is no database yet."""
        self._recorded = recorder.reconciling("operator", self._call, databases)

    async def __call__(self, request: Request, database: Any, children: Children) -> Result | None:
        """Reconcile a database."""
        assert self._recorded is not None
        self._given.set((database, children))
        calling = self._recorded(request, tutorial.app.object_of(database))
        assert isawaitable(calling)
        return await calling

    async def _call(self, request: Request, _obj: KubeObject[Any] | None) -> Result:
        return await self._function(request, *self._given.get())


def _operator(monkeypatch: pytest.MonkeyPatch, function: _Recorded) -> Operator:
    """Return the tutorial's operator once more, with a function that is recorded."""
    app = Operator(tutorial.app.name)
    app.reconcile(*_DATABASES, model=tutorial.Database, owns=[_SETS])(function)
    monkeypatch.setattr(tutorial, "app", app)
    return app


async def test_the_operator_of_the_tutorial_does_its_work_under_faults(
    apiserver: APIServer,
    under_faults: Callable[..., AbstractAsyncContextManager[FaultRun]],
    fault_proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """No database is reconciled by two at once, and none is forgotten in its last state."""
    (definition,) = tutorial.app.custom_resource_definitions()
    apiserver.create(definition)
    function, users, step = _Recorded(tutorial.reconcile), _Users(apiserver), 0
    app = _operator(monkeypatch, function)
    async with under_faults(faults=_FAULTS) as run, app.running(run.cluster) as operator:
        (databases,) = operator.controllers
        for informer in databases.engine.informers:
            run.recorder.follow(informer)
        function.begin(run.recorder, databases.engine.primaries[0])
        while not run.has_calmed:
            await asyncio.to_thread(users.write, step)
            await asyncio.to_thread(users.make_pods_ready)
            step += 1
            await settle()
        await until(users.is_settled, what=databases.status())
        await run.rest()
    assert step > _COUNT
    assert any(one.verb == "patch" and one.status == 503 for one in fault_proxy.requests)
    kinds = Counter(type(one) for one in read_history(tmp_path / "history.jsonl"))
    assert kinds[ReconcilingRecord] == kinds[ReconciledRecord] > _COUNT


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
