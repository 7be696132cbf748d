"""Models of a cache: never of another version, decoded once, and one instance for all readers."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kubernetes_asyncio.client import V1Pod

from pyinformer.apimachinery import Added, Deleted, Event, KubeObject, Updated, decode_model
from pyinformer.errors import ModelMismatchError
from pyinformer.store import Indexer, Lister, Models, TypedLister
from tests.soak import examples
from tests.store.objects import pod

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


class Cache:
    """An indexer, own writes over it, and models that get its events as in an informer."""

    def __init__(self, model: type[Any]) -> None:
        self.indexer: Indexer[Any] = Indexer(None)
        self.written: dict[str, KubeObject[Any]] = {}
        self.models: Models[Any] = Models(model, self.shown)
        self.lister: TypedLister[Any] = TypedLister(
            Lister(self.indexer, resource="pods"), self.models
        )

    def shown(self, key: str) -> KubeObject[Any] | None:
        """Return what a reader sees."""
        return self.written.get(key) or self.indexer.get(key)

    def apply(self, event: Event[Any]) -> None:
        """Change the cache, and then report the change."""
        if isinstance(event, Updated):
            self.indexer.update_nowait(event.old, event.new)
        else:
            self.indexer.apply_nowait(event)
        self.models.put_nowait(event)

    def put(self, obj: KubeObject[Any]) -> None:
        """Cache an object."""
        old = self.indexer.get(obj._key)
        self.apply(Added(obj) if old is None else Updated(old, obj))


def whole_pod(node: str, *, version: int = 1) -> KubeObject[Any]:
    """Return a pod with all fields that a client's model requires."""
    return pod("a", version=version, spec={"nodeName": node, "containers": []})


NAMES = st.sampled_from("abc")
FITS = st.sampled_from([True, True, True, False])


class ModelsMachine(RuleBasedStateMachine):
    """Changes and reads in any order: a model is that of the version that was read."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache(Pod)
        self.version = 0
        self.seen: list[KubeObject[Any]] = []
        self.instances: dict[int, Pod] = {}  # by the id of an object in `seen`

    def _next(self, name: str, *, fits: bool) -> KubeObject[Any]:
        self.version += 1
        obj = pod(name, f"n{self.version}" if fits else 5, version=self.version)
        self.seen.append(obj)
        return obj

    @rule(name=NAMES, fits=FITS)
    def put(self, name: str, fits: bool) -> None:
        """An object comes or changes."""
        self.cache.put(self._next(name, fits=fits))

    @rule(name=NAMES, fits=FITS)
    def put_and_index(self, name: str, fits: bool) -> None:
        """An index function reads the model of an object on its way."""
        obj = self._next(name, fits=fits)
        self._check(obj, self.cache.models.of_arriving)
        self.cache.put(obj)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        """An object goes."""
        obj = self.cache.indexer.get(f"default/{name}")
        if obj is not None:
            self.cache.apply(Deleted(obj))

    @rule(name=NAMES, fits=FITS)
    def write(self, name: str, fits: bool) -> None:
        """This process writes an object: readers see it before its event."""
        obj = self._next(name, fits=fits)
        self.cache.written[obj._key] = obj

    @precondition(lambda self: self.cache.written)
    @rule(data=st.data(), is_same=st.booleans())
    def confirm(self, data: st.DataObject, is_same: bool) -> None:
        """The event of a write comes, or that of a later change."""
        key = data.draw(st.sampled_from(sorted(self.cache.written)))
        written = self.cache.written.pop(key)
        if is_same:  # in a record of its own, as a watch decodes it
            event = msgspec.structs.replace(written)
            self.seen.append(event)
            self.cache.put(event)
        else:
            self.cache.models.on_missed_state(written, self.cache.shown(key))

    @rule(name=NAMES)
    def read(self, name: str) -> None:
        """A reader reads what is shown."""
        obj = self.cache.shown(f"default/{name}")
        if obj is not None:
            self._check(obj, self.cache.models.of, is_shown=True)

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def read_any(self, data: st.DataObject) -> None:
        """A handler that is behind reads any version."""
        self._check(data.draw(st.sampled_from(self.seen)), self.cache.models.of)

    def _check(self, obj: KubeObject[Any], read: Any, *, is_shown: bool = False) -> None:
        try:
            expected = decode_model(obj, Pod)
        except ModelMismatchError:
            with pytest.raises(ModelMismatchError, match=r"spec\.nodeName"):
                read(obj)
            return
        found = read(obj)
        assert found == expected
        if is_shown:
            assert read(obj) is found
            assert self.instances.setdefault(id(obj), found) is found
        elif id(obj) in self.instances and len(self.seen) < 100:  # the last 128 are kept
            assert found is self.instances[id(obj)]

    @invariant()
    def keeps_no_more_than_is_cached(self) -> None:
        """Models of deleted objects are not kept."""
        shown = {key for key in self.cache.models._current if self.cache.shown(key) is not None}
        assert shown == set(self.cache.models._current)


ModelsMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30)
TestModels = ModelsMachine.TestCase


@pytest.fixture
def decoded() -> Iterator[Counter[str]]:
    """Count decodes by resource version."""
    CountedMeta.decoded.clear()
    yield CountedMeta.decoded
    CountedMeta.decoded.clear()


def test_each_version_is_decoded_once_however_many_read_it(decoded: Counter[str]) -> None:
    cache = Cache(CountedPod)
    cache.put(first := pod("a", version=1))
    assert not decoded  # nothing is decoded that is not read
    for _ in range(3):
        assert cache.lister["default/a"] is cache.models.of(first)
        assert cache.lister.list() == [cache.lister.get("default/a")]
    cache.put(second := pod("a", version=2))
    for _ in range(2):  # two handlers of (old, new)
        assert cache.models.of(first).metadata.resourceVersion == "1"
        assert cache.models.of(second) is cache.lister["default/a"]
    cache.apply(Deleted(second))
    assert cache.models.of(second).metadata.resourceVersion == "2"
    assert decoded == {"1": 1, "2": 1}
    assert len(cache.models) == 0


def test_an_own_write_and_its_event_are_decoded_once(decoded: Counter[str]) -> None:
    cache = Cache(CountedPod)
    cache.put(pod("a", version=1))
    cache.written["default/a"] = written = pod("a", version=2)
    model = cache.models.of(written)
    cache.put(event := pod("a", version=2))
    del cache.written["default/a"]
    assert cache.models.of(event) is model
    assert decoded == {"2": 1}


def test_at_most_a_few_hundred_replaced_models_are_kept() -> None:
    cache = Cache(Pod)
    for version in range(1, 2_000):
        cache.put(obj := pod("a", "n", version=version))
        assert cache.models.of(obj).metadata.resource_version == str(version)
    assert len(cache.models) == 1
    assert len(cache.models._replaced) <= 256


@pytest.mark.parametrize("model", [ChangeablePod, V1Pod])
def test_each_reader_of_a_model_that_can_be_changed_gets_its_own(model: type[Any]) -> None:
    cache = Cache(model)
    cache.put(obj := whole_pod("n1"))
    first, second = cache.lister["default/a"], cache.lister["default/a"]
    assert first == second == decode_model(obj, model)
    first.spec = None
    assert second.spec.node_name == cache.lister["default/a"].spec.node_name == "n1"
    assert "not frozen" in cache.lister.private_because


def test_a_misfit_is_an_error_at_its_own_read_and_left_out_of_lists() -> None:
    cache = Cache(Pod)
    cache.indexer.add_index("name", "metadata.name")
    for obj in (pod("fits", "n1"), pod("bad", 5), pod("worse")):
        cache.put(obj)
    assert cache.lister["default/fits"].spec.node_name == "n1"
    assert [one.metadata.name for one in cache.lister.list()] == ["fits"]
    assert cache.lister.by_index("name", "bad") == []
    for _ in range(2):  # the error is kept, and raised again
        with pytest.raises(ModelMismatchError, match="Pod 'default/bad': does not fit Pod") as bad:
            cache.lister.get("default/bad")
        assert len([*_frames(bad.value)]) < 10
    assert sorted(one.key for one in cache.lister.mismatches()) == ["default/bad", "default/worse"]
    assert "default/bad" in cache.lister
    assert cache.lister.get("default/none") is None
    assert cache.lister.list(namespace="other") == []
    assert cache.lister.objects["default/bad"].metadata.name == "bad"


def _frames(error: BaseException) -> Iterator[object]:
    found = error.__traceback__
    while found is not None:
        yield found
        found = found.tb_next


@pytest.mark.parametrize("model", [Pod, V1Pod])
def test_readers_in_threads_never_get_a_model_of_another_version(model: type[Any]) -> None:
    cache = Cache(model)
    rounds = 300 if model is Pod else 20
    cache.put(whole_pod("n1"))
    faults: list[object] = []
    instances: dict[int, set[int]] = {}
    kept: list[object] = []
    is_done = threading.Event()

    def read() -> None:
        while not is_done.is_set():
            obj = cache.indexer.get("default/a")
            assert obj is not None
            found = cache.models.of(obj)
            if found.metadata.resource_version != obj.metadata.resource_version:
                faults.append((found, obj))
            if model is Pod and cache.indexer.get("default/a") is obj:
                kept.extend((obj, found))
                instances.setdefault(id(obj), set()).add(id(found))

    readers = [threading.Thread(target=read) for _ in range(3)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for reader in readers:
            reader.start()
        for version in range(2, rounds):
            cache.put(whole_pod(f"n{version}", version=version))
    finally:
        is_done.set()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(before)
    assert faults == []
    assert {key: len(found) for key, found in instances.items() if len(found) > 1} == {}
    assert len(cache.models) <= 1
