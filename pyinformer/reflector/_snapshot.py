"""Everything that exists, as a list or an initial stream tells it, until it is complete.

What enters are items, or the lines of a watch-list up to its end bookmark; what leaves is a
mapping of all objects, checked against itself. Nothing takes effect before. An object that has not
changed stays the record that is cached already, so that loading again costs next to no memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, final

from pyinformer._logging import get_logger
from pyinformer.apimachinery import (
    InvalidObjectError,
    InvalidResourceVersionError,
    KubeObject,
    ListInconsistentError,
    ProtocolError,
    V,
    key_in,
    older,
    resource_version_is_well_formed,
)
from pyinformer.reflector._frames import ListUnorderedError, decode_oversized
from pyinformer.transport import (
    ADDED,
    BOOKMARK,
    DELETED,
    ERROR,
    MODIFIED,
    read_bookmark,
    read_error,
    read_frame,
    read_frame_head,
    read_frame_slowly,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.apimachinery import ObjectCodec
    from pyinformer.reflector._guard import Guard
    from pyinformer.reflector._sink import Sink

_log = get_logger(__name__)
_SLICE = 512  # objects freed in one step: half a millisecond
_MAX_NAMELESS = 1_000  # in one load; an API server stores no object without a name


@final
class Snapshot(Generic[V]):
    """Collects one load.

    Args:
        codec: decodes the objects.
        sink: knows what is cached.
        guard: knows what came before, and counts what cannot be read.
        distrust: the server's history was proven to be another one: a cached record stays only
            if its content is the same, since a version may have been given twice.
        had_nameless: the load before this one had objects without a name, too.
    """

    __slots__ = (
        "_codec",
        "_deleted",
        "_distrust",
        "_guard",
        "_had_nameless",
        "_malformed",
        "_newest",
        "_reused",
        "_rewound",
        "_sink",
        "_unread",
        "nameless",
        "objects",
        "resource_version",
        "rest",
        "skipped",
    )

    def __init__(
        self,
        codec: ObjectCodec[V],
        sink: Sink[V],
        guard: Guard,
        *,
        distrust: bool = False,
        had_nameless: bool = False,
    ) -> None:
        self._codec = codec
        self._sink = sink
        self._guard = guard
        self._distrust = distrust or guard.distrusts
        self._had_nameless = had_nameless
        self._unread: set[str] = set()
        self._reused = False
        self._newest = "0"
        self._malformed = ""
        self._deleted: dict[str, str] = {}
        self._rewound: set[str] = set()
        self.objects: dict[str, KubeObject[V]] = {}
        self.resource_version: str | None = None
        """The list's version once it is complete."""
        self.skipped = 0
        """Items that could not be identified."""
        self.nameless = 0
        """Those of them in which not even a name could be read."""
        self.rest: list[bytes] = []
        """Lines behind the end bookmark; they belong to the watch that follows."""

    @property
    def rewound(self) -> bool:
        """Whether an object is older here than it was, or lives though it was seen to die.

        Then the server went back in time.
        """
        return bool(self._rewound)

    def on_item(self, data: bytes, start: int, end: int) -> None:
        """Take one item of a list.

        Raises:
            InvalidObjectError: it cannot even be identified; `on_invalid_item` takes it then.
        """
        self._add(self._codec.decode(data, start, end))

    def on_invalid_item(self, data: bytes, start: int, end: int, error: Exception) -> None:
        """Skip an item that cannot be identified, and say so.

        Raises:
            ProtocolError: too many objects of this load have no name.
        """
        self._skip(error, data[start:end])

    def on_oversized_item(self, head: bytes, size_bytes: int) -> None:
        """Take an item over the limit by its metadata, or skip it.

        Raises:
            ProtocolError: too many objects of this load have no name.
        """
        try:
            self._add(self._codec.decode_head(head, size_bytes))
        except InvalidObjectError as error:
            self._skip(error, head)

    def on_oversized_line(self, head: bytes, size_bytes: int) -> None:
        """Take a line of a watch-list over the limit by its metadata, or skip its object.

        Raises:
            ProtocolError: it is no event of an object, or stands behind the end.
        """
        if self.resource_version is not None:
            raise ProtocolError("watch-list", f"a line of {size_bytes} bytes behind its end")
        kind, start = read_frame_head(head)
        if kind not in {ADDED, MODIFIED, DELETED}:
            raise ProtocolError("watch-list", f"a {kind[:40]} of {size_bytes} bytes")
        try:
            obj = decode_oversized(self._codec, head, size_bytes)[1]
        except InvalidObjectError as error:
            self._skip(error, head[start:-1])
            return
        self._take(kind, obj)

    def on_list_kind(self, kind: str) -> None:
        """Take note of a list's kind; built-in lists leave it out of their items."""
        if self._codec.gvk is None and kind.endswith("List"):
            self._codec.learn_kind(kind.removesuffix("List"))

    def on_line(self, data: bytes | bytearray, start: int, end: int) -> None:
        """Take one line of a watch-list; of `data` itself nothing is kept.

        Raises:
            APIStatusError: the server said ERROR.
            ProtocolError: the line is no event.
        """
        if self.resource_version is not None:
            self.rest.append(bytes(memoryview(data)[start:end]))
            return
        kind, body, first, last = read_frame(data, start, end)
        if kind in {ADDED, MODIFIED, DELETED}:
            try:
                obj = self._codec.decode(body, first, last)
            except InvalidObjectError:
                self._take_oddity(kind, bytes(memoryview(data)[start:end]))
            else:
                self._take(kind, obj)
        elif kind == BOOKMARK:
            bookmark = read_bookmark(body, first, last)
            if bookmark.ends_initial_events:
                self.resource_version = bookmark.resource_version
        elif kind == ERROR:
            raise read_error(body, first, last, request=f"watch-list {self._codec.resource}")
        else:
            raise ProtocolError("watch-list", f"an event of the unknown type {kind[:40]!r}")

    def _take(self, kind: str, obj: KubeObject[V]) -> None:
        if kind == DELETED:
            self._remove(obj)
        else:
            self._add(obj)

    def _take_oddity(self, kind: str, line: bytes) -> None:
        try:
            _, data, start, end = read_frame_slowly(line, 0, len(line))
        except ProtocolError as error:
            self._skip(error, b"")
            return
        try:
            obj = self._codec.decode(data, start, end)
        except InvalidObjectError as error:
            self._skip(error, bytes(data[start:end]))
        else:
            self._take(kind, obj)

    def _add(self, obj: KubeObject[V]) -> None:
        key, meta = obj._key, obj.metadata
        version = meta.resource_version
        self._note(version)
        if self._was_seen_later(key, version):
            return
        cached = self._sink.get(key)
        if cached is None:
            # Where nothing was ever loaded, nothing is remembered either: most of a large sync.
            rewound = self._guard.position != "" and self._guard.proves_rewind(key, meta, None)
        elif _is_same_state(cached, obj):
            obj, rewound = self._reuse(cached, obj), False
            key = obj._key  # of the one that stays: the other's text would live on beside it
        else:
            rewound = self._guard.proves_rewind(key, meta, cached.metadata)
        if rewound:
            self._rewound.add(key)
            self.objects[key] = obj
            return
        if self._rewound:
            self._rewound.discard(key)
        self.objects[key] = obj

    def _was_seen_later(self, key: str, version: str) -> bool:
        # Before its end bookmark a stream has no order: the larger version of a key wins.
        if self._guard.order == "opaque":
            return False
        before = self.objects.get(key)
        if before is not None and older(version, before.metadata.resource_version):
            return True
        return key in self._deleted and not older(self._deleted[key], version)

    def _reuse(self, cached: KubeObject[V], obj: KubeObject[V]) -> KubeObject[V]:
        if not self._distrust:
            self._reused = True
            return cached
        try:
            return cached if cached.same_content(obj) else obj
        except InvalidObjectError:
            return obj

    def _remove(self, obj: KubeObject[V]) -> None:
        key, version = obj._key, obj.metadata.resource_version
        self._note(version)
        before = self.objects.get(key)
        if before is not None and self._was_seen_later(key, version):
            return
        self._deleted[key] = version
        self._rewound.discard(key)
        self.objects.pop(key, None)

    def _note(self, version: str) -> None:
        if not resource_version_is_well_formed(version):
            self._malformed = self._malformed or version or "(none)"
        elif older(self._newest, version):
            self._newest = version

    def _skip(self, error: Exception, text: bytes) -> None:
        """Skip an object; what is cached under its key stays, if it has one."""
        self.skipped += 1
        self._guard.count("undecodable", "skipped")
        key = key_in(text)
        if key:
            self._unread.add(key)
        else:
            self._count_nameless()
        if self.skipped == 1:
            keeps_all = not key and not self._had_nameless
            _log.error(
                "an object of %s cannot be identified and is skipped; this list deletes %s",
                self._codec.resource,
                "nothing" if keeps_all else "other objects only",
                extra={"resource": str(self._codec.resource), "error": str(error)[:500]},
            )

    def _count_nameless(self) -> None:
        self.nameless += 1
        if self.nameless > _MAX_NAMELESS:
            reason = (
                f"at most {_MAX_NAMELESS} of its objects may have no readable name, and it has"
                " more; the load ends, what was cached stays, and another load follows"
            )
            raise ProtocolError(f"list {self._codec.resource}", reason)

    def complete(self, resource_version: str) -> dict[str, KubeObject[V]]:
        """Check the whole and return it.

        Args:
            resource_version: the list's own.

        Raises:
            InvalidResourceVersionError: it, or that of an object, cannot be compared.
            ListInconsistentError: an object is newer than the list it is in; or the list shows that
                the server went back in time, and is to be read again, comparing contents.
        """
        self._check_versions(resource_version)
        if self._rewound and self._reused:
            # In another history the same version can have been given to another content.
            self._guard.distrusts = True
            raise self._inconsistent("the server went back in time; what is cached proves nothing")
        self.resource_version = resource_version
        if self.skipped:
            self._keep_unread()
        if not self._rewound and not self._distrust:
            self._keep_read_later(resource_version)
        return self.objects

    def let_go(self) -> Iterator[None]:
        """Forget everything, in short steps; only for a load that takes no effect.

        To free a million objects at once stops the event loop for a second. And until the next
        load the error that ended this one is remembered, with its frames, and so with this.
        """
        objects = self.objects
        while objects:
            for _ in range(min(_SLICE, len(objects))):
                objects.popitem()
            yield

    def _check_versions(self, resource_version: str) -> None:
        order = self._guard.order
        if order == "opaque":
            return
        for version in (resource_version, self._malformed or resource_version):
            if not resource_version_is_well_formed(version):
                raise InvalidResourceVersionError(version)
        if order == "global" and older(resource_version, self._newest):
            reason = f"it is at {resource_version} and holds an object at {self._newest}"
            self._guard.unordered_lists += 1
            raise ListUnorderedError(f"list {self._codec.resource}", reason)

    def _inconsistent(self, reason: str) -> ListInconsistentError:
        return ListInconsistentError(f"list {self._codec.resource}", reason)

    def _keep_unread(self) -> None:
        """Keep what an object that could not be identified may be.

        One without a name may be any of them, but a second load that has such says that it is none:
        nothing that is cached is without a name, and deletions must not be held back for ever.
        """
        keeps_all = self.nameless and not self._had_nameless
        for key in list(self._sink.keys()) if keeps_all else self._unread:
            cached = self._sink.get(key)
            if cached is not None:
                self.objects.setdefault(key, cached)

    def _keep_read_later(self, resource_version: str) -> None:
        """Keep what a verify has shown since: this list comes from a server that lags behind it."""
        if self._guard.is_behind(resource_version):
            return
        for key in self._guard.read_after(resource_version):
            cached = self._sink.get(key)
            if cached is None:
                self.objects.pop(key, None)
            else:
                self.objects[key] = cached


def _is_same_state(cached: KubeObject[V], obj: KubeObject[V]) -> bool:
    before, after = cached.metadata, obj.metadata
    # Where there is no version, nothing says that nothing has changed.
    return before.resource_version == after.resource_version != "" and before.uid == after.uid
