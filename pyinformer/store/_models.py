"""Models of cached objects, decoded once for each version and shared by all readers.

An object is decoded when a reader first needs it as a model. The model is kept until the object is
replaced, and is never returned for another version. Only models that no reader can change are
shared; of any other, each reader gets its own: decoded, or copied where that is far faster. Reads
may come from any thread.
"""

from __future__ import annotations

import pickle
import threading
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, final

from msgspec import Struct

from pyinformer.apimachinery import Deleted, Event, KubeObject, Updated, decode_model, why_mutable
from pyinformer.errors import ModelMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

M = TypeVar("M")

_REPLACED = 128  # handlers and event streams read these later; one behind by more decodes again


@final
class _Decoded(Struct, frozen=True, gc=False):
    """An object with its model, or with the error of one that does not fit."""

    record: KubeObject[Any]
    model: Any
    """The model; pickled if each reader gets a copy."""
    error: ModelMismatchError | None = None


@final
class Models(Generic[M]):
    """The models of one cache, of one class; a receiver of the cache's events.

    Args:
        model: the class.
        shown: returns the object that a reader sees under a key, or None. Models of other objects
            are kept only while they are among the last that were replaced.
    """

    def __init__(self, model: type[M], shown: Callable[[str], KubeObject[Any] | None]) -> None:
        self.model: type[M] = model
        """The class of the models."""
        self.private_because: str = why_mutable(model)
        """Why each reader gets a model of its own; empty if all readers share one."""
        # A generated model of a pod takes 2 ms to decode, and 0.13 ms to copy from a pickle.
        self._is_copied = hasattr(model, "openapi_types")
        self._shown = shown
        self._lock = threading.RLock()  # two readers of one object must get one model
        self._current: dict[str, _Decoded] = {}
        self._replaced: dict[int, _Decoded] = {}  # by the object's id

    def __len__(self) -> int:
        return len(self._current)

    def of(self, obj: KubeObject[Any]) -> M:
        """Return the model of an object; decode it at the first read.

        Raises:
            ModelMismatchError: the object does not fit the model.
        """
        decoded = self._current.get(obj._key)
        if decoded is None or decoded.record is not obj:
            if self.private_because and not self._is_copied:
                return decode_model(obj, self.model)
            decoded = self._keep(self._decoded(obj))
        if decoded.error is not None:
            raise copy(decoded.error)  # an error that is raised twice collects tracebacks
        model = decoded.model
        return cast("M", pickle.loads(model) if self._is_copied else model)  # noqa: S301 - our own

    def of_arriving(self, obj: KubeObject[Any]) -> M:
        """Return the model of an object that is about to be cached, for an index function.

        Raises:
            ModelMismatchError: the object does not fit the model.
        """
        if self._is_copied or not self.private_because:
            known = self._current.get(obj._key)
            if known is None or known.record is not obj:
                decoded = self._decoded(obj)
                with self._lock:
                    self._set(obj._key, decoded)
        return self.of(obj)

    def _decoded(self, obj: KubeObject[Any]) -> _Decoded:
        replaced = self._replaced.get(id(obj))
        if replaced is not None and replaced.record is obj:
            return replaced
        known = self._current.get(obj._key)
        if known is not None and known.record.raw == obj.raw:  # a write and its event
            return _Decoded(obj, known.model, known.error)
        try:
            model: object = decode_model(obj, self.model)
            return _Decoded(obj, pickle.dumps(model) if self._is_copied else model)
        except ModelMismatchError as error:
            return _Decoded(obj, None, copy(error))  # without the traceback, which holds frames

    def _keep(self, decoded: _Decoded) -> _Decoded:
        key, obj = decoded.record._key, decoded.record
        with self._lock:
            known = self._current.get(key)
            if known is not None and known.record is obj:
                return known
            replaced = self._replaced.get(id(obj))
            if replaced is not None and replaced.record is obj:  # another reader was faster
                decoded = replaced
            if self._shown(key) is obj:
                self._set(key, decoded)
            if self._shown(key) is obj:
                return decoded
            if self._current.get(key) is decoded:  # its event may have passed before it was kept
                del self._current[key]
            return self._retire(decoded)

    def _drop(self, key: str, known: _Decoded) -> None:
        with self._lock:
            if self._current.get(key) is known:  # else a reader has put in a newer one
                self._retire(self._current.pop(key))

    def _set(self, key: str, decoded: _Decoded) -> None:
        """Make a model the current one of its key; the lock is held."""
        known = self._current.get(key)
        self._current[key] = decoded
        if known is not None:
            self._retire(known)

    def _retire(self, decoded: _Decoded) -> _Decoded:
        """Keep a model for its last readers; return the one that they get. The lock is held."""
        kept = self._replaced.setdefault(id(decoded.record), decoded)
        if len(self._replaced) > 2 * _REPLACED:
            for oldest in tuple(self._replaced)[:_REPLACED]:
                self._replaced.pop(oldest, None)
        return kept

    def put_nowait(self, event: Event[Any]) -> None:
        """Drop the model of an object that an event has replaced in the cache."""
        known = self._current.get(event.key)
        if known is None:
            return
        if isinstance(event, Deleted):
            self._drop(event.key, known)
            return
        now = event.new if isinstance(event, Updated) else event.object
        if now is known.record:
            return
        if now.raw == known.record.raw:  # the event of a write that readers saw before
            with self._lock:
                if self._current.get(event.key) is known:  # else a reader has put in a newer one
                    self._current[event.key] = _Decoded(now, known.model, known.error)
        else:
            self._drop(event.key, known)

    def preload_nowait(self, objects: Collection[KubeObject[Any]]) -> None:
        """Do nothing: objects are decoded when they are read."""

    def on_initial_list_complete(self) -> None:
        """Do nothing."""

    def on_missed_state(self, was: KubeObject[Any], now: KubeObject[Any] | None) -> None:
        """Drop the model of an object that readers no longer see although no event reports it."""
        known = self._current.get(was._key)
        if known is not None and known.record is not now:
            self._drop(was._key, known)
