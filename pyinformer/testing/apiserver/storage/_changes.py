"""The log of one resource as its followers get it: changes, bookmarks, raw lines, in order.

What enters are records before and after a write; what leaves are the lines of a watch, encoded once
however many watches send them, and subscriptions that never block the writer. A subscription is
guarded by the storage's lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from pyinformer.testing.apiserver.storage._objects import Record


@dataclass(slots=True, eq=False)
class Change:
    """One entry of the log: what one revision did to one object.

    Attributes:
        new: the object afterwards; None if it was deleted.
        old: the object before; None if it was created.
    """

    revision: int
    key: str
    new: Record | None
    old: Record | None
    _gone: Record | None = None
    _lines: dict[str, bytes] = field(default_factory=dict)

    def line(self, event_type: str) -> bytes:
        """Return the watch line of this change, encoded once however many watches send it.

        Args:
            event_type: ADDED, MODIFIED, or DELETED (which carries the old content under this
                change's revision, whether the object is gone or only no longer selected).
        """
        line = self._lines.get(event_type)
        if line is None:
            record = self.gone if event_type == "DELETED" else self.new
            if record is None:
                raise KeyError(event_type)
            line = b'{"type":"%s","object":%s}\n' % (event_type.encode(), record.full)
            self._lines[event_type] = line
        return line

    @property
    def gone(self) -> Record | None:
        """The old content under this change's revision."""
        if self._gone is None and self.old is not None:
            self._gone = self.old.at_revision(self.revision)
        return self._gone


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A place in a subscription where everything up to a revision has been said."""

    revision: int


Pending: TypeAlias = Change | Bookmark | bytes
"""What waits in a subscription: a change, a bookmark, or a line to send as it is."""


class Subscription:
    """Everything that happens to one resource from one moment on, in order.

    It never blocks the writer. A subscriber that lags too far is told to end.

    Attributes:
        namespace: the namespace it follows; "" for all. Only `Storage.inject` looks at it.
    """

    def __init__(
        self, lock: threading.RLock, wake: Callable[[], None], *, namespace: str, limit: int
    ) -> None:
        self.namespace = namespace
        self._is_over = False
        self._lock = lock
        self._wake = wake
        self._limit = limit
        self._pending: list[Pending] = []
        self._is_woken = False

    def push(self, entry: Pending) -> None:
        """Add something to send; for the storage."""
        if len(self._pending) >= self._limit:
            self._is_over = True
        else:
            self._pending.append(entry)
        self.signal()

    def end(self) -> None:
        """Ask the subscriber to end after what is pending; for the storage."""
        self._is_over = True
        self.signal()

    def signal(self) -> None:
        """Wake the subscriber, once until it takes."""
        if not self._is_woken:
            self._is_woken = True
            self._wake()

    def take(self) -> tuple[list[Pending], bool]:
        """Take all that is pending.

        Returns:
            What was pending, the caller's own, and whether to end after it.
        """
        with self._lock:
            self._is_woken = False
            taken, self._pending = self._pending, []
            return taken, self._is_over
