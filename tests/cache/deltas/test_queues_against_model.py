"""Every queue against a dict: whatever is put in and taken out, in whatever order.

The truth is what the operations say; the store is what a consumer makes of what it pops. The
queue must answer for the truth at any moment, and the store must become the truth: by events that
form a life per key, in the order of arrival, none lost and none invented.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import count, islice

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyinformer.cache.deltas import Delta, DeltaFIFO, DeltaType, RealFIFO, events_of
from pyinformer.objects import Added, Deleted, KubeObject, Updated
from tests.cache.deltas.pods import pod, store_event
from tests.soak import examples

Store = dict[str, KubeObject[None]]
Queue = RealFIFO[None] | DeltaFIFO[None]

NAMES = st.sampled_from("abcde")
QUEUES: dict[str, Callable[[Store], Queue]] = {
    "RealFIFO atomic": lambda store: RealFIFO(known_objects=store),
    "RealFIFO per object": lambda store: RealFIFO(known_objects=store, atomic_events=False),
    "DeltaFIFO": lambda store: DeltaFIFO(known_objects=store),
}


class QueueMachine(RuleBasedStateMachine):
    """A reflector, a queue and a consumer, taking turns as Hypothesis likes."""

    def __init__(self) -> None:
        super().__init__()
        self.truth: Store = {}
        self.store: Store = {}
        self.queue: Queue = RealFIFO()
        self.put: dict[str, list[str]] = defaultdict(list)
        self.taken: dict[str, list[str]] = defaultdict(list)
        self.versions = count(1)
        self.has_list = False
        self.was_synced = False

    @initialize(kind=st.sampled_from(sorted(QUEUES)))
    def choose(self, kind: str) -> None:
        self.queue = QUEUES[kind](self.store)

    def _next(self, name: str, *, recreate: bool = False) -> KubeObject[None]:
        version = next(self.versions)
        old = self.truth.get(name)
        if old is None or recreate:
            return pod(name, version, f"uid-{version}")
        return pod(name, version, old.metadata.uid)

    def _arrives(self, obj: KubeObject[None]) -> None:
        self.put[obj.key].append(obj.metadata.resource_version)

    @rule(name=NAMES)
    def change(self, name: str) -> None:
        old, new = self.truth.get(name), self._next(name)
        self.queue.apply_nowait(Added(new) if old is None else Updated(old, new))
        self._arrives(new)
        self.truth[name] = new

    @rule(name=NAMES)
    def modify_with_another_uid(self, name: str) -> None:
        new = self._next(name, recreate=True)
        self.queue.update_nowait(new)
        self._arrives(new)
        self.truth[name] = new

    @rule(name=NAMES, seen=st.booleans())
    def recreate(self, name: str, *, seen: bool) -> None:
        self.delete(name, seen=seen)
        self.change(name)

    @rule(name=NAMES, seen=st.booleans())
    def delete(self, name: str, *, seen: bool) -> None:
        old = self.truth.pop(name, None)
        if old is None:
            return
        last = pod(name, next(self.versions), old.metadata.uid) if seen else old
        self.queue.apply_nowait(Deleted(last, final_state_unknown=not seen))
        if seen:
            self._arrives(last)

    @rule()
    def delete_what_nobody_knows(self) -> None:
        before = len(self.queue)
        self.queue.delete_nowait(pod("stranger"))
        assert len(self.queue) == before

    @rule(fates=st.lists(st.sampled_from(["gone", "same", "new", "recreated"]), min_size=5))
    def relist(self, fates: list[str]) -> None:
        listed: Store = {}
        for name, fate in zip("abcde", fates, strict=False):
            old = self.truth.get(name)
            if fate == "same" and old is not None:
                listed[name] = old
            elif fate in {"new", "recreated"}:
                listed[name] = self._next(name, recreate=fate == "recreated")
        for _ in self.queue.replace_nowait(dict(listed), str(next(self.versions))):
            raise AssertionError("a short list is taken at once")
        for obj in listed.values():
            self._arrives(obj)
        self.truth = listed
        self.has_list = True

    @rule()
    def resync(self) -> None:
        self.queue.resync_nowait()

    @rule()
    def bookmark(self) -> None:
        self.queue.bookmark_nowait(str(next(self.versions)))

    def _consume(self, delta: Delta[None]) -> None:
        told = list(delta.objects.values())
        if isinstance(delta.object, KubeObject) and delta.type is not DeltaType.SYNC:
            told.append(delta.object)
        for obj in told:
            self.taken[obj.key].append(obj.metadata.resource_version)
        for event in events_of(delta, self.store):
            store_event(self.store, event)

    @rule()
    def pop(self) -> None:
        is_initial = not self.queue.has_synced
        item = self.queue.pop_nowait()
        for delta in (item,) if isinstance(item, Delta) else item or ():
            assert delta.is_in_initial_list is is_initial
            self._consume(delta)

    @rule(limit=st.integers(0, 8))
    def drain_some(self, limit: int) -> None:
        for delta in islice(self.queue.drain_nowait(), limit):
            assert delta.is_in_initial_list or self.queue.has_synced
            self._consume(delta)

    @precondition(lambda self: isinstance(self.queue, RealFIFO))
    @rule(limit=st.integers(1, 8))
    def pop_batch(self, limit: int) -> None:
        assert isinstance(self.queue, RealFIFO)
        batch = self.queue.pop_batch_nowait(limit)
        keys = [delta.key for delta in batch]
        assert len(batch) <= limit
        assert len(set(keys)) == len(keys)
        assert len({delta.is_in_initial_list for delta in batch}) <= 1
        for delta in batch:
            self._consume(delta)

    @invariant()
    def the_queue_answers_for_the_truth(self) -> None:
        for name in "abcde":
            assert self.queue.get(name) is self.truth.get(name)
        assert sorted(self.queue.keys()) == sorted(self.truth)

    @invariant()
    def each_key_keeps_its_order(self) -> None:
        for key, versions in self.taken.items():
            assert versions == self.put[key][: len(versions)]

    @invariant()
    def synced_means_that_the_first_list_was_consumed_and_stays(self) -> None:
        assert self.has_list or not self.queue.has_synced
        assert self.queue.has_synced or not self.was_synced
        self.was_synced = self.queue.has_synced

    def teardown(self) -> None:
        for delta in self.queue.drain_nowait():
            self._consume(delta)
        assert self.store == self.truth
        assert dict(self.taken) == {key: versions for key, versions in self.put.items() if versions}
        assert len(self.queue) == 0
        assert self.queue.has_synced is self.has_list


QueueMachine.TestCase.settings = settings(max_examples=examples(50), stateful_step_count=40)
TestQueuesAgainstModel = QueueMachine.TestCase
