"""Lists by selector give the same objects in the same order, whether label indexes exist or not.

Hypothesis chooses events, lists, own writes and reads; the truth is a search through `list()`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyinformer.cache.store import Indexer, JointIndexer, Lister, Overlay, OverlayEntries
from pyinformer.objects import Added, Deleted, KubeObject, Labels, LabelSelector, Updated
from tests.cache.store.label_limits import lower_limits
from tests.cache.store.objects import names, pod, replace
from tests.soak import examples

SELECTORS = [
    "p=1",
    "q=2",
    "r=1",
    "p in (1,2)",
    "q",
    "p=1,q",
    "p!=2",
    "!q",
    "p in (1,3),q notin (1),!r",
    "q=1,p>1",
]
KEYS = st.sampled_from([f"{namespace}/{name}" for namespace in "xy" for name in "abcd"])
LABELS = st.dictionaries(st.sampled_from("pqr"), st.sampled_from("123"))
NAMESPACES = ("x", "y")


def _pod(key: str, version: int, labels: dict[str, str]) -> KubeObject[Any]:
    namespace, _, name = key.partition("/")
    return pod(name, namespace=namespace, version=version, labels=labels)


def _searched(objects: list[KubeObject[Any]], selector: str) -> list[KubeObject[Any]]:
    matches = LabelSelector.parse(selector).matches
    return [obj for obj in objects if matches(dict(obj.metadata.labels))]


class LabelledMachine(RuleBasedStateMachine):
    """A cache, or one for each namespace, whose label indexes come and go quickly."""

    def __init__(self) -> None:
        super().__init__()
        self._patch = pytest.MonkeyPatch()
        self.model: dict[str, KubeObject[Any]] = {}
        self.unread: dict[str, KubeObject[Any]] = {}
        self.version = 0

    @initialize(is_joint=st.booleans(), reads=st.integers(0, 2), log=st.sampled_from([2, 64]))
    def begin(self, is_joint: bool, reads: int, log: int) -> None:
        """Choose the caches, and when indexes are made and dropped."""
        lower_limits(self._patch, reads_before=reads, least_log=log, most_indexes=2, idle_reads=7)
        self.caches: dict[str, Indexer[Any]] = {
            name: Indexer() for name in (NAMESPACES if is_joint else ("",))
        }
        whole = JointIndexer(self.caches) if is_joint else self.caches[""]
        written: OverlayEntries[Any] = OverlayEntries()
        self.overlay: Overlay[Any] = Overlay(whole.get, lambda: "0", shown=written)
        self.lister: Lister[Any] = Lister(whole, resource="pods", written=written)

    def teardown(self) -> None:
        """Restore the limits."""
        self._patch.undo()

    def _cache(self, key: str) -> Indexer[Any]:
        return self.caches[key.partition("/")[0] if len(self.caches) > 1 else ""]

    def _new(self, key: str, labels: dict[str, str]) -> KubeObject[Any]:
        self.version += 1
        return _pod(key, self.version, labels)

    @rule(key=KEYS, labels=LABELS)
    def put(self, key: str, labels: dict[str, str]) -> None:
        """Add or update; mostly the labels change."""
        new, old = self._new(key, labels), self.model.get(key)
        event = Added(new) if old is None else Updated(old, new)
        self._cache(key).apply_nowait(event)
        self.overlay.observe(event)
        self.model[key] = new

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def touch(self, data: Any) -> None:
        """Update an object and keep its record of labels, as nearly all updates do."""
        key = data.draw(st.sampled_from(sorted(self.model)))
        old = self.model[key]
        self.version += 1
        labels = dict(old.metadata.labels)
        self.put(key, labels)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        """Delete."""
        key = data.draw(st.sampled_from(sorted(self.model)))
        event = Deleted(self.model.pop(key))
        self._cache(key).apply_nowait(event)
        self.overlay.observe(event)

    @rule(key=KEYS, labels=LABELS)
    def write(self, key: str, labels: dict[str, str]) -> None:
        """Show a write of this process, without its event."""
        self.overlay.put(self._new(key, labels))

    @rule(fresh=st.dictionaries(KEYS, LABELS))
    def replace(self, fresh: dict[str, dict[str, str]]) -> None:
        """Hand over a complete list."""
        self.model = {key: self._new(key, labels) for key, labels in fresh.items()}
        for name, cache in self.caches.items():
            replace(cache, *(obj for obj in self.model.values() if obj.key.startswith(name)))

    @rule(key=KEYS)
    def add_index(self, key: str) -> None:
        """Add an index: the cache then has another state over the same objects."""
        cache = self._cache(key)
        cache.add_index(f"index-{len(cache.indexes())}", "spec.nodeName")

    @rule(key=KEYS, many=st.sampled_from([1, 40]))
    def bookmark(self, key: str, many: int) -> None:
        """Pass some time, or enough to drop indexes."""
        for _ in range(many):
            self._cache(key).bookmark_nowait(str(self.version))

    @rule(selector=st.sampled_from(SELECTORS), times=st.integers(1, 6))
    def read(self, selector: str, times: int) -> None:
        """List by a selector repeatedly."""
        for _ in range(times):
            assert self.lister.list(label_selector=selector) == _searched(
                self.lister.list(), selector
            )

    @invariant()
    def lists_agree(self) -> None:
        """Each selector gives what a search gives, in its order, and the objects themselves."""
        for selector in SELECTORS if hasattr(self, "lister") else ():
            found = self.lister.list(label_selector=selector)
            searched = _searched(self.lister.list(), selector)
            assert list(map(id, found)) == list(map(id, searched))
            for name in NAMESPACES:
                namespace = self.lister.namespace(name)
                found = namespace.list(label_selector=selector)
                searched = _searched(namespace.list(), selector)
                assert list(map(id, found)) == list(map(id, searched))


TestLabelled = LabelledMachine.TestCase
TestLabelled.settings = settings(max_examples=examples(30), stateful_step_count=25)


OBJECTS = 1_000


@pytest.fixture
def store() -> Indexer[Any]:
    """Return a cache of 1,000 pods of 100 applications and 4 tiers."""
    made: Indexer[Any] = Indexer()
    labels = [{"app": f"a{n % 100}", "tier": f"t{n % 4}", "one": "1"} for n in range(OBJECTS)]
    replace(made, *(pod(f"p{n:04}", labels=each) for n, each in enumerate(labels)))
    return made


def _read(store: Indexer[Any], selector: str, times: int = 1) -> list[KubeObject[Any]]:
    lister: Lister[Any] = Lister(store, resource="pods")
    for _ in range(times):
        found = lister.list(label_selector=selector)
        assert found == _searched(lister.list(), selector)
    return found


def test_the_fourth_list_by_a_label_makes_an_index(store: Indexer[Any]) -> None:
    _read(store, "app=a7", 3)
    assert store.label_indexes() == ()
    _read(store, "app=a8")
    assert store.label_indexes() == ("app",)


@pytest.mark.parametrize("selector", ["!app", "app!=a1", "app notin (a1,a2)", "app>1"])
def test_a_selector_that_no_index_answers_makes_none(store: Indexer[Any], selector: str) -> None:
    _read(store, selector, 10)
    assert store.label_indexes() == ()


def test_a_small_cache_gets_no_label_index() -> None:
    small: Indexer[Any] = Indexer()
    replace(small, *(pod(f"p{n}", labels={"app": "a"}) for n in range(100)))
    _read(small, "app=a", 10)
    assert small.label_indexes() == ()


def test_a_selector_of_several_labels_gets_the_index_that_leaves_few_objects(
    store: Indexer[Any],
) -> None:
    """The index by `one` is made first, and leaves all objects."""
    _read(store, "one=1", 4)
    _read(store, "one=1,app=a7", 4)
    assert store.label_indexes() == ("one", "app")
    _read(store, "app=a7,tier=t3", 10)
    assert store.label_indexes() == ("one", "app")  # ten objects are few enough


def test_a_cache_keeps_four_label_indexes_and_drops_one_that_is_not_read() -> None:
    labels = {f"l{n}": "1" for n in range(6)}
    store: Indexer[Any] = Indexer()
    replace(store, *(pod(f"p{n}", labels=labels) for n in range(500)))
    for label in labels:
        _read(store, f"{label}=1", 4)
    assert store.label_indexes() == ("l0", "l1", "l2", "l3")
    for _ in range(2 * 1024):  # which looks once in so many reads
        store.matching(LabelSelector.parse("l1=1"))
    assert store.label_indexes() == ("l1",)
    _read(store, "l5=1", 4)
    assert store.label_indexes() == ("l1", "l5")


def test_label_indexes_that_are_not_read_are_dropped_after_many_changes(
    store: Indexer[Any],
) -> None:
    _read(store, "app=a7", 4)
    for number in range(200):
        if number == 100:
            _read(store, "app=a7")  # which applies the changes before
        store.apply_nowait(Added(pod(f"new{number}", labels={"app": "a7"})))
    assert store.label_indexes() == ("app",)
    for number in range(200, 400):
        store.apply_nowait(Added(pod(f"new{number}", labels={"app": "a7"})))
    assert store.label_indexes() == ()
    assert len(_read(store, "app=a7", 5)) == 410


def test_changes_of_many_labels_are_not_kept_for_long(store: Indexer[Any]) -> None:
    """A tenant may give an object 100,000 labels, and change them all the time."""
    _read(store, "app=a7", 4)
    old = store.list()[7]
    for turn in range(2):
        new = _with_labels(old, Labels.of({f"l{n}": str(turn) for n in range(2_000)}))
        store.update_nowait(old, new)
        old = new
    assert store.label_indexes() == ()
    assert len(_read(store, "app=a7", 5)) == 9


def test_label_indexes_that_are_not_read_for_half_an_hour_are_dropped(store: Indexer[Any]) -> None:
    _read(store, "app=a7", 4)
    for turn in range(31):  # a server sends a bookmark about once a minute
        if turn == 15:
            _read(store, "app=a7")
        store.bookmark_nowait("2")
    assert store.label_indexes() == ("app",)
    for _ in range(31):
        store.bookmark_nowait("2")
    assert store.label_indexes() == ()


def test_an_update_that_keeps_the_labels_leaves_nothing_to_be_applied(store: Indexer[Any]) -> None:
    """However many there are: the index stays, although no list reads it."""
    _read(store, "app=a7", 4)
    current = store.list()
    for _ in range(3):
        for place, old in enumerate(current):
            labels = old.metadata.labels
            new = _with_labels(old, labels)
            store.update_nowait(old, new)
            current[place] = new
    assert store.label_indexes() == ("app",)
    assert _read(store, "app=a7") == current[7::100]


def _with_labels(obj: KubeObject[Any], labels: Labels) -> KubeObject[Any]:
    meta = msgspec.structs.replace(obj.metadata, labels=labels)
    return msgspec.structs.replace(obj, metadata=meta)


def test_a_reader_that_finds_the_indexes_in_use_does_not_wait(store: Indexer[Any]) -> None:
    _read(store, "app=a7", 4)
    with store._label_queries.lock:
        assert names(_read(store, "app=a7")) == [f"p{n:04}" for n in range(7, 1000, 100)]


@pytest.fixture
def _switch_all_the_time() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Mover:
    """Moves all objects of a cache from one label to the other, one after the other."""

    def __init__(self, store: Indexer[Any]) -> None:
        self._store = store
        self._sides = [Labels.of({"side": "0"}), Labels.of({"side": "1"})]
        replace(store, *(pod(f"p{n:04}", labels={"side": "0"}) for n in range(OBJECTS)))
        self._order = [obj.key for obj in store.list()]
        self._current = dict(zip(self._order, store.list(), strict=True))

    def run(self, rounds: int) -> None:
        """Move all objects, so many times."""
        for number in range(1, rounds + 1):
            for key in list(self._order):
                old = self._current[key]
                new = _with_labels(old, self._sides[number % 2])
                self._store.update_nowait(old, new)
                self._current[key] = new

    def fault(self, found: list[KubeObject[Any]]) -> str:
        """Return what shows that a read was not of one moment, or not in order."""
        keys = [obj.key for obj in found]
        if len({obj.metadata.labels for obj in found}) > 1:
            return "objects with another label"
        if any(one >= other for one, other in pairwise(keys)):
            return "the order"
        is_prefix = keys == self._order[: len(keys)]
        is_suffix = keys == self._order[OBJECTS - len(keys) :]
        return "" if is_prefix or is_suffix else f"a gap in {len(keys)} objects"


def _read_until(
    stop: threading.Event, mover: Mover, store: Indexer[Any], faults: list[str], seen: set[str]
) -> None:
    selectors = [LabelSelector.parse(f"side={side}") for side in (0, 1)]
    while not stop.is_set() and not faults:
        faults += filter(None, [mover.fault(store.matching(one)) for one in selectors])
        if len(store.matching(LabelSelector.parse("side in (0,1)"))) != OBJECTS:
            faults.append("an object is missing while it moves")
        seen.update(store.label_indexes())


@pytest.mark.usefixtures("_switch_all_the_time")
def test_lists_by_selector_in_threads_are_of_one_moment_while_all_labels_change() -> None:
    """Bounded by a count of writes; about a second."""
    store: Indexer[Any] = Indexer()
    mover = Mover(store)
    stop, faults, seen = threading.Event(), list[str](), set[str]()
    threads = [
        threading.Thread(target=_read_until, args=(stop, mover, store, faults, seen))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    try:
        mover.run(20)
        while not (seen or faults):  # a busy machine may have given the readers no turn
            mover.run(20)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert faults == []
    assert seen == {"side"}  # an index was in use
