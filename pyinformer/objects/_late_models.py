"""Models that an object is decoded to when it is first read as one, in any thread.

The object itself keeps its model, so a model lives as long as a reader can have its object. Only
models that no reader can change are kept; of any other, each read returns a new one: decoded, or
copied where that is far faster.
"""

from __future__ import annotations

import pickle
import threading
from functools import lru_cache
from typing import Any, final

from pyinformer.objects._models import check_model, decode_model, why_mutable
from pyinformer.objects._object import KubeObject, LateView, stored_view
from pyinformer.objects._view import check_view, is_view


def check_view_or_model(model: type[object]) -> None:
    """Refuse a class that objects cannot be decoded to.

    Raises:
        InvalidTypeError: it is neither a view nor a model, or a view that a reader could change.
        InvalidModelError: a part of it would be read wrongly; names the field.
    """
    if is_view(model):
        check_view(model)
    else:
        check_model(model)


@lru_cache(maxsize=256)
def late_model(model: type[object]) -> LateView:
    """Return what decodes objects to a model when they are read.

    Args:
        model: a class that `check_model` accepts.
    """
    return _LateModel(model)


@final
class _LateModel(LateView):
    """In place of a model that was not read yet; one for all objects of a model."""

    __slots__ = ("_is_copied", "_is_private", "_lock", "_model")

    def __init__(self, model: type[object]) -> None:
        self._model = model
        # A generated model of a pod takes 2 ms to decode, and 0.13 ms to copy from a pickle.
        self._is_copied = hasattr(model, "openapi_types")
        self._is_private = bool(why_mutable(model)) and not self._is_copied
        # Two readers of one object must get one model; one may be a signal handler in a read.
        self._lock = threading.RLock()

    def read(self, obj: KubeObject[Any]) -> object:
        """Decode the object, and keep the model in it if that can be shared or copied.

        Raises:
            ModelMismatchError: the object does not fit the model.
        """
        decoded = decode_model(obj, self._model)
        if self._is_private:
            return decoded
        kept = _Pickled(pickle.dumps(decoded)) if self._is_copied else decoded
        with self._lock:
            if stored_view.__get__(obj) is self:
                stored_view.__set__(obj, kept)
            else:  # another thread was faster
                kept = stored_view.__get__(obj)
        return kept.read(obj) if isinstance(kept, LateView) else kept

    def __reduce__(self) -> tuple[Any, ...]:
        return late_model, (self._model,)


@final
class _Pickled(LateView):
    """In place of a model of which each reader gets a copy."""

    __slots__ = ("_text",)

    def __init__(self, text: bytes) -> None:
        self._text = text

    def read(self, obj: KubeObject[Any]) -> object:
        """Return a copy for this reader."""
        del obj
        return pickle.loads(self._text)  # noqa: S301 - our own

    def __reduce__(self) -> tuple[Any, ...]:
        return _Pickled, (self._text,)
