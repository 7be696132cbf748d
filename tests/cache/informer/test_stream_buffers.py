"""What waits for a stream's consumer: order, merging and bounds, against a model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.cache.informer.delivery import CacheContents, EventStream, Mailbox
from pyinformer.errors import (
    EventStreamOverflowError,
    InvalidArgumentError,
    InvalidTypeError,
)
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated
from tests.pods import make

A1, A2, A3 = (make("default/a", resource_version=str(number)) for number in (1, 2, 3))
OTHER_A = make("default/a", uid="another", resource_version="4")
B1 = make("default/b")


def drain(buffer: Mailbox[None]) -> list[Event[None]]:
    """Take everything."""
    found: list[Event[None]] = []
    while (event := buffer.take_nowait()) is not None:
        found.append(event)
    return found


@pytest.mark.parametrize(
    ("given_events", "expected"),
    [
        pytest.param([Added(A1), Updated(A1, A2)], [Added(A2)], id="added-updated"),
        pytest.param(
            [Updated(A1, A2), Updated(A2, A3)], [Updated(A1, A3)], id="first-old-and-last-new"
        ),
        pytest.param([Added(A1), Updated(A1, A2), Deleted(A2)], [], id="came-and-went"),
        pytest.param([Updated(A1, A2), Deleted(A2)], [Deleted(A2)], id="updated-deleted"),
        pytest.param([Deleted(A1), Added(OTHER_A)], [Deleted(A1), Added(OTHER_A)], id="replaced"),
        pytest.param(
            [Deleted(A1), Added(OTHER_A), Deleted(OTHER_A)], [Deleted(A1)], id="replaced-and-gone"
        ),
        pytest.param([Added(A1), Added(B1), Updated(A1, A2)], [Added(A2), Added(B1)], id="place"),
    ],
)
def test_events_of_one_key_are_merged_into_their_result(
    given_events: list[Event[None]], expected: list[Event[None]]
) -> None:
    buffer: Mailbox[None] = Mailbox(merges_at_once=True)
    for event in given_events:
        buffer.put_nowait(event)
    assert buffer.statistics(0.0).depth == len(expected)
    assert drain(buffer) == expected


def test_a_deletion_that_was_taken_leaves_the_addition_behind_it_first_in_line() -> None:
    buffer: Mailbox[None] = Mailbox(merges_at_once=True)
    for event in (Deleted(A1), Added(OTHER_A), Added(B1)):
        buffer.put_nowait(event)
    assert buffer.take_nowait() == Deleted(A1)
    buffer.put_nowait(Deleted(OTHER_A))
    assert drain(buffer) == [Added(B1)]


def test_events_before_the_turn_of_the_initial_list_are_merged_into_it() -> None:
    buffer: Mailbox[None] = Mailbox(merges_at_once=True)
    buffer.preload_nowait([A1, B1])
    buffer.put_nowait(Updated(A1, A2))
    buffer.put_nowait(Deleted(B1))
    assert drain(buffer) == [Added(A2, is_in_initial_list=True)]


class _Owner:
    informer = "pods"

    def attach_stream(self, stream: EventStream[None]) -> None: ...

    def detach_stream(self, stream: EventStream[None]) -> None: ...

    def check_loop(self) -> None: ...


async def read(stream: EventStream[None], count: int) -> list[Event[None]]:
    """Take some events."""
    return [await anext(stream) for _ in range(count)]


async def test_every_event_refuses_what_is_over_its_bound_and_keeps_the_rest() -> None:
    async with EventStream(_Owner(), max_events=1) as stream:
        stream.preload_nowait([A1, B1])
        stream.put_nowait(Updated(A1, A2))
        stream.put_nowait(Updated(A2, A3))
        keys = [event.key for event in await read(stream, 3)]
        assert keys == ["default/a", "default/b", "default/a"]
        with pytest.raises(EventStreamOverflowError):
            await anext(stream)


async def test_every_event_refuses_large_objects_earlier() -> None:
    large = KubeObject(A1.key, A1.metadata, None, b" " * (1 << 20), A1.gvk)
    async with EventStream(_Owner(), max_events=1_000) as stream:
        for event, most in [(Updated(large, large), 17)] * 3 + [(Updated(A1, A2), 1_000)]:
            for _ in range(most):
                stream.put_nowait(event)
            await read(stream, most)
        stream.put_nowait(Updated(A1, A2))
        await read(stream, 1)  # nothing was over the bound so far
        for _ in range(18):
            stream.put_nowait(Updated(large, large))
        await read(stream, 17)
        with pytest.raises(EventStreamOverflowError):
            await anext(stream)


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        pytest.param(("latest", 1), InvalidArgumentError, "delivery", id="no-such-delivery"),
        pytest.param(("coalesced", 0), InvalidArgumentError, "max_events", id="no-room"),
        pytest.param(("every_event", 1.5), InvalidTypeError, "max_events", id="a-fraction"),
        pytest.param(("every_event", True), InvalidTypeError, "max_events", id="a-bool"),
    ],
)
def test_invalid_arguments_are_refused_by_name(
    arguments: tuple[Any, Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        EventStream(_Owner(), delivery=arguments[0], max_events=arguments[1])


class World:
    """A few keys that come, change and go; and a consumer that believes its events."""

    def __init__(self, preloaded: list[str]) -> None:
        self.versions = 0
        self.truth: dict[str, KubeObject] = {}
        self.believed: dict[str, KubeObject] = {}
        self.buffer: Mailbox[None] = Mailbox(merges_at_once=True)
        for key in preloaded:
            self.truth[key] = self.new(key)
        self.buffer.preload_nowait(CacheContents(self.truth.values()))

    def new(self, key: str, uid: str = "") -> KubeObject:
        """Return another state of a key; of another object if no uid is given."""
        self.versions += 1
        version = str(self.versions)
        return make(key, uid=uid or version, resource_version=version)

    def happen(self, what: str, key: str) -> None:
        """Let something happen to a key, or the consumer take one event."""
        known = self.truth.get(key)
        if what == "take":
            self.take()
        elif what == "change" and known is not None:
            self.truth[key] = new = self.new(key, known.metadata.uid)
            self.buffer.put_nowait(Updated(known, new))
        elif what == "toggle" and known is None:
            self.truth[key] = self.new(key)
            self.buffer.put_nowait(Added(self.truth[key]))
        elif what == "toggle":
            self.buffer.put_nowait(Deleted(self.truth.pop(key)))
        assert self.buffer.statistics(0.0).depth <= 2 * len(
            self.truth.keys() | self.believed.keys()
        )

    def take(self) -> bool:
        """Let the consumer take one event, and check that it fits the events before."""
        event = self.buffer.take_nowait()
        match event:
            case Added(obj):
                assert obj.key not in self.believed
                self.believed[obj.key] = obj
            case Updated(old, new):
                assert self.believed[new.key] == old
                assert old.metadata.uid == new.metadata.uid
                self.believed[new.key] = new
            case Deleted(last):
                assert self.believed.pop(last.key).metadata.uid == last.metadata.uid
        return event is not None


_KEYS = st.sampled_from(["default/a", "default/b", "default/c"])
_STEPS = st.tuples(st.sampled_from(["take", "change", "toggle"]), _KEYS)


@given(st.lists(_KEYS, unique=True), st.lists(_STEPS, max_size=60))
def test_merged_events_are_a_valid_history_with_the_final_state(
    preloaded: list[str], steps: list[tuple[str, str]]
) -> None:
    world = World(preloaded)
    for what, key in steps:
        world.happen(what, key)
    while world.take():
        pass
    assert world.believed == world.truth
    assert world.buffer.statistics(0.0).depth == 0
