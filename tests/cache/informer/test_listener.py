"""A listener: order, fences, fairness, syncing, and an end that is always bounded."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise
from typing import TYPE_CHECKING

import anyio
import pytest

from pyinformer._runtime.tasks import UserTasks
from pyinformer.cache.informer.delivery import Handler, Listener, in_thread
from pyinformer.errors import CacheSyncTimeoutError, LifecycleError
from pyinformer.objects import Added, Deleted, Event, Updated
from tests.pods import make
from tests.virtual_time import elapse, virtual_loop
from tests.waiting import now, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.virtual_time

A1, A2 = make("default/a"), make("default/a", resource_version="2")
B1 = make("default/b")


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a thread without a timer, which virtual time would let fire first."""
    while not condition():  # noqa: ASYNC110 - what changes does so in another thread
        await asyncio.sleep(0)


def listen(
    function: Callable[[Event], object], *, tasks: UserTasks | None = None, mailbox_size: int = 1024
) -> Listener:
    """Make a listener that is started, to be closed by the test."""
    listener: Listener = Listener(
        Handler.of(function, name="mine"),
        tasks=tasks or UserTasks(),
        informer="pods",
        mailbox_size=mailbox_size,
    )
    listener.start_nowait()
    return listener


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Let every blocked thread go at the end."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.covers("kube-runtime src: events_are_passed_through")
async def test_events_are_delivered_in_order_and_counted() -> None:
    heard: list[Event] = []
    listener = listen(heard.append)
    events: list[Event] = [Added(A1), Updated(A1, A2), Deleted(A2), Added(B1)]

    for event in events:
        listener.put_nowait(event)
    await settle()
    listener.put_nowait(Deleted(B1))
    await settle()

    assert heard == [*events, Deleted(B1)]
    assert listener.status(now()).delivered == 5
    await listener.aclose()


async def test_events_behind_an_initial_list_larger_than_the_mailbox_come_after_it() -> None:
    heard: list[Event] = []
    listener = listen(heard.append, mailbox_size=1)
    later = make("default/c")

    listener.preload_nowait([A1, B1])
    listener.put_nowait(Added(later))
    await settle()

    assert heard == [Added(A1, True), Added(B1, True), Added(later)]
    await listener.aclose()


async def test_constructing_starts_nothing_and_events_wait_for_the_start() -> None:
    heard: list[Event] = []
    listener: Listener = Listener(Handler.of(heard.append), tasks=UserTasks(), informer="pods")
    listener.put_nowait(Added(A1))
    await settle()
    assert heard == []

    listener.start_nowait()
    listener.start_nowait()
    await settle()

    assert heard == [Added(A1)]
    await listener.aclose()


async def test_asynchronous_calls_do_not_overlap() -> None:
    steps: list[str] = []

    async def handler(event: Event) -> None:
        steps.append(f"begin {event.key}")
        await elapse(1)
        steps.append(f"end {event.key}")

    listener = listen(handler)
    listener.put_nowait(Added(A1))
    listener.put_nowait(Added(B1))
    await elapse(3)

    assert steps == ["begin default/a", "end default/a", "begin default/b", "end default/b"]
    await listener.aclose()


async def test_a_plain_function_that_returns_an_awaitable_is_awaited() -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("work")

    listener = listen(lambda event: work())
    listener.put_nowait(Added(A1))
    await settle()

    assert done == ["work"]
    await listener.aclose()


@pytest.mark.parametrize(
    "asynchronous", [pytest.param(True, id="async"), pytest.param(False, id="sync")]
)
async def test_a_handler_that_raises_is_counted_named_and_kept(
    caplog: pytest.LogCaptureFixture, asynchronous: bool
) -> None:
    heard: list[Event] = []

    def fail(event: Event) -> None:
        heard.append(event)
        if event.key == "default/a":
            raise ValueError("the content of a Secret")

    async def fail_later(event: Event) -> None:
        fail(event)

    listener = listen(fail_later if asynchronous else fail)
    listener.put_nowait(Added(A1))
    listener.put_nowait(Added(B1))
    await settle()

    status = listener.status(now())
    assert heard == [Added(A1), Added(B1)]
    assert (status.failed, status.delivered) == (1, 1)
    assert status.last_error is not None
    assert status.last_error.startswith("ValueError at ")
    assert status.last_error.endswith(" in fail")
    (message,) = caplog.messages
    assert message.startswith("handler mine of pods failed on default/a: ValueError at ")
    assert "Secret" not in message + status.last_error
    await listener.aclose()


async def test_a_handler_that_always_fails_is_logged_once_per_kind_and_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each of a tenant's objects may make a handler fail: none of them may flood the log."""

    def fail(event: Event) -> None:
        if event.key == "default/b":
            raise KeyError("the content of a Secret")
        raise ValueError("the content of a Secret")

    listener = listen(fail)
    for _ in range(500):
        listener.put_nowait(Updated(A1, A2))
        listener.put_nowait(Deleted(A2))
        listener.put_nowait(Added(A1))
        await settle()
    listener.put_nowait(Added(B1))
    await settle()

    failed = listener.status(now()).failed
    assert failed > 500
    assert [message.partition(" at ")[0] for message in caplog.messages] == [
        "handler mine of pods failed on default/a: ValueError",
        "handler mine of pods failed on default/b: KeyError",
    ]

    await elapse(60.0)
    listener.put_nowait(Deleted(A2))
    await settle()

    assert listener.status(now()).failed == failed + 1
    assert caplog.messages[2].endswith(
        f"; it stays registered; failure {failed + 1}; {failed - 2} more of this kind since the"
        " last such line"
    )
    assert "Secret" not in caplog.text
    await listener.aclose()


async def test_error_texts_and_calls_are_logged_if_configured(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(event: Event) -> None:
        raise ValueError(f"cannot read {event.key}\n")

    listener: Listener = Listener(
        Handler.of(fail), tasks=UserTasks(), informer="pods", log_exceptions="full"
    )
    listener.start_nowait()
    listener.put_nowait(Added(A1))
    await settle()

    first, *calls = caplog.messages[0].split("\n")
    assert "ValueError (cannot read default/a\\n) at " in first
    assert calls[0] == "ValueError"
    assert calls[-1].endswith(" in fail")
    await listener.aclose()


async def test_a_cancellation_inside_of_a_handler_is_its_error() -> None:
    heard: list[Event] = []

    async def handler(event: Event) -> None:
        heard.append(event)
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner

    listener = listen(handler)
    listener.put_nowait(Added(A1))
    listener.put_nowait(Added(B1))
    await settle()

    assert heard == [Added(A1), Added(B1)]
    assert listener.status(now()).failed == 2
    await listener.aclose()


class NoException(BaseException):
    """What `except Exception` lets through."""


async def test_a_handler_that_raises_a_base_exception_is_kept() -> None:
    crashes: list[BaseException] = []

    def fail(event: Event) -> None:
        raise NoException

    listener = listen(fail, tasks=UserTasks(on_crash=crashes.append))
    listener.put_nowait(Added(A1))
    listener.put_nowait(Added(B1))
    await settle()

    assert listener.status(now()).failed == 2
    assert crashes == []
    await listener.aclose()


async def test_a_handler_whose_task_others_cancel_is_named_and_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(event: Event) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    listener = listen(handler)
    listener.put_nowait(Added(A1))
    listener.put_nowait(Added(B1))
    await settle()

    status = listener.status(now())
    assert status.is_removed
    assert status.depth == 0
    assert status.last_error == "its task was cancelled, and not by its informer"
    assert caplog.messages == [f"handler mine of pods: {status.last_error}; it gets no more events"]
    with pytest.raises(LifecycleError, match="was removed before it had synced"):
        await listener.wait_synced(timeout_seconds=60.0)
    assert now() == 0.0


@pytest.mark.covers("kube-runtime src: reflect_applies_backpressure")
async def test_a_handler_that_never_returns_affects_no_other_and_is_reported() -> None:
    tasks = UserTasks()
    heard: list[Event] = []
    stuck = listen(lambda event: asyncio.Event().wait(), tasks=tasks, mailbox_size=2)
    healthy = listen(heard.append, tasks=tasks)
    events: list[Event] = [Added(A1), Added(B1), *[Updated(B1, B1)] * 20]
    for event in events:
        stuck.put_nowait(event)
        healthy.put_nowait(event)
        await settle()
    await elapse(12)

    status = stuck.status(now())
    assert len(heard) == 22
    assert (status.in_flight_key, status.in_flight_seconds) == ("default/a", 12.0)
    assert (status.delivered, status.depth, status.coalesced) == (0, 3, 18)
    assert status.oldest_seconds == 12.0
    for listener in (stuck, healthy):
        await listener.aclose()


async def test_an_idle_handler_has_nothing_in_flight() -> None:
    listener = listen(lambda event: None)
    listener.put_nowait(Added(A1))
    await settle()

    status = listener.status(now() + 100.0)

    assert (status.in_flight_key, status.in_flight_seconds, status.oldest_seconds) == (None, 0, 0)
    await listener.aclose()


async def test_a_long_mailbox_lets_others_run_by_time() -> None:
    loop = virtual_loop()
    other_ran_after: list[int] = []
    heard: list[Event] = []

    def slow(event: Event) -> None:
        heard.append(event)
        loop.advance(0.001)  # each call takes a millisecond

    listener = listen(slow)
    for _ in range(100):
        listener.put_nowait(Updated(A1, A1))
    while len(heard) < 100:
        await asyncio.sleep(0)
        other_ran_after.append(len(heard))

    turns = [after - before for before, after in pairwise(other_ran_after)]
    assert max(turns[1:]) <= 5
    assert len(turns) > 10
    await listener.aclose()


async def test_a_handler_in_a_thread_is_awaited_in_order() -> None:
    heard: list[tuple[str, int]] = []

    def handler(event: Event) -> None:
        heard.append((event.key, threading.get_ident()))

    listener = listen(in_thread(handler))
    listener.put_nowait(Added(A1))
    listener.put_nowait(Added(B1))
    await until(lambda: listener.status(now()).delivered == 2)

    assert [key for key, _ in heard] == ["default/a", "default/b"]
    assert {ident for _, ident in heard}.isdisjoint({threading.get_ident()})
    await listener.aclose()


async def test_a_thread_that_never_returns_affects_no_other(
    release: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = UserTasks()
    heard: list[Event] = []
    stuck = listen(in_thread(lambda event: release.wait()), tasks=tasks)
    healthy = listen(heard.append, tasks=tasks)
    for listener in (stuck, healthy):
        listener.put_nowait(Added(A1))
    await settle()

    await stuck.remove(5.0)

    assert heard == [Added(A1)]
    assert now() == 5.0
    assert tasks.abandoned == ("handler mine of pods",)
    assert caplog.messages == [
        "handler mine of pods did not end within 5.0 s and is left to itself"
    ]
    assert stuck.status(now()).in_flight_key == "default/a"
    await healthy.aclose()
    release.set()
    await until(lambda: not tasks.abandoned)


@pytest.mark.covers("client-go tools/cache/synctrack: TestBasicLogic")
async def test_has_synced_means_that_the_whole_initial_list_was_delivered() -> None:
    told = asyncio.Event()

    async def handler(event: Event) -> None:
        if event.key == "default/b":
            await told.wait()

    listener = listen(handler)
    listener.preload_nowait([A1, B1])
    listener.on_initial_list_complete()
    await settle()
    assert not listener.has_synced

    told.set()
    await listener.wait_synced(timeout_seconds=1.0)

    assert listener.has_synced
    assert listener.status(now()).has_synced
    await listener.aclose()


async def test_an_empty_initial_list_is_synced_at_once() -> None:
    listener = listen(lambda event: None)
    assert not listener.has_synced

    listener.on_initial_list_complete()

    assert listener.has_synced
    await listener.aclose()


@pytest.mark.covers("client-go tools/cache/synctrack: TestBasicLogic")
async def test_completion_during_the_last_call_waits_for_that_call() -> None:
    told = asyncio.Event()
    listener = listen(lambda event: told.wait())
    listener.put_nowait(Added(A1, is_in_initial_list=True))
    await settle()

    listener.on_initial_list_complete()
    assert not listener.has_synced
    told.set()
    await settle()

    assert listener.has_synced
    await listener.aclose()


async def test_synced_comes_before_a_later_call_that_never_returns() -> None:
    async def handler(event: Event) -> None:
        if isinstance(event, Updated):
            await asyncio.Event().wait()

    listener = listen(handler)
    for obj in (A1, B1):
        listener.put_nowait(Added(obj, is_in_initial_list=True))
    listener.on_initial_list_complete()
    listener.put_nowait(Updated(A1, A2))

    await listener.wait_synced(timeout_seconds=1.0)

    assert listener.status(now()).in_flight_key == "default/a"
    await listener.aclose()


async def test_merged_initial_additions_count_for_the_sync() -> None:
    told = asyncio.Event()
    listener = listen(lambda event: told.wait(), mailbox_size=1)
    listener.put_nowait(Added(A1, is_in_initial_list=True))
    await settle()
    listener.put_nowait(Updated(A1, A2))
    listener.put_nowait(Added(B1, is_in_initial_list=True))
    listener.on_initial_list_complete()
    listener.put_nowait(Deleted(B1))

    told.set()
    await listener.wait_synced(timeout_seconds=1.0)

    assert listener.status(now()).dropped_pairs == 1
    await listener.aclose()


async def test_waiting_to_be_synced_ends_at_its_deadline() -> None:
    listener = listen(lambda event: asyncio.Event().wait())
    listener.preload_nowait([A1, B1])
    listener.on_initial_list_complete()

    with pytest.raises(CacheSyncTimeoutError) as caught:
        await listener.wait_synced(timeout_seconds=7.0)

    assert now() == 7.0
    assert "handler mine of pods: 0 delivered, 1 waiting, last error: none" in str(caught.value)
    await listener.aclose()


async def test_waiting_to_be_synced_ends_with_the_removal() -> None:
    listener = listen(lambda event: None)
    waiting = asyncio.create_task(listener.wait_synced(timeout_seconds=7.0))
    await settle()

    await listener.remove()

    with pytest.raises(LifecycleError, match="handler mine was removed before it had synced"):
        await waiting
    assert now() == 0.0


async def test_a_cancelled_wait_for_sync_changes_nothing() -> None:
    listener = listen(lambda event: None)
    waiting = asyncio.create_task(listener.wait_synced())
    await settle()
    waiting.cancel()
    await asyncio.wait([waiting])

    listener.on_initial_list_complete()
    await listener.wait_synced()

    assert waiting.cancelled()
    await listener.aclose()


async def test_a_resync_reminds_of_each_object() -> None:
    heard: list[Event] = []
    listener = listen(heard.append)

    listener.resync_nowait([A1, B1])
    await settle()

    assert heard == [Updated(A1, A1, is_resync=True), Updated(B1, B1, is_resync=True)]
    await listener.aclose()


@pytest.mark.parametrize(
    "how", [pytest.param("remove", id="remove"), pytest.param("aclose", id="aclose")]
)
async def test_after_its_removal_a_handler_is_not_called(how: str) -> None:
    heard: list[Event] = []
    listener = listen(heard.append)
    listener.put_nowait(Added(A1))

    await (listener.remove() if how == "remove" else listener.aclose())
    listener.put_nowait(Added(B1))
    await settle()

    assert heard == []
    assert listener.is_removed
    assert listener.status(now()).is_removed


async def test_a_removed_handler_does_not_start() -> None:
    listener: Listener = Listener(Handler.of(print), tasks=UserTasks(), informer="pods")
    await listener.remove()
    before = asyncio.all_tasks()

    listener.start_nowait()

    assert asyncio.all_tasks() == before


async def test_removal_lets_the_call_in_flight_finish() -> None:
    steps: list[str] = []

    async def handler(event: Event) -> None:
        await elapse(2)
        steps.append(event.key)

    listener = listen(handler)
    listener.put_nowait(Added(A1))
    listener.put_nowait(Added(B1))
    await settle()

    await listener.remove(5.0)

    assert steps == ["default/a"]
    assert now() == 2.0


async def test_removal_abandons_a_call_that_does_not_finish(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks = UserTasks()
    listener = listen(lambda event: asyncio.Event().wait(), tasks=tasks)
    listener.put_nowait(Added(A1))
    await settle()

    await listener.remove(5.0)

    assert now() == 5.0
    assert caplog.messages == [
        "handler mine of pods did not end within 5.0 s and is left to itself"
    ]
    await settle()
    assert not tasks.abandoned  # it was cancelled, once, and this one obeys


async def test_closing_cancels_the_call_in_flight_and_awaits_its_rollback() -> None:
    steps: list[str] = []

    async def handler(event: Event) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await elapse(1)
            steps.append("rolled back")

    listener = listen(handler)
    listener.put_nowait(Added(A1))
    await settle()

    with anyio.CancelScope() as scope:
        scope.cancel()
        await listener.aclose(5.0)

    assert steps == ["rolled back"]
    assert now() == 1.0


async def test_a_handler_that_ignores_cancellation_is_named_and_abandoned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks = UserTasks()
    swallowed: list[str] = []
    free = asyncio.Event()

    async def handler(event: Event) -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                swallowed.append(event.key)

    listener = listen(handler, tasks=tasks)
    listener.put_nowait(Added(A1))
    listener.put_nowait(Added(B1))
    await settle()

    await listener.aclose(5.0)

    assert now() == 5.0
    assert swallowed == ["default/a"]
    assert tasks.abandoned == ("handler mine of pods",)
    assert caplog.messages == [
        "handler mine of pods did not end within 5.0 s and is left to itself"
    ]
    free.set()
    await settle()
    assert listener.status(now()).delivered == 1


@pytest.mark.parametrize(
    "how", [pytest.param("remove", id="remove"), pytest.param("aclose", id="aclose")]
)
async def test_removal_from_inside_the_handler_returns_at_once(how: str) -> None:
    steps: list[str] = []

    async def handler(event: Event) -> None:
        await (listener.remove() if how == "remove" else listener.aclose())
        await elapse(1)  # the call it comes from may finish
        steps.append(event.key)

    listener = listen(handler)
    listener.put_nowait(Added(A1))
    listener.put_nowait(Added(B1))
    await elapse(3)

    assert steps == ["default/a"]
    await listener.remove()
    assert now() == 3.0


async def test_removal_from_a_task_of_the_handlers_returns_at_once() -> None:
    steps: list[str] = []

    async def handler(event: Event) -> None:
        async with asyncio.TaskGroup() as group:  # as wait_for does in Python 3.11
            group.create_task(listener.remove())
        steps.append(event.key)

    listener = listen(handler)
    listener.put_nowait(Added(A1))
    await settle()

    assert steps == ["default/a"]
    assert now() == 0.0


async def test_removal_from_a_task_that_a_plain_handler_returns_is_from_inside() -> None:
    steps: list[str] = []

    async def work(event: Event) -> None:
        steps.append(event.key)
        await listener.remove()

    def handler(event: Event) -> object:
        return asyncio.create_task(work(event))

    listener = listen(handler)
    listener.put_nowait(Added(A1))
    listener.put_nowait(Added(B1))
    await settle()

    assert steps == ["default/a"]
    assert listener.status(now()).delivered == 1
    assert now() == 0.0


async def test_removal_from_a_handlers_thread_returns_at_once() -> None:
    loop = asyncio.get_running_loop()

    def handler(event: Event) -> None:
        asyncio.run_coroutine_threadsafe(listener.remove(), loop).result(20.0)

    listener = listen(in_thread(handler))
    listener.put_nowait(Added(A1))
    await until(lambda: listener.status(now()).delivered == 1)

    assert listener.is_removed
    assert now() == 0.0


async def test_a_task_that_outlives_its_call_waits_for_a_later_call() -> None:
    steps: list[str] = []
    removals: list[asyncio.Task[None]] = []
    may_remove = asyncio.Event()

    async def remove_later() -> None:
        await may_remove.wait()
        await listener.remove()
        steps.append("removed")

    async def handler(event: Event) -> None:
        if not removals:
            removals.append(asyncio.create_task(remove_later()))
            return
        await elapse(1)
        steps.append(event.key)

    listener = listen(handler)
    listener.put_nowait(Added(A1))
    listener.put_nowait(Added(B1))
    await settle()
    may_remove.set()
    await removals[0]

    assert steps == ["default/b", "removed"]


async def test_closing_from_a_handler_does_not_wait_for_that_handler() -> None:
    """A handler closes its informer, which closes the handler from a task of its own."""
    steps: list[str] = []

    async def handler(event: Event) -> None:
        await listener.aclose()
        await asyncio.create_task(owner())
        await elapse(1)
        steps.append("finished")

    async def owner() -> None:
        await owners_task
        steps.append("closed")

    async def close() -> None:
        await closing.wait()
        await listener.aclose(5.0)

    closing = asyncio.Event()
    owners_task = asyncio.create_task(close())
    listener = listen(handler)
    listener.put_nowait(Added(A1))
    await settle()
    closing.set()
    await elapse(2)

    assert steps == ["closed", "finished"]
    assert now() == 2.0


@pytest.mark.parametrize(
    "how", [pytest.param("remove", id="remove"), pytest.param("aclose", id="aclose")]
)
async def test_a_cancelled_removal_still_removes(how: str) -> None:
    tasks = UserTasks()
    free = asyncio.Event()

    async def handler(event: Event) -> None:
        try:
            await free.wait()
        except asyncio.CancelledError:
            await free.wait()

    listener = listen(handler, tasks=tasks)
    listener.put_nowait(Added(A1))
    await settle()
    removal = asyncio.create_task(listener.remove(5.0) if how == "remove" else listener.aclose(5.0))
    await settle()

    removal.cancel()
    await asyncio.wait([removal])

    assert removal.cancelled()
    assert now() == 5.0
    assert listener.is_removed
    assert tasks.abandoned == ("handler mine of pods",)
    free.set()
    await settle()


async def test_removing_twice_only_waits_again() -> None:
    listener = listen(lambda event: None)

    await listener.remove()
    await listener.remove()
    await listener.aclose()

    assert now() == 0.0
