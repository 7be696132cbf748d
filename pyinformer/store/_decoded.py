"""Objects decoded once and shared by all readers, for programs that read far more than changes.

A cached object enters; what leaves is its whole body as a dict, the same one for everybody until
the object is replaced. It is decoded when somebody first asks, and kept until then: such an object
costs several times the memory of its bytes. Nothing here hinders a reader from changing it; the
mutation detector finds out, since the bytes still say what it was.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeAlias, final

from pyinformer.apimachinery import (
    Event,
    InvalidObjectError,
    JSONObject,
    JSONValue,
    KubeObject,
    V,
)

if TYPE_CHECKING:
    from pyinformer.apimachinery import LabelSelector
    from pyinformer.store._index import IndexValue
    from pyinformer.store._lister import Lister

SharedObject: TypeAlias = Mapping[str, JSONValue]
"""A decoded object that others read, too: for reading only. At run time it is a plain dict."""

_MAX_READERS = 16  # of one object that are noted; more help nobody to find the culprit


@final
class DecodedObject(Generic[V]):
    """One object with the dict that everybody gets."""

    __slots__ = ("_record", "_value", "digest", "readers")

    what = "the shared decoded object"

    def __init__(self, record: KubeObject[V], value: JSONObject) -> None:
        self._record = record
        self._value = value
        self.digest: int | None = None
        self.readers: Collection[tuple[str, str]] = ()

    @property
    def record(self) -> KubeObject[V]:
        """The object itself."""
        return self._record

    def current(self) -> JSONObject:
        """Return the dict that readers have."""
        return self._value

    def original(self) -> JSONObject:
        """Decode it anew from the bytes."""
        return self._record.to_dict()

    def note_reader(self, handler: str, call_site: str) -> None:
        """Remember who read it."""
        if (handler, call_site) not in self.readers and len(self.readers) < _MAX_READERS:
            self.readers = (*self.readers, (handler, call_site))


@final
class DecodedObjects(Generic[V]):
    """The decoded objects of one cache, each of which is the newest that readers see.

    Args:
        shown: returns what a reader sees under a key, or None. An older object is decoded for its
            reader alone.
    """

    def __init__(self, shown: Callable[[str], KubeObject[V] | None]) -> None:
        self.on_read: Callable[[DecodedObject[V]], None] | None = None
        """Is told of every read, in the reader's thread, before the reader has it."""
        self.on_end: Callable[[DecodedObject[V]], None] | None = None
        """Is told of each one that is shared no more, since its object was replaced."""
        self._shown = shown
        self._lock = threading.Lock()  # two readers of one object shall get one dict
        self._decoded: dict[str, DecodedObject[V]] = {}

    def __len__(self) -> int:
        return len(self._decoded)

    def of(self, obj: KubeObject[V]) -> SharedObject:
        """Return the dict of an object; decode it if nobody has asked before.

        Raises:
            InvalidObjectError: the body holds something Python cannot represent.
        """
        decoded = self._decoded.get(obj._key)
        if decoded is None or decoded.record is not obj:
            decoded = self._decode(obj)
        if self.on_read is not None:
            self.on_read(decoded)
        return decoded.current()

    def values(self) -> Iterator[DecodedObject[V]]:
        """Return those that are shared, and forget those whose object was replaced.

        One at each step: whoever has little time at once may come back for the next.
        """
        for key in list(self._decoded):  # a list of pairs would hold up the loop ten times as long
            decoded = self._decoded.get(key)
            if decoded is None:
                continue
            if self._shown(key) is decoded.record:
                yield decoded
            else:
                self._end(key, decoded)

    def is_shared(self, decoded: DecodedObject[V]) -> bool:
        """Tell whether readers to come would get this one."""
        return self._decoded.get(decoded.record._key) is decoded

    def forget(self, decoded: DecodedObject[V]) -> None:
        """Let the next reader get a newly decoded one."""
        if self.is_shared(decoded):
            self._decoded.pop(decoded.record._key, None)

    def _decode(self, obj: KubeObject[V]) -> DecodedObject[V]:
        key, fresh = obj._key, DecodedObject(obj, obj.to_dict())
        with self._lock:
            known = self._decoded.get(key)
            if known is not None and known.record is obj:
                return known
            if self._shown(key) is not obj:
                return fresh
            self._decoded[key] = fresh
        if known is not None and self.on_end is not None:
            self.on_end(known)
        return fresh

    def _end(self, key: str, expected: DecodedObject[V] | None = None) -> None:
        if expected is not None and self._decoded.get(key) is not expected:
            return
        ended = self._decoded.pop(key, None)
        if ended is not None and self.on_end is not None:
            self.on_end(ended)

    def put_nowait(self, event: Event[V]) -> None:
        """Forget what an event replaced; it is in the cache already."""
        self._end(event.key)

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Do nothing: what exists is decoded when somebody asks."""

    def on_initial_list_complete(self) -> None:
        """Do nothing."""

    def on_missed_state(self, was: KubeObject[V], now: KubeObject[V] | None) -> None:
        """Forget what readers see no more, though no event says so."""
        self._end(was._key)


@final
class DecodedLister(Generic[V]):
    """Reads a cache as dicts that all readers share: `informer.lister.decoded`.

    Every read is as that of the Lister, and what it returns is for reading only. For a dict to
    change, take `to_dict()` of the object.

    Args:
        lister: reads the objects.
        decoded: the shared dicts.
    """

    def __init__(self, lister: Lister[V], decoded: DecodedObjects[V]) -> None:
        self._lister = lister
        self._decoded = decoded

    def over(self, lister: Lister[V]) -> DecodedLister[V]:
        """Return what reads the same dicts by another lister."""
        return DecodedLister(lister, self._decoded)

    def of(self, obj: KubeObject[V]) -> SharedObject:
        """Return the dict of an object that you have, as in a handler.

        One that the cache has replaced since is decoded for you alone.

        Raises:
            InvalidObjectError: the body holds something Python cannot represent.
            CacheMutatedError: in `debug` mode, somebody has changed it.
        """
        return self._decoded.of(obj)

    def get(self, key: str, *, allow_unsynced: bool = False) -> SharedObject | None:
        """Return an object, or None if there is none; otherwise as `Lister.get`.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            NotCachedError: the namespace is not watched.
            InvalidObjectError: the body holds something Python cannot represent.
            CacheMutatedError: in `debug` mode, somebody has changed it.
        """
        found = self._lister.get(key, allow_unsynced=allow_unsynced)
        return None if found is None else self._decoded.of(found)

    def __getitem__(self, key: str) -> SharedObject:
        """Return an object; otherwise as `get`.

        Raises:
            ObjectNotFoundError: there is none with this key.
        """
        return self._decoded.of(self._lister[key])

    def __contains__(self, key: str) -> bool:
        return key in self._lister

    def list(
        self,
        *,
        namespace: str | None = None,
        label_selector: str | Mapping[str, object] | LabelSelector | None = None,
        allow_unsynced: bool = False,
    ) -> builtins.list[SharedObject]:
        """Return the objects whose labels match; otherwise as `Lister.list`.

        What was not read before is decoded now, some 10 us for each object of 4 KB. An object
        whose body cannot be decoded is left out; the lister has it, with its `problem`.

        Args:
            namespace: only those of one; None is all.
            label_selector: as text or as a mapping; None is all.
            allow_unsynced: answer with what is there, however incomplete.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            NotCachedError: the namespace is not watched.
            InvalidSelectorError: the selector cannot be parsed.
            CacheMutatedError: in `debug` mode, somebody has changed one.
        """
        lister = self._lister if namespace is None else self._lister.namespace(namespace)
        found = lister.list(label_selector=label_selector, allow_unsynced=allow_unsynced)
        return self._readable(found)

    def _readable(self, found: builtins.list[KubeObject[V]]) -> builtins.list[SharedObject]:
        readable: builtins.list[SharedObject] = []
        for obj in found:
            with suppress(InvalidObjectError):
                readable.append(self._decoded.of(obj))
        return readable

    def by_index(
        self, name: str, value: IndexValue, *, allow_unsynced: bool = False
    ) -> builtins.list[SharedObject]:
        """Return the objects that an index has under a value; otherwise as `Lister.by_index`.

        An object whose body cannot be decoded is left out, as by `list`.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            IndexNotFoundError: there is no such index.
            CacheMutatedError: in `debug` mode, somebody has changed one.
        """
        found = self._lister.by_index(name, value, allow_unsynced=allow_unsynced)
        return self._readable(found)
