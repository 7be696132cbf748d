"""Following a watch: each line becomes a change of the sink, if the guard agrees.

What enters are lines; what leaves are events for the sink, in order. The position moves only after
the sink has taken an event. An event whose object cannot be identified is skipped and reported. A
line that cannot be followed ends the stream by an exception that says why, and which key to look
at; the lines behind it are not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, final

from pyinformer.apimachinery import (
    Added,
    Deleted,
    InvalidObjectError,
    KubeObject,
    ProtocolError,
    Updated,
    V,
)
from pyinformer.reflector._frames import StreamBroken, decode_any, decode_oversized
from pyinformer.reflector._ruling import Suspicion, Verdict
from pyinformer.reflector._state import Breach
from pyinformer.transport import (
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
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.apimachinery import InformerError, ObjectCodec
    from pyinformer.reflector._guard import Guard
    from pyinformer.reflector._sink import Sink


_CLOSING_BRACE = b"}"[0]
_PREFIX_LENGTH = len(MODIFIED_PREFIX)
_BREACHES = {Suspicion.MALFORMED: Breach.MALFORMED, Suspicion.BOOKMARK: Breach.BOOKMARK}


@final
class Follower(Generic[V]):
    """Applies the lines of one watch.

    Args:
        codec: decodes the objects.
        guard: judges the events.
        sink: takes what is judged good.
        selective: a selector is in force, so that a deleted object may still exist.
        on_skipped: is given the error of each object that cannot be identified.
    """

    __slots__ = (
        "_apply",
        "_codec",
        "_decode_object",
        "_get",
        "_guard",
        "_on_skipped",
        "_selective",
        "_sink",
        "_take_usual",
        "bookmarks",
        "events",
        "skipped",
    )

    def __init__(
        self,
        codec: ObjectCodec[V],
        guard: Guard,
        sink: Sink[V],
        *,
        selective: bool = False,
        on_skipped: Callable[[InvalidObjectError], None] = lambda _: None,
    ) -> None:
        self._codec = codec
        self._guard = guard
        self._sink = sink
        self._selective = selective
        self._on_skipped = on_skipped
        # Looked up once here instead of at every event.
        self._decode_object = codec.decode
        self._get, self._apply = sink.get, sink.apply_nowait
        self._take_usual = guard.take_usual
        self.events = 0
        self.bookmarks = 0
        self.skipped = 0
        """Whole events and bookmarks that changed nothing: repeated, or not to be identified."""

    @property
    def frames(self) -> int:
        """How much of what arrived was good."""
        return self.events + self.bookmarks

    def on_line(self, data: bytes | bytearray, start: int, end: int) -> None:
        """Take one line: `data[start:end]`; of `data` itself nothing is kept.

        Raises:
            StreamBroken: this and what follows cannot be applied.
            APIStatusError: the server said ERROR.
        """
        if data.startswith(MODIFIED_PREFIX, start) and data[end - 1] == _CLOSING_BRACE:
            # Nearly every line of a busy cluster; that it is one object is proven by the decode.
            try:
                new = self._decode_object(data, start + _PREFIX_LENGTH, end - 1)
            except InvalidObjectError:
                self._take_oddity(MODIFIED, bytes(memoryview(data)[start:end]))
                return
            old = self._get(new._key)
            if old is not None and self._take_usual(old, new, self._apply):
                self.events += 1
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
                self._take_oddity(kind, line)
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
        """Take a line over the limit by its metadata: its object has a problem, no more.

        Raises:
            StreamBroken: it is not an event of an object, or cannot be applied.
        """
        try:
            kind = read_frame_head(head)[0]
        except ProtocolError as error:
            raise self._unreadable(error, head or b"%d" % size_bytes) from error
        if kind not in {ADDED, MODIFIED, DELETED}:
            what = f"an event of the type {kind[:40]!r} and of {size_bytes} bytes"
            raise self._unreadable(ProtocolError("watch", what), head)
        try:
            self._take(kind, decode_oversized(self._codec, head, size_bytes)[1])
        except InvalidObjectError as error:
            self._skip(error)

    def _take(self, kind: str, obj: KubeObject[V]) -> None:
        tally = self._guard.tally
        tally.event_type = kind
        if kind == DELETED:
            self._delete(obj)
        else:
            self._change(obj, self._get(obj._key))
        tally.event_type = MODIFIED  # the usual line sets nothing; `connected` does after a break

    def _take_oddity(self, kind: str, line: bytes) -> None:
        """Take what looked like the usual line and may have more in it than one object."""
        try:
            obj = decode_any(self._codec, line)
        except ProtocolError as error:
            raise self._unreadable(error, line) from error
        except InvalidObjectError as error:
            self._skip(error)
        else:
            self._take(kind, obj)

    def _skip(self, error: InvalidObjectError) -> None:
        """Go on behind an object that cannot be identified: it must not cost any other."""
        self.skipped += 1
        self._guard.count("undecodable", "skipped")
        self._on_skipped(error)

    def _change(self, new: KubeObject[V], old: KubeObject[V] | None) -> None:
        cached = None if old is None else old.metadata
        verdict = self._guard.judge_change(new._key, new.metadata, cached)
        if verdict is Verdict.UPDATE and old is not None:
            self._apply(Updated(old, new))
        elif verdict is Verdict.SKIP:
            self.skipped += 1
            self._check_suspicion(new)
            return
        else:
            self._replace(old, new)
        self._guard.applied(new.metadata.resource_version)
        self.events += 1

    def _replace(self, old: KubeObject[V] | None, new: KubeObject[V]) -> None:
        if old is not None:
            self._apply(Deleted(old, final_state_unknown=True))
        self._apply(Added(new))

    def _delete(self, gone: KubeObject[V]) -> None:
        key = gone._key
        old = self._sink.get(key)
        cached = None if old is None else old.metadata
        verdict = self._guard.judge_deletion(key, gone.metadata, cached)
        if verdict is Verdict.REMOVE:
            self._apply(Deleted(gone, may_still_exist=self._selective))
        elif verdict is Verdict.REMOVE_UNSEEN and old is not None:
            self._apply(Deleted(old, final_state_unknown=True))
        if verdict is Verdict.SKIP:
            self.skipped += 1
        else:
            self._guard.applied(gone.metadata.resource_version)
            self.events += 1
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
            key: what was looked at.
            found: the object, or None if the list is empty.
            read_at: the list's resource version.

        Returns:
            Whether that settled it. If not, the list is older than what is known and nothing was
            done: the server lags, or its history is another one.
        """
        old = self._sink.get(key)
        cached = None if old is None else old.metadata
        shown = None if found is None else found.metadata
        verdict = self._guard.judge_verified(key, shown, cached, read_at)
        if verdict is Verdict.UPDATE and old is not None and found is not None:
            self._apply(Updated(old, found))
        elif verdict is Verdict.REMOVE_UNSEEN and old is not None:
            gone: Deleted[V] = Deleted(
                old, final_state_unknown=True, may_still_exist=self._selective
            )
            self._apply(gone)
        elif verdict is not Verdict.SKIP and found is not None:
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
        self._guard.count("unknown_events")
        return StreamBroken(Breach.UNREADABLE, error, line)
