"""What an operator's handlers wait for before they begin: complete indexes.

kopf has a toggle for each indexed resource and for each object that is not indexed yet, and begins
when all of them are gone. A toggle that never goes blocks the operator silently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from pyinformer._logging import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection

    from kopf._cogs.aiokits.aiotoggles import ToggleSet

_log = get_logger(__name__)

PERIOD_SECONDS: Final = 30.0
"""How often the gate is checked."""
_MOST_NAMES: Final = 5


@final
class Gate:
    """The gate before the handlers of one operator."""

    def __init__(self) -> None:
        self.toggles: ToggleSet | None = None
        """kopf's toggles; None before kopf has created them."""
        self.paused: ToggleSet | None = None
        """Is on while the operator is paused by its peers, which rightly closes the gate."""
        self.stuck: tuple[str, ...] = ()
        """What blocks the gate, if nothing has moved for a whole period."""
        self._before: frozenset[str] = frozenset()
        self._blocked_seconds = 0.0

    def check(self) -> None:
        """Log what blocks the gate, if anything does; called once in each period."""
        names = self._blockers()
        if not names:
            self._before, self._blocked_seconds, self.stuck = frozenset(), 0.0, ()
            return
        self._blocked_seconds += PERIOD_SECONDS
        self.stuck = _first(names) if names == self._before else ()
        self._before = names
        _log.warning(
            "the handlers wait for %d indexed resources and objects, for up to %.0f s: %s",
            len(names),
            self._blocked_seconds,
            ", ".join(_first(names)),
        )

    def _blockers(self) -> frozenset[str]:
        if self.toggles is None or (self.paused is not None and self.paused.is_on()):
            return frozenset()
        return frozenset(each.name or "unnamed" for each in self.toggles if each.is_off())


def _first(names: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(names)[:_MOST_NAMES])
