"""What an operator's handlers wait for before they begin: complete indexes.

kopf has a toggle for each indexed resource and for each object that is not indexed yet, and begins
when all of them are gone. A toggle that never goes blocks the operator silently.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from pyinformer._runtime.escaping_loggers import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kopf._cogs.aiokits.aiotoggles import Toggle, ToggleSet

    from pyinformer.kopf._stream import Stream

_log = get_logger(__name__)

PERIOD_SECONDS: Final = 30.0
"""How often the gate is checked."""
_MOST_NAMES: Final = 5


@final
class Gate:
    """The gate before the handlers of one operator.

    Args:
        streams: those that the operator reads, now and later.
    """

    def __init__(self, streams: Sequence[Stream]) -> None:
        self.toggles: ToggleSet | None = None
        """kopf's toggles; None before kopf has created them."""
        self.paused: ToggleSet | None = None
        """On while the operator is paused by its peers; then the gate is closed on purpose."""
        self._streams = streams
        self._before: frozenset[Toggle] = frozenset()  # what blocked it at the last check
        self._lasting: frozenset[Toggle] = frozenset()  # what blocked it at the last two checks
        self._blocked_seconds = 0.0

    @property
    def stuck(self) -> tuple[str, ...]:
        """What has blocked the gate for a whole period and still does, by name.

        A resource whose list comes in without errors is not among it: a large one takes its time.
        """
        coming = {_toggle_name(one) for one in self._streams if not one.last_error}
        return _first(set(_names(self._lasting & self._blockers())) - coming)

    def check(self) -> None:
        """Log what blocks the gate, if anything does; called once in each period."""
        blockers = self._blockers()
        self._lasting, self._before = self._before & blockers, blockers
        if not blockers:
            self._blocked_seconds = 0.0
            return
        self._blocked_seconds += PERIOD_SECONDS
        _log.warning(
            "the handlers wait for %d indexed resources and objects, for up to %.0f s: %s",
            len(blockers),
            self._blocked_seconds,
            ", ".join(_first(_names(blockers))),
        )

    def _blockers(self) -> frozenset[Toggle]:
        if self.toggles is None or (self.paused is not None and self.paused.is_on()):
            return frozenset()
        return frozenset(each for each in self.toggles if each.is_off())


def _toggle_name(stream: Stream) -> str:
    """Return the name that kopf gives the toggle of an indexed resource in a namespace."""
    return f"{stream.resource}@{stream.namespace}"


def _names(toggles: Iterable[Toggle]) -> Iterable[str]:
    return (each.name or "unnamed" for each in toggles)


def _first(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names)[:_MOST_NAMES])
