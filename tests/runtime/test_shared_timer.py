"""One timer for the steps of many: when each is called, and what ends it."""

from __future__ import annotations

import asyncio
import math

import pytest

from pyinformer._runtime.tasks import SharedTimer
from tests.virtual_time import elapse

pytestmark = pytest.mark.virtual_time


class Member:
    """Records when it is stepped, and asks to be called again after a time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.stepped: list[float] = []

    def step(self, now: float) -> float:
        """Record the call."""
        self.stepped.append(now)
        return self.seconds

    def fail(self, error: Exception) -> None:
        """Raise an error, which this member never causes."""
        raise error


async def test_steps_that_are_due_within_moments_of_each_other_run_together() -> None:
    timer, members = SharedTimer(), [Member(30.1), Member(30.5), Member(31.0)]
    leave = [timer.join(one) for one in members]
    await elapse(40.0)
    assert [one.stepped for one in members] == [[0.0, 32.0]] * 3
    for each in leave:
        each()


async def test_a_step_without_a_time_is_called_when_it_is_woken() -> None:
    timer, member = SharedTimer(), Member(math.inf)
    leave = timer.join(member)
    await elapse(100.0)
    timer.wake(member)
    await elapse(1.0)
    timer.wake_all()
    await elapse(1.0)
    assert member.stepped == [0.0, 100.0, 101.0]
    leave()
    timer.wake(member)
    await elapse(1.0)
    assert len(member.stepped) == 3


async def test_a_step_that_is_removed_leaves_no_timer() -> None:
    timer, member = SharedTimer(), Member(0.5)
    timer.join(member)()
    before = asyncio.get_running_loop().time()
    await elapse(10.0)
    assert member.stepped == [before]


class Failing:
    """Fails when it is stepped again, and records what it is shown."""

    def __init__(self) -> None:
        self.calls = 0
        self.failures: list[str] = []

    def step(self, _now: float) -> float:
        """Fail, but for the first time."""
        self.calls += 1
        if self.calls > 1:
            raise ValueError("a bug")
        return 3.0

    def fail(self, error: Exception) -> None:
        """Record the error."""
        self.failures.append(str(error))


async def test_a_step_that_fails_ends_no_other_and_its_member_is_shown_the_error() -> None:
    timer, member, failing = SharedTimer(), Member(4.0), Failing()
    leave = [timer.join(failing), timer.join(member)]
    await elapse(20.0)
    timer.wake(failing)
    await elapse(1.0)
    assert (failing.calls, failing.failures) == (2, ["a bug"])
    assert len(member.stepped) >= 4
    for each in leave:
        each()
