"""Scene 1.1: a worker changes the object that the cache shares, and the cache hides what is to do.

In goes a Service that lacks a label; out comes what the server has after a plain worker and
ours have seen to it, and what a second reader of the same cache was made to believe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, final

from pyinformer.apimachinery import KubeObject
from pyinformer.audit import MutationDetector
from pyinformer.cli.scenes._environment import Environment, capture_logs, connected, service
from pyinformer.cli.scenes._plain_informer import following_services, services_api
from pyinformer.cli.scenes._proxy import Proxy
from pyinformer.cli.scenes._scene import Claim, Scene, SceneResult, fact
from pyinformer.cluster import Cluster
from pyinformer.informer import SharedInformerFactory

_NAME = "shop"
_WANTED = "endpointslices.example.com/managed-by"
_CONTROLLER = "slices"
_EDITS = 2  # that are tried on a cached object of ours: of its body, and of its record
_PATIENCE_SECONDS = 100.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LabelResult:
    """What a worker did about one Service, and who was misled."""

    edits_refused_with: tuple[str, ...] = fact("edits of the shared object are refused with")
    reader_saw_it_before: bool = fact("a second reader saw the label before any server had it")
    writes_sent: int = fact("writes that the worker sent")
    server_has_it: bool = fact("the server has the label")
    edit_found: str = fact("where readers share on request: the edit that a look finds")
    edit_undone: bool = fact("where readers share on request: the next reader is not misled")


async def perform(environment: Environment) -> SceneResult[LabelResult]:
    """Play the story twice, once for each program.

    Cancellation:
        Ends it.
    """
    plain = await _play(environment, _plain)
    with capture_logs() as logged:
        ours = await _play(environment, _ours)
    return SceneResult(
        plain=plain,
        ours=ours,
        outage=(
            Claim("the shared object took the plain worker's edit", not plain.edits_refused_with),
            Claim("the second reader saw what no server had", plain.reader_saw_it_before),
            Claim("the write that was needed was never sent", plain.writes_sent == 0),
            Claim("the server still lacks the label", not plain.server_has_it),
        ),
        prevented=(
            Claim(
                "ours refused each edit of a shared object", len(ours.edits_refused_with) == _EDITS
            ),
            Claim("the second reader saw what the server had", not ours.reader_saw_it_before),
            Claim("the write was sent, once", ours.writes_sent == 1),
            Claim("the server has the label", ours.server_has_it),
            Claim("where sharing is asked for, the edit was named", _WANTED in ours.edit_found),
            Claim("and undone", ours.edit_undone),
        ),
        logged=logged,
    )


@final
@dataclass(slots=True)
class _Work:
    """What a worker saw on its way."""

    refused_with: tuple[str, ...]
    """The errors that refused to edit the shared object."""
    reader_saw_it: bool
    """Another reader of the cache saw the label before it was sent."""
    edit_found: str = ""
    edit_undone: bool = False


class Worker(Protocol):
    """Labels the Service through a proxy, as it was written for one of the libraries."""

    async def __call__(self, proxy: Proxy, namespace: str) -> _Work:
        """Do the work once."""
        ...


async def _play(environment: Environment, worker: Worker) -> LabelResult:
    """Let a worker do its work on a Service that needs it."""
    namespace = environment.namespace()
    environment.api.create(service(_NAME, namespace))
    async with environment.proxy() as proxy:
        work = await worker(proxy, namespace)
        writes = len(proxy.of("put"))
    labels = environment.api.get("v1", "services", _NAME, namespace)["metadata"]["labels"]
    return LabelResult(
        edits_refused_with=work.refused_with,
        reader_saw_it_before=work.reader_saw_it,
        writes_sent=writes,
        server_has_it=_WANTED in labels,
        edit_found=work.edit_found,
        edit_undone=work.edit_undone,
    )


def _refusals(*edits: Callable[[], object]) -> tuple[str, ...]:
    """Try edits, and name the errors that refuse them."""
    names = []
    for edit in edits:
        try:
            edit()
        except TypeError as error:
            names.append(type(error).__name__)
    return tuple(names)


async def _plain(proxy: Proxy, namespace: str) -> _Work:
    """Do the work as the author of the outage did: label what the cache returned, and compare."""

    def label(obj: Any) -> None:  # noqa: ANN401 - the client ships no types
        obj.metadata.labels[_WANTED] = _CONTROLLER

    async with (
        services_api(proxy.url) as api,
        following_services(proxy.url, namespace) as services,
    ):
        current = services.cache[_NAME]
        desired = current  # another name, and the same object
        refused_with = _refusals(partial(label, desired))
        saw = _WANTED in services.cache[_NAME].metadata.labels  # a second reader, elsewhere
        if desired != current:
            await api.replace_namespaced_service(_NAME, namespace, desired)
        misled = _WANTED in services.cache[_NAME].metadata.labels  # and nobody looks for that
        return _Work(refused_with, saw, edit_undone=not misled)


async def _ours(proxy: Proxy, namespace: str) -> _Work:
    """Do the same work; the line that edits the shared object has to be written otherwise."""
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
    """Make the same edit where readers have asked to share what is decoded."""
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
    title="a worker changes the object that the cache shares, and nothing is left to do",
    references="kubernetes#85331, #85359, #85364, #85368; in 2026 again: #140518, #140702",
    story=(
        "The EndpointSlice controller of Kubernetes 1.17 got a Service from the shared lister, set"
        " an annotation on that very object, and sent it. Where two goroutines met at its map, the"
        " whole kube-controller-manager died: found by a load test on a pull request that had"
        " nothing to do with it. The silent half happens every time: what the cache holds now"
        " equals what is wanted, so the next comparison finds nothing to do, though the server"
        " never counter of it. The detector that finds such edits keeps copies of everything, so it"
        " runs in tests and never in production; the same class of bug was fixed twice in 1.37."
    ),
    plain="labels the Service that it got from the cache, and sends it if it differs from that",
    ours=(
        "What the cache hands out is immutable, and its body is decoded for each reader into a"
        " private copy. Readers who ask to share decoded objects get a detector with them, which is"
        " cheap enough for production: it keeps digests, names an edit, and undoes it."
    ),
    verdict="the edit of shared state is refused by name, and the write that was needed is sent",
    perform=perform,
)
