"""Scene 1.1: a worker edits an object of the shared cache, and the edit hides the needed write.

The scene compares what the server has afterwards, and what a second reader of the cache saw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, final

from pyinformer.cache.audit import MutationDetector
from pyinformer.cache.informer import SharedInformerFactory
from pyinformer.cli.scenes._plain_informer import following_services, services_api
from pyinformer.cli.scenes._proxy import Proxy
from pyinformer.cli.scenes._scene import Claim, Scene, SceneResult, fact
from pyinformer.cli.scenes._server import SceneServer, capture_logs, connected, service
from pyinformer.client.cluster import Cluster
from pyinformer.objects import KubeObject

_NAME = "shop"
_WANTED = "endpointslices.example.com/managed-by"
_CONTROLLER = "slices"
_EDITS = 2  # tried on a cached object of pyinformer: of its body, and of its metadata
_PATIENCE_SECONDS = 100.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LabelResult:
    """What a worker did with one Service, and what another reader saw."""

    edits_refused_with: tuple[str, ...] = fact("errors of edits of the shared object")
    reader_saw_it_before: bool = fact("a second reader saw the label before the server had it")
    writes_sent: int = fact("writes that the worker sent")
    server_has_it: bool = fact("the server has the label")
    edit_found: str = fact("with sharing enabled: the edit that the detector finds")
    edit_undone: bool = fact("with sharing enabled: the next reader sees the original")


async def perform(server: SceneServer) -> SceneResult[LabelResult]:
    """Play the scene for both programs.

    Cancellation:
        Ends the scene.
    """
    plain = await _play(server, _plain)
    with capture_logs() as logged:
        ours = await _play(server, _ours)
    return SceneResult(
        plain=plain,
        ours=ours,
        outage=(
            Claim(
                "the shared object accepted the edit of the plain worker",
                not plain.edits_refused_with,
            ),
            Claim(
                "the second reader saw a label that the server did not have",
                plain.reader_saw_it_before,
            ),
            Claim("the needed write was never sent", plain.writes_sent == 0),
            Claim("the server still lacks the label", not plain.server_has_it),
        ),
        prevented=(
            Claim(
                "pyinformer refused each edit of a shared object",
                len(ours.edits_refused_with) == _EDITS,
            ),
            Claim("the second reader saw what the server had", not ours.reader_saw_it_before),
            Claim("the write was sent once", ours.writes_sent == 1),
            Claim("the server has the label", ours.server_has_it),
            Claim("with sharing enabled, the edit was named", _WANTED in ours.edit_found),
            Claim("and it was undone", ours.edit_undone),
        ),
        logged=logged,
    )


@final
@dataclass(slots=True)
class _Work:
    """What a worker observed."""

    refused_with: tuple[str, ...]
    """The errors that edits of the shared object raised."""
    reader_saw_it: bool
    """Whether another reader of the cache saw the label before it was sent."""
    edit_found: str = ""
    edit_undone: bool = False


class MutatingWorker(Protocol):
    """Labels the Service through a proxy, with one of the libraries."""

    async def __call__(self, proxy: Proxy, namespace: str) -> _Work:
        """Label the Service once."""
        ...


async def _play(server: SceneServer, worker: MutatingWorker) -> LabelResult:
    """Run a worker on a Service that lacks the label."""
    namespace = server.namespace()
    server.api.create(service(_NAME, namespace))
    async with server.proxy() as proxy:
        work = await worker(proxy, namespace)
        writes = len(proxy.of("put"))
    labels = server.api.get("v1", "services", _NAME, namespace)["metadata"]["labels"]
    return LabelResult(
        edits_refused_with=work.refused_with,
        reader_saw_it_before=work.reader_saw_it,
        writes_sent=writes,
        server_has_it=_WANTED in labels,
        edit_found=work.edit_found,
        edit_undone=work.edit_undone,
    )


def _refusals(*edits: Callable[[], object]) -> tuple[str, ...]:
    """Try edits, and return the names of the errors that they raise."""
    names = []
    for edit in edits:
        try:
            edit()
        except TypeError as error:
            names.append(type(error).__name__)
    return tuple(names)


async def _plain(proxy: Proxy, namespace: str) -> _Work:
    """Label the cached object and compare, as the code of the original incident did."""

    def label(obj: Any) -> None:  # noqa: ANN401 - the client ships no types
        obj.metadata.labels[_WANTED] = _CONTROLLER

    async with services_api(proxy.url) as api, following_services(proxy.url, namespace) as services:
        current = services.cache[_NAME]
        desired = current  # another name for the same object
        refused_with = _refusals(partial(label, desired))
        saw = _WANTED in services.cache[_NAME].metadata.labels  # a second reader, elsewhere
        if desired != current:
            await api.replace_namespaced_service(_NAME, namespace, desired)
        misled = _WANTED in services.cache[_NAME].metadata.labels  # no detector finds it
        return _Work(refused_with, saw, edit_undone=not misled)


async def _ours(proxy: Proxy, namespace: str) -> _Work:
    """Do the same with pyinformer, which forces a copy before the edit."""
    key = f"{namespace}/{_NAME}"
    async with connected(proxy) as cluster, SharedInformerFactory(cluster) as factory:
        services = factory.informer("v1", "services", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=_PATIENCE_SECONDS)
        current = services.lister[key]
        refused_with = _refusals(partial(_edit_body, current), partial(_edit_record, current))
        desired = current.to_dict()  # a private copy
        desired["metadata"]["labels"][_WANTED] = _CONTROLLER
        saw = _WANTED in services.lister[key].metadata.labels
        work = _Work(refused_with, saw)
        await _share(cluster, namespace, work)
        if desired != current.to_dict():
            await cluster.replace(desired)
        return work


async def _share(cluster: Cluster, namespace: str, work: _Work) -> None:
    """Make the same edit with `sharing="decoded"`, where readers share decoded objects."""
    key, detector = f"{namespace}/{_NAME}", MutationDetector("sample")
    async with SharedInformerFactory(cluster, mutation_detector=detector) as factory:
        services = factory.informer("v1", "services", namespaces=namespace, sharing="decoded")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=_PATIENCE_SECONDS)
        services.lister.decoded[key]["metadata"]["labels"][_WANTED] = _CONTROLLER
        work.edit_found = "; ".join(map(str, await detector.verify()))
        work.edit_undone = _WANTED not in services.lister.decoded[key]["metadata"]["labels"]


def _edit_body(obj: KubeObject) -> None:
    obj["metadata"]["labels"][_WANTED] = _CONTROLLER  # type: ignore[index]  # mypy refuses it too


def _edit_record(obj: KubeObject) -> None:
    obj.metadata.labels[_WANTED] = _CONTROLLER  # type: ignore[index]  # as above


SCENE = Scene(
    name="mutated-cache",
    number="1.1",
    title="a worker edits an object of the shared cache, and the needed write is never sent",
    references="kubernetes#85331, #85359, #85364, #85368; in 2026 again: #140518, #140702",
    story=(
        "The EndpointSlice controller of Kubernetes 1.17 read a Service from the shared lister, set"
        " an annotation on that object, and sent it. When two goroutines accessed its map at once,"
        " the whole kube-controller-manager crashed: a load test of an unrelated pull request found"
        " it. The silent part happens every time: the cache now equals the desired state, so the"
        " next comparison finds nothing to do, though the server has never received the change. The"
        " detector of such edits keeps copies of everything, so it runs in tests and not in"
        " production. The same class of bug was fixed twice in 1.37."
    ),
    plain="labels the Service that it read from the cache, and sends it if it differs from that",
    ours=(
        "Cached objects are immutable, and each reader decodes a private copy of the body. Programs"
        " that share decoded objects get a detector that is cheap enough for production: it keeps"
        " digests, names an edit, and undoes it."
    ),
    verdict="edits of shared state are refused, and the needed write is sent",
    perform=perform,
)
