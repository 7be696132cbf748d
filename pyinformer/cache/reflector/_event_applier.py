"""Applying the lines of a watch to the sink, as far as the guard allows.

The position moves only after the sink has taken an event. An event whose object cannot be
identified is skipped and reported, unless the kind of a custom resource is another one: its
definition may have been created again. A line that cannot be followed ends the stream by an
exception that names the reason and the key to verify; the lines behind it are not read.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Generic, final

from pyinformer._runtime.tasks import Turn
from pyinformer.cache.reflector._sink import OwnWritesSink
from pyinformer.cache.reflector._snapshot import has_other_content, is_same_version
from pyinformer.cache.reflector.guard import Decision, Suspicion
from pyinformer.cache.reflector.machine.steps import Breach
from pyinformer.client.transport import (
    ADDED,
    BOOKMARK,
    DELETED,
    ERROR,
    MODIFIED,
    MODIFIED_PREFIX,
    read_bookmark,
    read_error,
    read_frame,
    read_frame_head,
    read_frame_slowly,
)
from pyinformer.errors import InvalidObjectError, ProtocolError
from pyinformer.objects import Added, Deleted, KubeObject, Updated, V

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.cache.reflector._sink import Sink
    from pyinformer.cache.reflector.guard import Guard
    from pyinformer.errors import InformerError
    from pyinformer.objects import ObjectCodec, UidRange


_CLOSING_BRACE = b"}"[0]
_PREFIX_LENGTH = len(MODIFIED_PREFIX)
_BREACHES = {Suspicion.MALFORMED: Breach.MALFORMED, Suspicion.BOOKMARK: Breach.BOOKMARK}


@final
class StreamBroken(Exception):  # noqa: N818 - control flow between our own modules
    """A watch whose content cannot be followed any further."""

    def __init__(
        self, breach: Breach, error: InformerError, line: bytes = b"", *, verify: str = ""
    ) -> None:
        super().__init__(str(error))
        self.breach = breach
        self.error = error
        self.verify = verify
        self.digest: bytes = hashlib.blake2b(line).digest() if line else b""


@final
class EventApplier(Generic[V]):
    """Applies the lines of one watch.

    Args:
        codec: decodes the objects.
        guard: judges the events.
        sink: receives the events that are applied.
        selective: a selector is in force, so a deleted object may still exist.
        uid_range: which objects are applied; all others only move the position. None for all.
        on_skipped: called with the error of each object that cannot be identified.
        turn: opened before an event is applied; the loop that reads the watch ends it.
    """

    __slots__ = (
        "_apply",
        "_apply_newer",
        "_codec",
        "_decode_object",
        "_get",
        "_guard",
        "_on_skipped",
        "_passed",
        "_selective",
        "_sink",
        "_turn",
        "_uid_range",
        "added",
        "bookmarks",
        "deleted",
        "modified",
        "skipped",
    )

    def __init__(
        self,
        codec: ObjectCodec[V],
        guard: Guard,
        sink: Sink[V],
        *,
        selective: bool = False,
        uid_range: UidRange | None = None,
        on_skipped: Callable[[InvalidObjectError], None] = lambda _: None,
        turn: Turn | None = None,
    ) -> None:
        self._codec = codec
        self._guard = guard
        self._sink = sink
        self._passed = (
            sink.passed_nowait if isinstance(sink, OwnWritesSink) else sink.bookmark_nowait
        )
        self._selective = selective
        self._uid_range = uid_range
        self._on_skipped = on_skipped
        self._turn = turn or Turn()
        # Looked up once here instead of at every event.
        self._decode_object = codec.decode
        self._get, self._apply = sink.get, sink.apply_nowait
        self._apply_newer = guard.apply_newer
        self.added: int = 0
        self.modified: int = 0
        self.deleted: int = 0
        self.bookmarks: int = 0
        self.skipped: int = 0
        """Whole events and bookmarks that changed nothing: repeated, or not identifiable."""

    @property
    def events(self) -> int:
        """How many events were applied."""
        return self.added + self.modified + self.deleted

    @property
    def frames(self) -> int:
        """How many events and bookmarks were applied."""
        return self.events + self.bookmarks

    def on_line(self, data: bytes | bytearray, start: int, end: int) -> None:
        """Apply one line: `data[start:end]`; no reference to `data` is kept.

        Raises:
            StreamBroken: this line and those behind it cannot be applied.
            APIStatusError: the server sent ERROR.
        """
        if data.startswith(MODIFIED_PREFIX, start) and data[end - 1] == _CLOSING_BRACE:
            # Nearly every line of a busy cluster; the decode proves that it is one object.
            try:
                new = self._decode_object(data, start + _PREFIX_LENGTH, end - 1)
            except InvalidObjectError:
                self._apply_slowly(MODIFIED, bytes(memoryview(data)[start:end]))
                return
            self._turn.is_open = True
            old = self._get(new._key)
            if old is not None and self._apply_newer(old, new, self._apply):
                self.modified += 1
            else:
                self._change(new, old)
        else:
            self._on_other_line(bytes(memoryview(data)[start:end]))

    def _on_other_line(self, line: bytes) -> None:
        try:
            kind, body, first, last = read_frame(line, 0, len(line))
        except ProtocolError as error:
            raise self._unreadable(error, line) from error
        if kind in {ADDED, MODIFIED, DELETED}:
            try:
                obj = self._decode_object(body, first, last)
            except InvalidObjectError:
                self._apply_slowly(kind, line)
            else:
                self._take(kind, obj)
        elif kind == BOOKMARK:
            self._bookmark(body, first, last)
        elif kind == ERROR:
            raise read_error(body, first, last, request=f"watch {self._codec.resource}")
        else:
            what = f"an event of the unknown type {kind[:40]!r}"
            raise self._unreadable(ProtocolError("watch", what), line)

    def on_oversized(self, head: bytes, size_bytes: int) -> None:
        """Apply a line over the limit by its metadata; its object gets a `problem`.

        Raises:
            StreamBroken: it is not an event of an object, or cannot be applied.
        """
        try:
            kind, start = read_frame_head(head)
        except ProtocolError as error:
            raise self._unreadable(error, head or b"%d" % size_bytes) from error
        if kind not in {ADDED, MODIFIED, DELETED}:
            what = f"an event of the type {kind[:40]!r} and of {size_bytes} bytes"
            raise self._unreadable(ProtocolError("watch", what), head)
        try:
            obj = self._codec.decode_head(head[start:-1], size_bytes - start - 1)
        except InvalidObjectError as error:
            self._refuse(error, head[start:-1], head)
        else:
            self._take(kind, obj)

    def _take(self, kind: str, obj: KubeObject[V]) -> None:
        counts = self._guard.counts
        counts.event_type = kind
        if kind == DELETED:
            self._delete(obj)
        else:
            self._change(obj, self._get(obj._key))
        counts.event_type = MODIFIED  # the usual line sets nothing; `connected` does after a break

    def _apply_slowly(self, kind: str, line: bytes) -> None:
        """Apply a line that is not written as API servers write it."""
        try:
            _, data, start, end = read_frame_slowly(line, 0, len(line))
        except ProtocolError as error:
            raise self._unreadable(error, line) from error
        try:
            obj = self._codec.decode(data, start, end)
        except InvalidObjectError as error:
            self._refuse(error, bytes(data[start:end]), line)
        else:
            self._take(kind, obj)

    def _refuse(self, error: InvalidObjectError, text: bytes, line: bytes) -> None:
        """Skip an object that cannot be identified: it must not cost any other object.

        Raises:
            StreamBroken: it is of another kind, and so may be those that follow.
        """
        if self._codec.names_new_kind(text):
            raise self._unreadable(error, line) from error
        self.skipped += 1
        self._guard.counts.add("undecodable", "skipped")
        self._on_skipped(error)

    def _change(self, new: KubeObject[V], old: KubeObject[V] | None) -> None:
        cached = None if old is None else old.metadata
        decision = self._guard.judge_change(new._key, new.metadata, cached)
        if decision is Decision.UPDATE and old is not None:
            self._apply(Updated(old, new))
            self.modified += 1
        elif decision is Decision.SKIP:
            if old is not None and is_same_version(old, new) and has_other_content(old, new):
                # A server may give one version to several states, or show a state in another way.
                self._apply(Updated(old, new, may_go_back=True))
                self.modified += 1
            else:
                self.skipped += 1
                self._check_suspicion(new)
            return
        else:
            self.added += 1
            if not self._replace(old, new):
                self._guard.applied(new.metadata.resource_version)
                self._passed(new.metadata.resource_version)
                return
        self._guard.applied(new.metadata.resource_version)

    def _replace(self, old: KubeObject[V] | None, new: KubeObject[V]) -> bool:
        """Replace an object; return False if the new one is in another share."""
        if old is not None:
            self._apply(Deleted(old, final_state_unknown=True))
        if self._is_foreign(new):
            return False
        self._apply(Added(new))
        return True

    def _is_foreign(self, obj: KubeObject[V]) -> bool:
        return self._uid_range is not None and not self._uid_range.has(obj.metadata.uid)

    def _delete(self, gone: KubeObject[V]) -> None:
        key = gone._key
        old = self._sink.get(key)
        cached = None if old is None else old.metadata
        decision = self._guard.judge_deletion(key, gone.metadata, cached)
        if decision is Decision.REMOVE:
            self._apply(Deleted(gone, may_still_exist=self._selective))
        elif decision is Decision.REMOVE_UNSEEN and old is not None:
            self._apply(Deleted(old, final_state_unknown=True))
        if decision is Decision.SKIP:
            self.skipped += 1
        else:
            self._guard.applied(gone.metadata.resource_version)
            self.deleted += 1
        if old is None and self._guard.position == gone.metadata.resource_version:
            # Readers may still see what this process has written of it.
            self._passed(gone.metadata.resource_version)
        self._check_suspicion(gone)

    def _bookmark(self, body: bytes | bytearray, first: int, last: int) -> None:
        try:
            bookmark = read_bookmark(body, first, last)
        except ProtocolError as error:
            raise self._unreadable(error, bytes(body[first:last])) from error
        if self._guard.judge_bookmark(bookmark.resource_version):
            self._sink.bookmark_nowait(bookmark.resource_version)
            self.bookmarks += 1
        elif self._guard.suspicion is not None:
            self._break_off(f"a bookmark at {bookmark.resource_version[:40]!r}")
        else:
            self.skipped += 1

    def on_verified(self, key: str, found: KubeObject[V] | None, read_at: str) -> bool:
        """Apply what a list of one key shows, as if it were an event; the position stays.

        Args:
            key: the key that was listed.
            found: the object, or None if the list is empty.
            read_at: the list's resource version.

        Returns:
            Whether the answer counts. If not, the list is older than what is known and nothing was
            done: the server lags, or its history is another one.
        """
        old = self._sink.get(key)
        cached = None if old is None else old.metadata
        shown = None if found is None else found.metadata
        decision = self._guard.judge_verified(key, shown, cached, read_at)
        if decision is Decision.UPDATE and old is not None and found is not None:
            self._apply(Updated(old, found))
        elif decision is Decision.REMOVE_UNSEEN and old is not None:
            gone: Deleted[V] = Deleted(
                old, final_state_unknown=True, may_still_exist=self._selective
            )
            self._apply(gone)
        elif decision is not Decision.SKIP and found is not None:
            self._replace(old, found)
        return self._guard.suspicion is None

    def _check_suspicion(self, obj: KubeObject[V]) -> None:
        if self._guard.suspicion is not None:
            version = obj.metadata.resource_version
            self._break_off(f"{obj.gvk.kind} {obj.key!r} at {version[:40]!r}")

    def _break_off(self, what: str) -> None:
        guard = self._guard
        suspicion = guard.suspicion or Suspicion.UNPROVEN
        reason = f"{suspicion.value} (position {guard.position})"
        breach = _BREACHES.get(suspicion, Breach.SUSPECT)
        raise StreamBroken(breach, ProtocolError(what, reason), verify=guard.to_verify)

    def _unreadable(self, error: InformerError, line: bytes) -> StreamBroken:
        self._guard.counts.add("unknown_events")
        return StreamBroken(Breach.UNREADABLE, error, line)
