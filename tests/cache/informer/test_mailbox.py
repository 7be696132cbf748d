"""The mailbox: order while there is room, merging beyond it, and the initial list."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from pyinformer.cache.informer.delivery import Mailbox
from pyinformer.errors import InternalError, InvalidArgumentError
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated
from tests.pods import make
from tests.soak import examples

A1, A2, A3 = (make("a", resource_version=rv) for rv in "123")
B1 = make("b")
OTHER = make("other")
NEW1, NEW2 = (make("a", uid="new", resource_version=rv) for rv in "45")
FILLER: Event = Added(OTHER)


def drain(mailbox: Mailbox) -> list[Event]:
    """Take everything."""
    events = []
    while (event := mailbox.take_nowait()) is not None:
        events.append(event)
    return events


def overflowing(*events: Event) -> Mailbox:
    """Return a mailbox of one place that is taken, with these events behind it."""
    mailbox: Mailbox = Mailbox(size=1)
    mailbox.put_nowait(FILLER)
    for event in events:
        mailbox.put_nowait(event)
    return mailbox


def sized(name: str, version: int, size: int) -> KubeObject:
    """Return an object with so large a body."""
    obj = make(name, resource_version=f"{version}")
    return KubeObject(obj.key, obj.metadata, None, b" " * size, obj.gvk)


def updates(name: str, count: int, size: int) -> list[Event]:
    """Return the updates of one object, each from the state of the one before."""
    states = [sized(name, version, size) for version in range(count + 1)]
    return [Updated(old, new) for old, new in pairwise(states)]


def counting(size: int = 1024) -> Mailbox:
    """Return a mailbox of an informer that has received a large object."""
    mailbox: Mailbox = Mailbox(size=size)
    mailbox.count_bytes_nowait()
    return mailbox


@pytest.mark.parametrize("count", [40, 300])
def test_events_of_large_objects_are_merged_before_they_hold_much(count: int) -> None:
    """A tenant writes while a handler is slow; it still gets a whole life, from start to end."""
    mailbox = counting()
    told = updates("a", count, 1 << 20)
    for number, event in enumerate(told):
        mailbox.put_nowait(event)
        mailbox.put_nowait(updates("b", 1, 100)[0])
        if number % 100 == 0:
            mailbox.observe_nowait(float(number))
        waiting = [one.key for one in mailbox.queue] + list(mailbox._slots)
        assert waiting.count("a") <= 18

    heard = [event for event in drain(mailbox) if event.key == "a"]
    assert heard[0] == told[0]
    for before, after in pairwise(heard):
        assert isinstance(before, Updated)
        assert isinstance(after, Updated)
        assert before.new is after.old
    assert isinstance(heard[-1], Updated)
    assert heard[-1].new is told[-1].new  # type: ignore[union-attr]


def test_events_of_small_objects_keep_their_order_up_to_the_size() -> None:
    told = updates("a", 1_024, 6_500)
    for mailbox in (Mailbox(size=1024), counting()):
        for event in told:
            mailbox.put_nowait(event)
        assert drain(mailbox) == told


def test_order_is_kept_again_once_large_events_were_taken() -> None:
    mailbox = counting()
    for _ in range(3):
        for event in updates("a", 100, 1 << 20):
            mailbox.put_nowait(event)
        drain(mailbox)
        told = updates("b", 1_000, 100)
        for event in told:
            mailbox.put_nowait(event)
        assert drain(mailbox) == told


def test_taken_events_make_room_for_large_ones() -> None:
    """The bytes of events that were taken do not count, however many of them there were."""
    mailbox = counting()
    told = updates("a", 400, 1 << 20)
    mailbox.put_nowait(told[0])
    for event in told[1:]:
        mailbox.put_nowait(event)
        mailbox.take_nowait()
    assert mailbox.statistics(0.0).coalesced == 0
    assert drain(mailbox) == [told[-1]]


def test_large_events_behind_small_ones_are_merged() -> None:
    mailbox: Mailbox = Mailbox(size=1024)
    for event in updates("b", 600, 100):
        mailbox.put_nowait(event)
    for _ in range(595):
        mailbox.take_nowait()
    mailbox.count_bytes_nowait()
    for event in updates("a", 200, 1 << 20):
        mailbox.put_nowait(event)
    assert mailbox.statistics(2.0).depth < 64


def test_events_keep_their_order_while_there_is_room() -> None:
    mailbox: Mailbox = Mailbox(size=4)
    events: list[Event] = [Added(A1), Updated(A1, A2), Added(B1), Deleted(A2)]
    for event in events:
        mailbox.put_nowait(event)

    assert drain(mailbox) == events
    assert mailbox.statistics(0.0).coalesced == 0


@pytest.mark.parametrize(
    ("events", "left"),
    [
        pytest.param([Added(A1), Updated(A1, A2)], [Added(A2)], id="add+update"),
        pytest.param(
            [Added(A1, is_in_initial_list=True), Updated(A1, A2)],
            [Added(A2, is_in_initial_list=True)],
            id="initial-add+update",
        ),
        pytest.param([Added(A1), Deleted(A1)], [], id="add+delete"),
        pytest.param([Updated(A1, A2), Updated(A2, A3)], [Updated(A1, A3)], id="update+update"),
        pytest.param([Updated(A1, A2), Deleted(A3)], [Deleted(A3)], id="update+delete"),
        pytest.param(
            [Deleted(A1), Added(NEW1)], [Deleted(A1), Added(NEW1)], id="delete+add-both-kept"
        ),
        pytest.param(
            [Deleted(A1), Added(NEW1), Updated(NEW1, NEW2)],
            [Deleted(A1), Added(NEW2)],
            id="[delete,add]+update",
        ),
        pytest.param(
            [Deleted(A1), Added(NEW1), Deleted(NEW1)], [Deleted(A1)], id="[delete,add]+delete"
        ),
        pytest.param(
            [Added(A1), Updated(A1, A1, is_resync=True)], [Added(A1)], id="resync-yields-to-add"
        ),
        pytest.param(
            [Updated(A1, A2), Updated(A2, A2, is_resync=True)],
            [Updated(A1, A2)],
            id="resync-yields-to-update",
        ),
        pytest.param(
            [Updated(A1, A1, is_resync=True), Updated(A1, A2)],
            [Updated(A1, A2)],
            id="update-replaces-resync",
        ),
        pytest.param(
            [Updated(A1, A2, may_go_back=True), Updated(A2, A3)],
            [Updated(A1, A3, may_go_back=True)],
            id="went-back-before",
        ),
        pytest.param(
            [Updated(A1, A2), Updated(A2, A3, may_go_back=True)],
            [Updated(A1, A3, may_go_back=True)],
            id="went-back-after",
        ),
        pytest.param(
            [Updated(A1, A1, is_resync=True), Deleted(A1)], [Deleted(A1)], id="resync+delete"
        ),
        pytest.param(
            [Updated(A1, A1, is_resync=True), Updated(A1, A1, is_resync=True)],
            [Updated(A1, A1, is_resync=True)],
            id="resync+resync",
        ),
        pytest.param(
            [Deleted(A1, final_state_unknown=True), Added(NEW1), Deleted(NEW1)],
            [Deleted(A1, final_state_unknown=True)],
            id="first-delete-keeps-its-flags",
        ),
    ],
)
def test_beyond_its_size_events_merge_per_key(events: list[Event], left: list[Event]) -> None:
    assert drain(overflowing(*events)) == [FILLER, *left]


def test_a_merged_pair_is_counted() -> None:
    statistics = overflowing(Added(A1), Deleted(A1)).statistics(0.0)

    assert (statistics.dropped_pairs, statistics.coalesced, statistics.depth) == (1, 0, 1)


def test_a_merged_event_is_counted() -> None:
    statistics = overflowing(Added(A1), Updated(A1, A2)).statistics(0.0)

    assert (statistics.dropped_pairs, statistics.coalesced, statistics.depth) == (0, 1, 2)


def test_a_merged_key_stays_behind_its_earlier_events() -> None:
    mailbox = overflowing(Updated(A1, A2))
    assert mailbox.take_nowait() == FILLER  # the queue has room again

    mailbox.put_nowait(Added(B1))

    assert drain(mailbox) == [Updated(A1, A2), Added(B1)]


def test_between_a_delete_and_its_add_later_events_find_the_add() -> None:
    mailbox = overflowing(Deleted(A1), Added(NEW1))
    assert mailbox.take_nowait() == FILLER  # the deletion finds room, the addition does not

    mailbox.put_nowait(Deleted(NEW1))

    assert drain(mailbox) == [Deleted(A1)]
    assert mailbox.statistics(0.0).depth == 0


def test_events_that_fit_again_are_no_longer_merged() -> None:
    mailbox: Mailbox = Mailbox(size=3)
    for event in (FILLER, Added(B1), Deleted(OTHER), Added(A1)):
        mailbox.put_nowait(event)
    assert mailbox.take_nowait() == FILLER
    assert mailbox.take_nowait() == Added(B1)

    mailbox.put_nowait(Updated(A1, A2))

    assert drain(mailbox) == [Deleted(OTHER), Added(A1), Updated(A1, A2)]
    assert mailbox.statistics(0.0).coalesced == 0


def test_a_promoted_pair_does_not_affect_the_initial_list() -> None:
    mailbox: Mailbox = Mailbox(size=1)
    mailbox.put_nowait(Added(B1, is_in_initial_list=True))
    mailbox.on_initial_list_complete()
    mailbox.put_nowait(Deleted(A1))
    mailbox.put_nowait(Added(NEW1))

    assert mailbox.take_nowait() == Added(B1, is_in_initial_list=True)
    assert mailbox.initial_list_taken


@pytest.mark.parametrize("size", [pytest.param(8, id="room"), pytest.param(1, id="no-room")])
def test_preloaded_objects_come_first_and_in_order(size: int) -> None:
    mailbox: Mailbox = Mailbox(size=size)
    mailbox.preload_nowait([A1, B1])
    mailbox.put_nowait(FILLER)

    assert drain(mailbox) == [
        Added(A1, is_in_initial_list=True),
        Added(B1, is_in_initial_list=True),
        FILLER,
    ]


def test_a_preloaded_object_that_changes_is_added_as_it_is_now() -> None:
    mailbox: Mailbox = Mailbox(size=1)
    mailbox.preload_nowait([A1, B1])
    mailbox.put_nowait(Updated(A1, A2))
    mailbox.put_nowait(Deleted(B1))

    assert drain(mailbox) == [Added(A2, is_in_initial_list=True)]


def test_preloading_a_mailbox_in_use_is_refused() -> None:
    mailbox = overflowing()

    with pytest.raises(InternalError):
        mailbox.preload_nowait([A1])


def test_an_event_replaces_a_pending_resync_of_its_key() -> None:
    mailbox: Mailbox = Mailbox()
    mailbox.resync_nowait([A1, B1])
    mailbox.put_nowait(Updated(A1, A2))

    assert drain(mailbox) == [Updated(A1, A2), Updated(B1, B1, is_resync=True)]


def test_a_resync_is_dropped_for_a_key_with_a_merged_event() -> None:
    mailbox = overflowing(Updated(A1, A2))
    mailbox.resync_nowait([A2, B1])

    assert drain(mailbox) == [FILLER, Updated(A1, A2), Updated(B1, B1, is_resync=True)]


def test_a_second_resync_replaces_the_first() -> None:
    mailbox: Mailbox = Mailbox()
    mailbox.resync_nowait([A1, B1])
    mailbox.resync_nowait([A2])

    assert drain(mailbox) == [Updated(A2, A2, is_resync=True)]


def test_the_initial_list_is_taken_with_its_last_addition() -> None:
    mailbox: Mailbox = Mailbox()
    mailbox.put_nowait(Added(A1, is_in_initial_list=True))
    mailbox.put_nowait(Added(B1, is_in_initial_list=True))
    mailbox.on_initial_list_complete()
    mailbox.put_nowait(FILLER)

    taken = []
    while mailbox.take_nowait() is not None:
        taken.append(mailbox.initial_list_taken)

    assert taken == [False, True, True]


def test_an_initial_addition_that_was_merged_away_counts_as_delivered() -> None:
    mailbox = overflowing(Added(A1, is_in_initial_list=True))
    mailbox.on_initial_list_complete()
    mailbox.put_nowait(Deleted(A1))
    assert not mailbox.initial_list_taken

    assert drain(mailbox) == [FILLER]

    assert mailbox.initial_list_taken


def test_a_delete_and_its_add_are_one_place_of_the_initial_list() -> None:
    mailbox = overflowing(
        Deleted(A1), Added(NEW1, is_in_initial_list=True), Added(B1, is_in_initial_list=True)
    )
    mailbox.on_initial_list_complete()
    mailbox.put_nowait(Added(make("later")))

    taken = []
    while mailbox.take_nowait() is not None:
        taken.append(mailbox.initial_list_taken)

    assert taken == [False, False, False, True, True]


def test_an_empty_initial_list_is_taken_at_once() -> None:
    mailbox: Mailbox = Mailbox()
    assert not mailbox.initial_list_taken

    mailbox.on_initial_list_complete()

    assert mailbox.initial_list_taken


def test_a_closed_mailbox_takes_and_gives_nothing() -> None:
    mailbox = overflowing(Deleted(A1), Added(NEW1))
    mailbox.resync_nowait([B1])

    mailbox.close_nowait()
    for put in (mailbox.preload_nowait, mailbox.resync_nowait):
        put([B1])
    mailbox.put_nowait(FILLER)

    assert mailbox.take_nowait() is None
    assert mailbox.statistics(9.0).depth == 0


def test_only_the_first_arrival_is_announced() -> None:
    calls = []
    mailbox: Mailbox = Mailbox(size=1, on_first=lambda: calls.append("first"))

    for event in (FILLER, Added(A1), Added(B1)):
        mailbox.put_nowait(event)
    drain(mailbox)
    mailbox.resync_nowait([A1])
    drain(mailbox)
    mailbox.preload_nowait([A1, B1])

    assert calls == ["first"] * 3


def test_the_age_is_that_of_the_oldest_event() -> None:
    mailbox: Mailbox = Mailbox()
    mailbox.put_nowait(FILLER)
    mailbox.stamp_nowait(10.0)
    mailbox.put_nowait(Added(A1))
    assert mailbox.statistics(12.0).oldest_seconds == 2.0

    mailbox.observe_nowait(15.0)
    mailbox.take_nowait()
    mailbox.observe_nowait(16.0)
    mailbox.take_nowait()

    assert mailbox.statistics(20.0).oldest_seconds == 0.0


def test_the_age_falls_once_the_measured_events_are_taken() -> None:
    mailbox: Mailbox = Mailbox()
    mailbox.put_nowait(FILLER)
    mailbox.stamp_nowait(10.0)
    mailbox.take_nowait()
    mailbox.observe_nowait(50.0)
    mailbox.put_nowait(Added(A1))
    mailbox.put_nowait(Added(B1))
    mailbox.take_nowait()
    mailbox.observe_nowait(60.0)

    assert mailbox.statistics(61.0).oldest_seconds == 11.0  # at most: B1 came after second 50


def test_the_peak_outlives_the_depth() -> None:
    mailbox = overflowing(Deleted(A1), Added(NEW1), Added(B1))
    mailbox.observe_nowait(0.0)
    drain(mailbox)

    statistics = mailbox.statistics(0.0)

    assert (statistics.depth, statistics.peak) == (0, 4)


def test_a_mailbox_without_room_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="mailbox_size: must be an integer >= 1, got 0"):
        Mailbox(size=0)


def compressed(events: list[Event]) -> list[Event]:
    """Say in the fewest events what a life's piece amounts to, by its first and last state."""
    first, last = events[0], events[-1]
    newest = None if isinstance(last, Deleted) else _state(last)
    deletion = next((event for event in events if isinstance(event, Deleted)), None)
    if isinstance(first, Added):
        return [] if newest is None else [Added(newest, first.is_in_initial_list)]
    if deletion is None:
        old = first.old if isinstance(first, Updated) else first.last_known
        return [Updated(old, _state(last))]
    return [deletion] if newest is None else [deletion, Added(newest)]


def _state(event: Event) -> KubeObject:
    match event:
        case Added(obj):
            return obj
        case Updated(_, new):
            return new
        case Deleted(last_known):
            return last_known


class MailboxMachine(RuleBasedStateMachine):
    """A cluster changes, a handler takes now and then, and its mirror follows."""

    keys = st.sampled_from("abcdef")

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self.world: dict[str, KubeObject] = {}
        self.mirror: dict[str, KubeObject] = {}
        self.initial: set[str] = set()  # uids that must come first
        self.is_complete = False
        self.is_synced = False

    @initialize(size=st.integers(1, 4), cached=st.sets(keys))
    def preload(self, size: int, cached: set[str]) -> None:
        """Begin with what is cached already."""
        self.size = size
        self.mailbox: Mailbox = Mailbox(size=size)
        for key in sorted(cached):
            self.world[key] = self._version(key, uid=f"{key}0")
            self.initial.add(f"{key}0")
        self.mailbox.preload_nowait(list(self.world.values()))

    def _version(self, key: str, *, uid: str = "") -> KubeObject:
        self.version += 1
        return make(key, uid=uid or f"{key}{self.version}", resource_version=str(self.version))

    @rule(key=keys)
    def change(self, key: str) -> None:
        """Create, or update."""
        old = self.world.get(key)
        if old is None:
            self.world[key] = self._version(key)
            if not self.is_complete:
                self.initial.add(self.world[key].metadata.uid)
            self.mailbox.put_nowait(Added(self.world[key], not self.is_complete))
        else:
            self.world[key] = self._version(key, uid=old.metadata.uid)
            self.mailbox.put_nowait(Updated(old, self.world[key]))

    @rule(key=keys)
    def delete(self, key: str) -> None:
        """Delete, if it exists."""
        old = self.world.pop(key, None)
        if old is not None:
            self.initial.discard(old.metadata.uid)
            self.mailbox.put_nowait(Deleted(old))

    @rule()
    def resync_all(self) -> None:
        """Remind of everything."""
        self.mailbox.resync_nowait(list(self.world.values()))

    @rule(key=keys)
    def resync_one(self, key: str) -> None:
        """Remind of one object by an event of its own."""
        if key in self.world:
            obj = self.world[key]
            self.mailbox.put_nowait(Updated(obj, obj, is_resync=True))

    @precondition(lambda self: not self.is_complete)
    @rule()
    def complete(self) -> None:
        """End the initial list."""
        self.is_complete = True
        self.mailbox.on_initial_list_complete()

    @rule(count=st.integers(1, 3))
    def take(self, count: int) -> None:
        """Let the handler take a few events."""
        for _ in range(count):
            event = self.mailbox.take_nowait()
            if event is not None:
                self._hear(event)

    def _hear(self, event: Event) -> None:
        key = event.key
        match event:
            case Added(obj):
                assert key not in self.mirror
                self.mirror[key] = obj
                self.initial.discard(obj.metadata.uid)
            case Updated(old, new):
                assert self.mirror[key] is old
                assert new.metadata.uid == old.metadata.uid
                assert (old is new) == event.is_resync
                self.mirror[key] = new
            case Deleted(last_known):
                assert self.mirror.pop(key).metadata.uid == last_known.metadata.uid

    @rule()
    def drain(self) -> None:
        """Let the handler take everything: its mirror is the world."""
        for event in drain(self.mailbox):
            self._hear(event)
        assert self.mirror == self.world
        assert self.mailbox.statistics(0.0).depth == 0
        assert self.mailbox.initial_list_taken == self.is_complete

    @invariant()
    def bounded(self) -> None:
        """Hold never more than the bound."""
        if hasattr(self, "mailbox"):
            assert self.mailbox.statistics(0.0).depth <= self.size + 2 * len("abcdef")

    @invariant()
    def synced_only_with_the_whole_initial_list(self) -> None:
        """Promise no more than was taken."""
        if hasattr(self, "mailbox") and self.mailbox.initial_list_taken:
            assert self.is_complete
            assert not self.initial

    def teardown(self) -> None:
        """End with a mirror of the world."""
        if hasattr(self, "mailbox"):
            self.drain()


class MergingMachine(RuleBasedStateMachine):
    """What is taken equals what a naive model says: a list, then a piece of life per key."""

    keys = st.sampled_from("abc")

    @initialize(size=st.integers(1, 3))
    def start(self, size: int) -> None:
        """Begin empty."""
        self.size = size
        self.mailbox: Mailbox = Mailbox(size=size)
        self.queue: list[Event] = []
        self.pieces: dict[str, list[Event]] = {}
        self.known: dict[str, KubeObject] = {}
        self.version = 0

    def _happens(self, event: Event) -> None:
        self.mailbox.put_nowait(event)
        if len(self.queue) < self.size:
            self.queue.append(event)
            return
        piece = self.pieces.setdefault(event.key, [])
        piece.append(event)
        if not compressed(piece):
            del self.pieces[event.key]

    @rule(key=keys, removed=st.booleans())
    def change(self, key: str, *, removed: bool) -> None:
        """Create, update or delete."""
        self.version += 1
        old = self.known.pop(key, None)
        if old is not None and removed:
            self._happens(Deleted(old))
            return
        uid = old.metadata.uid if old else f"{key}{self.version}"
        new = self.known[key] = make(key, uid=uid, resource_version=str(self.version))
        self._happens(Added(new) if old is None else Updated(old, new))

    @rule()
    def take(self) -> None:
        """Take one event: the one that the model expects."""
        expected: Event | None = None
        if self.queue:
            expected = self.queue.pop(0)
        while self.pieces and len(self.queue) < self.size:
            key = next(iter(self.pieces))
            first, *rest = compressed(self.pieces[key])
            self.queue.append(first)
            if rest:
                self.pieces[key] = rest
            else:
                del self.pieces[key]
        assert self.mailbox.take_nowait() == expected


TestMailboxMachine = MailboxMachine.TestCase
TestMailboxMachine.settings = settings(max_examples=examples(50), stateful_step_count=40)
TestMergingMachine = MergingMachine.TestCase
TestMergingMachine.settings = settings(max_examples=examples(50), stateful_step_count=40)
