"""What happened lately, in words: a bounded ring that answers "why?" afterwards.

What enters are sentences about what is rare: loads, disconnects, changes of state, suspicions. What
leaves are the newest of them with the wall time of each. Texts never hold an object's content.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from pyinformer._clock import utc_text, wall_time
from pyinformer._printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable


_MAX_LENGTH: Final = 2_048  # an error may quote what a server or a tenant wrote


@final
@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One thing that happened."""

    at: float
    """When: seconds since 1970."""
    what: str
    """A sentence without object content."""

    def __str__(self) -> str:
        return f"{utc_text(self.at)}: {printable(self.what)}"


@final
class Journal:
    """The newest things that happened, from any thread.

    Args:
        size: how many are kept; an hour of a troubled informer has far fewer.
        wall_clock: the seconds since 1970.
    """

    def __init__(self, size: int = 256, *, wall_clock: Callable[[], float] = wall_time) -> None:
        self._entries: deque[JournalEntry] = deque(maxlen=size)
        self._wall_clock = wall_clock

    def note(self, what: str) -> None:
        """Keep a sentence, and forget the oldest if there is no room."""
        self._entries.append(JournalEntry(self._wall_clock(), what[:_MAX_LENGTH]))

    def entries(self) -> tuple[JournalEntry, ...]:
        """Return what is kept, the oldest first."""
        return tuple(self._entries.copy())
