"""What the span of a reconcile says of its queue: waits, priorities, attempts; virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pyinformer import Controller, Request, Result, TerminalError
from tests.controller.running import Calls, Said, options
from tests.hostile import STORABLE, assert_shown_safely
from tests.telemetry.tracing import Traces, attributes
from tests.virtual_time import elapse

if TYPE_CHECKING:
    from pyinformer import KubeObject

pytestmark = pytest.mark.virtual_time

_NAME = "reconcile c"


async def test_a_span_has_wait_priority_attempt_and_outcome_of_its_reconcile() -> None:
    traces = Traces()
    calls = Calls(ValueError("odd"), Result(60.0), None)
    controller: Controller[None] = Controller(
        "c",
        calls,
        options=options(backoff_seconds=2.0),
        tracing=traces.tracing,
    )
    source = Said()
    controller.add_source(source)
    async with controller:
        source.say("default/a", priority=7)
        await elapse(500.0)
    found = [attributes(span) for span in traces.named(_NAME)]
    short = [
        tuple(
            one.get(f"pyinformer.reconcile.{name}") for name in ("attempt", "priority", "outcome")
        )
        for one in found
    ]
    assert short == [(1, 7, "error"), (2, 7, "requeue"), (1, 7, "success")]
    waits = [one["pyinformer.reconcile.queue_seconds"] for one in found]
    assert waits == pytest.approx([0.0, 0.0, 0.0])
    again = [one.get("pyinformer.reconcile.after_seconds") for one in found]
    assert again == [2.0, 60.0, None]
    assert found[1]["pyinformer.reconcile.reasons"] == ("said updated default/a", "reconcile retry")


async def test_a_wait_begins_when_a_request_is_due_first() -> None:
    traces = Traces()
    may_end = asyncio.Event()

    async def reconcile(request: Request, obj: KubeObject | None) -> None:
        if request.key == "default/slow":
            await may_end.wait()

    controller: Controller[None] = Controller("c", reconcile, tracing=traces.tracing)
    source = Said()
    controller.add_source(source)
    async with controller:
        source.say("default/slow")
        await elapse(1.0)
        controller.enqueue("default/a", after_seconds=30.0)
        controller.enqueue("default/b")
        await elapse(10.0)
        controller.enqueue("default/b")
        await elapse(30.0)
        may_end.set()
        await elapse(1.0)
    found = {
        one["pyinformer.reconcile.key"]: one["pyinformer.reconcile.queue_seconds"]
        for one in map(attributes, traces.named(_NAME))
    }
    assert found == pytest.approx({"default/slow": 0.0, "default/b": 40.0, "default/a": 10.0})


async def test_a_request_that_came_before_the_start_has_no_known_wait() -> None:
    traces = Traces()
    controller: Controller[None] = Controller("c", Calls(), tracing=traces.tracing)
    controller.enqueue("default/a")
    async with controller:
        await elapse(1.0)
    (found,) = map(attributes, traces.named(_NAME))
    assert "pyinformer.reconcile.queue_seconds" not in found


async def test_a_reconcile_beyond_its_deadline_is_an_error_of_its_span() -> None:
    traces = Traces()

    async def never(request: Request, obj: object) -> None:
        await asyncio.Event().wait()

    controller: Controller[None] = Controller(
        "c",
        never,
        options=options(reconcile_timeout_seconds=3.0, backoff_seconds=999.0),
        tracing=traces.tracing,
    )
    controller.enqueue("default/a")
    async with controller:
        await elapse(10.0)
    (span,) = traces.named(_NAME)
    found = attributes(span)
    assert found["error.type"] == "pyinformer.errors.ReconcileTimeoutError"
    assert found["pyinformer.reconcile.outcome"] == "error"


@pytest.mark.parametrize("text", STORABLE, ids=ascii)
async def test_the_error_of_a_span_is_one_printable_line(text: str) -> None:
    traces = Traces()
    controller: Controller[None] = Controller(
        "c", Calls(TerminalError(text)), tracing=traces.tracing
    )
    controller.enqueue("default/a")
    async with controller:
        await elapse(0.5)
    (span,) = traces.named(_NAME)
    (event,) = span.events
    shown = dict(event.attributes or {})["exception.message"]
    assert isinstance(shown, str)
    assert shown.startswith("a")
    assert_shown_safely(shown)
