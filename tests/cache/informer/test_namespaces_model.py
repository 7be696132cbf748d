"""Namespaces that come and go in any order, against a model: the union of what the server has."""

from __future__ import annotations

import asyncio
from itertools import count, islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyinformer import Added, Controller, Deleted, Request, SharedInformer
from pyinformer.cache.informer import StoreSink
from pyinformer.cache.store import Indexer
from pyinformer.errors import NotCachedError
from pyinformer.objects import KubeObject
from pyinformer.testing import APIServer
from tests.cache.informer.clusters import HURRIED, Notes, cluster_of, listed, pod
from tests.pods import make
from tests.sinks import SinkOwner
from tests.soak import examples
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES = ("a", "b", "c")
_examples = count()

_wishes = st.frozensets(st.sampled_from(_NAMES)).map(lambda names: ("want", names))
_keys = st.tuples(st.sampled_from(_NAMES), st.sampled_from("xy"))
_writes = st.tuples(st.sampled_from(("create", "delete", "touch", "cut")), _keys)
_steps = st.lists(st.one_of(_wishes, _writes), max_size=12)


@pytest.fixture(scope="module")
def server() -> Iterator[APIServer]:
    """One server for all examples, each of which has namespaces of its own."""
    with APIServer() as server:
        yield server


@pytest.mark.covers("client-go tools/cache: TestUpdate")
@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(first=st.frozensets(st.sampled_from(_NAMES), min_size=1), steps=_steps, waits=st.booleans())
def test_the_cache_is_the_union_and_every_handler_gets_valid_histories(
    server: APIServer, first: frozenset[str], steps: list[tuple[str, frozenset[str]]], waits: bool
) -> None:
    asyncio.run(_play(server, first, steps, waits=waits))


async def _play(
    server: APIServer,
    first: frozenset[str],
    steps: list[tuple[str, frozenset[str]]],
    *,
    waits: bool,
) -> None:
    suffix = f"-{next(_examples)}"
    early, late = Notes(), Notes()
    wanted = first
    async with cluster_of(server) as cluster:
        pods = SharedInformer(
            cluster, "v1", "pods", namespaces=[one + suffix for one in first], options=HURRIED
        )
        pods.add_event_handler(early)
        async with pods:
            if waits:
                await pods.wait_for_cache_sync(timeout_seconds=100)
            for number, (what, about) in enumerate(steps):
                if number == len(steps) // 2:
                    pods.add_event_handler(late)
                if what == "want":
                    wanted = about
                    await pods.set_namespaces({one + suffix for one in wanted})
                    _check_reads(pods, wanted, suffix)
                else:
                    namespace, name = about
                    _write(server, what, namespace + suffix, name)
            if not steps:
                pods.add_event_handler(late)
            await pods.wait_for_cache_sync(timeout_seconds=100)
            everything = listed(server)
            followed = {one + suffix for one in wanted}
            truth = {k: v for k, v in everything.items() if k.partition("/")[0] in followed}
            await until(lambda: _cached(pods) == truth, what=(_cached(pods), truth))
            for notes in (early, late):
                await until(lambda notes=notes: notes.mirror == truth, what=notes.heard)  # type: ignore[misc]
                assert notes.faults == []


@settings(
    max_examples=examples(8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=_steps)
def test_every_key_that_is_gone_is_reconciled_once_its_namespace_is_followed_again(
    server: APIServer, steps: list[tuple[str, frozenset[str]]]
) -> None:
    asyncio.run(_reconcile(server, steps))


async def _reconcile(server: APIServer, steps: list[tuple[str, frozenset[str]]]) -> None:
    suffix = f"-{next(_examples)}"
    everywhere = {one + suffix for one in _NAMES}
    last: dict[str, bool] = {}

    async def reconcile(request: Request, obj: object) -> None:
        last[str(request.key)] = obj is not None

    async with cluster_of(server) as cluster:
        pods = SharedInformer(cluster, "v1", "pods", namespaces=everywhere, options=HURRIED)
        for namespace in everywhere:
            for name in "xy":
                server.create(pod(name, namespace=namespace))
        async with pods, Controller("pods", reconcile, pods):
            await until(lambda: len(last) == 2 * len(everywhere))
            for what, about in steps:
                if what == "want":
                    await pods.set_namespaces({one + suffix for one in about})
                else:
                    namespace, name = about
                    _write(server, what, namespace + suffix, name)
            await pods.set_namespaces(everywhere)
            await pods.wait_for_cache_sync(timeout_seconds=100)
            truth = {key for key in listed(server) if key.partition("/")[0] in everywhere}
            await until(lambda: {key for key, lives in last.items() if lives} == truth, what=last)


def _check_reads(pods: SharedInformer[None], wanted: frozenset[str], suffix: str) -> None:
    for name in _NAMES:
        namespace = name + suffix
        if name not in wanted:
            with pytest.raises(NotCachedError):
                pods.lister.namespace(namespace).list()
            assert pods.lister.get(f"{namespace}/x", allow_unsynced=True) is None
    shown = {key.partition("/")[0] for key in pods.lister.keys(allow_unsynced=True)}
    assert shown <= {name + suffix for name in wanted}


def _cached(pods: SharedInformer[None]) -> dict[str, tuple[str, str]]:
    return {
        obj.key: (obj.metadata.uid, obj.metadata.resource_version) for obj in pods.lister.list()
    }


def _write(server: APIServer, what: str, namespace: str, name: str) -> None:
    found = f"{namespace}/{name}" in listed(server)
    if what == "cut":
        server.drop_connections()
    elif what == "create" and not found:
        server.create(pod(name, namespace=namespace))
    elif what == "delete" and found:
        server.delete("v1", "pods", name, namespace)
    elif what == "touch" and found:
        obj = server.get("v1", "pods", name, namespace)
        labels = obj["metadata"].setdefault("labels", {})
        labels["touched"] = str(len(labels))
        server.update(obj)


@given(
    before=st.sets(st.integers(0, 400)),
    after=st.sets(st.integers(0, 400)),
    announces=st.booleans(),
    taken=st.integers(0, 8),
)
def test_an_interrupted_list_is_delivered_before_its_namespace_is_removed(
    before: set[int], after: set[int], announces: bool, taken: int
) -> None:
    """However much of a list was announced when its task ended, no handler gets an odd life."""
    indexer: Indexer[None] = Indexer()
    store_sink: StoreSink[None] = StoreSink(indexer, SinkOwner(announces=announces))
    witness = _Witness()
    store_sink.attach(witness)
    for _ in store_sink.replace_nowait(_objects(before), "1"):
        pass
    for _ in islice(store_sink.replace_nowait(_objects(after), "2"), taken):
        pass
    for _ in store_sink.leave_nowait():
        pass

    assert witness.notes.mirror == {}
    assert witness.notes.faults == []


def _objects(numbers: set[int]) -> dict[str, KubeObject[None]]:
    return {f"a/{number}": make(f"a/{number}") for number in numbers}


class _Witness:
    """A receiver that notes its events."""

    def __init__(self) -> None:
        self.notes = Notes()
        self.put_nowait = self.notes

    def preload_nowait(self, objects: object) -> None:
        """Note each as an addition."""
        for obj in objects:  # type: ignore[attr-defined]
            self.notes(Added(obj, is_in_initial_list=True))

    def on_initial_list_complete(self) -> None:
        """Do nothing."""

    def on_missed_state(self, was: object, now: object) -> None:
        """Do nothing."""


def test_an_object_that_was_never_delivered_is_not_deleted() -> None:
    indexer: Indexer[None] = Indexer()
    store_sink: StoreSink[None] = StoreSink(indexer, SinkOwner(announces=True))
    witness = _Witness()
    store_sink.attach(witness)
    for _ in islice(store_sink.replace_nowait(_objects(set(range(9000))), "1"), 1):
        pass
    assert list(store_sink.leave_nowait()) == []
    assert not any(isinstance(event, Deleted) for event in witness.notes.events)
