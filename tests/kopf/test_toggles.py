"""Toggles wake their waiters when their state flips; the gate names what blocks it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest
from kopf._cogs.aiokits.aiotoggles import ToggleSet

import pyinformer.kopf
from pyinformer.kopf._gate import Gate
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def _installed() -> Iterator[None]:
    pyinformer.kopf.install()
    yield
    pyinformer.kopf.uninstall()


class Counting(asyncio.Condition):
    """A condition that counts its notifications."""

    notifications = 0

    def notify_all(self) -> None:
        """Count."""
        self.notifications += 1
        super().notify_all()


@pytest.mark.usefixtures("_installed")
async def test_only_a_flip_notifies() -> None:
    toggles = ToggleSet(all)
    toggles._condition = condition = Counting()
    first = await toggles.make_toggle(name="first")
    assert condition.notifications == 1
    others = [await toggles.make_toggle() for _ in range(100)]
    for each in others[:50]:
        await toggles.drop_toggle(each)
    await toggles.drop_toggles(others[50:])
    await toggles.drop_toggle(others[0])
    assert condition.notifications == 1
    assert list(toggles) == [first]
    await toggles.drop_toggle(first)
    assert condition.notifications == 2
    assert toggles.is_on()


@pytest.mark.usefixtures("_installed")
async def test_waiters_pass_when_the_last_toggle_goes() -> None:
    toggles = ToggleSet(all)
    made = [await toggles.make_toggle() for _ in range(20)]
    waiters = [asyncio.create_task(toggles.wait_for(True)) for _ in range(20)]
    for each in made:
        assert not any(waiter.done() for waiter in waiters)
        await toggles.drop_toggle(each)
    await asyncio.wait(waiters)
    opened = await toggles.make_toggle(True, name="on from the start")
    assert opened.name == "on from the start"
    assert toggles.is_on()


@pytest.mark.usefixtures("_installed")
async def test_a_set_of_any_flips_with_its_members() -> None:
    toggles = ToggleSet(any)
    waiter = asyncio.create_task(toggles.wait_for(True))
    toggle = await toggles.make_toggle()
    await until(lambda: True)
    assert not waiter.done()
    await toggle.turn_to(True)
    await waiter
    off = asyncio.create_task(toggles.wait_for(False))
    await toggles.drop_toggle(toggle)
    await off


@pytest.mark.usefixtures("_installed")
async def test_a_cancelled_change_changes_nothing() -> None:
    toggles = ToggleSet(all)
    kept = await toggles.make_toggle()
    async with toggles._condition:
        tasks = [
            asyncio.create_task(toggles.make_toggle()),
            asyncio.create_task(toggles.drop_toggle(kept)),
            asyncio.create_task(toggles.drop_toggles([kept])),
        ]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert list(toggles) == [kept]


async def gate_of(*names: str) -> Gate:
    """Return a gate that these toggles block."""
    gate = Gate()
    gate.toggles = ToggleSet(all)
    for name in names:
        await gate.toggles.make_toggle(name=name)
    return gate


async def test_a_gate_is_stuck_if_nothing_moves_for_a_period(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = await gate_of("pods@None", "nodes@None")
    with caplog.at_level(logging.WARNING):
        gate.check()
    assert "wait for 2 indexed resources and objects, for up to 30 s: nodes@None" in caplog.text
    assert not gate.stuck
    gate.check()
    assert gate.stuck == ("nodes@None", "pods@None")


async def test_a_gate_that_moves_is_not_stuck() -> None:
    gate = await gate_of("a", "b")
    assert gate.toggles is not None
    gate.check()
    first = next(iter(gate.toggles))
    await gate.toggles.drop_toggle(first)
    gate.check()
    assert not gate.stuck
    gate.check()
    assert len(gate.stuck) == 1
    await gate.toggles.drop_toggles(list(gate.toggles))
    gate.check()
    assert not gate.stuck


async def test_a_paused_operator_may_have_a_closed_gate(caplog: pytest.LogCaptureFixture) -> None:
    gate = await gate_of("a")
    gate.paused = ToggleSet(any)
    paused = await gate.paused.make_toggle(True)
    for _ in range(3):
        gate.check()
    assert not gate.stuck
    assert caplog.text == ""
    await paused.turn_to(False)
    gate.check()
    gate.check()
    assert gate.stuck == ("a",)


def test_a_gate_without_toggles_is_open() -> None:
    gate = Gate()
    gate.check()
    assert not gate.stuck
