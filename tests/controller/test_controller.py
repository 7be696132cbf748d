"""The controller engine on virtual time: outcomes in the queue, deadlines, workers, the end."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import re
import threading
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from pyinformer import ConflictError, Controller, Request, Result, RetryAfter, TerminalError
from pyinformer.errors import (
    ForbiddenError,
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
    RequestTimeoutError,
    TransportError,
    status_error_class,
)
from tests.controller.running import Calls, Said, options, running
from tests.limiters import doubling
from tests.virtual_time import elapse

pytestmark = pytest.mark.virtual_time

_ERROR = ValueError("secret")


async def never(request: Request, obj: object) -> None:
    """Reconcile without an end."""
    await asyncio.Event().wait()


class _UnspeakableError(TerminalError):
    """A user's own, with a bug in it."""

    def __str__(self) -> str:
        raise ValueError


# fmt: off
@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should call Reconciler if an item is enqueued"
)
@pytest.mark.parametrize(
    ("script", "times"),
    [
        pytest.param([None], [0.0], id="success"),
        pytest.param([_ERROR, _ERROR, None], [0.0, 1.0, 3.0], id="errors"),
        pytest.param([Result(60.0), None], [0.0, 60.0], id="requeue"),
        pytest.param([_ERROR, Result(60.0), _ERROR], [0.0, 1.0, 61.0, 62.0],
                     id="requeue-forgets-backoff"),
        pytest.param([RetryAfter(30), None], [0.0, 30.0], id="retry-after"),
        pytest.param([_ERROR, RetryAfter(30), _ERROR], [0.0, 1.0, 31.0, 33.0],
                     id="retry-after-keeps-the-count"),
        pytest.param([TerminalError("no"), None], [0.0], id="terminal"),
        pytest.param([asyncio.CancelledError(), None], [0.0, 1.0], id="cancelled-by-itself"),
        pytest.param([BaseException("odd"), None], [0.0, 1.0], id="base-exception"),
        pytest.param([GeneratorExit(), None], [0.0, 1.0], id="generator-exit"),
        pytest.param([BaseExceptionGroup("g", [KeyboardInterrupt()]), None], [0.0, 1.0],
                     id="group"),
        pytest.param([_UnspeakableError("no"), None], [0.0], id="unspeakable"),
        pytest.param([Result(0.0), None], [0.0, 0.0], id="requeue-at-once"),
    ],
)
async def test_a_key_is_requeued_at_the_time_of_its_result(
    script: list[Result | BaseException | None], times: list[float]
) -> None:
    calls = Calls(*script)
    async with running(calls, backoff_seconds=1.0) as (_, said):
        said.say("default/a")
        await elapse(500.0)
    assert calls.times == times
# fmt: on


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should call Reconciler if an item is enqueued"
)
@pytest.mark.parametrize(
    "nonsense",
    [
        pytest.param(5, id="number"),
        pytest.param({"requeue": True}, id="dict"),
        pytest.param(ValueError("returned, not raised"), id="error"),
        pytest.param(Result, id="class"),
    ],
)
async def test_an_invalid_result_is_retried_as_an_error_and_delays_no_other_key(
    nonsense: object,
) -> None:
    seen = list[tuple[str, float]]()

    async def reconcile(request: Request, obj: object) -> object:
        seen.append((request.name, asyncio.get_running_loop().time()))
        return nonsense if request.name == "bad" else None

    async with running(reconcile, backoff_seconds=1.0) as (controller, said):  # type: ignore[arg-type]
        said.say("default/bad")
        said.say("default/good")
        await elapse(1.5)
        status = controller.status()
    assert seen == [("bad", 0.0), ("good", 0.0), ("bad", 1.0)]
    assert status.outcomes["error"] == 2
    assert status.failing == 1
    (failing,) = status.failing_keys
    assert (failing.request, failing.failures) == ("default/bad", 2)
    assert (failing.error, failing.retry_seconds) == ("InvalidTypeError", 1.5)
    assert status.last_error is not None
    assert status.last_error.startswith("InvalidTypeError")


async def test_the_status_names_the_right_that_a_failing_key_lacks() -> None:
    right = '"create" is missing; needs: apiGroups: [""], resources: ["secrets"], verbs: ["create"]'
    needed = f"{right} in namespace default"
    message = 'secrets is forbidden: cannot create "hunter2"'
    error = ForbiddenError(status=403, reason="Forbidden", message=message, needed=needed)
    calls = Calls(ExceptionGroup("one", [error]))
    async with running(calls, backoff_seconds=10.0) as (controller, said):
        said.say("default/a")
        await elapse(0.1)
        status = controller.status()
    (failing,) = status.failing_keys
    assert failing.error == f"ForbiddenError ({needed})"
    assert str(status.last_error).startswith(f"ForbiddenError ({needed}) at ")
    assert "hunter2" not in f"{failing.error} {status.last_error}"


async def test_a_task_has_the_name_of_its_request_until_the_reconcile_names_it() -> None:
    names: list[str] = []

    async def reconcile(_request: Request, _obj: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        names.append(task.get_name())
        task.set_name("mine")
        names.append(task.get_name())

    async with running(reconcile, workers=1) as (_, said):
        for name in ("a", "b"):
            said.say(f"default/{name}")
            await elapse(1.0)
    assert names == [
        "reconcile of default/a by controller c",
        "mine",
        "reconcile of default/b by controller c",
        "mine",
    ]


async def test_an_event_during_a_pending_retry_runs_at_once_and_does_not_shorten_it() -> None:
    calls = Calls(_ERROR, _ERROR, _ERROR)
    async with running(calls, backoff_seconds=10.0) as (_, said):
        said.say("default/a")
        await elapse(4.0)
        said.say("default/a")
        await elapse(100.0)
    assert calls.times == [0.0, 4.0, 10.0, 30.0]


async def test_a_success_during_a_pending_retry_ends_it() -> None:
    calls = Calls(_ERROR, None)
    async with running(calls, backoff_seconds=10.0) as (controller, said):
        said.say("default/a")
        await elapse(4.0)
        said.say("default/a")
        await elapse(100.0)
        assert controller.status().failing == 0
    assert calls.times == [0.0, 4.0]


async def test_an_event_during_a_failing_reconcile_runs_next_and_keeps_the_retry() -> None:
    times = list[float]()

    async def reconcile(request: Request, obj: object) -> None:
        times.append(asyncio.get_running_loop().time())
        await elapse(1.0)
        if len(times) < 3:
            raise _ERROR

    async with running(reconcile, backoff_seconds=10.0) as (_, said):
        said.say("default/a")
        await elapse(0.5)
        said.say("default/a")
        await elapse(100.0)
    assert times == [0.0, 1.0, 11.0]


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should retain the priority when the"
)
async def test_priority_survives_a_retry_and_a_result_may_change_it() -> None:
    script: dict[str, list[Result | Exception]] = {
        "low": [_ERROR],
        "mid": [Result(1.0)],
        "up": [Result(1.0, priority=50)],
    }
    seen = list[str]()

    async def reconcile(request: Request, obj: object) -> Result | None:
        seen.append(request.name)
        if request.name == "block":
            await elapse(2.0)
        step = script.get(request.name)
        if not step:
            return None
        ended = step.pop()
        if isinstance(ended, Exception):
            raise ended
        return ended

    async with running(reconcile, backoff_seconds=1.0) as (_, said):
        said.say("default/low", priority=-100)
        said.say("default/up", priority=-50)
        said.say("default/mid", priority=10)
        await elapse(0.5)
        said.say("default/block")
        await elapse(0.25)
        said.say("default/event")
        await elapse(10.0)
    assert seen == ["mid", "up", "low", "block", "up", "mid", "event", "low"]


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should retain the priority when the"
)
@pytest.mark.parametrize(
    ("script", "changes", "back_at"),
    [
        pytest.param([RetryAfter(1.0)], {}, 1.0, id="retry-after"),
        pytest.param([None], {"reconcile_timeout_seconds": 1.0}, 2.0, id="deadline"),
        pytest.param([Result(0.0)] * 201, {}, 1.0, id="hot-loop"),
    ],
)
async def test_priority_survives_whatever_postpones_a_key(
    script: list[Result | Exception | None], changes: dict[str, object], back_at: float
) -> None:
    """An urgent key that comes back overtakes what waits, and a low one does not."""
    seen = list[str]()

    async def reconcile(request: Request, obj: object) -> Result | None:
        seen.append(request.name)
        if request.name.startswith("block"):
            await elapse(0.9)
        steps = scripts.get(request.name)
        if not steps:
            return None
        step = steps.pop()
        if isinstance(step, Exception):
            raise step
        if step is None:
            await asyncio.Event().wait()
        return step

    scripts = {"low": list(script), "high": list(script)}
    changes = {"backoff_seconds": back_at / 2} | changes
    async with running(reconcile, workers=2, **changes) as (_, said):
        said.say("default/low", priority=-100)
        said.say("default/high", priority=10)
        await elapse(back_at - 0.5)
        for number in range(4):  # busy when the two come back, and others wait
            said.say(f"default/block-{number}")
        said.say("default/usual")
        await elapse(20.0)
    after = seen[seen.index("block-0") :]
    assert after.index("high") < after.index("usual") < after.index("low")


async def test_a_finished_key_leaves_no_state(caplog: pytest.LogCaptureFixture) -> None:
    """However it ended: no request of thousands is left in any table."""
    caplog.set_level(logging.CRITICAL, "pyinformer.controller")  # else the records keep them
    failed = set[str]()

    async def reconcile(request: Request, obj: object) -> Result | None:
        kind = None if request.name in failed else int(request.name) % 5
        failed.add(request.name)
        if kind == 1:
            raise ValueError
        if kind == 2:
            raise TerminalError("no")
        if kind == 3:
            raise RetryAfter(1.0)
        return Result(1.0) if kind == 4 else None

    async with running(reconcile, backoff_seconds=1.0) as (controller, said):
        for number in range(3_000):
            said.say(f"passing/{number}", priority=-100 if number % 3 else 0)
            if number % 2:
                said.say(f"passing/{number}", priority=10)
        await elapse(100.0)
        said.say("passing/0")  # a new window of the hot loops' count begins
        await elapse(10.0)
        assert controller.status().outcomes["success"] == 2_401
        gc.collect()
        requests = [one for one in gc.get_objects() if type(one) is Request]
    assert sum(request.namespace == "passing" for request in requests) < 10


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should time out if ReconciliationTimeout is"
)
async def test_a_deadline_cancels_once_awaits_and_retries() -> None:
    story = list[tuple[float, str]]()

    async def reconcile(request: Request, obj: object) -> None:
        now = asyncio.get_running_loop().time
        story.append((now(), "begin"))
        if len(story) > 1:
            return
        try:
            await asyncio.Event().wait()
        finally:
            await elapse(3.0)  # a second cancellation would cut it short
            story.append((now(), "end"))

    limits = {"reconcile_timeout_seconds": 10.0, "backoff_seconds": 1.0}
    async with running(reconcile, workers=2, **limits) as (controller, said):
        said.say("default/a")
        await elapse(50.0)
        status = controller.status()
    assert story == [(0.0, "begin"), (13.0, "end"), (14.0, "begin")]
    assert (status.outcomes["timeout"], status.stuck) == (1, ())


async def test_a_result_after_the_deadline_is_an_error_that_wins_over_the_requeue() -> None:
    times = list[float]()

    async def reconcile(request: Request, obj: object) -> Result | None:
        times.append(asyncio.get_running_loop().time())
        try:
            await elapse(20.0 if len(times) == 1 else 0.0)
        except asyncio.CancelledError:
            return Result(requeue_after_seconds=500.0)
        return None

    limits = {"reconcile_timeout_seconds": 10.0, "backoff_seconds": 1.0}
    async with running(reconcile, **limits) as (controller, said):
        said.say("default/a")
        await elapse(50.0)
        assert controller.status().outcomes["requeue"] == 0
    assert times == [0.0, 11.0]


async def test_deadlines_are_exact_for_reconciles_that_overlap() -> None:
    ended = dict[str, float]()

    async def reconcile(request: Request, obj: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.setdefault(request.name, asyncio.get_running_loop().time())

    limits = {"reconcile_timeout_seconds": 10.0, "backoff_seconds": 900.0}
    async with running(reconcile, workers=3, **limits) as (_, said):
        for name in ("a", "b", "c"):
            said.say(f"default/{name}")
            await elapse(2.5)
        await elapse(50.0)
    assert ended == {"a": 10.0, "b": 12.5, "c": 15.0}


@pytest.mark.covers(
    "controller-runtime pkg/controller: Should default MaxConcurrentReconciles to 1 if unset",
    "controller-runtime pkg/internal/controller: should time out if ReconciliationTimeout is",
)
async def test_without_a_deadline_a_reconcile_may_take_a_day() -> None:
    ended = list[float]()

    async def reconcile(request: Request, obj: object) -> None:
        await elapse(86_400.0)
        ended.append(asyncio.get_running_loop().time())

    async with running(reconcile, reconcile_timeout_seconds=None) as (_, said):
        said.say("default/a")
        await elapse(90_000.0)
    assert ended == [86_400.0]


class Stubborn:
    """A reconcile that ignores cancellation for one key until it is released."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.running = Counter[str]()
        self.most = Counter[str]()
        self.seen: list[tuple[float, str]] = []

    async def __call__(self, request: Request, obj: object) -> None:
        """Be stubborn.

        Cancellation:
            Is ignored by keys that are called stuck.
        """
        name = request.name
        self.running[name] += 1
        self.most[name] = max(self.most[name], self.running[name])
        self.seen.append((asyncio.get_running_loop().time(), name))
        while name.startswith("stuck") and not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue
        self.running[name] -= 1


_STUBBORN = {
    "reconcile_timeout_seconds": 10.0,
    "grace_seconds": 5.0,
    "backoff_seconds": 1.0,
}


async def test_a_reconcile_that_ignores_cancellation_is_named_replaced_and_never_runs_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stubborn = Stubborn()
    async with running(stubborn, **_STUBBORN) as (controller, said):
        said.say("default/stuck")
        await elapse(1.0)
        said.say("default/stuck")  # again while it is processed: it has to wait
        said.say("default/fine")
        await elapse(13.0)
        assert not controller.status().stuck
        await elapse(1.5)
        status = controller.status()
        assert list(status.stuck) == ["default/stuck"]
        assert [worker.is_stuck for worker in status.workers] == [True, False]
        assert stubborn.seen == [(0.0, "stuck"), (15.0, "fine")]
        stubborn.let_go.set()
        await elapse(10.0)
        status = controller.status()
        assert (status.late_results, len(status.workers), list(status.stuck)) == (1, 1, [])
    assert stubborn.seen == [(0.0, "stuck"), (15.0, "fine"), (15.5, "stuck")]
    assert stubborn.most["stuck"] == 1
    assert "the reconcile of default/stuck has ignored its cancellation" in caplog.text
    assert "the reconcile of default/stuck finished late" in caplog.text


async def test_stuck_workers_are_replaced_up_to_a_limit_and_work_again_when_they_return() -> None:
    stubborn = Stubborn()
    async with running(stubborn, **_STUBBORN) as (controller, said):
        for number in range(12):
            said.say(f"default/stuck-{number}")
        said.say("default/fine")
        await elapse(200.0)
        status = controller.status()
        assert len(status.stuck) == len(status.workers) == 11
        assert [name for _, name in stubborn.seen] == [f"stuck-{number}" for number in range(11)]
        stubborn.let_go.set()
        await elapse(20.0)
        assert len(controller.status().workers) == 1
    assert {name for _, name in stubborn.seen} >= {"stuck-11", "fine"}


async def test_closing_abandons_a_stuck_worker_at_once() -> None:
    stubborn = Stubborn()
    async with running(stubborn, drain_timeout_seconds=100.0, **_STUBBORN) as (controller, said):
        said.say("default/stuck")
        await elapse(20.0)
        before = asyncio.get_running_loop().time()
        await controller.aclose()
        assert asyncio.get_running_loop().time() == before
        assert len(controller.engine.abandoned) == 1
    stubborn.let_go.set()
    await elapse(0.1)
    assert not controller.engine.abandoned


@pytest.mark.covers("kube-runtime src: applier_must_not_deadlock_if_reschedule_buffer_fills")
async def test_a_key_that_enqueues_itself_is_named_and_slowed_and_delays_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = Counter[str]()

    async def reconcile(request: Request, obj: object) -> Result | None:
        seen[request.name] += 1
        return Result(requeue_after_seconds=0.0) if request.name == "hot" else None

    async with running(reconcile) as (controller, said):
        said.say("default/hot")
        await elapse(5.0)
        said.say("default/other")
        await elapse(5.0)
        status = controller.status()
        assert seen["other"] == 1
        assert 201 <= seen["hot"] <= 211
        assert status.hot == ("default/hot",)
        await elapse(100.0)
        assert seen["hot"] <= 211 + 102
    named = [record for record in caplog.records if "may wake itself" in record.message]
    assert len(named) == 1
    assert "default/hot" in named[0].message
    assert "201 times in 10 s, while its inputs changed 1 times" in named[0].message
    assert "reasons: reconcile requeue (x200)" in named[0].message
    (loop,) = status.hot_loops
    assert (loop.request, loop.reconciles, loop.inputs) == ("default/hot", 201, 1)
    assert loop.reasons == ("reconcile requeue (x200)",)


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should create a new go routine for",
    "kube-runtime src: runner_should_never_run_two_instances_at_once",
)
async def test_no_key_is_ever_reconciled_by_two_workers_and_none_is_lost() -> None:
    rng = random.Random(7)
    intervals = dict[str, list[tuple[float, float]]]()
    said_at = dict[str, float]()

    async def reconcile(request: Request, obj: object) -> None:
        now = asyncio.get_running_loop().time
        began_at = now()
        try:
            await elapse(rng.uniform(0.0, 3.0))
            if rng.random() < 0.3:
                raise _ERROR
        finally:
            intervals.setdefault(str(request), []).append((began_at, now()))

    async with running(reconcile, workers=5, rate_limiter=doubling(0.005, 1.0)) as (_, said):
        for _ in range(400):
            key = f"default/{rng.randrange(12)}"
            said_at[key] = asyncio.get_running_loop().time()
            said.say(key, priority=rng.choice([-100, 0, 5]))
            await elapse(rng.uniform(0.0, 0.5))
        await elapse(120.0)
    assert intervals.keys() == said_at.keys()
    for key, spans in intervals.items():
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
        assert spans[-1][0] >= said_at[key]


async def test_closing_waits_for_reconciles_in_flight_and_counts_dropped_keys() -> None:
    story = list[str]()

    async def reconcile(request: Request, obj: object) -> None:
        story.append(f"begin {request.name}")
        await elapse(8.0)
        story.append(f"end {request.name}")

    async with running(reconcile, drain_timeout_seconds=10.0) as (controller, said):
        for name in ("a", "b", "c"):
            said.say(f"default/{name}")
        controller.enqueue("default/later", after_seconds=60.0)
        await elapse(1.0)
    status = controller.status()
    assert story == ["begin a", "end a"]
    assert said.was_detached
    assert not said.is_running
    assert (status.dropped, status.is_running) == (3, False)
    assert asyncio.get_running_loop().time() == 8.0
    controller.enqueue("default/d")
    assert controller.status().dropped == 4


async def test_after_the_drain_timeout_reconciles_are_cancelled_once_and_awaited() -> None:
    story = list[str]()

    async def reconcile(request: Request, obj: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            story.append("cancelled")
            await elapse(2.0)
            story.append("cleaned up")

    async with running(reconcile, drain_timeout_seconds=10.0) as (controller, said):
        said.say("default/a")
        await elapse(1.0)
    assert story == ["cancelled", "cleaned up"]
    assert asyncio.get_running_loop().time() == 13.0
    assert controller.status().outcomes["cancelled"] == 1


async def test_a_deadline_during_the_drain_does_not_lead_to_a_second_cancellation() -> None:
    cancellations = list[float]()

    async def reconcile(request: Request, obj: object) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancellations.append(asyncio.get_running_loop().time())
            try:
                await elapse(4.0)
            except asyncio.CancelledError:
                cancellations.append(asyncio.get_running_loop().time())

    limits = {"reconcile_timeout_seconds": 10.0, "drain_timeout_seconds": 10.5}
    async with running(reconcile, **limits) as (_, said):
        said.say("default/a")
        await elapse(1.0)
    assert cancellations == [10.0]
    assert asyncio.get_running_loop().time() == 14.0


async def test_a_deadline_after_the_drain_does_not_cut_the_clean_up_short() -> None:
    ended_at = list[float]()

    async def reconcile(request: Request, obj: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await elapse(10.0)  # past the deadline
            ended_at.append(asyncio.get_running_loop().time())

    times = {"reconcile_timeout_seconds": 10.0, "drain_timeout_seconds": 5.0, "grace_seconds": 60.0}
    async with running(reconcile, **times) as (_, said):
        said.say("default/a")
        await elapse(0.0)
    assert ended_at == [15.0]


async def test_a_deadline_does_not_cancel_the_next_reconcile() -> None:
    pending = list[int]()

    async def reconcile(request: Request, obj: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        pending.append(task.cancelling())
        if len(pending) == 1:
            await asyncio.Event().wait()

    async with running(reconcile, reconcile_timeout_seconds=1.0) as (controller, said):
        said.say("default/a")
        await elapse(10.0)
        assert controller.status().outcomes["timeout"] == 1
    assert pending == [0, 0]


async def test_without_a_grace_a_cancelled_reconcile_still_gets_its_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def reconcile(request: Request, obj: object) -> None:
        await asyncio.Event().wait()

    times = {"reconcile_timeout_seconds": 1.0, "grace_seconds": 0.0}
    async with running(reconcile, backoff_seconds=50.0, **times) as (controller, said):
        said.say("default/a")
        await elapse(10.0)
        status = controller.status()
    assert (status.outcomes["timeout"], status.late_results) == (1, 0)
    assert "ignores its cancellation" not in caplog.text


async def test_closing_from_a_reconcile_waits_for_all_but_itself() -> None:
    story = list[str]()

    async def reconcile(request: Request, obj: object) -> None:
        await controller.aclose()
        story.append(f"closed, {controller.is_running=}")

    async with running(reconcile) as (controller, said):
        said.say("default/a")
        await controller.wait_ended()
        await elapse(1.0)
    assert story == ["closed, controller.is_running=False"]
    assert asyncio.get_running_loop().time() == 1.0


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should return an error if it gets started"
)
async def test_a_controller_is_started_once_and_closed_once() -> None:
    async with running(Calls()) as (controller, _):
        assert controller.is_running
        with pytest.raises(LifecycleError, match="was started before"):
            await controller.start()
        with pytest.raises(LifecycleError, match="add its sources before"):
            controller.add_source(Said())
        with pytest.raises(LifecycleError, match="enqueue the request instead"):
            await controller.reconcile_once("default/a")
        await controller.aclose()
    with pytest.raises(LifecycleError, match="is closed"):
        await controller.start()


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should return if the queue is shutdown"
)
async def test_closing_before_the_start_is_allowed_and_final() -> None:
    controller = Controller("c", Calls())
    await controller.aclose()
    await controller.wait_ended()
    with pytest.raises(LifecycleError, match="is closed"):
        await controller.start()


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should process events from source.Channel",
    "controller-runtime pkg/source: Channel / for a source / should provide a GenericEvent",
)
async def test_requests_from_before_the_start_and_from_other_threads_are_reconciled() -> None:
    calls = Calls()
    controller = Controller("c", calls, options=options())
    controller.enqueue("default/early", reason="because")
    thread = threading.Thread(target=controller.enqueue, args=("default/thread",))
    thread.start()
    thread.join()
    async with controller:
        await elapse(1.0)
        thread = threading.Thread(target=controller.enqueue, args=(Request("b/now", "prod"),))
        thread.start()
        thread.join()
        controller.enqueue("default/later", after_seconds=5.0)
        await elapse(10.0)
    assert [key for _, key in calls.seen] == [
        "default/early",
        "default/thread",
        "prod:b/now",
        "default/later",
    ]
    assert calls.times[-1] == 6.0


async def test_reasons_travel_with_the_request_and_are_the_newest_few() -> None:
    seen = list[list[str]]()

    async def reconcile(request: Request, obj: object) -> None:
        seen.append([str(reason) for reason in request.reasons])
        if len(seen) == 1:
            raise _ERROR

    async with running(reconcile, backoff_seconds=1.0) as (controller, said):
        controller.enqueue("default/a", reason="a person")
        said.say("default/a", resource_version="7")
        await elapse(0.5)
        said.say("default/b")
        await elapse(5.0)
        for version in range(20):
            said.say("default/c", resource_version=str(version))
        await elapse(5.0)
    assert seen[:3] == [
        ["a person enqueued default/a", "said updated default/a@7"],
        ["said updated default/b"],
        ["a person enqueued default/a", "said updated default/a@7", "reconcile retry"],
    ]
    assert len(seen[3]) == 8
    assert seen[3][-1] == "said updated default/c@19"


async def test_logs_name_keys_places_and_reasons_without_error_texts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="pyinformer.controller")
    calls = Calls(_ERROR, None, TerminalError("no such zone"))
    async with running(calls, backoff_seconds=1.0) as (_, said):
        said.say("default/a", resource_version="7")
        await elapse(5.0)
        said.say("default/b")
        await elapse(5.0)
    text = caplog.text
    assert "secret" not in text
    assert "the reconcile of default/a failed: ValueError at" in text
    assert "failure 1, retry in 1.000 s; reasons: said updated @7" in text
    assert "default/a: success; reasons: said updated @7; reconcile retry" in text
    assert "failed: no such zone; not retried until something changes; reasons" in text


async def test_failures_of_any_number_of_keys_do_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A tenant can create objects without end whose reconcile fails."""

    async def reconcile(request: Request, obj: object) -> None:
        raise TerminalError("no such zone")

    async with running(reconcile) as (controller, said):
        for number in range(1_500):
            said.say(f"default/a{number}")
        await elapse(0.0)
        said.say("default/unlogged")
        await elapse(1.0)
        said.say("default/b")
        await elapse(1.0)
        assert controller.status().outcomes["terminal"] == 1_502
    lines = [text for text in caplog.messages if "failed: no such zone" in text]
    assert len(lines) == 1_001
    assert "the reconcile of default/b failed" in lines[-1]
    assert lines[-1].endswith("; 501 failures since the last such line are not logged")


def lost(server: str = "https://a:6443", path: str = "/api/v1/pods") -> TransportError:
    """Return the error of a request to a server that is away."""
    return TransportError(f"{server}{path}", "refused", is_unreachable=True)


def failed_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines about failed reconciles."""
    return [text for text in caplog.messages if " failed: " in text]


async def test_an_outage_is_one_line_a_minute_for_all_controllers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever the number of keys, and whichever URLs they needed; the rest is counted."""
    away = True

    async def reconcile(request: Request, obj: object) -> None:
        if away:
            raise lost(path=f"/api/v1/namespaces/default/pods/{request.name}")

    caplog.set_level(logging.INFO)
    async with running(reconcile) as (_, said), running(reconcile) as (_, other):
        for number in range(50):
            said.say(f"default/a{number}")
            other.say(f"default/a{number}")
        await elapse(14.0)
        assert len(failed_lines(caplog)) == 1
        await elapse(130.0)
        first, *later = failed_lines(caplog)
        assert 1 <= len(later) <= 3
        assert "failure 1, retry in" in first
        assert first.endswith("further failures like this one are counted")
        assert re.search(r"; \d\d+ more of this kind since the last such line$", later[0])
        away = False
        await elapse(2000.0)
    again = [text for text in caplog.messages if "reconciles succeed again" in text]
    assert 1 <= len(again) <= 4
    assert re.search(r"; \d+ failures of the outage were counted$", again[0])


async def test_each_cause_of_an_outage_has_its_line(caplog: pytest.LogCaptureFixture) -> None:
    errors = {
        "a": lost(),
        "b": lost("https://b:6443"),
        "c": RequestTimeoutError("https://a:6443/x", "no answer", waited_seconds=30.0),
        "d": status_error_class(503)(status=503),
        "e": status_error_class(504)(status=504),
        "f": lost(path="/apis"),
        "g": ExceptionGroup("of a task group", [lost()]),
    }

    async def reconcile(request: Request, obj: object) -> None:
        raise errors[request.name]

    async with running(reconcile) as (_, said):
        for name in errors:
            said.say(f"default/{name}")
        await elapse(0.5)
    found = {line.split(" failed")[0][-1] for line in failed_lines(caplog)}
    assert found == {"a", "b", "c", "d", "e"}


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(status_error_class(429)(status=429, causes=["DisruptionBudget"]), id="budget"),
        pytest.param(status_error_class(422)(status=422), id="invalid"),
        pytest.param(status_error_class(500)(status=500), id="a-webhook-that-fails"),
        pytest.param(ValueError("no zone"), id="its-own"),
    ],
)
async def test_failures_about_single_objects_have_a_line_each(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def reconcile(request: Request, obj: object) -> None:
        raise error

    async with running(reconcile) as (controller, said):
        for number in range(5):
            said.say(f"default/a{number}")
        await elapse(0.5)
        failures = controller.status().outcomes["error"]
    assert len(failed_lines(caplog)) == failures >= 5


async def test_error_texts_are_logged_if_configured(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = Calls(ValueError("no zone\nfor it"), ConflictError(status=409), None)
    async with running(calls, log_exceptions="full") as (_, said):
        said.say("default/a")
        await elapse(5.0)
    failed = [line for line in caplog.messages if " failed: " in line]
    first, *trace = failed[0].split("\n")
    assert "failed: ValueError (no zone\\nfor it) at " in first
    assert trace[0] == "ValueError"
    assert all(" failed: ConflictError" in line and "\n" not in line for line in failed[1:])


async def test_conflicts_on_every_write_are_retried_with_backoff_and_without_an_alarm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conflict = ConflictError(status=409, reason="Conflict", message="secret")
    calls = Calls(*[conflict] * 5)
    async with running(calls, backoff_seconds=1.0) as (controller, said):
        said.say("default/a")
        await elapse(100.0)
        assert controller.status().outcomes["error"] == 5
    assert calls.times == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0]
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


async def test_the_status_shows_reconciles_in_flight_with_their_start() -> None:
    async with running(never, workers=2, drain_timeout_seconds=0.0) as (controller, said):
        said.say("default/a")
        await elapse(7.0)
        status = controller.status()
    assert [(worker.request, worker.seconds) for worker in status.workers] == [
        ("default/a", 7.0),
        (None, 0.0),
    ]
    assert (status.name, status.is_running, status.has_synced) == ("c", True, True)
    assert status.queue.processing == 1
    assert [source.name for source in status.sources] == ["said"]


async def test_a_worker_that_foreign_code_cancels_is_replaced_and_its_key_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = list[str]()

    async def reconcile(request: Request, obj: object) -> None:
        calls.append(request.name)
        if len(calls) == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await elapse(1.0)

    async with running(reconcile, backoff_seconds=1.0) as (controller, said):
        said.say("default/a")
        await elapse(5.0)
        assert len(controller.status().workers) == 1
    assert calls == ["a", "a"]
    assert "was cancelled by foreign code; another takes its place" in caplog.text


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should not call Reconcile until all event",
    "kube-runtime src: runner_should_never_run_two_instances_at_once",
)
async def test_workers_begin_when_every_source_has_enqueued_its_initial_keys() -> None:
    calls = Calls()
    controller = Controller("c", calls, options=options())
    early, late = Said("early"), Said("late", has_synced=False)
    controller.add_source(early)
    controller.add_source(late)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.start())
        await elapse(1.0)
        early.say("default/a")
        await elapse(30.0)
        assert calls.seen == []
        assert not controller.has_synced
        late.synced.set()
    await elapse(1.0)
    assert calls.seen == [(31.0, "default/a")]
    await controller.aclose()


@pytest.mark.covers(
    "controller-runtime pkg/controller: New / should return an error if Name is not Specified"
)
@pytest.mark.parametrize(
    ("reconcile", "error"),
    [
        pytest.param(None, InvalidTypeError, id="none"),
        pytest.param(lambda request: None, InvalidTypeError, id="one-argument"),
        pytest.param(Request, InvalidTypeError, id="class"),
    ],
)
def test_an_invalid_reconcile_function_is_refused(
    reconcile: object, error: type[Exception]
) -> None:
    with pytest.raises(error):
        Controller("c", reconcile)  # type: ignore[arg-type]


@pytest.mark.covers(
    "controller-runtime pkg/controller: New / should return an error if Name is not Specified",
    "controller-runtime pkg/controller: Should default MaxConcurrentReconciles to 1 if unset",
)
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param({"name": ""}, "name", id="name"),
        pytest.param({"workers": 0}, "workers", id="no-workers"),
        pytest.param({"workers": 1.5}, "workers", id="half-a-worker"),
    ],
)
def test_an_invalid_argument_is_refused(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        Controller(**({"name": "c", "reconcile": never} | arguments))  # type: ignore[arg-type]


def test_a_primary_that_is_not_an_informer_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="primary: must be a SharedInformer, not str"):
        Controller("c", never, ["pods"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param({"request": ["default/a"]}, InvalidTypeError, id="unhashable"),
        pytest.param({"request": None}, InvalidTypeError, id="none"),
        pytest.param({"request": "a/b/c"}, InvalidArgumentError, id="no-key"),
        pytest.param(
            {"request": "a", "after_seconds": -1.0}, InvalidArgumentError, id="negative-delay"
        ),
        pytest.param(
            {"request": "a", "after_seconds": float("nan")}, InvalidArgumentError, id="nan"
        ),
        pytest.param({"request": "a", "priority": "high"}, InvalidTypeError, id="priority"),
    ],
)
async def test_an_invalid_request_is_refused_and_nothing_is_enqueued(
    arguments: dict[str, object], error: type[Exception]
) -> None:
    controller = Controller("c", never)
    with pytest.raises(error):
        controller.enqueue(**arguments)  # type: ignore[arg-type]
    assert controller.status().queue.depth == 0


async def test_reconcile_once_returns_the_outcome_without_requeueing() -> None:
    calls = Calls(_ERROR, _ERROR, Result(60.0, priority=5), TerminalError("x"))
    controller = Controller("c", calls, options=options(backoff_seconds=1.0))
    first = await controller.reconcile_once("default/a")
    assert (first.kind, first.error, first.failures, first.after_seconds) == (
        "error",
        _ERROR,
        1,
        1.0,
    )
    await elapse(1.0)
    assert (await controller.reconcile_once("default/a")).after_seconds == 2.0
    requeued = await controller.reconcile_once(Request("default/a"))
    assert (requeued.kind, requeued.after_seconds, requeued.priority) == ("requeue", 60.0, 5)
    assert (await controller.reconcile_once("default/a")).kind == "terminal"
    last = await controller.reconcile_once("default/a")
    assert (last.kind, last.result, str(last.request)) == ("success", None, "default/a")
    assert controller.status().queue.delayed == 0


class BrokenLimiter:
    """A rate limiter of a program, with a bug."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer

    def when(self, item: object, now: float) -> float:
        """Return a wrong delay, or raise."""
        if self.answer is None:
            raise ZeroDivisionError
        return self.answer  # type: ignore[return-value]  # the bug

    def forget(self, item: object) -> None:
        """Do nothing."""

    def num_requeues(self, item: object) -> int:
        """Return none."""
        return 0


@pytest.mark.parametrize("answer", [None, -1.0, float("nan"), "soon"])
async def test_the_default_takes_the_place_of_a_rate_limiter_that_fails(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls(_ERROR, _ERROR, _ERROR)
    async with running(calls, rate_limiter=lambda: BrokenLimiter(answer)) as (controller, said):
        said.say("default/a")
        await elapse(1.0)
        assert len(calls.seen) == 4
        assert controller.is_running
    lines = [one for one in caplog.messages if "the default rate limiter takes the place" in one]
    assert len(lines) == 1


@pytest.mark.parametrize("make", [lambda: None, lambda limiter: limiter, dict, BrokenLimiter.when])
def test_what_makes_no_rate_limiter_is_refused_by_name(make: Any) -> None:
    with pytest.raises(InvalidTypeError, match="rate_limiter: must make a"):
        Controller("c", Calls(), options=options(rate_limiter=make))
