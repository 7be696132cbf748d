"""Objects decoded once and shared by all readers, for programs that read far more than changes.

An object is decoded when a reader first needs it, and the dict is kept until the object is
replaced; it takes several times the memory of the bytes. Nothing prevents a reader from changing
it; the mutation detector compares it with the bytes.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeAlias, final

from pyinformer.errors import InvalidObjectError
from pyinformer.objects import Event, JSONObject, JSONValue, KubeObject, V

if TYPE_CHECKING:
    from pyinformer.cache.store._index import IndexValue
    from pyinformer.cache.store._lister import Lister
    from pyinformer.objects import LabelSelector

SharedObject: TypeAlias = Mapping[str, JSONValue]
"""A decoded object that all readers share, read-only by convention; a plain dict at run time."""

_MAX_READERS = 16  # recorded for one object; more do not help to find the culprit


@final
class DecodedObject(Generic[V]):
    """One object with the dict that all readers get."""

    __slots__ = ("_value", "digest", "readers", "record")

    what = "the shared decoded object"

    def __init__(self, record: KubeObject[V], value: JSONObject) -> None:
        self.record: KubeObject[V] = record
        """The object itself."""
        self._value = value
        self.digest: int | None = None
        self.readers: Collection[tuple[str, str]] = ()

    def current(self) -> JSONObject:
        """Return the dict that readers have."""
        return self._value

    def original(self) -> JSONObject:
        """Return a new dict, decoded from the bytes."""
        return self.record.to_dict()

    def note_reader(self, handler: str, call_site: str) -> None:
        """Record a reader."""
        if (handler, call_site) not in self.readers and len(self.readers) < _MAX_READERS:
            self.readers = (*self.readers, (handler, call_site))


@final
class DecodedObjects(Generic[V]):
    """The decoded objects of one cache, each of which is the newest that readers see.

    Args:
        shown: returns the object that a reader sees under a key, or None. An older object is
            decoded for its reader alone.
    """

    def __init__(self, shown: Callable[[str], KubeObject[V] | None]) -> None:
        self.on_read: Callable[[DecodedObject[V]], None] | None = None
        """Called at every read, in the reader's thread, before the reader gets the dict."""
        self.on_end: Callable[[DecodedObject[V]], None] | None = None
        """Called with each one that is no longer shared, since its object was replaced."""
        self._shown = shown
        self._lock = threading.RLock()  # two readers of one object must get one dict
        self._decoded: dict[str, DecodedObject[V]] = {}

    def __len__(self) -> int:
        return len(self._decoded)

    def of(self, obj: KubeObject[V]) -> SharedObject:
        """Return the dict of an object; decode it at the first read.

        Raises:
            InvalidObjectError: the body has a value that Python cannot represent.
        """
        decoded = self._decoded.get(obj._key)
        if decoded is None or decoded.record is not obj:
            decoded = self._decode(obj)
        if self.on_read is not None:
            self.on_read(decoded)
        return decoded.current()

    def values(self) -> Iterator[DecodedObject[V]]:
        """Yield those that are shared, and drop those whose object was replaced.

        Each step handles one key, so a caller can spread the work over time.
        """
        for key in list(self._decoded):  # a list of pairs would block the loop ten times as long
            decoded = self._decoded.get(key)
            if decoded is None:
                continue
            if self._shown(key) is decoded.record:
                yield decoded
            else:
                self._end(key, decoded)

    def is_shared(self, decoded: DecodedObject[V]) -> bool:
        """Return whether the next reader would get this one."""
        return self._decoded.get(decoded.record._key) is decoded

    def forget(self, decoded: DecodedObject[V]) -> None:
        """Drop it; the next reader gets a newly decoded one."""
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
        """Drop the dict of an object that an event has replaced in the cache."""
        self._end(event.key)

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Do nothing: objects are decoded when they are read."""

    def on_initial_list_complete(self) -> None:
        """Do nothing."""

    def on_missed_state(self, was: KubeObject[V], now: KubeObject[V] | None) -> None:
        """Drop the dict of an object that readers no longer see although no event reports it."""
        self._end(was._key)


@final
class DecodedLister(Generic[V]):
    """Reads a cache as dicts that all readers share: `informer.lister.decoded`.

    It reads like the Lister, and what it returns is read-only by convention. To change a dict, take
    `to_dict()` of the object.

    Args:
        lister: reads the objects.
        decoded: the shared dicts.
    """

    def __init__(self, lister: Lister[V], decoded: DecodedObjects[V]) -> None:
        self._lister = lister
        self._decoded = decoded

    def over(self, lister: Lister[V]) -> DecodedLister[V]:
        """Return a DecodedLister of the same dicts for another lister."""
        return DecodedLister(lister, self._decoded)

    def of(self, obj: KubeObject[V]) -> SharedObject:
        """Return the dict of an object that the caller has, in a handler for example.

        An object that the cache has replaced by now is decoded for this caller alone.

        Raises:
            InvalidObjectError: the body has a value that Python cannot represent.
            CacheMutatedError: in `debug` mode, the dict was changed.
        """
        return self._decoded.of(obj)

    def get(self, key: str, *, allow_unsynced: bool = False) -> SharedObject | None:
        """Return an object, or None if there is none; otherwise as `Lister.get`.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
            NotCachedError: the namespace is not watched.
            InvalidObjectError: the body has a value that Python cannot represent.
            CacheMutatedError: in `debug` mode, the dict was changed.
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

        Objects that were not read before are decoded now, in some 10 us for 4 KB each. An object
        whose body cannot be decoded is left out; the lister has it, with its `problem`.

        Args:
            namespace: only objects of this namespace; None for all.
            label_selector: a text or a mapping; None for all.
            allow_unsynced: return what is cached, even if it is incomplete.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
            NotCachedError: the namespace is not watched.
            InvalidSelectorError: the selector cannot be parsed.
            CacheMutatedError: in `debug` mode, a dict was changed.
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
        self,
        name: str,
        value: IndexValue,
        *,
        namespace: str | None = None,
        allow_unsynced: bool = False,
    ) -> builtins.list[SharedObject]:
        """Return the objects that an index has under a value; otherwise as `Lister.by_index`.

        An object whose body cannot be decoded is left out, as by `list`.

        Args:
            name: the name of the index.
            value: the value.
            namespace: only objects of this namespace, which alone has to have synced; None for all.
            allow_unsynced: return what is cached, even if it is incomplete.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
            NotCachedError: the namespace is not watched.
            IndexNotFoundError: there is no such index.
            CacheMutatedError: in `debug` mode, a dict was changed.
        """
        lister = self._lister if namespace is None else self._lister.namespace(namespace)
        found = lister.by_index(name, value, allow_unsynced=allow_unsynced)
        return self._readable(found)
