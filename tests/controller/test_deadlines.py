"""Every deadline of a reconcile fires at its own time, whatever other deadlines are pending."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer import Controller
from tests.controller.running import options, running
from tests.soak import examples
from tests.virtual_time import VirtualTimeLoop, elapse

if TYPE_CHECKING:
    from pyinformer import Request

pytestmark = pytest.mark.virtual_time

_Plan: TypeAlias = tuple[float, float]
"""When a reconcile begins, and for how many seconds it ignores its cancellation."""


class Ignoring:
    """A reconcile that never ends by itself and ignores its cancellation for a while."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds
        self.began = dict[str, float]()
        self.cancelled = dict[str, float]()

    async def __call__(self, request: Request, obj: object) -> None:
        """Wait for the cancellation, then for the seconds of this key.

        Cancellation:
            Recorded, then ignored for the seconds of this key.
        """
        now = asyncio.get_running_loop().time
        if request.name in self.began:
            return
        self.began[request.name] = now()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled[request.name] = now()
            await elapse(self._seconds[request.name])


async def test_a_pending_grace_does_not_hide_an_earlier_timeout() -> None:
    """A reconcile that begins while another one is in its grace is cancelled in time."""
    reconcile = Ignoring({"slow": 14.0, "next": 0.0})
    times = {"reconcile_timeout_seconds": 0.5, "grace_seconds": 15.0}
    async with running(reconcile, workers=2, backoff_seconds=900.0, **times) as (_, said):
        said.say("default/slow")
        await elapse(0.6)
        said.say("default/next")
        await elapse(30.0)
    assert reconcile.cancelled == pytest.approx({"slow": 0.5, "next": 1.1})


async def test_a_reconcile_after_a_short_one_keeps_its_own_deadline() -> None:
    """One worker: the retry of a reconcile that timed out is cancelled at its own deadline."""
    began, cancelled = list[float](), list[float]()

    async def reconcile(request: Request, obj: object) -> None:
        now = asyncio.get_running_loop().time
        began.append(now())
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(now())

    times = {"reconcile_timeout_seconds": 0.5, "grace_seconds": 15.0}
    async with running(reconcile, backoff_seconds=1.0, **times) as (_, said):
        said.say("default/a")
        await elapse(3.9)
    assert began == [0.0, 1.5]
    assert cancelled == [0.5, 2.0]


async def test_without_a_grace_ignored_cancellation_is_reported_at_the_deadline() -> None:
    reconcile = Ignoring({"stuck": 20.0})
    times = {"reconcile_timeout_seconds": 1.0, "grace_seconds": 0.0}
    async with running(reconcile, **times) as (controller, said):
        said.say("default/stuck")
        await elapse(1.1)
        assert controller.status().stuck == ("default/stuck",)
        await elapse(40.0)
        assert controller.status().late_results == 1


async def test_a_single_reconcile_beside_a_pending_grace_ends_at_its_deadline() -> None:
    reconcile = Ignoring({"slow": 14.0, "alone": 0.0})
    times = {"reconcile_timeout_seconds": 0.5, "grace_seconds": 15.0}
    controller = Controller("c", reconcile, options=options(**times))
    slow = asyncio.create_task(controller.reconcile_once("default/slow"))
    await elapse(0.6)
    await controller.reconcile_once("default/alone")
    assert asyncio.get_running_loop().time() == pytest.approx(1.1)
    await slow


_EIGHTHS = st.integers(0, 80).map(lambda eighths: eighths / 8)


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should time out if ReconciliationTimeout is"
)
@settings(deadline=None, max_examples=examples(25))
@given(
    plans=st.lists(st.tuples(_EIGHTHS, _EIGHTHS), min_size=1, max_size=6),
    timeout_seconds=st.integers(1, 80).map(lambda eighths: eighths / 8),
    grace_seconds=_EIGHTHS,
)
def test_every_deadline_fires_at_its_own_time(
    plans: list[_Plan], timeout_seconds: float, grace_seconds: float
) -> None:
    """Whatever overlaps: cancelled after the timeout, and reported after the grace on top."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(_follow(plans, timeout_seconds, grace_seconds))


async def _follow(plans: list[_Plan], timeout_seconds: float, grace_seconds: float) -> None:
    names = [f"n{number}" for number in range(len(plans))]
    seconds = {name: ignored for name, (_, ignored) in zip(names, plans, strict=True)}
    reconcile = Ignoring(seconds)
    stuck = {name for name in names if seconds[name] > grace_seconds}
    times = {"reconcile_timeout_seconds": timeout_seconds, "grace_seconds": grace_seconds}
    reported = dict[str, float]()
    async with running(reconcile, workers=len(plans), backoff_seconds=900.0, **times) as (
        controller,
        said,
    ):
        loop = asyncio.get_running_loop()
        for name, (begin, _) in zip(names, plans, strict=True):
            loop.call_at(begin, said.say, f"default/{name}")
        for _ in range(8 * 32):
            await elapse(0.0625)
            for key in controller.status().stuck:
                reported.setdefault(key.removeprefix("default/"), loop.time() - 0.0625)
            await elapse(0.0625)
    assert set(reported) == stuck
    for name, (begin, _) in zip(names, plans, strict=True):
        assert reconcile.began[name] == begin
        assert reconcile.cancelled[name] == begin + timeout_seconds
    for name in stuck:
        assert reported[name] == reconcile.cancelled[name] + grace_seconds
