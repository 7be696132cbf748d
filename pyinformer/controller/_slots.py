"""Worker slots: long-lived tasks that take requests from the queue and reconcile them, in turn.

What enters are requests; what leaves, for each, is one call of `attempt` and one of `conclude`.
The key of a request stays in processing until the user's function has really returned: no two
slots, and no second attempt, ever run for one key at once. A reconcile beyond its deadline is
cancelled once; if it does not end within the grace, its slot is poisoned: named, and replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias, cast, final

import anyio

from pyinformer._logging import get_logger
from pyinformer.apimachinery import QueueClosedError, ReconcileTimeoutError
from pyinformer.controller._outcomes import Outcome
from pyinformer.controller._slot import Deadlines, Ended, Slot
from pyinformer.sources._request import Request

if TYPE_CHECKING:
    from pyinformer.controller._options import ControllerOptions
    from pyinformer.controller._result import Result
    from pyinformer.controller._status import SlotStatus
    from pyinformer.tasks import UserTasks
    from pyinformer.workqueue import PriorityQueue

_log = get_logger("pyinformer.controller")

_FORCED_SECONDS = 0.25  # what a cancelled reconcile gets when somebody is in a hurry

Conclude: TypeAlias = Callable[[Request, Ended, float, float], Outcome]
"""Is told of a request how it ended, when, and after how many seconds."""


@final
class Slots:
    """The slots of one controller. Constructing it starts nothing.

    Args:
        controller: names the tasks, so that a blocked loop has a name.
        queue: where requests wait.
        tasks: where the slots run.
        prepare: is called with what was taken; returns it with its reasons, or None if it has to
            wait and was put back.
        attempt: calls the user's function.
        conclude: is told how it ended, and puts back what has to come again.
        options: deadlines and limits.
    """

    def __init__(
        self,
        controller: str,
        queue: PriorityQueue[Request],
        *,
        tasks: UserTasks,
        prepare: Callable[[Request, float], Request | None],
        attempt: Callable[[Request], Awaitable[Result | None]],
        conclude: Conclude,
        options: ControllerOptions,
    ) -> None:
        self._controller = controller
        self._queue = queue
        self._tasks = tasks
        self._prepare = prepare
        self._attempt = attempt
        self._conclude = conclude
        self._options = options
        self._slots: list[Slot] = []
        self._deadlines = Deadlines(
            self._slots,
            timeout_seconds=options.reconcile_timeout_seconds,
            grace_seconds=options.grace_seconds,
            on_poisoned=self._poisoned,
        )
        self._made = 0
        self._is_closing = False
        self._is_forced = False
        self._changed = anyio.Event()
        self.late_results: int = 0
        """Reconciles that returned after their slot was poisoned; what they returned is dropped."""
        self.cancelled: int = 0
        """Reconciles that closing has cancelled."""

    def start_nowait(self, workers: int) -> None:
        """Start so many slots on the running loop."""
        for _ in range(workers):
            self._spawn()

    def status(self, now: float) -> tuple[SlotStatus, ...]:
        """Return what each slot is busy with; from any thread.

        Args:
            now: the loop's time.
        """
        return tuple(slot.status(now) for slot in tuple(self._slots))

    async def once(self, request: Request, conclude: Conclude) -> Outcome:
        """Reconcile one request in a slot of its own.

        Args:
            request: what to reconcile; the queue does not know of it.
            conclude: decides what follows from the end.

        Cancellation:
            Reaches the reconcile, which is awaited up to the grace.
        """
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        slot = self._new_slot(is_worker=False)
        running = self._run_once(slot, request, conclude, outcome)
        slot.user_task = self._tasks.spawn(slot.name, running)
        try:
            await asyncio.wait((outcome,))
        except asyncio.CancelledError:
            if slot.cancelled_at is None:
                await slot.user_task.stop(self._options.grace_seconds)
            raise
        return outcome.result()

    def excuse_current(self) -> None:
        """Let the slot that this is called from end in its own time: it waits for the close."""
        for slot in self._slots:
            if slot.user_task is not None and slot.user_task.is_current:
                slot.user_task.excuse()

    def force_nowait(self) -> None:
        """Wait for nobody any more; a stop that is under way goes on at once."""
        self._is_forced = True
        self._changed.set()

    async def stop(self) -> None:
        """Take nothing more, let what is in flight finish, then cancel it, each once.

        Cancellation:
            Not to be cancelled: its owner shields it; the drain and the grace bound it.
        """
        self._is_closing = True
        self._queue.shut_down()
        self._queue.drop_waiting()
        await self._wait_left(self._options.drain_timeout_seconds)
        self._deadlines.stop_nowait()  # what is cancelled now is not cancelled again
        for slot in self._awaited():
            if slot.cancelled_at is None and slot.user_task is not None:
                slot.user_task.cancel_once()
        waited_seconds = self._options.grace_seconds
        await self._wait_left(waited_seconds)
        if self._is_forced:
            self._is_forced = False
            waited_seconds = _FORCED_SECONDS
            await self._wait_left(waited_seconds)
        for slot in self._slots:
            if slot.user_task is not None and not slot.is_excused:
                slot.user_task.abandon_if_running(waited_seconds)

    def _awaited(self) -> list[Slot]:
        """Name those whose end is worth waiting for."""
        return [slot for slot in self._slots if not (slot.is_poisoned or slot.is_excused)]

    async def _wait_left(self, timeout_seconds: float) -> None:
        with anyio.move_on_after(timeout_seconds):
            while self._awaited() and not self._is_forced:
                self._changed = anyio.Event()
                await self._changed.wait()

    def _new_slot(self, *, is_worker: bool = True) -> Slot:
        self._made += 1
        slot = Slot(f"slot {self._made} of controller {self._controller}", is_worker=is_worker)
        self._slots.append(slot)
        return slot

    def _spawn(self) -> None:
        slot = self._new_slot()
        slot.user_task = self._tasks.spawn(slot.name, self._run(slot))

    async def _run(self, slot: Slot) -> None:
        slot.task = _current_task()
        try:
            await self._work(slot)
        except QueueClosedError:
            pass
        except asyncio.CancelledError:
            if not self._is_closing:  # by somebody else: fewer slots in silence would be worse
                _log.error("%s was cancelled by others; another takes its place", slot.name)
                self._spawn()
            raise
        finally:
            self._leave(slot)

    async def _work(self, slot: Slot) -> None:
        queue = self._queue
        now = asyncio.get_running_loop().time
        while not slot.is_replaced:
            request = await queue.get()
            try:
                prepared = self._prepare(request, now())
                if prepared is not None:
                    ended = await self._reconcile(slot, prepared)
                    ended_at = now()
                    self._conclude(prepared, ended, ended_at, ended_at - slot.started_at)
            finally:
                queue.done(request)

    async def _run_once(
        self,
        slot: Slot,
        request: Request,
        conclude: Conclude,
        outcome: asyncio.Future[Outcome],
    ) -> None:
        slot.task = _current_task()

        def give(ended: Ended) -> None:
            if not outcome.done():
                now = asyncio.get_running_loop().time()
                outcome.set_result(conclude(request, ended, now, now - slot.started_at))

        slot.on_poisoned = give
        try:
            give(await self._reconcile(slot, request))
        finally:
            self._leave(slot)
            outcome.cancel()  # unless it is done

    async def _reconcile(self, slot: Slot, request: Request) -> Ended:
        """Call the user's function; return how it ended, whatever it did: this is the fence."""
        task = slot.task
        slot.started_at = now = asyncio.get_running_loop().time()
        slot.request = request
        task.set_name(f"reconcile of {request} by controller {self._controller}")
        self._deadlines.started(now)
        try:
            ended: Ended = await self._attempt(request)
        except (KeyboardInterrupt, SystemExit):
            raise  # not the function's alone
        except BaseException as error:  # the fence; test tools raise these
            if isinstance(error, GeneratorExit) and not _is_current(task):
                raise  # the slot is thrown away with its loop
            ended = error
        finally:
            slot.request = None
            task.set_name(slot.name)
        if slot.cancelled_at is not None:
            return self._timed_out(slot, task, request, ended)
        if isinstance(ended, asyncio.CancelledError) and task.cancelling():
            self._cancelled(slot, request, ended)
        return ended

    def _cancelled(self, slot: Slot, request: Request, error: asyncio.CancelledError) -> None:
        """End the slot; what was cut short comes again, unless everything ends."""
        if self._is_closing:
            self.cancelled += 1
        elif slot.is_worker:
            now = asyncio.get_running_loop().time()
            self._conclude(request, error, now, now - slot.started_at)
        raise error

    def _timed_out(
        self, slot: Slot, task: asyncio.Task[object], request: Request, ended: Ended
    ) -> ReconcileTimeoutError:
        """Turn whatever came after the deadline into the one error that it is."""
        task.uncancel()
        slot.cancelled_at = None
        if slot.is_poisoned:
            slot.is_poisoned = False
            self.late_results += 1
            _log.warning(
                "controller %s: the reconcile of %s has ended after all; what it returned is"
                " dropped",
                self._controller,
                request,
            )
        error = self._timeout_error(request)
        if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
            error.__cause__ = ended
        return error

    def _timeout_error(self, request: Request) -> ReconcileTimeoutError:
        timeout_seconds = self._options.reconcile_timeout_seconds or 0.0
        return ReconcileTimeoutError(request=str(request), timeout_seconds=timeout_seconds)

    def _poisoned(self, slot: Slot) -> None:
        """Name a slot that is lost for now, and put another in its place if that is bounded."""
        slot.is_poisoned = True
        request = slot.request
        poisoned = sum(other.is_poisoned for other in self._slots)
        is_bounded = poisoned <= self._options.max_poisoned_slots
        slot.is_replaced = slot.is_worker and is_bounded and not self._is_closing
        _log.error(
            "controller %s: the reconcile of %s ignores its cancellation since %.1f s;"
            " its key waits until it returns. %s",
            self._controller,
            request,
            self._options.grace_seconds,
            "Another slot works on"
            if slot.is_replaced
            else f"There are {len(self._slots) - poisoned} slots left",
        )
        if slot.is_replaced:
            self._spawn()
        if slot.on_poisoned is not None and request is not None:
            slot.on_poisoned(self._timeout_error(request))
        self._changed.set()

    def _leave(self, slot: Slot) -> None:
        self._slots.remove(slot)
        self._changed.set()


def _current_task() -> asyncio.Task[object]:
    return cast("asyncio.Task[object]", asyncio.current_task())  # a coroutine is run by a task


def _is_current(task: asyncio.Task[object]) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs
        return False
