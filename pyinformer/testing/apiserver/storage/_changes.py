"""The log of one resource and its subscriptions: changes, bookmarks and raw lines, in order.

A watch line is encoded once for all watches that send it. A subscription never blocks the writer,
and is protected by the storage's lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from pyinformer.testing.apiserver.storage._stored_records import Record


@dataclass(slots=True, eq=False)
class StoredChange:
    """One entry of the log: the change of one object in one revision.

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
        """Return the watch line of this change, encoded once for all watches.

        Args:
            event_type: ADDED, MODIFIED, or DELETED (which carries the old content under this
                change's revision, for a deleted object and for one that left the selection).
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
class BookmarkChange:
    """A bookmark in a subscription: all changes up to its revision come before it."""

    revision: int


Pending: TypeAlias = StoredChange | BookmarkChange | bytes
"""An entry of a subscription: a change, a bookmark, or a line that is sent as it is."""


class Subscription:
    """All changes of one resource after one revision, in order.

    It never blocks the writer; a subscription that lags too far is ended.

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
        """Append an entry; called by the storage."""
        if len(self._pending) >= self._limit:
            self._is_over = True
        else:
            self._pending.append(entry)
        self.signal()

    def end(self) -> None:
        """End the subscription after the pending entries; called by the storage."""
        self._is_over = True
        self.signal()

    def signal(self) -> None:
        """Wake the subscriber, once between two calls of `take`."""
        if not self._is_woken:
            self._is_woken = True
            self._wake()

    def take(self) -> tuple[list[Pending], bool]:
        """Take all pending entries.

        Returns:
            The pending entries, which the caller owns, and whether to end after them.
        """
        with self._lock:
            self._is_woken = False
            taken, self._pending = self._pending, []
            return taken, self._is_over
