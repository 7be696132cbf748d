"""The event stream: order, its bound, its end, and cancellation that takes nothing."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from pyinformer.cache.informer import Delivery
from pyinformer.cache.informer.delivery import EventStream
from pyinformer.errors import (
    EventStreamOverflowError,
    InternalError,
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
)
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated
from tests.pods import make
from tests.virtual_time import virtual_loop
from tests.waiting import settle

pytestmark = pytest.mark.virtual_time

A1, A2 = make("default/a"), make("default/a", resource_version="2")
B1 = make("default/b")


class Source:
    """An informer, as far as its streams see it."""

    informer = "pods"

    def __init__(self, *cached: KubeObject) -> None:
        self.cached = cached
        self.streams: list[EventStream] = []

    def events(
        self, max_events: int = 1024, *, initial: bool = True, delivery: Delivery = "every_event"
    ) -> EventStream:
        """Return a stream of its events."""
        return EventStream(self, initial=initial, delivery=delivery, max_events=max_events)

    def attach_stream(self, stream: EventStream) -> None:
        """Feed a stream."""
        self.streams.append(stream)
        stream.preload_nowait(self.cached)

    def detach_stream(self, stream: EventStream) -> None:
        """Stop feeding it."""
        self.streams.remove(stream)

    def check_loop(self) -> None:
        """Allow every caller."""

    def put(self, *events: Event) -> None:
        """Feed every stream."""
        for stream in self.streams:
            for event in events:
                stream.put_nowait(event)


async def rest(stream: EventStream) -> list[Event]:
    """Take everything to the end."""
    return [event async for event in stream]


@pytest.mark.covers(
    "client-go tools/watch: TestEventProcessorOrdersEvents",
    "client-go tools/watch: TestNewInformerWatcher",
    "kube-runtime src: events_are_passed_through",
    "kube-runtime src: watches_applies_uses_correct_stream",
)
async def test_existing_objects_come_first_and_then_every_event_unmerged() -> None:
    source = Source(A1, B1)
    async with source.events() as events:
        source.put(Updated(A1, A2), Deleted(A2), Added(A1))
        events.end_nowait()

        assert await rest(events) == [
            Added(A1, is_in_initial_list=True),
            Added(B1, is_in_initial_list=True),
            Updated(A1, A2),
            Deleted(A2),
            Added(A1),
        ]


async def test_a_consumer_is_woken_by_an_event() -> None:
    source = Source()
    async with source.events() as events:
        waiting = asyncio.create_task(anext(events))
        await settle()
        assert not waiting.done()

        source.put(Added(A1))

        assert await waiting == Added(A1)


async def test_after_an_overflow_what_was_buffered_comes_first_and_then_the_error() -> None:
    source = Source(A1)
    async with source.events(max_events=2) as events:
        source.put(Updated(A1, A2), Updated(A2, A2), Deleted(A2), Added(B1))

        assert [await anext(events) for _ in range(3)] == [
            Added(A1, is_in_initial_list=True),
            Updated(A1, A2),
            Updated(A2, A2),
        ]
        source.put(Added(B1))  # there is room again, but there would be a gap
        for _ in range(2):
            with pytest.raises(EventStreamOverflowError) as caught:
                await anext(events)

    assert (caught.value.informer, caught.value.limit) == ("pods", 2)


async def test_an_overflow_does_not_skip_events_silently() -> None:
    source = Source()
    async with source.events(max_events=1) as events:
        waiting = asyncio.create_task(anext(events))
        await settle()
        source.put(Added(A1), Added(B1))

        assert await waiting == Added(A1)
        with pytest.raises(EventStreamOverflowError):
            await anext(events)


async def test_the_initial_list_does_not_count_against_the_bound() -> None:
    source = Source(*(make(f"default/{number}") for number in range(100)))
    async with source.events(max_events=1) as events:
        events.end_nowait()

        assert len(await rest(events)) == 100


@pytest.mark.covers("kube-runtime src: events_are_passed_through")
async def test_the_iteration_ends_when_the_informer_stops() -> None:
    source = Source()
    async with source.events() as events:
        waiting = asyncio.create_task(rest(events))
        await settle()
        source.put(Added(A1))
        events.end_nowait()

        assert await waiting == [Added(A1)]
        events.put_nowait(Added(B1))
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_a_crash_is_raised_after_what_was_buffered() -> None:
    source = Source()
    async with source.events() as events:
        source.put(Added(A1))
        events.end_nowait(InternalError("broken"))
        events.end_nowait()

        assert await anext(events) == Added(A1)
        with pytest.raises(InternalError, match="broken"):
            await anext(events)


async def test_a_cancelled_step_takes_nothing() -> None:
    source = Source()
    async with source.events() as events:
        waiting = asyncio.create_task(anext(events))
        await settle()
        waiting.cancel()
        source.put(Added(A1))
        await asyncio.wait([waiting])

        assert waiting.cancelled()
        assert await anext(events) == Added(A1)


async def test_a_consumer_that_never_waits_lets_others_run() -> None:
    loop = virtual_loop()
    source = Source(*(make(f"default/{number}") for number in range(200)))
    turns: list[int] = []
    heard = 0
    async with source.events() as events:
        events.end_nowait()

        async def count() -> None:
            while heard < 200:
                turns.append(heard)
                await asyncio.sleep(0)

        other = asyncio.create_task(count())
        async for _ in events:
            heard += 1
            loop.advance(0.001)  # each step takes a millisecond
        await other

    assert len(turns) > 5
    assert max(b - a for a, b in pairwise(turns)) <= 16


async def test_a_step_cancelled_while_it_lets_others_run_takes_nothing() -> None:
    loop = virtual_loop()
    source = Source()
    heard: list[Event] = []
    async with source.events() as events:
        source.put(*(Added(make(str(number))) for number in range(100)))

        async def consume() -> None:
            async for event in events:
                heard.append(event)
                loop.advance(0.001)

        consumer = asyncio.create_task(consume())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 0 < len(heard) < 100
        consumer.cancel()
        await asyncio.wait([consumer])
        events.end_nowait()

        assert [event.key for event in heard + await rest(events)] == list(map(str, range(100)))


async def test_two_consumers_share_the_events() -> None:
    source = Source()
    async with source.events() as events:
        consumers = [asyncio.create_task(rest(events)) for _ in range(2)]
        await settle()
        source.put(Added(A1), Added(B1))
        await settle()
        events.end_nowait()

        found = [event for consumer in consumers for event in await consumer]

    assert sorted(event.key for event in found) == ["default/a", "default/b"]


@pytest.mark.covers("client-go tools/watch: TestEventProcessorExit")
async def test_leaving_detaches_and_ends_a_running_iteration() -> None:
    source = Source(A1)
    async with source.events() as events:
        assert source.streams == [events]
        assert await anext(events) == Added(A1, is_in_initial_list=True)
        waiting = asyncio.create_task(rest(events))
        await settle()

    assert source.streams == []
    assert await waiting == []


async def test_a_stream_that_was_not_entered_raises() -> None:
    with pytest.raises(LifecycleError, match="enter the stream first"):
        await anext(Source().events())


async def test_a_stream_is_entered_once() -> None:
    events = Source().events()
    async with events:
        pass

    with pytest.raises(LifecycleError, match="entered once"):
        async with events:
            pass


def test_a_stream_without_room_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="max_events: must be an integer >= 1, got 0"):
        Source().events(max_events=0)


async def test_a_stream_without_initial_objects_leaves_out_what_existed() -> None:
    source = Source(A1, B1)
    async with source.events(initial=False) as events:
        source.put(Updated(A1, A2))
        events.end_nowait()

        assert await rest(events) == [Updated(A1, A2)]


async def test_merged_events_never_overflow_and_end_with_the_final_state() -> None:
    source = Source(A1)
    async with source.events(max_events=1, delivery="coalesced") as events:
        source.put(Updated(A1, A2), Added(B1), Deleted(A2), Deleted(B1), Added(B1))
        events.end_nowait()

        assert await rest(events) == [Added(B1)]


async def test_a_cancelled_step_of_merged_events_takes_nothing() -> None:
    source = Source()
    async with source.events(delivery="coalesced") as events:
        waiting = asyncio.create_task(anext(events))
        await settle()
        source.put(Added(A1))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        source.put(Updated(A1, A2))

        assert await anext(events) == Added(A2)


def test_an_invalid_stream_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="initial"):
        Source().events(initial="yes")  # type: ignore[arg-type]
    with pytest.raises(
        InvalidArgumentError, match="delivery: must be one of every_event, coalesced, got 'latest'"
    ):
        Source().events(delivery="latest")  # type: ignore[arg-type]
