"""A large cache costs the garbage collector nothing: what is stored is invisible to it."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from benchmarks.data.pods import PodGenerator
from pyinformer.cache.store import Indexer
from pyinformer.objects import Added, KubeObject, ObjectCodec, View
from tests.objects.samples import PODS

_OBJECTS = 20_000
_POSSIBLE = 1_000


class Spec(View):
    """Nested, with a tuple."""

    node_name: str = ""


class Condition(View):
    """An element of a tuple."""

    type: str = ""
    status: str = ""


class Status(View):
    """Nested, with a tuple of views."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class PodView(View):
    """What a scheduler would look at."""

    spec: Spec = Spec()
    status: Status = Status()


def _tracked() -> int:
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.parametrize("memory", ["strip_managed_fields", "raw", "compact"])
def test_a_full_cache_adds_less_than_a_thousand_tracked_objects(memory: str) -> None:
    """With a view, two indexes, labels, owners and finalizers; texts differ in every object."""
    generator = PodGenerator(_POSSIBLE)
    templates = [generator.pod(number, resource_version=1) for number in range(_POSSIBLE)]
    codec: ObjectCodec[Any] = ObjectCodec(
        PODS, view=PodView, strip_managed_fields=memory != "raw", compact=memory == "compact"
    )
    store: Indexer[Any] = Indexer(PodView)
    store.add_index("node", "spec.nodeName")
    store.add_index("phase", lambda obj: (obj.view.status.phase, obj.metadata.namespace))
    before = _tracked()

    objects: dict[str, KubeObject[Any]] = {}
    for number in range(_OBJECTS):
        text = templates[number % _POSSIBLE].replace(b'"name":"', b'"name":"p%d-' % number, 1)
        obj = codec.decode(text, 0, len(text))
        objects[Added(obj).key] = obj
    for _ in store.replace_nowait(objects, "1"):
        pass
    del objects, obj

    assert len(store) == _OBJECTS
    assert len(store.by_index("phase", "Running")) > 0
    assert len(store.index_values("node")) > 100
    added = _tracked() - before
    assert added < 1_000
    assert store.list()[0].problem == ""
