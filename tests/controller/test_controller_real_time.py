"""What virtual time cannot show: threads, signals, and a blocked event loop."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from pyinformer import Controller, ControllerGroup, Request, Result
from pyinformer.controller import on_stop_signal
from tests.controller.running import Calls, Said, options, running
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator


async def test_a_plain_function_runs_in_a_thread_and_does_not_block_the_loop() -> None:
    let_go = threading.Event()
    threads = list[str]()

    def reconcile(request: Request, obj: object) -> Result | None:
        threads.append(threading.current_thread().name)
        if request.name == "slow":
            let_go.wait(30)
        return None

    async with running(reconcile, workers=2) as (controller, said):
        said.say("default/slow")
        said.say("default/fast")
        await until(lambda: controller.status().outcomes["success"] == 1)
        let_go.set()
        await until(lambda: controller.status().outcomes["success"] == 2)
    assert all("reconcile" in name for name in threads)


async def test_a_plain_function_that_returns_a_coroutine_has_it_awaited() -> None:
    seen = list[bool]()

    async def inner(request: Request) -> None:
        seen.append(threading.current_thread() is threading.main_thread())

    async with running(lambda request, obj: inner(request)) as (_, said):
        said.say("default/a")
        await until(lambda: seen)
    assert seen == [True]


@pytest.mark.parametrize("shape", ["partial", "object"])
async def test_asynchronous_functions_of_every_shape_run_on_the_loop(shape: str) -> None:
    seen = list[threading.Thread]()

    class Reconciler:
        async def __call__(self, request: Request, obj: object) -> None:
            seen.append(threading.current_thread())

    whole = Reconciler()
    chosen = whole if shape == "object" else functools.partial(Reconciler.__call__, whole)
    async with running(chosen) as (_, said):
        said.say("default/a")
        await until(lambda: seen)
    assert seen == [threading.current_thread()]


async def test_a_thread_that_ignores_its_deadline_keeps_its_key_and_no_other() -> None:
    let_go = threading.Event()
    running_now = list[str]()
    seen = list[str]()

    def reconcile(request: Request, obj: object) -> None:
        assert str(request) not in running_now
        running_now.append(str(request))
        seen.append(request.name)
        if request.name == "stuck":
            let_go.wait(30)
        running_now.remove(str(request))

    limits = {"reconcile_timeout_seconds": 0.05, "grace_seconds": 0.05}
    async with running(reconcile, **limits) as (controller, said):
        said.say("default/stuck")
        await until(lambda: controller.status().stuck == ("default/stuck",))
        said.say("default/stuck")
        said.say("default/fine")
        await until(lambda: "fine" in seen)
        assert seen.count("stuck") == 1
        let_go.set()
        await until(lambda: seen.count("stuck") == 2)
        assert controller.status().late_results == 1


async def test_a_reconcile_that_blocks_the_loop_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def reconcile(request: Request, obj: object) -> None:
        threading.Event().wait(1.6)  # what a forgotten time.sleep does

    controller = Controller("blocker", reconcile)
    async with ControllerGroup(controller) as group:
        controller.enqueue("default/a")
        await until(lambda: controller.status().outcomes["success"] == 1)
        await until(lambda: group.status().watchdog.blocked)
    culprit = group.status().watchdog.last_culprit
    assert culprit == "reconcile of default/a by controller blocker"
    assert "make a reconcile that blocks a plain function" in caplog.text


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should not recover panic if RecoverPanic is"
)
@pytest.mark.parametrize("end", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_reconcile_may_end_the_program(
    end: BaseException, *, in_thread: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """As everywhere in asyncio; what is in flight elsewhere is still awaited, and not repeated."""
    cleaned_up = []

    async def slow(request: Request, obj: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned_up.append(str(request))

    def ending(request: Request, obj: object) -> None:
        raise end

    async def ending_here(request: Request, obj: object) -> None:
        raise end

    async def main() -> None:
        other = Controller("other", slow, options=options(drain_timeout_seconds=0.0))
        last = Controller("last", ending if in_thread else ending_here)
        async with ControllerGroup(other, last):
            other.enqueue("default/a")
            await until(lambda: other.status().workers[0].request is not None)
            last.enqueue("default/b")
            await asyncio.Event().wait()

    with pytest.raises(type(end)):
        asyncio.run(main())
    assert cleaned_up == ["default/a"]
    assert "another takes its place" not in caplog.text
    assert "the reconcile of default/a failed" not in caplog.text


_TENANT: ContextVar[str] = ContextVar("tenant", default="")


async def _read_and_set(request: Request, seen: list[tuple[str, str]]) -> None:
    was = _TENANT.get()
    _TENANT.set(request.name)
    await asyncio.sleep(0)
    inherited = await asyncio.create_task(_tenant())
    seen.append((was, inherited))
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.1)
    except TimeoutError:
        assert _TENANT.get() == request.name


async def _tenant() -> str:
    return _TENANT.get()


@pytest.mark.parametrize("form", ["async", "returns-coroutine", "returns-future"])
async def test_what_a_reconcile_sets_in_its_context_is_not_seen_by_others(form: str) -> None:
    """The log lines of one object would have the name of another."""
    seen = list[tuple[str, str]]()

    async def asynchronous(request: Request, obj: object) -> None:
        await _read_and_set(request, seen)

    def returning(request: Request, obj: object) -> Any:
        _TENANT.set("set before the coroutine")
        _TENANT.set("")
        work = _read_and_set(request, seen)
        return work if form == "returns-coroutine" else _Awaitable(work)

    function: Any = asynchronous if form == "async" else returning
    async with Controller("c", function) as controller:
        for number, name in enumerate(("a", "b", "a"), 1):
            controller.enqueue(f"default/{name}")
            await until(lambda: len(seen) == number)  # noqa: B023 - waited for here
            await until(lambda: controller.status().workers[0].request is None)
    assert seen == [("", "a"), ("", "b"), ("", "a")]


class _Awaitable:
    """An object that can be awaited, and is not a coroutine."""

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, Any, None]:
        return self._work.__await__()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("whole", [True, False])
async def test_a_signal_stops_the_controller_gracefully(
    number: signal.Signals, whole: bool
) -> None:
    before = signal.getsignal(number)
    begun, let_go, ended = asyncio.Event(), asyncio.Event(), list[str]()

    async def reconcile(request: Request, obj: object) -> None:
        begun.set()
        await let_go.wait()
        ended.append(request.name)

    controller = Controller("c", reconcile)
    controller.enqueue("default/a")
    controller.enqueue("default/b")
    running_one = ControllerGroup(controller) if whole else controller
    task = asyncio.create_task(running_one.run())
    await begun.wait()
    os.kill(os.getpid(), number)
    await until(lambda: not controller.is_running)
    let_go.set()
    await task
    assert ended == ["a"]
    assert controller.status().dropped == 1
    assert signal.getsignal(number) is before


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no SIGUSR1")
@pytest.mark.parametrize("whole", [True, False])
async def test_a_signal_logs_the_status_of_a_running_program(
    whole: bool, caplog: pytest.LogCaptureFixture
) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    controller = Controller("c", Calls())
    async with anyio.create_task_group() as group:
        await group.start((ControllerGroup(controller) if whole else controller).run)
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: "status of control" in caplog.text)
        assert controller.is_running
        group.cancel_scope.cancel()

    assert "\ncontroller c: working; 0 keys wait; 0 are reconciled" in caplog.text
    assert signal.getsignal(signal.SIGUSR1) == before


async def test_a_second_signal_forces_the_end(caplog: pytest.LogCaptureFixture) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()

    async def reconcile(request: Request, obj: object) -> None:
        begun.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    settings = options(drain_timeout_seconds=1_000.0, grace_seconds=1_000.0)
    controller = Controller("c", reconcile, options=settings)
    controller.enqueue("default/a")
    task = asyncio.create_task(controller.run())
    await begun.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await until(lambda: not controller.is_running)
    os.kill(os.getpid(), signal.SIGINT)
    async with asyncio.timeout(100):
        await task
    assert "SIGINT again" in caplog.text
    assert "is left to itself" in caplog.text
    await until(lambda: not controller.engine.abandoned)  # thrown out, though it never gave in
    assert not let_go.is_set()


async def test_a_signal_during_the_start_ends_it() -> None:
    controller = Controller("c", Calls())
    source = Said(has_synced=False)
    controller.add_source(source)
    task = asyncio.create_task(controller.run())
    await until(lambda: source.is_running)
    os.kill(os.getpid(), signal.SIGTERM)
    await task
    assert not source.is_running


async def test_a_signal_before_the_start_has_begun_ends_it() -> None:
    controller = Controller("c", Calls())
    source = Said(has_synced=False)
    controller.add_source(source)
    with on_stop_signal(lambda _: None):  # of a program that runs it next
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(100):
            await controller.run()
    assert not source.is_running


async def test_run_reports_when_it_is_ready() -> None:
    calls = Calls()
    async with anyio.create_task_group() as group:
        controller = Controller("c", calls)
        await group.start(controller.run)
        assert controller.is_running
        group.cancel_scope.cancel()


def test_a_program_in_another_thread_runs_without_signals() -> None:
    ran = list[str]()

    async def program() -> None:
        async def reconcile(request: Request, obj: object) -> None:
            ran.append(request.name)
            done.set()

        done = asyncio.Event()
        controller = Controller("c", reconcile)
        controller.enqueue("default/a")
        task = asyncio.create_task(controller.run())
        await done.wait()
        await controller.aclose()
        await task

    thread = threading.Thread(target=asyncio.run, args=(program(),))
    thread.start()
    thread.join(100)
    assert ran == ["a"]


async def test_reconcile_once_reports_a_reconcile_that_ignores_its_deadline() -> None:
    let_go = asyncio.Event()

    async def reconcile(request: Request, obj: object) -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    settings = options(reconcile_timeout_seconds=0.05, grace_seconds=0.05)
    controller = Controller("c", reconcile, options=settings)
    outcome = await controller.reconcile_once("default/a")
    assert outcome.kind == "error"
    assert isinstance(outcome.error, TimeoutError)
    let_go.set()
    await until(lambda: not controller.status().workers)
