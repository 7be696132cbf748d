"""Debounce: many changes in a row are one reconcile; requests with a time of their own keep it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from pyinformer import ControllerOptions, Operator, Request, Result, RetryAfter
from pyinformer.errors import InvalidArgumentError
from pyinformer.testing import World
from tests.controller.running import Calls, running
from tests.virtual_time import elapse

pytestmark = pytest.mark.virtual_time

_ERROR = ValueError("secret")


@pytest.mark.covers("kube-runtime src: scheduler_should_add_debounce_to_a_request")
async def test_a_request_waits_for_the_debounce() -> None:
    """scheduler_should_add_debounce_to_a_request."""
    calls = Calls()
    async with running(calls, debounce_seconds=2.0) as (controller, said):
        said.say("default/a")
        await elapse(1.9)
        assert controller.status().debounced == 1
        assert "1 delayed, 1 of them debounced" in controller.status().line()
        await elapse(1.0)
        assert controller.status().debounced == 0
        await elapse(100.0)
    assert calls.seen == [(2.0, "default/a")]


@pytest.mark.covers("kube-runtime src: scheduler_should_add_debounce_to_a_request")
async def test_another_request_for_the_object_delays_it_again() -> None:
    """scheduler_should_dedup_message_within_debounce_period: each object has its own period."""
    calls = Calls()
    async with running(calls, debounce_seconds=2.0) as (_, said):
        said.say("default/a")
        said.say("default/b")
        await elapse(1.5)
        said.say("default/a")
        await elapse(1.0)
        said.say("default/a")
        await elapse(100.0)
        said.say("default/a")
        await elapse(100.0)
    assert calls.seen == [(2.0, "default/b"), (4.5, "default/a"), (104.5, "default/a")]


async def test_an_object_that_always_changes_is_reconciled_every_ten_periods() -> None:
    calls = Calls()
    async with running(calls, debounce_seconds=1.0) as (_, said):
        for _ in range(75):
            said.say("default/a")
            await elapse(0.3)
    assert calls.times == [10.0, 20.2]


async def test_a_change_during_the_reconcile_begins_a_period_of_its_own() -> None:
    started = list[float]()

    async def slow(request: Request, obj: object) -> None:
        started.append(asyncio.get_running_loop().time())
        await elapse(5.0)

    async with running(slow, debounce_seconds=2.0) as (_, said):
        said.say("default/a")
        await elapse(3.0)
        said.say("default/a")
        await elapse(3.5)
        said.say("default/a")
        await elapse(100.0)
    assert started == [2.0, 8.5]


@pytest.mark.parametrize(
    ("script", "times"),
    [
        pytest.param([_ERROR, _ERROR, None], [2.0, 2.5, 3.5], id="errors"),
        pytest.param([Result(0.25), None], [2.0, 2.25], id="requeue"),
        pytest.param([Result(0.0), None], [2.0, 2.0], id="requeue-at-once"),
        pytest.param([Result(60.0), None], [2.0, 62.0], id="requeue-later"),
        pytest.param([RetryAfter(1.0), None], [2.0, 3.0], id="retry-after"),
    ],
)
async def test_retries_and_requeues_keep_their_times(script: Any, times: list[float]) -> None:
    calls = Calls(*script)
    async with running(calls, debounce_seconds=2.0, backoff_seconds=0.5) as (_, said):
        said.say("default/a")
        await elapse(200.0)
    assert calls.times == times


async def test_a_retry_takes_the_changes_along_that_are_debounced() -> None:
    calls = Calls(RetryAfter(1.0))
    async with running(calls, debounce_seconds=2.0) as (_, said):
        said.say("default/a")
        await elapse(2.5)
        said.say("default/a")
        await elapse(200.0)
    assert calls.times == [2.0, 3.0]


async def test_a_change_is_not_debounced_beyond_a_requeue() -> None:
    calls = Calls(Result(3.0))
    async with running(calls, debounce_seconds=2.0) as (_, said):
        said.say("default/a")
        await elapse(2.5)
        for _ in range(5):
            said.say("default/a")
            await elapse(1.0)
        await elapse(200.0)
    assert calls.times == [2.0, 5.0, 8.5]


async def test_enqueued_requests_are_debounced_unless_they_have_a_time() -> None:
    calls = Calls()
    async with running(calls, debounce_seconds=2.0) as (controller, _):
        controller.enqueue("default/a")
        controller.enqueue("default/b", after_seconds=0.5)
        thread = threading.Thread(target=controller.enqueue, args=("default/c",))
        thread.start()
        await asyncio.to_thread(thread.join)
        await elapse(100.0)
    assert calls.seen[0] == (0.5, "default/b")
    assert sorted(key for _, key in calls.seen[1:]) == ["default/a", "default/c"]
    assert min(calls.times[1:]) >= 2.0


async def test_what_is_debounced_at_the_end_is_dropped_and_counted() -> None:
    calls = Calls()
    async with running(calls, debounce_seconds=2.0) as (controller, said):
        said.say("default/a")
        said.say("default/a")
        await elapse(1.0)
    status = controller.status()
    assert (calls.seen, status.dropped, status.debounced) == ([], 1, 0)


async def test_reasons_of_all_debounced_requests_are_kept() -> None:
    seen = list[int]()

    async def reconcile(request: Request, obj: object) -> None:
        seen.append(len(request.reasons))

    async with running(reconcile, debounce_seconds=2.0) as (_, said):
        for version in "123":
            said.say("default/a", resource_version=version)
        await elapse(5.0)
    assert seen == [3]


def test_an_operator_takes_it_for_one_reconcile() -> None:
    """Objects are patched three times in a row; the program reconciles once."""
    app = Operator("a")
    seen = list[str]()

    @app.reconcile("v1", "configmaps", options=ControllerOptions(debounce_seconds=5.0))
    async def reconcile(request: Request, obj: object, cluster: object) -> None:
        seen.append(request.key)

    body: Any = {"apiVersion": "v1", "kind": "ConfigMap"}
    with World(virtual_time=True) as world:
        (controller,) = app.controllers(world.cluster, world.factory)
        world.run(controller.start)
        world.create({**body, "metadata": {"name": "a", "namespace": "default"}})
        for number in "12":
            world.elapse(4.0)
            world.patch("v1", "configmaps", "a", {"data": {"a": number}})
        world.elapse(4.0)
        assert seen == []
        world.elapse(2.0)
        assert seen == ["default/a"]
        world.run(controller.aclose)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), "1", None])
def test_a_value_that_is_not_a_duration_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="debounce_seconds"):
        ControllerOptions(debounce_seconds=wrong)
