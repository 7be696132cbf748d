"""kopf's sets of toggles, which wake their waiters only when the state of the set changes.

kopf has one toggle for each object that is not indexed yet, and wakes every waiting worker whenever
one comes or goes: its start takes time with the square of the number of objects.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, final

from kopf._cogs.aiokits.aiotoggles import Toggle, ToggleSet

from pyinformer.kopf._operators import current_operator

if TYPE_CHECKING:
    from typing import TypeAlias

    Method: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]

_GATE: Final = "orchestration blocker"  # kopf's name of the first toggle of the gate
_NEUTRAL: Final[dict[object, bool]] = {all: True, any: False}
"""The state of a toggle that cannot change the state of its set."""


@final
class _OrderedToggles(OrderedDict[Toggle, None]):
    """Toggles in the order in which they were made, instead of kopf's set.

    A reader of the state of a set stops at the first toggle that decides it. A Python set keeps the
    slots of dropped toggles, and steps over all of them on its way to the first.
    """

    def __repr__(self) -> str:
        return repr(set(self))  # what kopf shows

    def add(self, toggle: Toggle) -> None:
        """Add a toggle."""
        self[toggle] = None

    def discard(self, toggle: Toggle) -> None:
        """Remove a toggle, if it is there."""
        self.pop(toggle, None)

    def difference_update(self, toggles: Iterable[Toggle]) -> None:
        """Remove several toggles."""
        for toggle in toggles:
            self.discard(toggle)


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
    await _change(toggles, (toggle,), _OrderedToggles.add)
    return toggle


async def drop_toggle(toggles: ToggleSet, toggle: Toggle) -> None:
    """Remove a toggle from a set.

    Cancellation:
        Safe; nothing was removed.
    """
    await _change(toggles, (toggle,), _OrderedToggles.discard)


async def drop_toggles(toggles: ToggleSet, dropped: Iterable[Toggle]) -> None:
    """Remove several toggles from a set.

    Cancellation:
        Safe; nothing was removed.
    """
    await _change(toggles, tuple(dropped), _OrderedToggles.discard)


async def _change(
    toggles: ToggleSet,
    changed: Collection[Toggle],
    change: Callable[[_OrderedToggles, Toggle], None],
) -> None:
    async with toggles._condition:  # noqa: SLF001 - kopf's
        members = _ordered(toggles)
        neutral = _NEUTRAL.get(toggles._fn)  # noqa: SLF001
        decides = any(each.is_on() is not neutral for each in changed)
        was_on = decides and toggles.is_on()
        for each in changed:
            change(members, each)
        if decides and toggles.is_on() != was_on:
            toggles._condition.notify_all()  # noqa: SLF001


def _ordered(toggles: ToggleSet) -> _OrderedToggles:
    members: object = toggles._toggles  # noqa: SLF001
    if isinstance(members, _OrderedToggles):
        return members
    ordered = _OrderedToggles((each, None) for each in toggles)
    toggles._toggles = ordered  # type: ignore[assignment]  # noqa: SLF001 - it has the methods of a set
    return ordered
