"""Models of cached objects: decoded at the first read, once, and one instance for all readers."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import pytest
from kubernetes_asyncio.client import V1Pod

from pyinformer.errors import InvalidObjectError, ModelMismatchError
from pyinformer.objects import GroupVersionResource, KubeObject, ObjectCodec, decode_model
from tests.cache.store.objects import pod

if TYPE_CHECKING:
    from collections.abc import Iterator


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the model."""

    name: str
    resource_version: str


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the model; the node must be a text."""

    node_name: str


class Pod(msgspec.Struct, frozen=True):
    """A model that no reader can change."""

    metadata: Meta
    spec: Spec


class ChangeablePod(msgspec.Struct):
    """A model that a reader can change."""

    metadata: Meta
    spec: Spec


@dataclasses.dataclass(frozen=True)
class CountedMeta:
    """Counts how often a version is decoded."""

    name: str
    resourceVersion: str  # noqa: N815 - as in JSON
    decoded: ClassVar[Counter[str]] = Counter()

    def __post_init__(self) -> None:
        self.decoded[self.resourceVersion] += 1


@dataclasses.dataclass(frozen=True)
class CountedPod:
    """A model whose decodes are counted."""

    metadata: CountedMeta


def read_as(model: type[Any], obj: KubeObject[Any], **options: Any) -> KubeObject[Any]:
    """Return an object as a cache with this model holds it."""
    codec = ObjectCodec(GroupVersionResource.of("v1", "pods"), view=model, **options)
    return codec.decode(obj.raw, 0, len(obj.raw))


def whole_pod(node: str, *, version: int = 1) -> KubeObject[Any]:
    """Return a pod with all fields that a client's model requires."""
    return pod("a", version=version, spec={"nodeName": node, "containers": []})


@pytest.fixture
def decoded() -> Iterator[Counter[str]]:
    """Count decodes by resource version."""
    CountedMeta.decoded.clear()
    yield CountedMeta.decoded
    CountedMeta.decoded.clear()


@pytest.mark.parametrize("compact", [False, True])
def test_each_version_is_decoded_once_however_many_read_it(
    decoded: Counter[str], compact: bool
) -> None:
    first = read_as(CountedPod, pod("a", version=1), compact=compact)
    second = read_as(CountedPod, pod("a", version=2), compact=compact)
    assert not decoded  # nothing is decoded that is not read
    for obj, version in ((first, "1"), (second, "2"), (first, "1")):
        assert obj.view is obj.view
        assert obj.view.metadata.resourceVersion == version
    assert decoded == {"1": 1, "2": 1}


@pytest.mark.parametrize("model", [ChangeablePod, V1Pod])
def test_each_reader_of_a_model_that_can_be_changed_gets_its_own(model: type[Any]) -> None:
    plain = whole_pod("n1")
    obj = read_as(model, plain)
    first, second = obj.view, obj.view
    assert first == second == decode_model(plain, model)
    first.spec = None
    assert second.spec.node_name == obj.view.spec.node_name == "n1"


def test_a_misfit_is_an_error_at_each_read_that_names_its_field() -> None:
    bad = read_as(Pod, pod("bad", 5))
    for _ in range(3):
        with pytest.raises(ModelMismatchError, match="Pod 'default/bad': does not fit Pod") as told:
            _ = bad.view
        assert (told.value.key, told.value.path) == ("default/bad", "spec.nodeName")
    assert bad.metadata.name == "bad"
    assert bad.problem == ""  # the object itself is as the server sent it


def test_an_object_that_its_transform_could_not_read_has_no_model() -> None:
    def fail(_: object) -> None:
        raise ValueError("of the program")

    obj = read_as(Pod, pod("a", "n1"), transform=fail)
    with pytest.raises(InvalidObjectError, match="transform"):
        _ = obj.view


@pytest.mark.parametrize("model", [Pod, ChangeablePod, V1Pod])
@pytest.mark.parametrize("is_read", [False, True])
def test_a_copy_has_the_same_model(model: type[Any], is_read: bool) -> None:
    obj = read_as(model, whole_pod("n1"))
    if is_read:
        assert obj.view is not None
    for made in (copy.copy(obj), copy.deepcopy(obj), pickle.loads(pickle.dumps(obj))):  # noqa: S301 - our own
        assert made.view == obj.view
        assert made.view.spec.node_name == "n1"


@pytest.mark.parametrize("model", [Pod, V1Pod])
def test_readers_in_threads_get_one_model_of_the_version_that_they_read(model: type[Any]) -> None:
    rounds = 300 if model is Pod else 20
    current = [read_as(model, whole_pod("n1"))]
    found: list[tuple[KubeObject[Any], Any]] = []
    is_done = threading.Event()

    def read() -> None:
        while not is_done.is_set():
            obj = current[0]
            found.append((obj, obj.view))

    readers = [threading.Thread(target=read) for _ in range(3)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for reader in readers:
            reader.start()
        for version in range(2, rounds):
            current[0] = read_as(model, whole_pod(f"n{version}", version=version))
    finally:
        is_done.set()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(before)
    instances: dict[int, set[int]] = {}
    for obj, view in found:
        assert view.metadata.resource_version == obj.metadata.resource_version
        instances.setdefault(id(obj), set()).add(id(view))
    assert model is V1Pod or all(len(one) == 1 for one in instances.values())
