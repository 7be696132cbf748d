"""Toggles wake their waiters when their state flips; the gate names what blocks it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kopf._cogs.aiokits.aiotoggles import Toggle, ToggleSet
from kopf._cogs.clients import auth
from kopf._cogs.structs.credentials import Vault

import kopf
import pyinformer.kopf
from pyinformer.kopf._index_gate import PERIOD_SECONDS, Gate
from pyinformer.kopf._operator_supervision import orchestrator_hook
from pyinformer.kopf._operators import current_operator
from pyinformer.kopf._options import Options
from tests.kopf.inside import counted
from tests.virtual_time import elapse
from tests.waiting import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyinformer.kopf._stream import Stream


@pytest.fixture
def _installed() -> Iterator[None]:
    pyinformer.kopf.install()
    yield
    pyinformer.kopf.uninstall()


@pytest.mark.usefixtures("_installed")
async def test_only_a_flip_notifies() -> None:
    toggles = ToggleSet(all)
    condition = counted(toggles)
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
async def test_toggles_that_are_switched_off_are_kopfs_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYINFORMER_KOPF", "off")
    toggles = ToggleSet(all)
    condition = counted(toggles)
    made = [await toggles.make_toggle() for _ in range(10)]
    await toggles.drop_toggle(made[0])
    await toggles.drop_toggles(made[1:3])
    assert condition.notifications == 12


@pytest.mark.usefixtures("_installed")
async def test_a_set_of_toggles_is_shown_as_by_kopf() -> None:
    toggles = ToggleSet(any)
    await toggles.make_toggle(True, name="xyz")
    assert repr(toggles) == "{<Toggle: xyz: on>}"


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


def exactly_one(states: Iterable[bool]) -> bool:
    """Return whether one state is on; kopf has no such set, but allows it."""
    return sum(states) == 1


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize("fn", [all, any, exactly_one])
@given(
    changes=st.lists(
        st.tuples(st.sampled_from(["make", "drop", "drops"]), st.booleans()), max_size=12
    )
)
def test_waiters_are_notified_exactly_when_a_change_flips_the_state(
    fn: Callable[[Iterable[bool]], bool], changes: list[tuple[str, bool]]
) -> None:
    async def play() -> None:
        toggles, states = ToggleSet(fn), dict[Toggle, bool]()
        condition = counted(toggles)
        for what, is_first in changes:
            was_on, before = toggles.is_on(), condition.notifications
            picked = list(states)[: 1 if what == "drop" else 2][:: 1 if is_first else -1]
            if what == "make":
                states[await toggles.make_toggle(is_first)] = is_first
            elif what == "drops":
                await toggles.drop_toggles(picked)
            elif picked:
                await toggles.drop_toggle(picked[0])
            if what != "make":
                states = {one: on for one, on in states.items() if one not in picked}
            assert list(toggles) == list(states)
            assert toggles.is_on() == fn(states.values())
            assert (condition.notifications > before) == (toggles.is_on() != was_on)

    asyncio.run(play())


@pytest.mark.usefixtures("_installed")
async def test_a_set_of_any_wakes_its_waiters_at_each_flip() -> None:
    toggles = ToggleSet(any)
    waiter = asyncio.create_task(toggles.wait_for(True))
    toggle = await toggles.make_toggle()
    await settle()
    assert not waiter.done()
    await toggle.turn_to(True)
    await waiter
    off = asyncio.create_task(toggles.wait_for(False))
    await settle()
    assert not off.done()
    await toggles.drop_toggle(toggle)
    await off


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(("fn", "most"), [(all, 4), (any, 1)])
async def test_a_change_reads_few_toggles_however_many_there_are(
    fn: Callable[[Iterable[bool]], bool], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 indexed objects are 20,000 changes, and each must not read 10,000 toggles."""
    reads, is_on = Counter[str](), Toggle.is_on

    def read(toggle: Toggle) -> bool:
        reads["all"] += 1
        return is_on(toggle)

    monkeypatch.setattr(Toggle, "is_on", read)
    toggles = ToggleSet(fn)
    made = [await toggles.make_toggle() for _ in range(300)]
    for toggle in made:
        reads.clear()
        await toggles.drop_toggle(toggle)
        assert reads["all"] <= most


@pytest.mark.usefixtures("_installed")
async def test_toggles_outlive_the_line() -> None:
    toggles = ToggleSet(all)
    first, second, third = [await toggles.make_toggle() for _ in range(3)]
    pyinformer.kopf.uninstall()
    fourth = await toggles.make_toggle()
    await toggles.drop_toggle(first)
    await toggles.drop_toggles([second, fourth])
    assert list(toggles) == [third]
    assert not toggles.is_on()


@pytest.mark.usefixtures("_installed")
async def test_a_cancelled_change_changes_nothing() -> None:
    toggles = ToggleSet(all)
    kept = await toggles.make_toggle()
    async with counted(toggles):
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


@dataclass
class Listing:
    """A stream whose list comes in, perhaps with errors."""

    resource: str
    namespace: str | None = None
    last_error: str = ""


async def gate_of(*names: str, streams: Sequence[Listing] = ()) -> Gate:
    """Return a gate that these toggles block."""
    gate = Gate(cast("Sequence[Stream]", streams))
    gate.toggles = ToggleSet(all)
    for name in names:
        await gate.toggles.make_toggle(name=name)
    return gate


@pytest.mark.virtual_time
async def test_a_gate_is_checked_after_other_operators_of_its_loop_have_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    may_end = asyncio.Event()

    async def operate(**_: object) -> None:
        operator = current_operator()
        assert operator is not None
        operator.gate.toggles = ToggleSet(all)
        await operator.gate.toggles.make_toggle(name="nodes@None")
        await may_end.wait()

    auth.vault_var.set(Vault())
    older = asyncio.all_tasks()
    options = Options(only=frozenset(), exclude=frozenset(), bodies=None, warm_while_paused=False)
    orchestrate = orchestrator_hook(operate, options, strict=True)
    processor = partial(print, registry=kopf.OperatorRegistry(), memobase=kopf.Memo())
    running = asyncio.create_task(
        orchestrate(
            processor=processor,
            settings=kopf.OperatorSettings(),
            operator_paused=ToggleSet(any),
        )
    )
    await settle()
    for each in asyncio.all_tasks() - older - {running}:  # as kopf does when an operator ends
        each.cancel()

    await elapse(2 * PERIOD_SECONDS + 1)
    may_end.set()
    await running
    await elapse(2 * PERIOD_SECONDS)

    texts = [one.getMessage() for one in caplog.records if "the handlers wait" in one.message]
    assert [text.split(" for ")[2] for text in texts] == [
        "up to 30 s: nodes@None",
        "up to 60 s: nodes@None",
    ]


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


async def test_only_what_has_not_moved_is_stuck() -> None:
    gate = await gate_of("a", "b")
    assert gate.toggles is not None
    gate.check()
    (first,) = (each for each in gate.toggles if each.name == "a")
    await gate.toggles.drop_toggle(first)
    await gate.toggles.make_toggle(name="c")
    gate.check()
    assert gate.stuck == ("b",)
    await gate.toggles.drop_toggles(list(gate.toggles))
    assert not gate.stuck
    gate.check()
    assert not gate.stuck


async def test_short_lived_toggles_do_not_hide_a_stuck_one() -> None:
    gate = await gate_of("secrets@None")
    assert gate.toggles is not None
    for number in range(3):
        passing = await gate.toggles.make_toggle(name=str(number))
        gate.check()
        assert gate.stuck == (() if number == 0 else ("secrets@None",))
        await gate.toggles.drop_toggle(passing)


async def test_two_objects_of_one_name_are_two() -> None:
    gate = await gate_of("a")
    assert gate.toggles is not None
    gate.check()
    await gate.toggles.drop_toggles(list(gate.toggles))
    await gate.toggles.make_toggle(name="a")
    gate.check()
    assert not gate.stuck


async def test_a_long_list_is_stuck_only_if_it_fails() -> None:
    pods, secrets = Listing("pods"), Listing("secrets", "shop")
    gate = await gate_of("pods@None", "secrets@shop", "an object", streams=[pods, secrets])
    gate.check()
    gate.check()
    found = [gate.stuck]
    for secrets.last_error in ("403 Forbidden", ""):
        found.append(gate.stuck)
    assert found == [("an object",), ("an object", "secrets@shop"), ("an object",)]


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
    gate = Gate([])
    gate.check()
    assert not gate.stuck
