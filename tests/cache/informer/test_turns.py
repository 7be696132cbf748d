"""A lone event reaches an idle handler at the end of the turn that read it, as by its task."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer._runtime.tasks import Turn, UserTasks
from pyinformer.cache.informer.delivery import Handler, Listener
from pyinformer.objects import Added, Event, Updated
from tests.pods import make
from tests.virtual_time import elapse, work
from tests.waiting import now, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.virtual_time

A1, A2, A3 = (make("default/a", resource_version=str(number)) for number in (1, 2, 3))
B1 = make("default/b")
_seen: ContextVar[int] = ContextVar("_seen", default=0)


class Reader:
    """Reads turns in callbacks of the event loop, as a watch does."""

    def __init__(self) -> None:
        self.turn = Turn()
        self.listeners: list[Listener[None]] = []
        self.is_reading = False
        self.called = 0
        """How many calls returned within the last turn."""

    async def listen(
        self, function: Callable[[Event], object], *, processing: Any = None
    ) -> Listener[None]:
        """Start a listener that has synced and had a first event, as any handler has."""
        listener: Listener[None] = Listener(
            Handler.of(function, name="mine"), tasks=UserTasks(), informer="pods", turn=self.turn
        )
        self.listeners.append(listener)
        listener.start_nowait(processing=processing)
        listener.on_initial_list_complete()
        listener.put_nowait(Added(A1))
        await settle()
        return listener

    async def read(self, *events: Event) -> None:
        """Apply events in one callback, and return when it has ended."""
        ended = asyncio.get_running_loop().create_future()

        def callback() -> None:
            try:
                self.apply(*events)
            except BaseException as error:
                ended.set_exception(error)
            else:
                ended.set_result(None)

        asyncio.get_running_loop().call_soon(callback)
        await ended

    def apply(self, *events: Event) -> None:
        """Apply events in one turn."""
        before, self.is_reading = self._delivered(), True
        for event in events:
            self.turn.is_open = True
            for listener in self.listeners:
                listener.put_nowait(event)
        self.turn.end()
        self.is_reading = False
        self.called = self._delivered() - before

    def _delivered(self) -> int:
        return sum(listener.status(now()).delivered for listener in self.listeners)


@pytest.fixture
async def reader() -> AsyncIterator[Reader]:
    """Make a reader, whose listeners are closed at the end."""
    made = Reader()
    yield made
    for listener in made.listeners:
        await listener.aclose()


async def test_a_lone_event_is_handled_in_the_turn_that_read_it(reader: Reader) -> None:
    heard: list[Event] = []
    listener = await reader.listen(heard.append)

    await reader.read(Updated(A1, A2))

    assert reader.called == 1
    assert heard == [Added(A1), Updated(A1, A2)]
    assert listener.status(now()).delivered == 2
    assert listener.depth == 0


async def test_an_event_that_waits_for_the_end_of_its_turn_has_not_waited_before(
    reader: Reader,
) -> None:
    """Its mailbox was empty for an hour; the status may be read from another thread."""
    listener = await reader.listen(lambda _: None)
    await elapse(3600.0)
    reader.turn.is_open = True
    listener.put_nowait(Updated(A1, A2))

    status = listener.status(now())
    reader.turn.end()  # within this test's task: the handler's own task is woken
    woken = listener.status(now())

    assert (status.depth, status.oldest_seconds) == (1, 0.0)
    assert (woken.depth, woken.oldest_seconds) == (1, 0.0)


async def test_the_handler_finds_the_task_and_the_context_of_every_call(reader: Reader) -> None:
    tasks: set[asyncio.Task[object] | None] = set()
    counts: list[int] = []

    def handler(_: Event) -> None:
        tasks.add(asyncio.current_task())
        counts.append(_seen.get())
        _seen.set(_seen.get() + 1)

    await reader.listen(handler)
    await reader.read(Updated(A1, A2))
    await reader.read(Updated(A2, A3))

    assert [task.get_name() for task in tasks if task] == ["handler mine of pods"]
    assert counts == [0, 1, 2]
    assert _seen.get() == 0


async def test_several_events_of_a_turn_are_left_to_the_task_in_their_order(reader: Reader) -> None:
    heard: list[Event] = []
    await reader.listen(heard.append)
    heard.clear()

    await reader.read(Updated(A1, A2), Updated(A2, A3))

    assert reader.called == 0
    await settle()
    assert heard == [Updated(A1, A2), Updated(A2, A3)]


async def test_every_handler_of_an_informer_is_called(reader: Reader) -> None:
    first: list[Event] = []
    second: list[Event] = []
    await reader.listen(first.append)
    await reader.listen(second.append)

    await reader.read(Updated(A1, A2))

    assert reader.called == 2
    assert first[-1] == second[-1] == Updated(A1, A2)


async def test_what_is_applied_outside_of_a_turn_wakes_the_task(reader: Reader) -> None:
    heard: list[Event] = []
    listener = await reader.listen(heard.append)
    heard.clear()

    listener.put_nowait(Updated(A1, A2))
    await settle()

    assert heard == [Updated(A1, A2)]


async def test_a_turn_that_ends_inside_of_a_task_wakes_the_handlers_task(reader: Reader) -> None:
    heard: list[Event] = []
    await reader.listen(heard.append)
    heard.clear()

    reader.apply(Updated(A1, A2))

    assert reader.called == 0
    await settle()
    assert heard == [Updated(A1, A2)]


@pytest.mark.parametrize("error", [ValueError("mine"), asyncio.CancelledError(), GeneratorExit()])
async def test_a_handler_that_raises_is_counted_named_and_kept(
    reader: Reader, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    heard: list[Event] = []

    def handler(event: Event) -> None:
        heard.append(event)
        if isinstance(event, Updated):
            raise error

    listener = await reader.listen(handler)
    await reader.read(Updated(A1, A2))
    await reader.read(Added(B1))

    status = listener.status(now())
    assert (status.delivered, status.failed, status.is_removed) == (2, 1, False)
    assert type(error).__name__ in str(status.last_error)
    assert "handler mine of pods failed on default/a" in caplog.text
    assert heard[-1] == Added(B1)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_what_ends_the_program_is_raised_and_loses_no_later_event(
    reader: Reader, error: type[BaseException]
) -> None:
    heard: list[Event] = []

    def handler(event: Event) -> None:
        heard.append(event)
        if isinstance(event, Updated):
            raise error

    listener = await reader.listen(handler)
    with pytest.raises(error):
        await reader.read(Updated(A1, A2))
    await reader.read(Added(B1))

    assert heard[-1] == Added(B1)
    assert not listener.is_busy


async def test_an_awaitable_is_awaited_by_the_task_and_later_events_wait_for_it(
    reader: Reader,
) -> None:
    steps: list[str] = []

    async def finish() -> None:
        await elapse(1)
        steps.append("end")

    def handler(event: Event) -> object:
        steps.append(f"begin {event.key}")
        return finish() if isinstance(event, Updated) else None

    listener = await reader.listen(handler)
    steps.clear()
    await reader.read(Updated(A1, A2))
    assert (steps, listener.is_busy) == (["begin default/a"], True)
    await reader.read(Added(B1))
    await elapse(2)

    assert steps == ["begin default/a", "end", "begin default/b"]
    assert listener.status(now()).delivered == 3


async def test_an_awaitable_that_raises_is_counted(reader: Reader) -> None:
    async def fail() -> None:
        raise ValueError("mine")

    listener = await reader.listen(lambda event: fail() if isinstance(event, Updated) else None)
    await reader.read(Updated(A1, A2))
    await settle()

    assert (listener.status(now()).failed, listener.is_busy) == (1, False)


async def test_removal_waits_for_the_awaitable_of_a_turn(reader: Reader) -> None:
    steps: list[str] = []

    async def finish() -> None:
        await elapse(1)
        steps.append("end")

    listener = await reader.listen(lambda event: finish() if isinstance(event, Updated) else None)
    await reader.read(Updated(A1, A2))
    await listener.remove()

    assert steps == ["end"]


async def test_a_slow_handler_is_left_to_its_task_until_it_is_quick_again(reader: Reader) -> None:
    heard: list[Event] = []

    def handler(event: Event) -> None:
        if event == Updated(A1, A2):
            work(0.5)
        heard.append(event)

    await reader.listen(handler)
    await reader.read(Updated(A1, A2))
    heard.clear()

    await reader.read(Updated(A2, A3))
    assert reader.called == 0
    await settle()
    assert heard == [Updated(A2, A3)]
    await reader.read(Added(B1))
    assert reader.called == 1
    assert heard == [Updated(A2, A3), Added(B1)]


async def test_a_handler_that_cancels_its_task_is_removed_and_named(
    reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(event: Event) -> None:
        task = asyncio.current_task()
        if isinstance(event, Updated) and task is not None:
            task.cancel()

    listener = await reader.listen(handler)
    await reader.read(Updated(A1, A2))
    await settle()

    assert listener.is_removed
    assert "its task was cancelled, and not by its informer" in caplog.text


async def test_a_listener_that_is_closed_in_the_turn_is_not_called(reader: Reader) -> None:
    heard: list[Event] = []
    listener = await reader.listen(heard.append)
    heard.clear()

    reader.turn.is_open = True
    listener.put_nowait(Updated(A1, A2))
    await listener.aclose()
    reader.turn.end()
    await settle()

    assert heard == []


async def test_an_asynchronous_part_leaves_later_events_to_the_task_and_is_timed(
    reader: Reader,
) -> None:
    class Latency:
        """Keeps what it observes."""

        def __init__(self) -> None:
            self.seconds: list[float] = []

        def observe(self, value: float) -> None:
            """Keep it."""
            self.seconds.append(value)

    latency, in_turn = Latency(), list[bool]()

    def handler(event: Event) -> object:
        if isinstance(event, Added):
            return None
        in_turn.append(reader.is_reading)
        return elapse(2)

    listener = await reader.listen(handler, processing=latency)
    latency.seconds.clear()
    await reader.read(Updated(A1, A2))
    await elapse(3)
    await reader.read(Updated(A2, A3))
    await elapse(3)

    assert in_turn == [True, False]
    assert latency.seconds == [2.0, 2.0]
    assert listener.status(now()).delivered == 3


async def test_a_slow_call_in_a_burst_leaves_the_next_event_to_the_task(reader: Reader) -> None:
    def handler(event: Event) -> None:
        if event == Updated(A2, A3):
            work(0.5)

    await reader.listen(handler)
    await reader.read(Updated(A1, A2), Updated(A2, A3))
    await settle()

    await reader.read(Added(B1))

    assert reader.called == 0


@pytest.mark.parametrize("kind", ["coroutine", "task"])
async def test_an_awaitable_that_no_task_can_await_any_more_is_ended(
    reader: Reader, kind: str
) -> None:
    made: list[asyncio.Task[None]] = []

    def handler(event: Event) -> object:
        if isinstance(event, Added):
            return None
        if kind == "coroutine":
            return elapse(60)
        made.append(asyncio.ensure_future(elapse(60)))
        return made[-1]

    listener = await reader.listen(handler)
    reader_task = asyncio.ensure_future(reader.read(Updated(A1, A2)))
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: loop.call_soon(_cancel_handlers))
    await reader_task
    await settle()

    assert not listener.is_busy
    assert listener.is_removed
    assert all(task.cancelled() for task in made)


def _cancel_handlers() -> None:
    for task in asyncio.all_tasks():
        if task.get_name() == "handler mine of pods":
            task.cancel()
