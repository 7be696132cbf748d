"""The metrics of a controller, in virtual time: what each end of a reconcile counts as."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer import Controller, Request, Result, RetryAfter, TerminalError
from pyinformer.controller.sources import Reason
from pyinformer.errors import ConflictError, InvalidTypeError
from pyinformer.telemetry.metrics import CATALOGUE, MetricsRegistry
from pyinformer.testing import World
from pyinformer.workqueue import LOW_PRIORITY
from tests.controller.running import Calls, Said, options
from tests.telemetry.metrics.reading import collected, histogram
from tests.telemetry.metrics.upstream import CONTROLLER, RESULTS, WEBHOOK
from tests.virtual_time import elapse, work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.virtual_time

SINCE_EVENT = "controller_event_to_reconcile_seconds"


@asynccontextmanager
async def measured(
    reconcile: Any, **changes: Any
) -> AsyncIterator[tuple[MetricsRegistry, Said, Controller[None]]]:
    """Run a controller `c` with metrics, and a source that the test drives."""
    registry, source = MetricsRegistry(), Said()
    workers = changes.pop("workers", 1)
    controller: Controller[None] = Controller(
        "c", reconcile, workers=workers, options=options(**changes), metrics=registry
    )
    controller.add_source(source)
    async with controller:
        yield registry, source, controller


def figures(registry: MetricsRegistry, *prefixes: str) -> dict[str, float]:
    """Return the figures of the controller `c` that are not 0."""
    found = collected(registry, *prefixes)
    return {key.replace('controller="c"', ""): n for key, n in found.items() if n}


async def test_every_series_is_there_at_zero_when_the_controller_has_started() -> None:
    async with measured(Calls(), workers=3) as (registry, _, _):
        found = collected(registry, "controller_")
        assert {key: n for key, n in found.items() if n} == {
            'controller_runtime_max_concurrent_reconciles{controller="c"}': 3
        }
        names = {key.partition("{")[0] for key in found}
        ours = {name for name in CATALOGUE if name.startswith("controller_")}
        assert names == ours - {*WEBHOOK}
        results = (f'controller="c",result="{result}"' for result in RESULTS)
        assert {f"controller_runtime_reconcile_total{{{one}}}" for one in results} < set(found)
        assert set(CONTROLLER) < names


@pytest.mark.covers("controller-runtime pkg/internal/controller: should get updated on successful")
async def test_each_end_of_a_reconcile_counts_as_in_controller_runtime() -> None:
    calls = Calls(
        ValueError("no"), Result(1.0), None, RetryAfter(1.0), ConflictError(status=409), None
    )
    calls.script.append(TerminalError("no"))
    async with measured(calls) as (registry, said, _):
        said.say("default/a")
        await elapse(60.0)
        for _ in range(2):
            said.say("default/a")
            await elapse(60.0)
        runtime = "controller_runtime_"
        found = figures(registry, f"{runtime}reconcile", f"{runtime}terminal")
    assert found == {
        'controller_runtime_reconcile_total{,result="success"}': 2,
        'controller_runtime_reconcile_total{,result="requeue_after"}': 1,
        'controller_runtime_reconcile_total{,result="error"}': 4,
        "controller_runtime_reconcile_errors_total{}": 4,
        "controller_runtime_terminal_reconcile_errors_total{}": 1,
        "controller_runtime_reconcile_time_seconds{}": 7,
    }


async def test_a_timeout_is_an_error_and_counted_as_a_timeout_too() -> None:
    async def endless(request: Request, obj: object) -> None:
        await asyncio.Event().wait()

    async with measured(endless, reconcile_timeout_seconds=5.0) as (registry, said, _):
        said.say("default/a")
        await elapse(5.5)
        assert figures(registry, "controller_runtime_reconcile_") == {
            'controller_runtime_reconcile_total{,result="error"}': 1,
            "controller_runtime_reconcile_errors_total{}": 1,
            "controller_runtime_reconcile_timeouts_total{}": 1,
            "controller_runtime_reconcile_time_seconds{}": 1,
        }
        assert histogram(registry, "controller_runtime_reconcile_time_seconds").sum == 5.0


class _Outcome(BaseException):
    """What a test tool raises: neither a failure of work nor an end of the program."""


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should recover panic if RecoverPanic is true"
)
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(AttributeError("None has none"), True, id="attribute"),
        pytest.param(TypeError("no such argument"), True, id="type"),
        pytest.param(ZeroDivisionError(), True, id="zero"),
        pytest.param(RecursionError(), True, id="recursion"),
        pytest.param(AssertionError(), True, id="assertion"),
        pytest.param(_Outcome(), True, id="not-an-exception"),
        pytest.param(ExceptionGroup("one", [NameError("x")]), True, id="the-only-one-of-a-group"),
        pytest.param(KeyError("data"), False, id="key"),
        pytest.param(ValueError("data"), False, id="value"),
        pytest.param(OSError(), False, id="os"),
        pytest.param(InvalidTypeError("result", "must be None"), False, id="ours"),
        pytest.param(ConflictError(status=409), False, id="conflict"),
    ],
)
async def test_a_panic_is_an_error_by_which_python_reports_a_bug(
    error: BaseException, expected: bool
) -> None:
    async with measured(Calls(error)) as (registry, said, _):
        said.say("default/a")
        await elapse(60.0)
        found = figures(registry, "controller_runtime_reconcile_")
    assert found["controller_runtime_reconcile_errors_total{}"] == 1
    assert found.get("controller_runtime_reconcile_panics_total{}", 0) == int(expected)


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should not recover panic if RecoverPanic is"
)
async def test_a_panic_is_counted_as_an_error_and_retried() -> None:
    async with measured(Calls(AttributeError("None"), KeyError("a"))) as (registry, said, _):
        said.say("default/a")
        await elapse(60.0)
        found = figures(registry, "controller_runtime_reconcile_")
    assert found["controller_runtime_reconcile_panics_total{}"] == 1
    assert found["controller_runtime_reconcile_errors_total{}"] == 2
    assert found['controller_runtime_reconcile_total{,result="success"}'] == 1


async def test_active_workers_are_those_that_reconcile_now() -> None:
    go = asyncio.Event()

    async def reconcile(request: Request, obj: object) -> None:
        await go.wait()

    async with measured(reconcile, workers=3) as (registry, said, _):
        said.say("default/a")
        said.say("default/b")
        await elapse(1.0)
        active = "controller_runtime_active_workers{}"
        assert figures(registry, active[:-2])[active] == 2
        go.set()
        await elapse(1.0)
        assert active not in figures(registry, active[:-2])


async def test_a_reconcile_that_ignores_its_cancellation_is_a_stuck_worker() -> None:
    go = asyncio.Event()

    async def stubborn(request: Request, obj: object) -> None:
        while not go.is_set():
            with suppress(asyncio.CancelledError):
                await go.wait()

    async with measured(stubborn, reconcile_timeout_seconds=5.0, grace_seconds=1.0) as found:
        registry, said, _ = found
        said.say("default/a")
        await elapse(7.0)
        names = ("controller_stuck", "controller_late", "controller_runtime_active")
        assert figures(registry, *names) == {
            "controller_stuck_workers{}": 1,
            "controller_runtime_active_workers{}": 1,
        }
        go.set()
        await elapse(1.0)
        assert figures(registry, *names) == {"controller_late_results_total{}": 1}


async def test_failing_and_hot_keys_are_numbers_and_no_key_is_a_label() -> None:
    async def reconcile(request: Request, obj: object) -> Result:
        if request.name == "bad":
            raise ValueError
        return Result(0.04)

    async with measured(reconcile, backoff_seconds=100.0) as found:
        registry, said, _ = found
        said.say("default/bad")
        said.say("default/hot")
        await elapse(30.0)
        names = ("controller_failing_keys", "controller_hot", "controller_postponed")
        hot = figures(registry, *names)
        assert not [series for series in collected(registry) if "default" in series]
    assert hot["controller_failing_keys{}"] == 1
    assert hot["controller_hot_keys{}"] == 1
    assert hot["controller_hot_loops_total{}"] == 1
    assert hot["controller_postponed_total{}"] > 0


async def test_ten_thousand_objects_in_a_thousand_namespaces_add_no_series() -> None:
    async with measured(Calls(), workers=4) as (registry, said, _):
        before = set(collected(registry))
        for number in range(10_000):
            said.say(f"ns-{number % 1_000}/a-{number}")
        await elapse(1.0)
        assert set(collected(registry)) == before
        done = figures(registry, "controller_runtime_reconcile_total")
        assert done == {'controller_runtime_reconcile_total{,result="success"}': 10_000}


async def test_the_failures_of_a_source_are_counted_by_its_name() -> None:
    class Failing(Said):
        def status(self) -> Any:
            return replace(super().status(), failures=3)

    registry = MetricsRegistry()
    controller: Controller[None] = Controller("c", Calls(), options=options(), metrics=registry)
    controller.add_source(Failing("owned pods"))
    controller.add_source(Failing("owned pods"))
    controller.add_source(Said("every 30 s"))
    async with controller:
        assert collected(registry, "controller_source_failures_total") == {
            'controller_source_failures_total{controller="c",source="owned pods"}': 6,
            'controller_source_failures_total{controller="c",source="every 30 s"}': 0,
        }


def _say(said: Said, event: Any, priority: int = 0) -> None:
    assert said.enqueue is not None
    said.enqueue(Request("default/a"), Reason("said", event, "default/a"), priority=priority)


async def test_the_time_from_an_event_begins_with_the_first_of_them() -> None:
    async with measured(Calls()) as found:
        registry, said, _ = found
        _say(said, "added")
        work(2.0)  # the loop has no time for the reconcile
        _say(said, "updated")
        await elapse(1.0)
        assert histogram(registry, SINCE_EVENT).sum == 2.0
        for _ in range(200):
            _say(said, "enqueued")
            await elapse(0.01)
        _say(said, "updated")  # at 5 s; as a hot loop it is postponed until 5.99 s
        await elapse(20.0)
        assert histogram(registry, SINCE_EVENT).sum == pytest.approx(2.0 + 0.99)
        assert figures(registry, SINCE_EVENT) == {f"{SINCE_EVENT}{{}}": 2}


@pytest.mark.parametrize("event", ["initial", "resync", "timer", "enqueued", "requeue"])
async def test_what_is_no_event_has_no_time_to_its_reconcile(event: str) -> None:
    calls = Calls()
    async with measured(calls) as (registry, said, _):
        _say(said, event, LOW_PRIORITY)
        await elapse(1.0)
        assert len(calls.seen) == 1
        assert figures(registry, SINCE_EVENT) == {}


async def test_a_retry_is_not_measured_from_the_event_once_more() -> None:
    async with measured(Calls(ValueError(), ValueError())) as (registry, said, _):
        _say(said, "added")
        await elapse(100.0)
        assert figures(registry, SINCE_EVENT) == {f"{SINCE_EVENT}{{}}": 1}


async def test_series_vanish_when_the_controller_is_closed() -> None:
    async with measured(Calls()) as (registry, _, _):
        assert collected(registry, "controller_", "workqueue_", "informer_loop")
    assert collected(registry, "controller_", "workqueue_", "informer_loop") == {}


async def test_series_vanish_when_a_start_fails() -> None:
    registry = MetricsRegistry()
    controller: Controller[None] = Controller(
        "c", Calls(), options=options(sync_timeout_seconds=1.0), metrics=registry
    )
    controller.add_source(Said(has_synced=False))
    with pytest.raises(TimeoutError):
        await controller.start()
    assert collected(registry, "controller_", "workqueue_", "informer_loop") == {}


async def test_a_collection_in_the_middle_of_a_start_is_whole() -> None:
    registry, source = MetricsRegistry(), Said(has_synced=False)
    controller: Controller[None] = Controller("c", Calls(), options=options(), metrics=registry)
    controller.add_source(source)
    starting = asyncio.create_task(controller.start())
    await elapse(1.0)
    found = collected(registry)
    assert 'controller_runtime_active_workers{controller="c"}' in found
    assert found['pyinformer_metrics_source_failures_total{reason="raised"}'] == 0
    source.synced.set()
    await starting
    await controller.aclose()


async def test_a_controller_never_shares_its_series_with_another_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = MetricsRegistry()

    def controller(said: Said, *, label: str | None = None) -> Controller[None]:
        made: Controller[None] = Controller(
            "c", Calls(), options=options(), metrics=registry, metrics_label=label
        )
        made.add_source(said)
        return made

    def succeeded() -> dict[str, object]:
        name = "controller_runtime_reconcile_total"
        found = collected(registry, name)
        return {key: value for key, value in found.items() if value and "success" in key}

    first, second = Said(), Said()
    async with controller(first):
        async with controller(second), controller(Said(), label="other"):
            first.say("default/a")
            second.say("default/b")
            await elapse(1.0)
            total = 'controller_runtime_reconcile_total{controller="%s",result="success"}'
            assert succeeded() == {total % "c": 1, total % "c#2": 1}
            queues = collected(registry, "workqueue_adds_total")
            assert {key for key in queues if "#2" in key} == {
                'workqueue_adds_total{name="c#2",controller="c#2"}'
            }
        assert succeeded() == {total % "c": 1}
        (warning,) = [line for line in caplog.messages if "controller='c'" in line]
        assert "this one's have controller='c#2'" in warning
    async with controller(Said()):
        assert 'controller_runtime_active_workers{controller="c"}' in collected(registry)


class Broken:
    """Metrics that raise in every call."""

    def __getattr__(self, name: str) -> Any:
        def broken(*_: object) -> Any:
            raise RuntimeError(name)

        return broken


async def test_metrics_that_raise_lose_no_request(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls(ValueError("no"))
    controller: Controller[None] = Controller("c", calls, options=options(), metrics=Broken())
    said = Said()
    controller.add_source(said)
    async with controller:
        said.say("default/a")
        await elapse(60.0)
    assert len(calls.seen) == 2
    assert len([line for line in caplog.messages if "Broken raised" in line]) == 1


def _pod(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }


def test_the_age_of_the_cache_is_measured_at_the_start_of_a_reconcile() -> None:
    registry = MetricsRegistry()

    async def scenario() -> tuple[float, float]:
        informer = world.factory.informer("v1", "pods")
        controller = Controller("c", Calls(), informer, options=options(), metrics=registry)
        async with controller:
            await elapse_in_world(1.0)
            before = histogram(registry, "controller_cache_age_seconds").sum
            await elapse_in_world(20.0)
            age = informer.age_seconds()
            controller.enqueue("default/a")
            await elapse_in_world(0.001)
            after = histogram(registry, "controller_cache_age_seconds").sum
        assert age is not None
        return age, after - before

    with World([_pod("a")], virtual_time=True) as world:
        age, measured_age = world.run(scenario)
    assert age > 0.0
    assert measured_age == pytest.approx(age, abs=0.01)


async def elapse_in_world(seconds: float) -> None:
    """Let the virtual time of a World pass."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()
