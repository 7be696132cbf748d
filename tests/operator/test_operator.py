"""An operator on the embedded server: what its functions get, what it follows, how it ends."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import pyinformer
from pyinformer.blocking import BlockingCluster
from pyinformer.cache.informer import core_of
from pyinformer.client.transport import StaticCredentials
from pyinformer.controller import ControllerOptions, Result
from pyinformer.controller.sources import Request
from pyinformer.errors import (
    CacheSyncTimeoutError,
    InternalError,
    InvalidArgumentError,
    InvalidSelectorError,
    InvalidTypeError,
    LifecycleError,
    ModelMismatchError,
)
from pyinformer.operator import Operator, custom_resource
from pyinformer.testing import APIServer, Token
from tests.operator.test_health_server import ask, get
from tests.waiting import settle, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.objects import JSONObject, KubeObject

pytestmark = pytest.mark.every_loop

_OPTIONS = ControllerOptions(sync_timeout_seconds=0.5)


class Spec(msgspec.Struct):
    replicas: int = 1


class Database(msgspec.Struct):
    spec: Spec


@pytest.fixture
def api() -> Iterator[APIServer]:
    """A server that serves databases and the cluster-scoped planets."""
    with APIServer() as server:
        server.register("acme.io/v1", "Database", "databases")
        server.register("acme.io/v1", "Planet", "planets", namespaced=False)
        yield server


def database(name: str = "a", namespace: str = "default", replicas: object = 1) -> JSONObject:
    """Return a Database."""
    return {
        "apiVersion": "acme.io/v1",
        "kind": "Database",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"replicas": replicas},
    }


def config_map(name: str, **metadata: Any) -> JSONObject:
    """Return a ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name, **metadata},
    }


class _Seen:
    """A reconcile that notes what it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    async def __call__(self, request: Request, given: Any, cluster: pyinformer.Cluster) -> None:
        self.calls.append((str(request), given))

    @property
    def keys(self) -> list[str]:
        """The keys, in the order of the calls."""
        return [key for key, _ in self.calls]


def connected(api: APIServer) -> Any:
    """Connect a cluster."""
    return pyinformer.connect(server=api.url)


@pytest.mark.covers("controller-runtime pkg/reconcile: should not call the ObjectReconciler")
async def test_a_reconcile_gets_a_model_of_its_own_and_none_when_it_is_gone(
    api: APIServer,
) -> None:
    app, seen = Operator("test"), _Seen()
    app.reconcile("acme.io/v1", "databases", model=Database)(seen)
    api.create(database(replicas=3))

    async with connected(api) as cluster, app.running(cluster) as run:
        await until(lambda: seen.calls)
        api.delete("acme.io/v1", "databases", "a")
        await until(lambda: len(seen.calls) > 1)

        assert run.cluster is cluster
        assert run.health_url is None
    assert seen.calls[0] == ("default/a", Database(spec=Spec(replicas=3)))
    assert seen.calls[-1] == ("default/a", None)


async def test_the_object_of_a_model_is_available_during_the_reconcile(
    api: APIServer,
) -> None:
    app = Operator("test")
    seen: list[Database] = []

    @app.reconcile("acme.io/v1", "databases", model=Database)
    async def reconcile(
        request: Request, given: Database | None, cluster: pyinformer.Cluster
    ) -> None:
        if given is not None and not seen:
            given.spec.replicas = 9
            await cluster.patch(app.object_of(given), given)
            seen.append(given)

    api.create({**database(), "extra": "kept"})
    async with connected(api) as cluster, app.running(cluster):
        await until(lambda: seen)

    stored = api.get("acme.io/v1", "databases", "a")
    assert (stored["spec"], stored["extra"]) == ({"replicas": 9}, "kept")
    for gone in (seen[0], Database(spec=Spec())):
        with pytest.raises(InvalidArgumentError, match="no running reconcile of test"):
            app.object_of(gone)


async def test_without_a_model_a_reconcile_gets_the_cached_object(api: APIServer) -> None:
    app, seen = Operator("test"), _Seen()
    app.reconcile("v1", "configmaps")(seen)
    api.create(config_map("a"))

    async with connected(api) as cluster, app.running(cluster):
        await until(lambda: seen.calls)

    obj: KubeObject = seen.calls[0][1]
    assert obj.gvk.kind == "ConfigMap"


async def test_an_object_that_does_not_fit_fails_alone_and_once_until_it_changes(
    api: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    app, seen = Operator("test"), _Seen()
    app.reconcile("acme.io/v1", "databases", model=Database)(seen)
    api.create(database("bad", replicas="many"))

    async with connected(api) as cluster, app.running(cluster) as run:
        await until(lambda: "spec.replicas" in caplog.text)
        api.create(database("good"))
        await until(lambda: "default/good" in seen.keys)
        assert "default/bad" not in seen.keys
        assert caplog.text.count("'default/bad'") == 1
        api.patch("acme.io/v1", "databases", "bad", {"spec": {"replicas": 2}})
        await until(lambda: "default/bad" in seen.keys)
        assert [controller.name for controller in run.controllers] == ["databases"]


async def test_a_change_of_an_owned_object_reconciles_its_owner(api: APIServer) -> None:
    app, seen = Operator("test"), _Seen()
    app.reconcile("acme.io/v1", "databases", owns=[("v1", "configmaps")])(seen)
    owner = api.create(database())
    reference = {
        "apiVersion": "acme.io/v1",
        "kind": "Database",
        "name": "a",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }

    async with connected(api) as cluster, app.running(cluster):
        await until(lambda: seen.calls)
        before = len(seen.calls)
        api.create(config_map("child", ownerReferences=[reference]))
        await until(lambda: len(seen.calls) > before)

    assert set(seen.keys) == {"default/a"}


async def test_a_change_of_a_watched_object_reconciles_the_mapped_keys(
    api: APIServer,
) -> None:
    def users_of(obj: KubeObject) -> list[str]:
        return [f"{obj.metadata.namespace}/{name}" for name in ("a", "b")]

    app, seen = Operator("test"), _Seen()
    app.reconcile("acme.io/v1", "databases", watches=[("v1", "configmaps", users_of)])(seen)

    async with connected(api) as cluster, app.running(cluster):
        api.create(config_map("shared"))
        await until(lambda: len(seen.calls) == 2)

    assert sorted(seen.keys) == ["default/a", "default/b"]


async def test_the_caches_of_a_running_operator_can_be_read(api: APIServer) -> None:
    app, seen = Operator("test"), _Seen()
    app.reconcile("acme.io/v1", "databases", label_selector="app=web")(seen)
    app.reconcile("acme.io/v1", "databases", name="all")(seen)
    app.reconcile("acme.io/v1", "planets")(seen)
    api.create(database())
    api.create({"apiVersion": "acme.io/v1", "kind": "Planet", "metadata": {"name": "earth"}})

    async with connected(api) as cluster, app.running(cluster, namespaces="default"):
        assert app.lister("acme.io/v1", "databases").keys() == ["default/a"]
        assert app.lister("acme.io/v1", "databases", label_selector="app=web").keys() == []
        assert app.lister("acme.io/v1", "planets", cluster=cluster).keys() == ["earth"]


async def test_a_plain_function_runs_in_a_thread_with_its_model(api: APIServer) -> None:
    app = Operator("test")
    calls: list[tuple[int, Database | None]] = []

    @app.reconcile("acme.io/v1", "databases", model=Database)
    def reconcile(
        request: Request, given: Database | None, cluster: BlockingCluster
    ) -> Result | None:
        calls.append((threading.get_ident(), given))
        return None

    api.create(database(replicas=7))
    async with connected(api) as cluster, app.running(cluster):
        await until(lambda: calls)

    assert calls[0][0] != threading.get_ident()
    assert calls[0][1] == Database(spec=Spec(replicas=7))


async def test_several_namespaces_are_followed_and_no_other(api: APIServer) -> None:
    app, seen, planets = Operator("test"), _Seen(), _Seen()
    app.reconcile("acme.io/v1", "databases", owns=[("v1", "configmaps")])(seen)
    app.reconcile("acme.io/v1", "planets")(planets)
    for namespace in ("one", "two", "three"):
        api.create(database(namespace=namespace))
    api.create({"apiVersion": "acme.io/v1", "kind": "Planet", "metadata": {"name": "earth"}})

    async with connected(api) as cluster, app.running(cluster, namespaces=["one", "two"]):
        await until(lambda: len(seen.calls) == 2 and planets.calls)
        api.create(database("later", "three"))
        api.create(database("later", "two"))
        await until(lambda: len(seen.calls) == 3)

    assert sorted(seen.keys) == ["one/a", "two/a", "two/later"]
    assert planets.keys == ["earth"]
    paths = {record.path for record in api.requests if "databases" in record.path}
    assert paths == {f"/apis/acme.io/v1/namespaces/{each}/databases" for each in ("one", "two")}


async def test_only_selected_objects_are_followed(api: APIServer) -> None:
    app, seen = Operator("test"), _Seen()
    app.reconcile("v1", "configmaps", label_selector="app=web")(seen)
    api.create(config_map("other"))
    api.create(config_map("web", labels={"app": "web"}))

    async with connected(api) as cluster, app.running(cluster):
        await until(lambda: seen.calls)

    assert seen.keys == ["default/web"]


def test_the_decorator_returns_the_function_unchanged() -> None:
    app = Operator("test")

    def reconcile(request: Request, given: object, cluster: BlockingCluster) -> None:
        """Do nothing."""

    assert app.reconcile("v1", "pods")(reconcile) is reconcile
    assert "with pods" in repr(app)
    assert "with no reconcile" in repr(Operator("test"))


async def test_two_operators_are_independent(api: APIServer) -> None:
    first, second, seen, other = Operator("first"), Operator("second"), _Seen(), _Seen()
    first.reconcile("acme.io/v1", "databases")(seen)
    second.reconcile("acme.io/v1", "databases")(other)
    api.create(database())

    async with connected(api) as cluster, first.running(cluster):
        await until(lambda: seen.calls)

    assert not other.calls


async def test_one_signal_ends_all_operators_of_a_program(api: APIServer) -> None:
    api.create(config_map("a"))
    apps, calls = (Operator("first"), Operator("second")), (_Seen(), _Seen())
    for app, seen in zip(apps, calls, strict=True):
        app.reconcile("v1", "configmaps")(seen)
    async with connected(api) as cluster:
        tasks = [asyncio.create_task(app.run_async(cluster)) for app in apps]
        await until(lambda: all(seen.calls for seen in calls))
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(100):
            await asyncio.gather(*tasks)


@pytest.mark.parametrize(
    "election",
    [
        pytest.param(None, id="one-replica"),
        pytest.param(pyinformer.LeaderElection(namespace="default"), id="several-replicas"),
    ],
)
async def test_the_signal_that_ends_an_operator_is_logged_once(
    api: APIServer, caplog: pytest.LogCaptureFixture, election: pyinformer.LeaderElection | None
) -> None:
    caplog.set_level(logging.INFO)
    api.create(config_map("a"))
    app, seen = Operator("test", leader_election=election), _Seen()
    app.reconcile("v1", "configmaps")(seen)
    async with connected(api) as cluster:
        task = asyncio.create_task(app.run_async(cluster))
        await until(lambda: seen.calls)
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(100):
            await task

    (line,) = (one.getMessage() for one in caplog.records if "SIGTERM" in one.getMessage())
    assert line.endswith(": SIGTERM: stopping in order; a second signal forces the end")


async def test_an_operator_returns_its_controllers_without_running(api: APIServer) -> None:
    app, seen = Operator("test"), _Seen()
    app.reconcile("acme.io/v1", "databases", model=Database)(seen)
    app.reconcile("v1", "configmaps")(seen)
    api.create(database())

    async with connected(api) as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        databases, config_maps = app.controllers(cluster, factory, namespaces="default")
        async with databases:
            await until(lambda: seen.calls)

    assert seen.calls == [("default/a", Database(spec=Spec()))]
    assert (databases.name, config_maps.name) == ("databases", "configmaps")


async def test_a_resource_that_is_not_served_is_named_with_the_cure(
    api: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    app = Operator("test")
    app.reconcile("acme.io/v1", "backups", options=_OPTIONS)(_Seen())

    with pytest.raises(CacheSyncTimeoutError, match=r"backups.*404") as caught:
        async with connected(api) as cluster, app.running(cluster):
            pass

    assert "pyinformer crd" in caught.value.__notes__[0]
    assert "the server serves no backups of acme.io/v1" in caplog.text


async def test_an_operator_is_ready_once_the_missing_definition_exists(api: APIServer) -> None:
    @custom_resource("acme.io/v1", "backups")
    class Backup(msgspec.Struct):
        spec: Spec

    app, seen = Operator("test"), _Seen()
    app.reconcile("acme.io/v1", "backups", model=Backup)(seen)

    async with connected(api) as cluster:
        run = app.running(cluster, health_port=0)
        starting = asyncio.create_task(run.start())
        try:
            await until(lambda: run.health_url and not run.health_url.endswith(":0"))
            port = int(str(run.health_url).rpartition(":")[2])
            status, body = await ask(port, get("/readyz"))
            assert status == 503
            assert body
            for path in ("/healthz", "/livez"):
                assert (await ask(port, get(path))) == (200, "ok\n")
            for definition in app.custom_resource_definitions():
                api.create(definition)
            api.create({**database(), "kind": "Backup"})
            await starting
            assert (await ask(port, get("/readyz"))) == (200, "ok\n")
            assert run.health.ready().is_ok
            await until(lambda: seen.calls)
        finally:
            starting.cancel()
            await asyncio.wait((starting,))
            await run.aclose()


async def test_an_operator_is_unhealthy_once_a_cache_has_crashed(api: APIServer) -> None:
    app = Operator("test")
    app.reconcile("acme.io/v1", "databases")(_Seen())

    with pytest.raises(InternalError):
        async with connected(api) as cluster, app.running(cluster, health_port=0) as run:
            port = int(str(run.health_url).rpartition(":")[2])
            assert (await ask(port, get("/healthz"))) == (200, "ok\n")
            (controller,) = run.controllers
            (informer,) = controller.engine.informers
            core_of(informer).lifecycle.break_nowait(ValueError("a bug"))
            await until(lambda: informer.crash)

            while (answer := await ask(port, get("/healthz")))[0] == 200:
                await settle()  # requests of a moment share a verdict

    assert answer[0] == 503
    assert answer[1].startswith("databases.v1.acme.io: crashed")


def test_a_missing_right_ends_the_program_with_the_reason() -> None:
    token = Token(value="t", verbs=("*",), resources=("pods",))
    with APIServer(tokens=[token]) as api:
        api.register("acme.io/v1", "Database", "databases")
        app = Operator("db-operator")
        app.reconcile(
            "acme.io/v1", "databases", options=ControllerOptions(sync_timeout_seconds=2.0)
        )(_Seen())
        config = pyinformer.client.ClusterConfig(
            server=api.url, credentials=StaticCredentials.bearer("t")
        )

        with pytest.raises(SystemExit) as ended:
            app.run(config=config, health_port=None)

    assert re.match(r"db-operator: not synced after \d+\.\d s: ", str(ended.value))
    assert "403" in str(ended.value)


def test_an_unreachable_server_ends_the_program_with_the_reason() -> None:
    app = Operator("db-operator")
    app.reconcile("acme.io/v1", "databases", options=_OPTIONS)(_Seen())

    with pytest.raises(SystemExit, match=r"db-operator: .*127\.0\.0\.1:1"):
        app.run(server="http://127.0.0.1:1", health_port=None)


async def test_a_run_starts_once(api: APIServer) -> None:
    app = Operator("test")
    app.reconcile("acme.io/v1", "databases")(_Seen())
    async with connected(api) as cluster:
        run = app.running(cluster)
        assert run.controllers == ()
        async with run:
            pass
        with pytest.raises(LifecycleError, match="get a new one from the operator"):
            await run.start()
        async with app.running(cluster):
            pass


@pytest.mark.parametrize("namespaces", [[], ["Default"], "a/b", [""], [5]])
async def test_invalid_namespaces_are_refused(namespaces: Any) -> None:
    app = Operator("test")
    app.reconcile("v1", "pods")(_Seen())
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(InvalidArgumentError, match="namespace"):
            app.running(cluster, namespaces=namespaces)


async def test_an_operator_without_reconciles_does_not_run() -> None:
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(InvalidArgumentError, match="no function is registered"):
            await Operator("test").run_async(cluster)


class _Other(msgspec.Struct):
    spec: Spec


_Declared = custom_resource("acme.io/v1", "others")(_Other)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        pytest.param({"model": 5}, InvalidTypeError, "cannot be decoded", id="no-model"),
        pytest.param({"model": _Declared}, InvalidArgumentError, "is declared as", id="declared"),
        pytest.param({"owns": ("v1", "pods")}, InvalidArgumentError, "a list", id="owns-flat"),
        pytest.param({"owns": None}, InvalidArgumentError, "list of tuples", id="owns-none"),
        pytest.param({"workers": 0}, InvalidArgumentError, "an integer >= 1", id="no-worker"),
        pytest.param({"options": {}}, InvalidArgumentError, "ControllerOptions", id="options"),
        pytest.param({"predicate": 3}, InvalidTypeError, "predicate", id="bad-predicate"),
        pytest.param({"label_selector": "a in ("}, InvalidSelectorError, "a in", id="labels"),
        pytest.param({"field_selector": "a"}, InvalidSelectorError, "a", id="fields"),
        pytest.param({"owns": ["pods"]}, InvalidArgumentError, "a list", id="owns-text"),
        pytest.param({"owns": [("pods", "v1")]}, InvalidArgumentError, "swapped", id="swapped"),
        pytest.param(
            {"owns": [("v1",)]}, InvalidArgumentError, "must have entries like", id="owns-short"
        ),
        pytest.param(
            {"watches": [("v1", "pods")]},
            InvalidArgumentError,
            "must have entries like",
            id="no-mapping",
        ),
        pytest.param(
            {"watches": [("v1", "pods", 5)]}, InvalidTypeError, "mapping", id="bad-mapping"
        ),
    ],
)
def test_invalid_declarations_are_refused_at_the_decorator(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Operator("test").reconcile("acme.io/v1", "databases", **options)


@pytest.mark.parametrize("function", [5, Database, lambda request, given: None])
def test_an_invalid_reconcile_is_refused(function: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"reconcile\(request, object, cluster\)"):
        Operator("test").reconcile("v1", "pods")(function)


def test_a_name_is_taken_once() -> None:
    app = Operator("test")
    app.reconcile("v1", "pods")(_Seen())
    app.reconcile("v1", "pods", name="other")(_Seen())

    with pytest.raises(InvalidArgumentError, match="'pods' is registered already"):
        app.reconcile("v1", "pods")(_Seen())
    for wrong in ("", 7):
        with pytest.raises(InvalidArgumentError, match="name"):
            Operator(wrong)  # type: ignore[arg-type]  # what a user gives


def test_owned_resources_may_come_from_a_generator() -> None:
    app = Operator("test")
    pairs: Any = (("apps/v1", plural) for plural in ("deployments", "statefulsets"))
    app.reconcile("v1", "pods", owns=pairs)(_Seen())


async def test_run_inside_of_a_loop_names_the_method_to_call() -> None:
    app = Operator("test")
    app.reconcile("v1", "pods")(_Seen())

    with pytest.raises(LifecycleError, match=r"await run_async\(cluster\)"):
        app.run(server="http://127.0.0.1:1", health_port=None)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_an_object_that_does_not_fit_is_given_to_the_hook_for_it(
    api: APIServer, kind: str
) -> None:
    app = Operator("test")
    seen: list[tuple[str, str]] = []

    def note(key: Request, obj: KubeObject, error: ModelMismatchError) -> pyinformer.Result:
        seen.append((f"{key} {obj.gvk.kind}", error.path))
        return pyinformer.Result(0.01 if len(seen) == 1 else None)

    async def hook(
        request: Request, obj: KubeObject, cluster: object, error: ModelMismatchError
    ) -> pyinformer.Result:
        return note(request, obj, error)

    def plain_hook(
        request: Request, obj: KubeObject, cluster: object, error: ModelMismatchError
    ) -> pyinformer.Result:
        return note(request, obj, error)

    async def reconcile(request: Request, given: Any, cluster: object) -> None: ...

    def plain(request: Request, given: Any, cluster: object) -> None: ...

    given: Any = (reconcile, hook) if kind == "async" else (plain, plain_hook)
    app.reconcile("acme.io/v1", "databases", model=Database, on_unreadable=given[1])(given[0])
    api.create(database("bad", replicas="many"))
    api.create(database("good"))
    async with connected(api) as cluster, app.running(cluster) as run:
        await until(lambda: len(seen) == 2)
        outcomes = run.controllers[0].status().outcomes
        await until(lambda: run.controllers[0].status().outcomes["success"] >= 1)
        assert outcomes["terminal"] == outcomes["error"] == 0
    assert seen == [("default/bad Database", "spec.replicas")] * 2


async def test_a_mismatch_that_the_reconcile_raises_itself_is_not_given_to_the_hook(
    api: APIServer,
) -> None:
    app, seen = Operator("test"), list[str]()

    async def hook(request: Request, obj: object, cluster: object, error: object) -> None:
        seen.append(request.name)

    @app.reconcile("acme.io/v1", "databases", model=Database, on_unreadable=hook)
    async def reconcile(
        request: Request, given: Database | None, cluster: pyinformer.Cluster
    ) -> None:
        raise ModelMismatchError("Database 'a'", "no", key=str(request.key), path="")

    api.create(database())
    async with connected(api) as cluster, app.running(cluster) as run:
        await until(lambda: run.controllers[0].status().outcomes["terminal"])
    assert seen == []


async def _async_hook(request: object, obj: object, cluster: object, error: object) -> None: ...


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"on_unreadable": _async_hook}, InvalidArgumentError, "on_unreadable: needs a model="),
        ({"model": Database, "on_unreadable": len}, InvalidTypeError, "on_unreadable(request,"),
    ],
)
def test_a_hook_that_cannot_be_called_is_refused(
    options: Any, error: type[Exception], words: str
) -> None:
    async def reconcile(request: object, given: object, cluster: object) -> None: ...

    with pytest.raises(error, match=re.escape(words)):
        Operator("test").reconcile("acme.io/v1", "databases", **options)(reconcile)
