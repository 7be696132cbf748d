"""The change that docs/reference/kopf.md proposes: the states of kopf, fewer wake-ups."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kopf._cogs.aiokits import aiotoggles

from tests.docs import pages
from tests.kopf.inside import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_WHATS = ["make", "turn", "turn a dropped one", "drop", "drop all", "drop two"]
CHANGES = st.lists(
    st.tuples(st.sampled_from(_WHATS), st.booleans(), st.integers(0, 5)), max_size=15
)


def proposed() -> Any:
    """Return the classes of the page."""
    (block,) = pages.blocks("docs/reference/kopf.md", "python")
    assert block.language == "python"
    namespace: dict[str, Any] = {}
    exec(block.text, namespace)  # noqa: S102 - our own page
    return namespace["ToggleSet"]


ToggleSet = proposed()


@pytest.mark.parametrize("fn", [all, any])
@given(changes=CHANGES)
def test_states_are_kopfs_and_waiters_wake_exactly_at_a_flip(
    fn: Callable[[Iterable[bool]], bool], changes: list[tuple[str, bool, int]]
) -> None:
    asyncio.run(_play(fn, changes))


async def _play(fn: Callable[[Iterable[bool]], bool], changes: list[tuple[str, bool, int]]) -> None:
    old, new = aiotoggles.ToggleSet(fn), ToggleSet(fn)
    condition = counted(new)
    made: list[tuple[Any, Any]] = []
    for what, state, number in changes:
        was_on, before = old.is_on(), condition.notifications
        present = [pair for pair in made if pair[0] in old]
        if what.startswith("turn"):
            pool = made if "dropped" in what else present
            for toggle in pool[number % len(pool)] if pool else ():
                await toggle.turn_to(state)
        elif what == "make":
            made.append((await old.make_toggle(state), await new.make_toggle(state)))
        elif what == "drop":
            for toggles, each in zip((old, new), present[-1] if present else (), strict=False):
                await toggles.drop_toggle(each)
        else:
            count = 2 if what == "drop two" else len(made)
            await old.drop_toggles([pair[0] for pair in made[:count]])
            await new.drop_toggles([pair[1] for pair in made[:count]])
        assert new.is_on() == old.is_on()
        assert len(new) == len(old)
        if not what.startswith("turn"):
            assert (condition.notifications > before) == (new.is_on() != was_on)


async def test_workers_wake_once_however_many_objects_are_indexed() -> None:
    toggles = ToggleSet(all)
    condition = counted(toggles)
    made = [await toggles.make_toggle() for _ in range(50)]
    waiters = [asyncio.create_task(toggles.wait_for(True)) for _ in made]
    for each in made:
        await toggles.drop_toggle(each)
    await asyncio.wait(waiters)
    assert condition.notifications == 2


async def test_the_state_of_a_set_is_known_without_its_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toggles = ToggleSet(all)
    made = [await toggles.make_toggle(number > 0) for number in range(50)]
    monkeypatch.setattr(aiotoggles.Toggle, "is_on", pytest.fail)
    assert not toggles.is_on()
    monkeypatch.undo()
    await made[0].turn_to(True)
    assert toggles.is_on()
