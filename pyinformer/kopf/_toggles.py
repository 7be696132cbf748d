"""kopf's sets of toggles, which wake their waiters only when the state of the set changes.

kopf has one toggle for each object that is not indexed yet, and wakes every waiting worker whenever
one comes or goes: its start takes time with the square of the number of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

from kopf._cogs.aiokits.aiotoggles import Toggle, ToggleSet

from pyinformer.kopf._operators import current_operator

if TYPE_CHECKING:
    from typing import TypeAlias

    Method: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]

_GATE: Final = "orchestration blocker"  # kopf's name of the first toggle of the gate


async def make_toggle(
    toggles: ToggleSet,
    state: bool = False,  # noqa: FBT001, FBT002 - as kopf calls it
    *,
    name: str | None = None,
) -> Toggle:
    """Add a toggle to a set.

    Cancellation:
        Safe; nothing was added.
    """
    if name == _GATE and (operator := current_operator()) is not None:
        operator.gate.toggles = toggles
    toggle = Toggle(state, name=name, condition=toggles._condition)  # noqa: SLF001 - kopf's
    await _change(toggles, lambda members: members.add(toggle))
    return toggle


async def drop_toggle(toggles: ToggleSet, toggle: Toggle) -> None:
    """Remove a toggle from a set.

    Cancellation:
        Safe; nothing was removed.
    """
    await _change(toggles, lambda members: members.discard(toggle))


async def drop_toggles(toggles: ToggleSet, dropped: Iterable[Toggle]) -> None:
    """Remove several toggles from a set.

    Cancellation:
        Safe; nothing was removed.
    """
    await _change(toggles, lambda members: members.difference_update(dropped))


async def _change(toggles: ToggleSet, change: Callable[[set[Toggle]], None]) -> None:
    async with toggles._condition:  # noqa: SLF001 - kopf's
        was_on = toggles.is_on()
        change(toggles._toggles)  # noqa: SLF001
        if toggles.is_on() != was_on:
            toggles._condition.notify_all()  # noqa: SLF001
