"""The caches of an operator: what it follows, how they are kept, and who reads them."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pyinformer import KubeObject, Operator, Request, View
from pyinformer.blocking import BlockingCluster
from pyinformer.client.cluster import Cluster
from pyinformer.errors import (
    IndexNotFoundError,
    InvalidArgumentError,
    InvalidSelectorError,
    InvalidTypeError,
    LifecycleError,
    NotCachedError,
)
from pyinformer.operator import Listers, Owns, Watches, custom_resource
from pyinformer.testing import World
from tests.leaderelection.electing import Line
from tests.waiting import pause, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class PodSpec(View):
    node_name: str = ""


class PodView(View):
    spec: PodSpec = PodSpec()


class OtherView(View):
    spec: PodSpec | None = None


def body(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    """Return an object of the core group in the namespace default."""
    metadata = {"namespace": "default", "name": name, **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


def pod(name: str, node: str = "", **labels: str) -> dict[str, Any]:
    """Return a Pod on a node."""
    return body("Pod", name, metadata={"labels": labels}, spec={"nodeName": node})


@pytest.fixture
def world() -> Iterator[World]:
    """A World with two Pods, a ConfigMap and a Secret."""
    objects = [
        pod("a", "one", app="web"),
        pod("b", "two"),
        body("ConfigMap", "map"),
        body("Secret", "secret", data={"password": "aHVudGVyMg=="}),
    ]
    with World(objects) as world:
        yield world


async def nothing(request: Request, obj: Any, cluster: Cluster) -> None:
    """Reconcile nothing."""


def controllers(app: Operator, world: World, **options: Any) -> tuple[Any, ...]:
    """Return the controllers of an operator, with synced caches."""
    made = app.controllers(world.cluster, world.factory, **options)
    world.reconcile(made[0], "default/none")
    return made


def scopes(world: World) -> list[str]:
    """Return what is followed."""
    return sorted(str(one.scope) for one in world.factory.informers)


@pytest.mark.covers(
    "controller-runtime pkg/cache: should not be able to list objects that haven't been",
    "controller-runtime pkg/cache: should be able to index an object field then retrieve",
)
def test_reconciles_and_mappings_read_every_cache_of_the_operator(world: World) -> None:
    app = Operator("test")
    seen: list[tuple[str, list[str], bool]] = []
    loop_thread = world.run(_thread)

    def read(who: str) -> list[str]:
        found = app.lister("v1", "pods").by_index("node", "one")
        is_in_loop = threading.get_ident() == loop_thread
        seen.append((who, [one.metadata.name for one in found], is_in_loop))
        return ["default/map"]

    @app.reconcile("v1", "configmaps", watches=[("v1", "secrets", lambda _: read("mapping"))])
    async def asynchronous(request: Request, obj: KubeObject | None, cluster: Cluster) -> None:
        read("async")

    @app.reconcile("v1", "configmaps", name="plain")
    def plain(request: Request, obj: KubeObject | None, cluster: BlockingCluster) -> None:
        read("plain")

    app.index("v1", "pods", "node", "spec.nodeName")
    first, second = app.controllers(world.cluster, world.factory)
    for controller in (first, second):
        assert world.reconcile(controller, "default/map").error is None
    world.patch("v1", "secrets", "secret", {"data": {"more": "aQ=="}})
    assert [str(one) for one in world.enqueued_by(first)] == ["default/map"]

    assert seen[:2] == [("async", ["a"], True), ("plain", ["a"], False)]
    assert seen[2:] == [("mapping", ["a"], True)] * 2  # for the old and for the new state


async def _thread() -> int:
    return threading.get_ident()


def test_a_lister_shows_own_writes_and_only_the_followed_namespaces(world: World) -> None:
    app = Operator("test")
    app.reconcile("v1", "configmaps")(nothing)
    controllers(app, world, namespaces="default")
    lister = app.lister("v1", "configmaps")

    world.run(lambda: world.cluster.create(body("ConfigMap", "new")))

    assert lister.get("default/new") is not None
    assert lister.get("default/none") is None
    with pytest.raises(NotCachedError, match="'other'"):
        lister.get("other/new")
    with pytest.raises(IndexNotFoundError, match="node"):
        lister.by_index("node", "one")


def test_nothing_is_reconciled_before_a_followed_cache_has_synced() -> None:
    async def scenario() -> None:
        line = Line(world.cluster.connection)
        line.holds_new = True
        run = app.running(Cluster(world.cluster.config, connection=line))
        starting = asyncio.create_task(run.start())
        await until(lambda: line.count("LIST") + line.count("WATCH") >= 2)
        line.hold("configmaps", held=False)
        await pause(20)
        assert reconciled == []
        line.hold("pods", held=False)
        await starting
        await until(lambda: reconciled)
        await run.aclose()

    app, reconciled = Operator("test"), list[list[str]]()

    @app.reconcile("v1", "configmaps")
    async def reconcile(request: Request, obj: object, cluster: Cluster) -> None:
        reconciled.append(app.lister("v1", "pods").keys())

    app.follow("v1", "pods")
    with World([pod("a"), body("ConfigMap", "map")], virtual_time=True) as world:
        world.run(scenario)
    assert reconciled == [["default/a"]]


def test_a_mapping_of_two_arguments_gets_the_listers(world: World) -> None:
    def maps_of(one: KubeObject, listers: Listers) -> list[str]:
        pods = listers.lister("v1", "pods", model=PodView).by_index("node", "one")
        return [f"default/{one.metadata.name}-{pod.view.spec.node_name}" for pod in pods]

    def generated(one: KubeObject, listers: Listers) -> Any:
        yield from listers.lister("v1", "pods").keys()

    app = Operator("test")
    mappings: list[Callable[..., Any]] = [
        maps_of,
        generated,
        lambda one, name="c": f"default/{name}",
    ]
    app.reconcile("v1", "configmaps", watches=[("v1", "secrets", one) for one in mappings])(nothing)
    app.follow("v1", "pods", model=PodView)
    app.index("v1", "pods", "node", "spec.nodeName")
    (controller,) = controllers(app, world)

    world.patch("v1", "secrets", "secret", {"data": {"more": "aQ=="}})

    keys = {str(one) for one in world.enqueued_by(controller)}
    assert keys == {"default/secret-one", "default/a", "default/b", "default/c"}


def test_a_failing_mapping_of_two_arguments_is_logged_by_its_own_name(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(one: KubeObject, listers: Listers) -> str:
        return listers.lister("v1", "nodes").keys()[0]

    app = Operator("test")
    app.reconcile("v1", "configmaps", watches=[("v1", "secrets", broken)])(nothing)
    (controller,) = controllers(app, world)
    world.patch("v1", "secrets", "secret", {"data": {"more": "aQ=="}})

    assert world.enqueued_by(controller) == []
    assert "<locals>.broken failed on default/secret: InvalidArgumentError" in caplog.text


def test_declarations_with_equal_selectors_share_an_informer(world: World) -> None:
    app = Operator("test")
    web = Owns("v1", "pods", label_selector={"app": "web"})
    app.reconcile("v1", "configmaps", owns=[web])(nothing)
    mapped = Watches("v1", "pods", lambda _: None, label_selector="app=web")
    everything = ("v1", "pods", lambda _: None)
    app.reconcile("v1", "secrets", owns=[("v1", "configmaps")], watches=[mapped, everything])(
        nothing
    )
    controllers(app, world)

    assert scopes(world) == [
        "configmaps.v1",
        "pods.v1",
        "pods.v1 with labels app=web",
        "secrets.v1",
    ]
    assert sorted(app.lister("v1", "pods").keys()) == ["default/a", "default/b"]
    assert app.lister("v1", "pods", label_selector="app = web").keys() == ["default/a"]


def test_without_selectors_a_read_is_of_the_only_cache_of_a_resource(world: World) -> None:
    app = Operator("test")
    app.reconcile("v1", "configmaps", owns=[Owns("v1", "pods", label_selector="app=web")])(nothing)
    app.reconcile("v1", "secrets", label_selector="a", owns=[("v1", "configmaps")])(nothing)
    app.follow("v1", "secrets", field_selector="metadata.name=secret")
    controllers(app, world)

    assert app.lister("v1", "pods").keys() == ["default/a"]
    with pytest.raises(InvalidArgumentError, match="2 caches with different selectors: name one"):
        app.lister("v1", "secrets")
    named = app.lister("v1", "secrets", field_selector={"metadata.name": "secret"})
    assert named.keys() == ["default/secret"]
    with pytest.raises(InvalidArgumentError, match=r"pods.v1 with labels b is not followed"):
        app.lister("v1", "pods", label_selector="b")


def test_a_predicate_of_a_record_drops_changes(world: World) -> None:
    def has_moved(old: KubeObject[PodView] | None, new: KubeObject[PodView] | None) -> bool:
        return old is None or new is None or old.view.spec != new.view.spec

    app = Operator("test")
    watches = Watches("v1", "pods", _default_map, predicate=has_moved, model=PodView)
    owns = Owns("v1", "pods", predicate=has_moved, model=PodView)
    app.reconcile("v1", "configmaps", owns=[owns], watches=[watches])(nothing)
    (controller,) = controllers(app, world)
    owner = world.get("v1", "configmaps", "map")["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "map", "uid": owner["uid"]}
    owned = {"metadata": {"ownerReferences": [{**reference, "controller": True}]}}

    world.patch("v1", "pods", "a", owned)
    assert world.enqueued_by(controller) == []
    world.patch("v1", "pods", "a", {"spec": {"nodeName": "three"}})
    (request,) = world.enqueued_by(controller)
    assert {one.source for one in request.reasons} == {"owned pods.v1", "watched pods.v1"}


def _default_map(one: KubeObject[PodView]) -> str:
    return f"{one.metadata.namespace}/map"


def test_owned_secrets_can_be_kept_without_their_values(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    app = Operator("test")
    app.reconcile("v1", "configmaps", owns=[Owns("v1", "secrets", memory="metadata")])(nothing)
    watched = Watches("v1", "secrets", lambda _: None, memory="metadata")
    app.reconcile("v1", "pods", watches=[watched])(nothing)
    app.running(world.cluster)
    controllers(app, world)

    (found,) = app.lister("v1", "secrets").list()
    assert found.to_dict().keys() == {"apiVersion", "kind", "metadata"}
    assert "Secrets" not in caplog.text


def test_secrets_of_which_a_model_is_read_are_kept_by_choice(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    app = Operator("test")
    app.reconcile("v1", "configmaps", owns=[Owns("v1", "secrets", model=PodView)])(nothing)
    app.running(world.cluster)
    assert "Secrets" not in caplog.text


@pytest.mark.parametrize(
    ("declare", "by"),
    [
        ({"owns": [("v1", "secrets")]}, "owns= of 'configmaps'"),
        ({"watches": [("v1", "secrets", lambda _: None)]}, "watches= of 'configmaps'"),
    ],
)
def test_values_of_secrets_that_nothing_asked_for_are_reported_once(
    world: World, caplog: pytest.LogCaptureFixture, declare: Any, by: str
) -> None:
    app = Operator("test")
    app.reconcile("v1", "configmaps", **declare)(nothing)
    app.running(world.cluster)
    app.running(world.cluster)

    (text,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert f"because of {by}" in text
    assert 'memory="metadata" keeps only their metadata' in text


@pytest.mark.parametrize(
    "declare",
    [
        pytest.param(lambda app: app.reconcile("v1", "secrets")(nothing), id="reconciled"),
        pytest.param(lambda app: app.follow("v1", "secrets", memory="raw"), id="asked-for"),
    ],
)
def test_values_of_secrets_that_were_asked_for_are_not_reported(
    world: World, caplog: pytest.LogCaptureFixture, declare: Callable[[Operator], object]
) -> None:
    app = Operator("test")
    declare(app)
    app.reconcile("v1", "configmaps", owns=[("v1", "secrets")])(nothing)
    app.running(world.cluster)

    assert caplog.text == ""


@pytest.mark.covers(
    "controller-runtime pkg/cache: should not be able to list objects that haven't been",
    "controller-runtime pkg/cache: should be able to list objects that haven't been watched",
)
def test_a_lister_needs_a_running_operator_and_a_followed_resource(world: World) -> None:
    app = Operator("db-operator")
    app.reconcile("v1", "configmaps")(nothing)

    with pytest.raises(LifecycleError, match=r"db-operator does not run.*app\.running"):
        app.lister("v1", "configmaps")

    async def scenario() -> None:
        async with app.running(world.cluster):
            assert app.lister("v1", "configmaps").keys() == ["default/map"]
            with pytest.raises(InvalidArgumentError) as caught:
                app.lister("v1", "secrets")
            assert 'call app.follow("v1", "secrets") before the operator runs' in str(caught.value)
            assert "Followed are: configmaps.v1" in str(caught.value)
            with pytest.raises(InvalidArgumentError) as caught:
                app.lister("v1", "pods", label_selector="app=a")
            assert 'app.follow("v1", "pods", label_selector="app=a")' in str(caught.value)
            with pytest.raises(
                InvalidArgumentError, match=r"has no model .*: declare it with model="
            ):
                app.lister("v1", "configmaps", model=PodView)
            with pytest.raises(LifecycleError, match=r"follow\(\): db-operator runs already"):
                app.follow("v1", "secrets")
            with pytest.raises(LifecycleError, match=r"index\(\): db-operator runs already"):
                app.index("v1", "secrets", "name", "metadata.name")
        with pytest.raises(LifecycleError, match="does not run"):
            app.lister("v1", "configmaps")

    world.run(scenario)


def test_on_several_clusters_a_lister_is_of_the_named_one(world: World) -> None:
    app = Operator("test")
    app.reconcile("v1", "configmaps")(nothing)
    with World(name="eu", beside=world) as eu, World(name="us", beside=world) as us:
        eu.create(body("ConfigMap", "eu"))
        controllers(app, eu)
        controllers(app, us)

        with pytest.raises(InvalidArgumentError, match="runs 2 times, on 'eu', 'us': pass cluster"):
            app.lister("v1", "configmaps")
        with pytest.raises(InvalidArgumentError, match="does not run on 'asia', but on 'eu', 'us'"):
            app.lister("v1", "configmaps", cluster="asia")
        assert app.lister("v1", "configmaps", cluster="us").keys() == []
        assert app.lister("v1", "configmaps", cluster=eu.cluster).keys() == ["default/eu"]


def test_caches_that_are_closed_do_not_count_as_running() -> None:
    app = Operator("test")
    app.reconcile("v1", "configmaps")(nothing)
    for name in ("first", "second"):
        with World([body("ConfigMap", name)]) as world:
            controllers(app, world)
            assert app.lister("v1", "configmaps").keys() == [f"default/{name}"]


_META = Owns("v1", "secrets", memory="metadata")
_POD_VIEW = Owns("v1", "pods", model=PodView)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        pytest.param(
            {"owns": [_META]},
            {"owns": [Owns("v1", "secrets", memory="raw")]},
            "'metadata' by owns= of 'one', and 'raw' by owns= of 'two', but one cache: give both",
            id="memory",
        ),
        pytest.param(
            {"watches": [("v1", "secrets", lambda _: None)]},
            {"owns": [Owns("v1", "secrets", memory="metadata")]},
            "'metadata' by owns= of 'two', but watches= of 'one' gets whole objects",
            id="whole-and-metadata",
        ),
        pytest.param(
            {"owns": [_POD_VIEW]},
            {"owns": [Owns("v1", "pods", model=OtherView)]},
            "the model PodView by owns= of 'one', and OtherView by owns= of 'two'",
            id="views",
        ),
        pytest.param(
            {"owns": [_POD_VIEW]},
            {"owns": [Owns("v1", "pods", memory="metadata")]},
            "'metadata' by owns= of 'two', but owns= of 'one' gets whole objects",
            id="view-of-metadata",
        ),
        pytest.param(
            {"owns": [Owns("v1", "configmaps", memory="metadata")]},
            {},
            "but reconcile of 'one' gets whole objects",
            id="reconciled",
        ),
    ],
)
def test_declarations_that_contradict_each_other_are_refused_at_once(
    first: Any, second: Any, words: str
) -> None:
    app = Operator("test")
    with pytest.raises(InvalidArgumentError, match=words):
        app.reconcile("v1", "configmaps", name="one", **first)(nothing)
        app.reconcile("v1", "configmaps", name="two", **second)(nothing)
    app.reconcile("v1", "configmaps", name="two")(nothing)  # nothing of it was registered


owns: Any = Owns  # what users call without a type checker
watches: Any = Watches


def _three(one: object, two: object, three: object) -> None: ...


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: owns("pods", "v1"), InvalidArgumentError, "swapped"),
        (lambda: owns("v1", "pods", label_selector="a in ("), InvalidSelectorError, "a in"),
        (lambda: owns("v1", "pods", memory="all"), InvalidArgumentError, "memory"),
        (lambda: owns("v1", "pods", model=5), InvalidTypeError, "model"),
        (lambda: owns("v1", "pods", predicate=_default_map), InvalidTypeError, "predicate"),
        (lambda: watches("v1", "pods", 5), InvalidTypeError, "mapping(obj) or mapping(obj, lis"),
        (lambda: watches("v1", "pods", _three), InvalidTypeError, "got one that takes"),
        (lambda: watches("v1", "pods", nothing), InvalidTypeError, "got one that takes"),
    ],
)
def test_an_invalid_record_is_refused_where_it_is_made(
    make: Callable[[], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=re.escape(words)):
        make()


async def _async_mapping(one: object, listers: object) -> None: ...


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"owns": Owns("v1", "pods")}, "must be a list of tuples or Owns(...) records"),
        ({"owns": [watches("v1", "pods", len)]}, 'or Owns("apps/v1", "statefulsets"), got Watches'),
        ({"watches": [Owns("v1", "pods")]}, 'or Watches("v1", "secrets", mapping), got Owns'),
    ],
)
def test_a_wrong_record_is_refused_with_the_right_one(options: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(words)):
        Operator("test").reconcile("v1", "configmaps", **options)


def test_a_mapping_that_waits_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="must not be asynchronous"):
        watches("v1", "pods", _async_mapping)


@pytest.mark.parametrize(
    ("name", "by", "error", "words"),
    [
        ("node", "metadata.name", InvalidArgumentError, "has an index 'node' already"),
        ("namespace", "metadata.name", InvalidArgumentError, "'namespace' exists already"),
        ("", "metadata.name", InvalidArgumentError, "a non-empty string"),
        ("path", "spec..name", InvalidArgumentError, "spec..name"),
        ("number", 5, InvalidTypeError, "index(obj)"),
        ("coroutine", _async_mapping, InvalidTypeError, "index(obj)"),
    ],
)
def test_an_invalid_index_is_refused(
    name: str, by: Any, error: type[Exception], words: str
) -> None:
    app = Operator("test")
    app.index("v1", "pods", "node", "spec.nodeName")

    with pytest.raises(error, match=re.escape(words)):
        app.index("v1", "pods", name, by)


def test_an_index_of_what_a_cache_does_not_keep_is_refused(world: World) -> None:
    app = Operator("test")
    app.reconcile("v1", "configmaps", owns=[_META])(nothing)
    app.index("v1", "secrets", "type", "type")

    with pytest.raises(InvalidArgumentError, match="type is not kept with memory='metadata'"):
        app.controllers(world.cluster, world.factory)


class RegionSpec(msgspec.Struct):
    zones: int = 1


@custom_resource("acme.io/v1", "regions", scope="Cluster")
class Region(msgspec.Struct):
    """A resource in no namespace."""

    spec: RegionSpec


@pytest.mark.parametrize(
    ("api_version", "kind", "plural", "model"),
    [
        pytest.param("v1", "Node", "nodes", None, id="of Kubernetes"),
        pytest.param("acme.io/v1", "Region", "regions", Region, id="of a model"),
    ],
)
def test_what_is_in_no_namespace_is_followed_as_a_whole_without_discovery(
    api_version: str, kind: str, plural: str, model: type | None
) -> None:
    """Discovery is not read for a test's controllers, nor while a definition is missing."""
    app, seen = Operator("scopes"), list[str]()
    one = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, "spec": {}}

    @app.reconcile(api_version, plural, model=model)
    async def reconcile(request: Request, obj: object | None, cluster: Cluster) -> None:
        seen.append(request.key)
        assert obj is not None
        assert app.lister(api_version, plural).keys() == ["one"]

    with World([*app.custom_resource_definitions(), one]) as world:
        (controller,) = app.controllers(world.cluster, world.factory, namespaces="shop")
        assert world.reconcile(controller, "one").error is None
    assert seen == ["one"]
