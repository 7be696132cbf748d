"""What a user's type checker must see; read by the two of them, never run.

Every `reveal_type(...)` carries the expected type in a comment behind it, without module names.
test_reveal_types.py asks mypy and pyright and compares. To add a case, add a line to the function
of its station, or a function for a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never, reveal_type

import msgspec

from pyinformer import Buckets, Controller, SharedInformer, create_or_update, retry_on_conflict
from pyinformer.client import config_from_client
from pyinformer.objects import Added, Deleted, KubeObject, ObjectMeta, Updated, View
from pyinformer.operator import Owns, Watches

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient, Configuration

    from pyinformer import Cluster, Operator, Request, Result, SharedInformerFactory
    from pyinformer.blocking import BlockingCluster, BlockingInformerFactory, Runner
    from pyinformer.cache.store import Indexer, Lister
    from pyinformer.objects import Event, GroupVersionResource, ObjectKey
    from pyinformer.operator import Listers, Versions


class PodStatus(View):
    """A nested part of the view."""

    phase: str = ""


class PodView(View):
    """What these cases project of a pod."""

    status: PodStatus


class Model:
    """A model of the user's own."""


class Generated:
    """A typed class as kubernetes_asyncio has them."""

    def __init__(self, api_client: object | None = None) -> None:
        """Keep the client."""


def objects(plain: KubeObject, viewed: KubeObject[PodView]) -> None:
    """KubeObject: generic in its view, and every read has a type of its own."""
    reveal_type(plain.view)  # None
    reveal_type(viewed.view)  # PodView
    reveal_type(viewed.view.status.phase)  # str
    reveal_type(plain.key)  # ObjectKey
    reveal_type(plain.raw)  # bytes
    reveal_type(plain.at("spec.nodeName", str))  # str
    reveal_type(plain.at("spec.nodeName", str, default=None))  # str | None
    reveal_type(plain.at("spec.nodeName"))  # Any
    reveal_type(plain.at("spec.nodeName", default=None))  # Any
    reveal_type(plain.at("spec.replicas", int, default="none"))  # int | str
    reveal_type(plain.at("metadata.finalizers", list[str]))  # list[str]
    reveal_type(plain.at("status", PodStatus))  # PodStatus
    reveal_type(plain.as_type(Model))  # Model
    reveal_type(plain.to_dict())  # dict[str, Any]
    reveal_type(plain.same_content(viewed))  # bool
    reveal_type(plain.annotations.get("a"))  # str | None
    reveal_type(plain.metadata.labels["app"])  # str
    reveal_type(plain.metadata.labels.get("app", 5))  # str | int


def views() -> None:
    """A view is a frozen dataclass to a type checker: keywords only, nothing to assign."""
    view = PodView(status=PodStatus(phase="Running"))
    reveal_type(view.status)  # PodStatus
    PodView(PodStatus())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    PodView(state=PodStatus())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    PodStatus(phase=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    view.status = PodStatus()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def frozen(obj: KubeObject[PodView]) -> None:
    """What an object refuses at run time, a type checker refuses before."""
    obj["spec"]  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    obj["a"] = 1  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    obj.raw = b""  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    obj.metadata.name = ""  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    len(obj)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def reads(lister: Lister[PodView], store: Indexer[PodView]) -> None:
    """Every read of a cache gives objects with its view."""
    reveal_type(lister.get("default/a"))  # KubeObject[PodView] | None
    reveal_type(lister["default/a"])  # KubeObject[PodView]
    reveal_type(lister.list(label_selector={"app": "web"}))  # list[KubeObject[PodView]]
    reveal_type(lister.by_index("node", 5))  # list[KubeObject[PodView]]
    reveal_type(lister.iter_async())  # AsyncIterator[KubeObject[PodView]]
    reveal_type(lister.namespace("a"))  # NamespaceLister[PodView]
    reveal_type(lister.namespace("a").get("b"))  # KubeObject[PodView] | None
    reveal_type(store.by_index("node", "n1"))  # list[KubeObject[PodView]]
    reveal_type(store.get("default/a"))  # KubeObject[PodView] | None
    reveal_type(store.index_values("node"))  # list[str]


def matches(event: Event[PodView]) -> None:
    """A match over the three events is exhaustive and knows what it binds."""
    match event:
        case Added(new):
            reveal_type(new)  # KubeObject[PodView]
        case Updated(old, new):
            reveal_type(old)  # KubeObject[PodView]
            reveal_type(new.view)  # PodView
        case Deleted(last_known):
            reveal_type(last_known)  # KubeObject[PodView]
        case _:
            assert_never(event)


def names(key: ObjectKey, resource: GroupVersionResource, meta: ObjectMeta) -> None:
    """Keys, resources and metadata."""
    reveal_type(key.namespace)  # str
    reveal_type(resource.api_version)  # str
    reveal_type(meta.labels)  # Labels
    reveal_type(meta.finalizers)  # tuple[str, ...]
    reveal_type(meta.deletion_timestamp)  # str | None


def foreign_clients(configuration: Configuration, client: ApiClient) -> None:
    """The configuration and the client of another library are accepted."""
    reveal_type(config_from_client(configuration))  # ClusterConfig
    reveal_type(config_from_client(client))  # ClusterConfig


async def commands(cluster: Cluster, blocking: BlockingCluster, pod: KubeObject[PodView]) -> None:
    """A command takes a pod with any view, and a typed class stays what it is."""
    found = await cluster.exec(pod, ("ls", "-l"), stdin="text")
    reveal_type(found)  # ExecResult
    reveal_type(found.stdout)  # str
    reveal_type(blocking.exec("shop/web", ["ls"]))  # ExecResult
    reveal_type(cluster.api(Generated))  # Generated


def informers(cluster: Cluster, factory: SharedInformerFactory) -> None:
    """An informer is generic in its view, and so is whatever comes from it."""
    plain = factory.informer("v1", "pods", namespaces="default", private=True)
    viewed = factory.informer("v1", "pods", model=PodView, label_selector={"app": "web"})
    reveal_type(plain)  # SharedInformer[None]
    reveal_type(viewed)  # SharedInformer[PodView]
    reveal_type(SharedInformer(cluster, "v1", "pods"))  # SharedInformer[None]
    alone = SharedInformer(cluster, "v1", "pods", model=PodView)
    reveal_type(alone)  # SharedInformer[PodView]
    reveal_type(viewed.lister["default/a"].view.status.phase)  # str
    reveal_type(viewed.lister.namespace("a").list())  # list[KubeObject[PodView]]
    reveal_type(viewed.status().has_synced)  # bool
    reveal_type(factory.status().abandoned_handlers)  # tuple[str, ...]


class DeploymentSpec(msgspec.Struct, frozen=True):
    """A part of the model."""

    replicas: int = 1


class Deployment(msgspec.Struct, frozen=True):
    """A model of a built-in resource."""

    spec: DeploymentSpec


async def informers_with_models(factory: SharedInformerFactory) -> None:
    """With a model, everything that comes from the informer has it as its view."""
    deployments = factory.informer("apps/v1", "deployments", model=Deployment, namespaces="a")
    reveal_type(deployments)  # SharedInformer[Deployment]
    reveal_type(deployments.lister["a/b"].view.spec.replicas)  # int
    reveal_type(deployments.lister.get("a/b"))  # KubeObject[Deployment] | None
    reveal_type(deployments.lister.namespace("a").list())  # list[KubeObject[Deployment]]
    reveal_type(deployments.lister.by_index("image", "web"))  # list[KubeObject[Deployment]]
    reveal_type(deployments.lister.fresh(max_age_seconds=1.0))  # Lister[Deployment]
    deployments.add_index("replicas", lambda one: one.view.spec.replicas)
    deployments.lister["a/b"].view.spec.replicas = 2  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    deployments.add_event_handler(
        on_add=lambda one: one.view.spec.replicas,
        on_update=lambda old, new: (old.view.spec, new.view.spec),
    )
    async with deployments.events() as events:
        async for event in events:
            if isinstance(event, Added):
                reveal_type(event.object.view)  # Deployment
    found = await deployments.wait_for("a/b", lambda one: one is None or one.view.spec.replicas > 1)
    reveal_type(found)  # KubeObject[Deployment] | None


def blocking_informers_with_models(factory: BlockingInformerFactory) -> None:
    """The same of the blocking face."""
    deployments = factory.informer("apps/v1", "deployments", model=Deployment)
    reveal_type(deployments)  # BlockingInformer[Deployment]
    reveal_type(deployments.lister["a/b"].view.spec.replicas)  # int


def handlers(viewed: SharedInformer[PodView]) -> None:
    """Handlers of every shape are accepted, and their arguments have types."""

    async def asynchronous(event: Added[PodView] | Updated[PodView] | Deleted[PodView]) -> None:
        reveal_type(event.key)  # str

    reveal_type(viewed.add_event_handler(asynchronous))  # Registration[PodView]
    parts = viewed.add_event_handler(
        on_add=lambda obj: obj.view.status.phase,
        on_update=lambda old, new: (old.view.status, new.view.status),
    )
    reveal_type(parts.has_synced)  # bool


async def streams(viewed: SharedInformer[PodView]) -> None:
    """A stream's events can be matched."""
    async with viewed.events(max_events=10) as events:
        async for event in events:
            reveal_type(event)  # Added[PodView] | Updated[PodView] | Deleted[PodView]


async def operators(app: Operator, cluster: Cluster, model: Model, request: Request) -> None:
    """A reconcile gets its model, or None; the function stays what it was."""

    @app.reconcile("acme.io/v1", "models", model=Model)
    async def typed(request: Request, found: Model | None, cluster: Cluster) -> Result | None:
        return None

    @app.reconcile("v1", "pods")  # a plain one, in a thread
    def untyped(request: Request, found: KubeObject | None, cluster: BlockingCluster) -> None:
        reveal_type(cluster.get("v1", "pods", request.key))  # KubeObject[None]

    @app.reconcile("v1", "pods")  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportCallIssue]
    def of_the_loop(request: Request, found: KubeObject | None, cluster: Cluster) -> None:
        return None

    @app.reconcile("v1", "pods")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    async def blocking(request: Request, found: object, cluster: BlockingCluster) -> None:
        return None

    @app.reconcile("acme.io/v1", "models", model=Model)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    async def never_gone(request: Request, found: Model, cluster: Cluster) -> None:
        return None

    @app.reconcile("acme.io/v1", "models", model=Model)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    async def of_another(request: Request, found: PodView | None, cluster: Cluster) -> None:
        return None

    @app.every(60)
    async def sweep(cluster: Cluster) -> None:
        return None

    @app.every(60)
    def report(cluster: BlockingCluster) -> Result | None:
        return None

    @app.every(60)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportCallIssue]
    def of_the_loop_too(cluster: Cluster) -> None:
        return None

    reveal_type(app.reconcile("acme.io/v1", "models", model=Model))  # Register[Model]
    reveal_type(app.reconcile("v1", "pods"))  # Register[KubeObject[None]]
    reveal_type(await typed(request, model, cluster))  # Result | None
    reveal_type(app.object_of(model))  # KubeObject[None]
    reveal_type(app.running(cluster).controllers)  # tuple[Controller[None], ...]
    reveal_type(app.lister("v1", "pods"))  # Lister[None]
    reveal_type(app.lister("v1", "pods", model=PodView, cluster="eu"))  # Lister[PodView]


async def daemons(app: Operator) -> None:
    """A daemon gets the versions of its object, of the model."""

    @app.daemon("acme.io/v1", "models", model=Model)
    async def follow(request: Request, versions: Versions[Model], cluster: Cluster) -> None:
        reveal_type(versions.newest)  # Model
        async for version in versions:
            reveal_type(version)  # Model

    @app.daemon("v1", "pods")
    async def follow_objects(request: Request, versions: Versions, cluster: Cluster) -> None:
        reveal_type(await anext(versions))  # KubeObject[None]

    reveal_type(app.daemon("v1", "pods"))  # RegisterDaemon[KubeObject[None]]


def declarations(app: Operator, cluster: Cluster) -> None:
    """Records are generic in their view, and a mapping may take the listers."""

    def of_a_pod(pod: KubeObject) -> list[str]:
        return []

    def of_two(pod: KubeObject, listers: Listers) -> list[str]:
        reveal_type(listers.lister("v1", "pods"))  # Lister[None]
        return []

    def viewed(pod: KubeObject[PodView], listers: Listers) -> str:
        reveal_type(listers.lister("v1", "pods", model=PodView))  # Lister[PodView]
        return pod.view.status.phase

    def moved(old: KubeObject[PodView] | None, new: KubeObject[PodView] | None) -> bool:
        return True

    def wrong(pod: KubeObject[PodView], listers: Listers) -> int:
        return 5

    secrets = Owns("v1", "secrets", memory="metadata")
    pods = Watches("v1", "pods", viewed, model=PodView, predicate=moved)
    reveal_type(secrets)  # Owns[None]
    reveal_type(Owns("v1", "pods", model=PodView, predicate=moved))  # Owns[PodView]
    reveal_type(pods)  # Watches[PodView]
    app.reconcile(
        "v1",
        "configmaps",
        owns=[("apps/v1", "deployments"), secrets],
        watches=[pods, ("v1", "pods", of_a_pod), ("v1", "pods", of_two), ("v1", "b", lambda _: "")],
    )
    Watches("v1", "pods", wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Owns("v1", "pods", memory="all")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def controllers(
    plain: SharedInformer[None], viewed: SharedInformer[PodView], request: Request
) -> None:
    """A controller is generic in the view of its primary, and so is what reconcile may touch."""

    async def reconcile(request: Request, pod: KubeObject[PodView] | None) -> Result | None:
        reveal_type(request.key)  # ObjectKey
        if pod is not None:
            reveal_type(pod.view.status.phase)  # str
        return None

    def in_a_thread(request: Request, pod: KubeObject[PodView] | None) -> None:
        return None

    async def of_none(request: Request, pod: KubeObject | None) -> None:
        return None

    async def never_gone(request: Request, pod: KubeObject[PodView]) -> None:
        return None

    async def nonsense(request: Request, pod: KubeObject[PodView] | None) -> int:
        return 5

    reveal_type(Controller("pods", reconcile, viewed))  # Controller[PodView]
    reveal_type(Controller("pods", reconcile, [viewed, viewed]))  # Controller[PodView]
    reveal_type(Controller("pods", in_a_thread, viewed))  # Controller[PodView]
    reveal_type(Controller("pods", of_none, plain))  # Controller[None]
    reveal_type(Controller("timer", of_none))  # Controller[None]
    Controller("pods", reconcile, plain)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    Controller("pods", never_gone, viewed)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Controller("pods", nonsense, viewed)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    controller = Controller("pods", of_none, plain)
    reveal_type(controller.owns(viewed).owned_by(request))  # list[KubeObject[PodView]]
    controller.watches(viewed, lambda pod: [pod.view.status.phase])
    controller.watches(viewed, lambda pod: [pod.view.spec])  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    reveal_type((await controller.reconcile_once("a/b")).after_seconds)  # float | None
    reveal_type(controller.status().stuck)  # tuple[str, ...]


async def writes(cluster: Cluster, plain: KubeObject, viewed: KubeObject[PodView]) -> None:
    """Writes take objects of any view, dicts and models, and give plain objects."""
    reveal_type(await cluster.get("v1", "pods", "default/a"))  # KubeObject[None]
    reveal_type(await cluster.create({"kind": "Pod"}))  # KubeObject[None]
    reveal_type(await cluster.patch(viewed, PodStatus()))  # KubeObject[None]
    reveal_type(await cluster.status(viewed, {"phase": "Running"}))  # KubeObject[None]
    reveal_type(await cluster.delete(viewed))  # KubeObject[None] | None
    reveal_type(await cluster.delete("v1", "pods", "default/a"))  # KubeObject[None] | None
    reveal_type(await retry_on_conflict(lambda: cluster.replace(plain)))  # KubeObject[None]
    upserted = await create_or_update(cluster, plain)
    reveal_type(upserted.object)  # KubeObject[None]
    await cluster.replace(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def blocking(runner: Runner, cluster: BlockingCluster, factory: BlockingInformerFactory) -> None:
    """The blocking face: generic in the view as the asynchronous one, and nothing is awaited."""
    pods = factory.informer("v1", "pods", model=PodView)
    reveal_type(factory.informer("v1", "pods"))  # BlockingInformer[None]
    reveal_type(pods)  # BlockingInformer[PodView]
    reveal_type(pods.lister)  # Lister[PodView]
    reveal_type(pods.asynchronous)  # SharedInformer[PodView]
    reveal_type(pods.wait_for("default/a", lambda pod: pod is None))  # KubeObject[PodView] | None
    reveal_type(pods.add_event_handler(on_add=print))  # BlockingRegistration[PodView]
    reveal_type(cluster.get("v1", "pods", "default/a"))  # KubeObject[None]
    reveal_type(cluster.delete("v1", "pods", "default/a"))  # KubeObject[None] | None
    reveal_type(cluster.delete({}, check_uid=False))  # KubeObject[None] | None
    cluster.delete("v1", 5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    with cluster.informer_factory(grace_seconds=1.0) as made:
        reveal_type(made)  # BlockingInformerFactory
    cluster.informer_factory(grace="1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with runner.connect(server="http://localhost") as connected:
        reveal_type(connected)  # BlockingCluster
    reveal_type(pods.last_good("default/a"))  # StaleObject[PodView] | None
    reveal_type(pods.status())  # InformerStatus
    find = cluster.asynchronous.find_resource
    reveal_type(runner.call(find, "deploy"))  # APIResource
    with pods.events() as events:
        for event in events:
            if isinstance(event, Updated):
                reveal_type(event.new.view)  # PodView


def shares() -> None:
    """Buckets: a function that decides what has one gets a request."""
    reveal_type(Buckets(by=lambda request: request.namespace + request.cluster))  # Buckets
