"""Against a model: a read after a write returns at least that write, and no event is lost.

A state that was read and no longer holds is reported, by an event or as a missed state. So a reader
that reads again at each report ends with the current state.

Hypothesis chooses which client writes what, when responses and events arrive, when the connection
breaks and everything is listed again, when bookmarks come. The server is a list of changes; the
cache is a real store with a real overlay. Only a client that has seen an object deletes it, since a
deletion names its uid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyinformer.cache.store import Indexer, Lister, Overlay
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated, older
from tests.cache.store.written import node_of, record, version_of
from tests.soak import examples

KEYS = ["x/a", "x/b", "y/a"]
NODES = ["n1", "n2"]
_some_key = st.sampled_from(KEYS)
_some_node = st.sampled_from(NODES)


@dataclass
class State:
    """An object on the server after a change."""

    version: int
    uid: str
    node: str
    exists: bool = True
    selected: bool = True

    @property
    def is_cached(self) -> bool:
        """Whether the cache's scope holds it."""
        return self.exists and self.selected


NOTHING = State(0, "", "", exists=False)


@dataclass
class Answer:
    """A response on its way."""

    key: str
    state: State
    names_version: bool
    by_reconcile: bool = False
    """Whether the reconcile of the key waits for it, and acts on what it says."""


class Reads(RuleBasedStateMachine):
    """A server, a cache behind it, and this process."""

    @initialize(selective=st.booleans())
    def begin(self, selective: bool) -> None:
        self.selective = selective
        self.revision = 1
        self.uids = 0
        self.history: dict[str, list[State]] = {key: [NOTHING] for key in KEYS}
        self.stream: list[tuple[str, State, State] | int] = []  # a number is a bookmark
        self.answers: list[Answer] = []
        self.least: dict[str, int] = dict.fromkeys(KEYS, 0)  # as new as this, every read must be
        self.position = "1"
        self.buried: set[tuple[str, str]] = set()
        self.listing: int | None = None
        self.woken: set[str] = set()  # keys and nodes that were reported
        self.acted: dict[str, object] = {}  # what was read of each at the last report
        self.waiting: set[str] = set()  # keys whose reconcile waits for an answer
        self.store: Indexer[Any] = Indexer()
        self.store.add_index("node", node_of)
        self.overlay: Overlay[Any] = Overlay(
            self.store.get,
            lambda: self.position,
            was_deleted=lambda key, uid: (key, uid) in self.buried,
            on_missed_state=self.unheard,
            selective=selective,
        )
        self.lister: Lister[Any] = Lister(self.store, resource="pods", written=self.overlay.entries)

    def unheard(self, was: KubeObject[Any], now: KubeObject[Any] | None) -> None:
        """Wake as a controller's sources do."""
        told = set() if now is None else {str(now.key), node_of(now)}
        self.woken |= {str(was.key), node_of(was)} - told

    def tell(self, *states: KubeObject[Any] | None) -> None:
        """Wake as a controller's sources do for an event."""
        for state in states:
            if state is not None:
                self.woken |= {str(state.key), node_of(state)}

    def read(self, target: str) -> object:
        """Read what a reconcile of a key, or of a node, would act on."""
        if target in NODES:
            return {(obj.key, version_of(obj)) for obj in self.lister.by_index("node", target)}
        return version_of(self.lister.get(target))

    @rule(of=st.sampled_from([*KEYS, *NODES]))
    def act(self, of: str) -> None:
        if of in self.waiting:
            return  # a key is reconciled by one at a time
        self.woken.discard(of)
        self.acted[of] = self.read(of)

    def change(self, key: str, state: State) -> State:
        """Write on the server."""
        self.revision += 1
        state.version = self.revision
        before = self.history[key][-1]
        self.history[key].append(state)
        if before.is_cached or state.is_cached:
            self.stream.append((key, before, state))
        return state

    @rule(
        key=_some_key,
        node=_some_node,
        own=st.booleans(),
        out=st.booleans(),
        by_reconcile=st.booleans(),
    )
    def create_or_update(
        self, key: str, node: str, own: bool, out: bool, by_reconcile: bool = False
    ) -> None:
        now = self.history[key][-1]
        uid = now.uid
        if not now.exists:
            self.uids += 1
            uid = f"u{self.uids}"
        # Only this process moves objects out of the scope: no cache can know of objects that other
        # clients move out and back between a read and a deletion.
        # And it reads first: it does not write objects that were never in this cache, nor another
        # object of the same name.
        seen = self.lister.get(key)
        may_move = self.selective and own and seen is not None and seen.metadata.uid == uid
        may_move = may_move and all(each.key != key for each in self.answers)
        selected = not (may_move and out) and (own or not now.exists or now.selected)
        by_reconcile = self.begins_to_reconcile(key, asked=by_reconcile and own)
        state = self.change(key, State(0, uid, node, selected=selected))
        if own:
            self.answers.append(Answer(key, state, True, by_reconcile))

    def begins_to_reconcile(self, key: str, *, asked: bool) -> bool:
        """Return whether a write is one of the reconcile of its key, which has read before."""
        if not asked or key in self.waiting:
            return False
        self.act(key)
        self.waiting.add(key)
        return True

    @rule(key=_some_key, names_version=st.booleans(), by_reconcile=st.booleans())
    def delete(self, key: str, names_version: bool, by_reconcile: bool = False) -> None:
        now, seen = self.history[key][-1], self.lister.get(key)
        if now.exists and seen is not None and seen.metadata.uid == now.uid:
            # Without a version, no cache can distinguish this end from an earlier event by which
            # the object left the selector.
            left = any(
                each.uid == now.uid and not each.selected and each.version > int(self.position)
                for each in self.history[key]
            )
            by_reconcile = self.begins_to_reconcile(key, asked=by_reconcile)
            state = self.change(key, State(0, now.uid, "", exists=False))
            self.answers.append(Answer(key, state, names_version or left, by_reconcile))

    @rule(key=_some_key)
    def others_delete(self, key: str) -> None:
        now = self.history[key][-1]
        if now.exists:
            self.change(key, State(0, now.uid, "", exists=False))

    @precondition(lambda self: self.answers)
    @rule(pick=st.integers(0, 100))
    def answer(self, pick: int) -> None:
        answer = self.answers.pop(pick % len(self.answers))
        key, state = answer.key, answer.state
        version = str(state.version)
        if answer.by_reconcile:
            self.waiting.discard(key)
            self.acted[key] = state.version if state.is_cached else 0
        if not state.exists:
            self.overlay.put_tombstone(key, state.uid, version if answer.names_version else None)
        elif state.selected:
            self.overlay.put(record(key, state.uid, state.version, state.node))
        else:
            self.overlay.put_unselected(key, state.uid, version)
        self.least[key] = max(self.least[key], state.version)

    @precondition(lambda self: self.listing is None and self.stream)
    @rule(count=st.integers(1, 4))
    def hear(self, count: int) -> None:
        for _ in range(min(count, len(self.stream))):
            self.hear_one()

    def hear_one(self) -> None:
        """Take one event or bookmark, as guard, store and sink do."""
        arrived = self.stream.pop(0)
        if isinstance(arrived, int):
            self.position = str(arrived)
            self.store.bookmark_nowait(self.position)
            self.overlay.confirm(self.position)
            return
        key, before, state = arrived
        new = record(key, state.uid, state.version, state.node)
        old = self.store.get(key)
        event: Event[Any]
        if not state.is_cached:
            gone = record(key, before.uid, state.version, before.node)
            event = Deleted(gone, may_still_exist=self.selective)
            self.buried.add((key, before.uid))
        else:
            event = Added(new) if old is None else Updated(old, new)
        self.store.apply_nowait(event)
        self.overlay.observe(event)
        self.tell(old, None if isinstance(event, Deleted) else new)
        self.position = str(state.version)

    @precondition(lambda self: not any(isinstance(each, int) for each in self.stream))
    @rule()
    def bookmark(self) -> None:
        self.stream.append(self.revision)

    @precondition(lambda self: self.listing is None)
    @rule()
    def list_begins(self) -> None:
        self.listing = self.revision

    @precondition(lambda self: self.listing is not None)
    @rule()
    def list_arrives(self) -> None:
        assert self.listing is not None
        at, self.listing = self.listing, None
        objects = {}
        for key in KEYS:
            state = [each for each in self.history[key] if each.version <= at][-1]
            if state.is_cached:
                objects[key] = record(key, state.uid, state.version, state.node)
        before = {key: self.store.get(key) for key in KEYS}
        for _ in self.store.replace_nowait(objects, str(at)):
            pass
        self.position = str(at)
        self.overlay.sweep()
        for key, old in before.items():
            if version_of(old) != version_of(objects.get(key)):
                self.tell(old, objects.get(key))
            if old is not None and key not in objects:
                self.buried.add((key, old.metadata.uid))
        self.overlay.confirm(self.position)
        self.stream = [
            each
            for each in self.stream
            if (each if isinstance(each, int) else each[2].version) > at
        ]

    @invariant()
    def every_read_is_a_state_that_is_new_enough(self) -> None:
        if not hasattr(self, "lister"):
            return
        for key in KEYS:
            self.check(key, self.lister.get(key))

    def check(self, key: str, seen: KubeObject[Any] | None) -> None:
        """Find the state that was read: never one before what was read or written earlier."""
        states = self.history[key]
        for state, following in zip(states, [*states[1:], None], strict=True):
            lasted = self.revision if following is None else following.version - 1
            is_it = version_of(seen) == state.version if state.is_cached else seen is None
            if is_it and lasted >= self.least[key]:
                self.least[key] = max(self.least[key], state.version)
                return
        raise AssertionError(f"{key}: {seen} is older than {self.least[key]}: {states}")

    @invariant()
    def all_ways_of_reading_agree(self) -> None:
        if not hasattr(self, "lister"):
            return
        truth = {key: obj for key in KEYS if (obj := self.lister.get(key)) is not None}
        assert {obj.key: obj for obj in self.lister.list()} == truth
        assert sorted(self.lister.keys()) == sorted(truth)
        assert sorted(self.lister.index_values("node")) == sorted(set(map(node_of, truth.values())))
        for node in NODES:
            found = {obj.key: obj for obj in self.lister.by_index("node", node)}
            assert found == {key: obj for key, obj in truth.items() if node_of(obj) == node}
        for namespace in ("x", "y"):
            listed = {obj.key for obj in self.lister.namespace(namespace).list()}
            assert listed == {key for key in truth if key.startswith(f"{namespace}/")}

    @invariant()
    def nothing_written_enters_the_store(self) -> None:
        if hasattr(self, "store"):
            assert all(
                not older(self.position, obj.metadata.resource_version) for obj in self.store.list()
            )

    def teardown(self) -> None:
        """At rest the overlay is empty, and reads equal the server."""
        if not hasattr(self, "lister"):
            return
        if self.listing is not None:
            self.list_arrives()
        while self.answers:
            self.answer(0)
        while self.stream:
            self.hear_one()
        for _ in range(3):
            self.revision += 1
            self.stream.append(self.revision)
            self.hear_one()
        assert not self.overlay.entries
        served = {k: s[-1].version for k, s in self.history.items() if s[-1].is_cached}
        assert {obj.key: version_of(obj) for obj in self.lister.list()} == served
        nothing: dict[str, object] = {node: set() for node in NODES} | dict.fromkeys(KEYS, 0)
        lost = [
            target
            for target in (*KEYS, *NODES)
            if target not in self.woken
            and self.acted.get(target, nothing.get(target)) != self.read(target)
        ]
        assert lost == [], "who acted on these will never look again"


class Story:
    """A machine that is led by hand: steps that Hypothesis found once, checked as it checks them.

    A state machine takes no `@example`, and a stored one is lost with the next change of a rule.
    """

    def __init__(self, *, selective: bool) -> None:
        self.reads = Reads()
        self.reads.begin(selective=selective)

    def write(self, key: str, *, own: bool = True, out: bool = False) -> None:
        self.reads.create_or_update(key=key, node="n1", own=own, out=out)
        self.check()

    def delete(self, key: str) -> None:
        self.reads.delete(key=key, names_version=True)
        self.check()

    def answer(self, pick: int) -> None:
        self.reads.answer(pick=pick)
        self.check()

    def hear(self) -> None:
        self.reads.hear(count=1)
        self.check()

    def list(self) -> None:
        """Take what was listed."""
        self.reads.list_arrives()
        self.check()

    def ends_with_the_last_event(self) -> None:
        """Check that the object is gone already, and forgotten after its last event."""
        assert self.reads.lister.get("x/a") is None
        self.hear()
        assert not self.reads.overlay.entries
        self.reads.teardown()

    def check(self) -> None:
        """Hold all invariants against this state."""
        self.reads.every_read_is_a_state_that_is_new_enough()
        self.reads.all_ways_of_reading_agree()
        self.reads.nothing_written_enters_the_store()


def test_a_deletion_outlives_the_event_of_an_earlier_leave_of_the_selector() -> None:
    story = Story(selective=True)
    story.write("x/a", own=False)
    story.hear()
    story.write("x/a", out=True)
    story.write("x/a")  # and back, before the event of its leaving
    story.answer(1)
    story.delete("x/a")
    story.answer(1)
    assert story.reads.lister.get("x/a") is None
    story.hear()  # it left: this is not the end that was written
    story.hear()  # it came back
    story.ends_with_the_last_event()


def test_a_deletion_is_not_mistaken_for_a_leave_that_was_received_before_its_answer() -> None:
    story = Story(selective=True)
    story.write("x/a", own=False)
    story.hear()
    story.write("x/a", out=True)
    story.write("x/a")
    story.delete("x/a")
    story.hear()  # it left
    story.answer(2)
    story.hear()  # it came back
    story.ends_with_the_last_event()


def test_a_deletion_is_not_mistaken_for_a_leave_that_a_list_reported() -> None:
    story = Story(selective=True)
    story.write("x/a", own=False)
    story.hear()
    story.write("x/a", out=True)
    story.reads.list_begins()
    story.write("x/a")
    story.delete("x/a")
    story.list()
    story.answer(2)
    story.hear()
    story.ends_with_the_last_event()


@pytest.mark.covers(
    "controller-runtime pkg/client/internal/writebarrier: TestKeyWriteBarrierSealWithoutInFligh"
)
def test_an_object_that_is_made_and_deleted_between_two_lists_wakes_its_writer() -> None:
    """The list arrives before the response: no event and no read ever shows the object."""
    story = Story(selective=False)
    story.reads.create_or_update(key="x/a", node="n1", own=True, out=False, by_reconcile=True)
    story.reads.others_delete(key="x/a")
    story.reads.list_begins()
    story.list()
    story.answer(0)
    story.reads.teardown()


TestReads = Reads.TestCase
TestReads.settings = settings(max_examples=examples(75), stateful_step_count=40)
