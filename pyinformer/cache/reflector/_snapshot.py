"""The objects of one load, collected from a list or a watch-list until it is complete.

The whole load is checked for contradictions before any of it takes effect. An object that has not
changed stays the cached record, so a relist costs next to no memory. The same version alone does
not show that: two histories may use one version for two states, and a definition that gains a
default changes every object at the version that it has.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.cache.reflector.machine.steps import ListUnorderedError, WatchListUnspokenError
from pyinformer.client.transport import (
    ADDED,
    BOOKMARK,
    DELETED,
    ERROR,
    MODIFIED,
    item_kind,
    read_bookmark,
    read_error,
    read_frame,
    read_frame_head,
    read_frame_slowly,
)
from pyinformer.errors import (
    InvalidObjectError,
    InvalidResourceVersionError,
    ListInconsistentError,
    ProtocolError,
)
from pyinformer.objects import (
    KubeObject,
    V,
    key_in,
    older,
    resource_version_is_well_formed,
    stored_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.cache.reflector._sink import Sink
    from pyinformer.cache.reflector.guard import Guard
    from pyinformer.objects import ObjectCodec, UidRange

_log = get_logger(__name__)
_SLICE = 512  # objects freed in one step: half a millisecond
_MAX_NAMELESS = 1_000  # in one load; an API server stores no object without a name


@final
class Snapshot(Generic[V]):
    """Collects one load.

    Args:
        codec: decodes the objects.
        sink: has the cached objects.
        guard: knows earlier events, and counts what cannot be read.
        distrust: the server's history was proven to be another one.
        had_nameless: the load before this one had objects without a name as well.
        is_first: the reflector has loaded nothing yet, so every object is passed as it was listed.
        uid_range: which objects are kept; None for all.
        may_lack_kind: an item that cannot be read while the kind of the objects is not known sets
            `lacks_kind`, and is not skipped: the caller learns the kind, and lists again.
    """

    def __init__(
        self,
        codec: ObjectCodec[V],
        sink: Sink[V],
        guard: Guard,
        *,
        distrust: bool = False,
        had_nameless: bool = False,
        is_first: bool = False,
        uid_range: UidRange | None = None,
        may_lack_kind: bool = False,
    ) -> None:
        self._codec = codec
        self._uid_range = uid_range
        self._is_first = is_first
        self._may_lack_kind = may_lack_kind
        self._sink = sink
        self._guard = guard
        self._distrust = distrust or guard.expects_rewind
        self._had_nameless = had_nameless
        self._unread: set[str] = set()
        self._agrees = False  # with an object that is cached
        self._newest = "0"
        self._malformed = ""
        self._deleted: dict[str, str] = {}
        self._rewound: set[str] = set()
        self.objects: dict[str, KubeObject[V]] = {}
        self.resource_version: str | None = None
        """The list's version once it is complete."""
        self.skipped: int = 0
        """How many items could not be identified."""
        self.nameless: int = 0
        """How many of them had no readable name."""
        self.foreign: int = 0
        """How many objects are in another share."""
        self.lacks_kind: bool = False
        """Whether an item could not be read while the kind of the objects was not known."""
        self.is_live: bool = False
        """Whether a watch-list brought a change: there are no more initial events."""
        self.present: str = ""
        """A version that the server had after the watch-list began; empty if it is not known."""
        self.rest: list[bytes] = []
        """Lines behind the end bookmark; they belong to the watch that follows."""

    @property
    def identified(self) -> int:
        """How many objects have arrived that could be identified, also of other shares."""
        return len(self.objects) + self.foreign

    @property
    def received(self) -> int:
        """How many objects have arrived."""
        return self.identified + self.skipped

    @property
    def rewound(self) -> bool:
        """Whether the server went back in time: an object is older, or is no longer deleted."""
        return bool(self._rewound)

    def on_item(self, data: bytes, start: int, end: int) -> None:
        """Add one item of a list.

        Raises:
            InvalidObjectError: it cannot be identified; the caller passes it to `on_invalid_item`.
        """
        self._add(self._codec.decode(data, start, end))

    def on_invalid_item(self, data: bytes, start: int, end: int, error: Exception) -> None:
        """Skip an item that cannot be identified, and log it.

        Raises:
            ProtocolError: too many objects of this load have no name.
        """
        self._skip(error, data[start:end])

    def on_oversized_item(self, head: bytes, size_bytes: int) -> None:
        """Add an item over the limit by its metadata, or skip it.

        Raises:
            ProtocolError: too many objects of this load have no name.
        """
        try:
            self._add(self._codec.decode_head(head, size_bytes))
        except InvalidObjectError as error:
            self._skip(error, head)

    def on_oversized_line(self, head: bytes, size_bytes: int) -> None:
        """Apply a watch-list's line over the limit by its metadata, or skip its object.

        Raises:
            ProtocolError: it is not an event of an object, or comes after the end bookmark.
        """
        if self.resource_version is not None:
            raise ProtocolError("watch-list", f"a line of {size_bytes} bytes behind its end")
        kind, start = read_frame_head(head)
        if kind not in {ADDED, MODIFIED, DELETED}:
            raise ProtocolError("watch-list", f"a {kind[:40]} of {size_bytes} bytes")
        try:
            obj = self._codec.decode_head(head[start:-1], size_bytes - start - 1)
        except InvalidObjectError as error:
            self._skip(error, head[start:-1])
            return
        self._take(kind, obj)

    def on_list_kind(self, kind: str) -> None:
        """Learn the kind from the list: built-in lists omit it in their items."""
        if self._codec.gvk is None and (kind_of_items := item_kind(kind)):
            self._codec.learn_kind(kind_of_items)

    def on_line(self, data: bytes | bytearray, start: int, end: int) -> None:
        """Apply one line of a watch-list; no reference to `data` is kept.

        Raises:
            APIStatusError: the server sent ERROR.
            ProtocolError: the line is not an event.
            ListInconsistentError: a bookmark shows that the server knows no watch-lists.
        """
        if self.resource_version is not None:
            self.rest.append(bytes(memoryview(data)[start:end]))
            return
        kind, body, first, last = read_frame(data, start, end)
        if kind in {ADDED, MODIFIED, DELETED}:
            try:
                obj = self._codec.decode(body, first, last)
            except InvalidObjectError:
                self._take_slowly(kind, bytes(memoryview(data)[start:end]))
            else:
                self._take(kind, obj)
        elif kind == BOOKMARK:
            bookmark = read_bookmark(body, first, last)
            if not bookmark.ends_initial_events:
                reason = "a bookmark arrived that does not end the initial events"
                raise WatchListUnspokenError(f"watch-list {self._codec.resource}", reason)
            self.resource_version = bookmark.resource_version
        elif kind == ERROR:
            raise read_error(body, first, last, request=f"watch-list {self._codec.resource}")
        else:
            raise ProtocolError("watch-list", f"an event of the unknown type {kind[:40]!r}")

    def _take(self, kind: str, obj: KubeObject[V]) -> None:
        if kind == ADDED and not self.present:
            self._add(obj)
        else:
            self._take_late(kind, obj)

    def _take_late(self, kind: str, obj: KubeObject[V]) -> None:
        """Take what may be a change: before the server's version is known, an ADDED is not."""
        if kind != ADDED or self._is_change(obj):
            self.is_live = True
        if kind == DELETED:
            self._remove(obj)
        else:
            self._add(obj)

    def _is_change(self, obj: KubeObject[V]) -> bool:
        version = obj.metadata.resource_version
        is_ordered = self._guard.order != "opaque" and resource_version_is_well_formed(version)
        return is_ordered and older(self.present, version)

    def _take_slowly(self, kind: str, line: bytes) -> None:
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
        self._record_version(version)
        if self._was_seen_later(key, version):
            return
        if self._uid_range is not None and not self._uid_range.has(meta.uid):
            self.foreign += 1
            self.objects.pop(key, None)  # an earlier object of this name
            return
        cached = None if self._is_first else self._sink.get(key)
        if cached is None:
            # Before the first load nothing is remembered, which spares most of a large sync.
            rewound = self._guard.position != "" and self._guard.proves_rewind(key, meta, None)
        elif is_same_version(cached, obj):
            self._agrees = True
            obj, rewound = obj if has_other_content(cached, obj) else cached, False
            key = obj._key  # of the record that stays, so only one copy of the text is kept
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

    def _remove(self, obj: KubeObject[V]) -> None:
        key, version = obj._key, obj.metadata.resource_version
        self._record_version(version)
        before = self.objects.get(key)
        if before is not None and self._was_seen_later(key, version):
            return
        self._deleted[key] = version
        self._rewound.discard(key)
        self.objects.pop(key, None)

    def _record_version(self, version: str) -> None:
        if not resource_version_is_well_formed(version):
            self._malformed = self._malformed or version or "(none)"
        elif older(self._newest, version):
            self._newest = version

    def _skip(self, error: Exception, text: bytes) -> None:
        """Skip an object; the cached object under its key stays, if a key can be read."""
        if self._may_lack_kind and self._codec.gvk is None:
            self.lacks_kind = True
            return
        self.skipped += 1
        self._guard.counts.add("undecodable", "skipped")
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
                f"more than {_MAX_NAMELESS} of its objects have no readable name; the load ends,"
                " the cache is kept, and another load follows"
            )
            raise ProtocolError(f"list {self._codec.resource}", reason)

    def complete(self, resource_version: str) -> dict[str, KubeObject[V]]:
        """Check the whole load and return its objects.

        Args:
            resource_version: the list's version.

        Raises:
            InvalidResourceVersionError: a version cannot be compared.
            ListInconsistentError: an object is newer than the list; or the list shows that the
                server went back in time, and at another object that it did not: another list has
                to confirm it.
        """
        self._check_versions(resource_version)
        if self._rewound and self._agrees and not self._distrust:
            self._guard.expects_rewind = True
            reason = "the server went back in time; another list has to confirm it"
            raise ListInconsistentError(f"list {self._codec.resource}", reason)
        self.resource_version = resource_version
        if self.skipped:
            self._keep_unread()
        if not self._rewound and not self._distrust:
            self._keep_read_later(resource_version)
        return self.objects

    def release(self) -> Iterator[None]:
        """Release the objects of a load that takes no effect, in short steps.

        Freeing a million objects at once stops the event loop for a second. And the error that
        ended the load is kept until the next one, and its frames refer to this snapshot.
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

    def _keep_unread(self) -> None:
        """Keep the cached objects that an unidentified item may stand for.

        An item without a name may be any of them. If the next load has such items as well, it is
        none of them: cached objects have names, and deletions must not be held back forever.
        """
        keeps_all = self.nameless and not self._had_nameless
        for key in list(self._sink.keys()) if keeps_all else self._unread:
            cached = self._sink.get(key)
            if cached is not None:
                self.objects.setdefault(key, cached)

    def _keep_read_later(self, resource_version: str) -> None:
        """Keep later point reads: this list comes from a server that lags behind them."""
        if self._guard.is_behind(resource_version):
            return
        for key in self._guard.read_after(resource_version):
            cached = self._sink.get(key)
            if cached is None:
                self.objects.pop(key, None)
            else:
                self.objects[key] = cached


def is_same_version(cached: KubeObject[V], obj: KubeObject[V]) -> bool:
    """Return whether two states are of one object, at one version that is not empty."""
    before, after = cached.metadata, obj.metadata
    return before.resource_version == after.resource_version != "" and before.uid == after.uid


def has_other_content(cached: KubeObject[V], obj: KubeObject[V]) -> bool:
    """Return whether two states differ, as far as the sink keeps contents."""
    return stored_bytes(cached) > 0 and not cached.same_content(obj)
