"""Copy-on-read: whatever a reader does to what it has read, no other reader ever sees it.

Every public way to read an object hands its result to a reader that changes all it can reach. After
that the bytes of every cached object, what the next reader gets, the lister's answers and the
indexes are as they were. The mutation detector covers readers that have agreed to share.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import threading
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import pyinformer
from pyinformer.cache.store import Indexer, Lister
from pyinformer.objects import (
    Event,
    GroupVersionResource,
    KubeObject,
    ObjectCodec,
    Updated,
    View,
)
from tests.cache.audit.spoiling import spoil
from tests.cache.informer.clusters import cluster_of, pod
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.testing import APIServer


class Spec(View):
    """A part of the view, with a collection in it."""

    node_name: str = ""
    priorities: tuple[int, ...] = ()


class PodView(View):
    """What these tests project."""

    spec: Spec = Spec()


@dataclasses.dataclass
class MutableMeta:
    """Part of a model that can be changed."""

    name: str
    labels: dict[str, str]


@dataclasses.dataclass
class MutablePod:
    """A model that can be changed."""

    metadata: MutableMeta
    spec: dict[str, Any]


class StructPod(msgspec.Struct):
    """Another kind of model that can be changed."""

    metadata: dict[str, Any]


def body(name: str, version: int = 7) -> bytes:
    """Return a pod with a value of every kind, among them each that is decoded on request."""
    return msgspec.json.encode(
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "resourceVersion": str(version),
                "labels": {"app": "web", "tier": "front"},
                "annotations": {"example.com/team": "core"},
                "finalizers": ["example.com/hold"],
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "name": "web",
                        "uid": "u-1",
                        "controller": True,
                    }
                ],
            },
            "spec": {
                "nodeName": "n0",
                "schedulerName": "own",
                "priorities": [1, 2],
                "containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}],
            },
        }
    )


_CODEC: ObjectCodec[PodView] = ObjectCodec(GroupVersionResource.of("v1", "pods"), view=PodView)
_Reads = "Callable[[Lister[PodView]], object]"


def cache() -> tuple[Indexer[PodView], Lister[PodView]]:
    """Return a cache of three pods with an index of every kind, and its lister."""
    indexer: Indexer[PodView] = Indexer(PodView)
    lister: Lister[PodView] = Lister(indexer, resource="pods")
    indexer.add_index("node", "spec.nodeName")
    indexer.add_index("scheduler", "spec.schedulerName")
    indexer.add_index("label", lambda obj: [*obj.metadata.labels.values()])
    records = [_CODEC.decode(raw, 0, len(raw)) for raw in map(body, ("a", "b", "c"))]
    for _ in indexer.replace_nowait({obj.key: obj for obj in records}, "7"):
        pass
    return indexer, lister


def digests(lister: Lister[Any]) -> dict[str, str]:
    """Return a digest of the bytes of every cached object."""
    return {obj.key: sha256(obj.raw).hexdigest() for obj in lister.list()}


def everything(lister: Lister[PodView]) -> dict[str, object]:
    """Return all that readers can see, as values of this test's own."""
    seen: dict[str, object] = {"keys": sorted(lister.keys())}
    for name in ("node", "scheduler", "label", "namespace"):
        for value in sorted(lister.index_values(name)):
            seen[f"{name}={value}"] = sorted(obj.key for obj in lister.by_index(name, value))
    for key in sorted(lister.keys()):
        obj = lister[key]
        meta = obj.metadata
        seen[key] = (
            obj.to_dict(),
            dict(obj.annotations),
            dict(meta.labels),
            meta.finalizers,
            tuple(owner.name for owner in meta.owner_references),
            (meta.namespace, meta.name, meta.uid, meta.resource_version),
            (obj.view.spec.node_name, obj.view.spec.priorities, str(obj.gvk), obj.problem),
        )
    return seen


READS: dict[str, Callable[[Lister[PodView]], object]] = {
    "the-object": lambda lister: lister["default/a"],
    "get": lambda lister: lister.get("default/a"),
    "to_dict": lambda lister: lister["default/a"].to_dict(),
    "at-a-dict": lambda lister: lister["default/a"].at("spec"),
    "at-a-list": lambda lister: lister["default/a"].at("spec.containers"),
    "at-a-typed-dict": lambda lister: lister["default/a"].at("metadata.labels", dict[str, str]),
    "as-dataclass": lambda lister: lister["default/a"].as_type(MutablePod),
    "as-struct": lambda lister: lister["default/a"].as_type(StructPod),
    "as-dict": lambda lister: lister["default/a"].as_type(dict),
    "annotations": lambda lister: lister["default/a"].annotations,
    "metadata": lambda lister: lister["default/a"].metadata,
    "labels": lambda lister: lister["default/a"].metadata.labels,
    "owner-references": lambda lister: lister["default/a"].metadata.owner_references,
    "finalizers": lambda lister: lister["default/a"].metadata.finalizers,
    "view": lambda lister: lister["default/a"].view,
    "nested-view": lambda lister: lister["default/a"].view.spec,
    "raw": lambda lister: lister["default/a"].raw,
    "gvk": lambda lister: lister["default/a"].gvk,
    "list": lambda lister: lister.list(),
    "list-by-label": lambda lister: lister.list(label_selector="app=web"),
    "keys": lambda lister: lister.keys(),
    "by_index-path": lambda lister: lister.by_index("node", "n0"),
    "by_index-decoded-path": lambda lister: lister.by_index("scheduler", "own"),
    "by_index-function": lambda lister: lister.by_index("label", "web"),
    "index_values": lambda lister: lister.index_values("label"),
    "namespace-list": lambda lister: lister.namespace("default").list(),
    "namespace-get": lambda lister: lister.namespace("default").get("a"),
    "diff": lambda lister: pyinformer.diff(lister["default/a"], lister["default/b"]),
}


@pytest.mark.covers("controller-runtime pkg/cache: should deep copy the object")
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_changing_a_decoded_object_affects_no_other_reader(
    read: Callable[[Lister[PodView]], object],
) -> None:
    _, lister = cache()
    before, raw = everything(lister), digests(lister)

    spoil(read(lister))

    assert digests(lister) == raw
    assert everything(lister) == before


INDEXER_READS: dict[str, Callable[[Indexer[PodView]], object]] = {
    "snapshot": lambda indexer: indexer.snapshot(),
    "list": lambda indexer: indexer.list(),
    "keys": lambda indexer: indexer.keys(),
    "by_index": lambda indexer: indexer.by_index("label", "front"),
    "index_values": lambda indexer: indexer.index_values("node"),
    "values_of": lambda indexer: indexer.values_of("label", indexer.list()[0]),
    "statistics": lambda indexer: indexer.indexes(),
}


@pytest.mark.covers(
    "controller-runtime pkg/cache: should be able to change object in informer cache",
    "controller-runtime pkg/cache: should deep copy the object",
)
@pytest.mark.parametrize("read", INDEXER_READS.values(), ids=INDEXER_READS)
def test_changing_a_result_of_the_cache_affects_no_other_reader(
    read: Callable[[Indexer[PodView]], object],
) -> None:
    indexer, lister = cache()
    before = everything(lister)

    spoil(read(indexer))

    assert everything(lister) == before


async def test_results_of_a_walk_are_independent_of_the_cache() -> None:
    _, lister = cache()
    before = everything(lister)

    async for obj in lister.iter_async():
        spoil(obj)
        spoil(obj.to_dict())

    assert everything(lister) == before


def test_results_kept_by_an_index_function_do_not_affect_the_index() -> None:
    kept: list[list[str]] = []

    def by_label(obj: KubeObject[PodView]) -> list[str]:
        kept.append([*obj.metadata.labels.values()])
        return kept[-1]

    indexer, lister = cache()
    indexer.add_index("kept", by_label)

    for answer in kept:
        spoil(answer)

    assert sorted(lister.index_values("kept")) == ["front", "web"]
    assert len(lister.by_index("kept", "web")) == 3


def test_arguments_kept_by_a_transform_do_not_affect_objects() -> None:
    template = {"priorities": [3], "containers": [{"name": "t"}]}
    kept: list[Any] = [template]

    def transform(obj: dict[str, Any]) -> dict[str, Any]:
        kept.append(obj)
        return {**obj, "spec": template}

    codec: ObjectCodec[None] = ObjectCodec(
        GroupVersionResource.of("v1", "pods"), transform=transform
    )
    text = body("a")
    obj = codec.decode(text, 0, len(text))
    before = obj.to_dict()

    spoil(kept)

    assert obj.to_dict() == before
    assert before["spec"] == {"priorities": [3], "containers": [{"name": "t"}]}


def test_the_result_of_a_transform_is_not_modified() -> None:
    mine = {"metadata": {"name": "mine"}, "spec": {}}
    codec: ObjectCodec[None] = ObjectCodec(
        GroupVersionResource.of("v1", "pods"), transform=lambda _: mine
    )
    text = body("a")

    obj = codec.decode(text, 0, len(text))

    assert mine == {"metadata": {"name": "mine"}, "spec": {}}
    assert obj.key == "default/a"


async def test_a_handler_that_modifies_its_events_affects_no_other(apiserver: APIServer) -> None:
    heard: list[str] = []
    bodies: list[Any] = []

    def spoiler(event: Event[None]) -> None:
        spoil(event)
        for name in ("object", "old", "new", "last_known"):
            obj = getattr(event, name, None)
            if obj is not None:
                spoil(obj.to_dict())
                spoil(obj.at("metadata"))

    def listener(event: Any) -> None:
        new = event.new if isinstance(event, Updated) else event.object
        heard.append(f"{type(event).__name__} {new.key}")
        bodies.append(new.to_dict())

    apiserver.create(pod("a", app="web"))
    async with (
        cluster_of(apiserver) as cluster,
        pyinformer.SharedInformer(cluster, "v1", "pods") as pods,
    ):
        pods.add_event_handler(spoiler, name="first")
        pods.add_event_handler(listener)
        pods.add_event_handler(pyinformer.in_thread(spoiler), name="in a thread")
        await pods.wait_for_cache_sync(timeout_seconds=100)
        async with pods.events() as events:
            apiserver.patch("v1", "pods", "a", {"metadata": {"labels": {"app": "db"}}})
            async for event in events:
                spoil(event)
                if isinstance(event, Updated):
                    break
        await until(lambda: len(heard) == 2)

        server_has = apiserver.get("v1", "pods", "a")
        server_has["metadata"].pop("managedFields", None)
        assert heard == ["Added default/a", "Updated default/a"]
        assert bodies[1] == server_has
        assert pods.lister["default/a"].to_dict() == server_has


def test_threads_read_while_another_modifies_its_copies() -> None:
    """The edits of one reader raise in no other: no reader iterates over a dict that changes."""
    _, lister = cache()
    raw, errors = digests(lister), []
    rounds = 40
    switched = sys.getswitchinterval()

    def read() -> None:
        try:
            for _ in range(rounds):
                for obj in lister.list():
                    msgspec.json.encode(obj.to_dict())
                    spoil(obj.to_dict())
        except Exception as error:
            errors.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switched)

    assert errors == []
    assert digests(lister) == raw


async def test_a_private_informer_shares_no_decoded_objects(apiserver: APIServer) -> None:
    async with (
        cluster_of(apiserver) as cluster,
        pyinformer.SharedInformer(cluster, "v1", "pods") as pods,
    ):
        await pods.wait_for_cache_sync(timeout_seconds=100)
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="sharing='decoded'"):
            _ = pods.lister.decoded
        await asyncio.sleep(0)


def test_the_test_mutator_modifies_every_mutable_value() -> None:
    """Else every test here would pass without a guarantee."""
    deep: dict[str, Any] = {"a": {"b": [{"c": 1}]}}
    inner = deep["a"]["b"][0]

    spoil(deep)

    assert deep == inner == {"spoiled": "spoiled"}
