"""A bounded ring of the newest notable occurrences, to explain a state afterwards.

Entries are sentences about rare things (relists, disconnects, changes of state) with their wall
time. They never contain an object's content.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from pyinformer._printable import printable
from pyinformer._runtime.clock import utc_text, wall_time

if TYPE_CHECKING:
    from collections.abc import Callable


_MAX_LENGTH: Final = 2_048  # an error may quote what a server or a tenant wrote


@final
@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One occurrence."""

    at: float
    """When: seconds of the Unix epoch."""
    what: str
    """A sentence without object content."""

    def __str__(self) -> str:
        return f"{utc_text(self.at)}: {printable(self.what)}"


@final
class DiagnosticJournal:
    """The newest occurrences; readable from any thread.

    Args:
        size: how many are kept; an hour of a troubled informer has far fewer.
        wall_clock: returns the seconds of the Unix epoch.
    """

    def __init__(self, size: int = 256, *, wall_clock: Callable[[], float] = wall_time) -> None:
        self._entries: deque[JournalEntry] = deque(maxlen=size)
        self._wall_clock = wall_clock

    def note(self, what: str) -> None:
        """Add a sentence, and drop the oldest if the journal is full."""
        self._entries.append(JournalEntry(self._wall_clock(), what[:_MAX_LENGTH]))

    def entries(self) -> tuple[JournalEntry, ...]:
        """Return the entries, oldest first."""
        return tuple(self._entries.copy())
