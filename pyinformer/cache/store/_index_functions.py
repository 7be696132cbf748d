"""How an index reads its value from an object, and the fence around index functions of users.

A path is read from the metadata or the view if they have it; the other paths of a cache share one
narrow decode of the body. A view shows an absent field as its default, which the body
distinguishes.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer.cache.store._index import Index, Placement, placement_of
from pyinformer.objects import KubeObject, PathSet, V, View, parse_path, view_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.cache.store._index import IndexFunction
    from pyinformer.objects import JSONValue

_log = get_logger(__name__)

_METADATA: Final = {
    ("metadata", "namespace"): attrgetter("metadata.namespace"),
    ("metadata", "name"): attrgetter("metadata.name"),
    ("metadata", "uid"): attrgetter("metadata.uid"),
}


_NO_PATHS: Final = PathSet(())


@final
class SharedPaths:
    """Decodes all paths of a cache's indexes together, once for each object that is read."""

    __slots__ = ("_paths", "_recent", "_set")

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._set = _NO_PATHS
        # The newest two: an update reads the old and the new object, index by index.
        self._recent: tuple[tuple[KubeObject[Any], tuple[JSONValue, ...]], ...] = ()

    def reader(self, path: str) -> Callable[[KubeObject[Any]], JSONValue]:
        """Add a path and return the function that reads it.

        Raises:
            InvalidArgumentError: the path cannot be decoded; it is not added.
        """
        if path not in self._paths:
            paths = [*self._paths, path]
            self._set = PathSet(paths)
            self._paths = paths
        position = self._paths.index(path)
        return lambda obj: self._read(obj, position)

    def _read(self, obj: KubeObject[Any], position: int) -> JSONValue:
        recent = self._recent  # one read: another thread may replace it at any moment
        for known, values in recent:
            # Values that a thread read before a path was added may be stored after that.
            if known is obj and position < len(values):
                break
        else:
            values = self._set.read(obj.raw, is_known=not obj.problem)
            self._recent = ((obj, values), *recent[:1])
        value = values[position]
        if isinstance(value, Exception):
            raise value
        return value


def reader_of(
    declared: str | IndexFunction, view: type[View] | None, paths: SharedPaths
) -> Callable[[KubeObject[Any]], JSONValue]:
    """Return the function that reads an object's values for an index, not normalised.

    Raises:
        InvalidArgumentError: the path cannot be read.
    """
    if callable(declared):
        return declared
    steps = parse_path(declared)
    if steps in _METADATA:
        return _METADATA[steps]
    if steps[:2] == ("metadata", "labels") and len(steps) == _LABEL_STEPS:
        label = steps[2]
        return lambda obj: obj.metadata.labels.get(label)
    field = None if view is None else view_path(view, steps)
    if view is None or field is None:
        return paths.reader(declared)
    return _reader_of_view(view, field, declared, paths)


_LABEL_STEPS = 3


def _reader_of_view(
    view: type[View], field: str, path: str, paths: SharedPaths
) -> Callable[[KubeObject[Any]], JSONValue]:
    """Return a function that reads a field of the view; the body says if a default is a value."""
    read = attrgetter(f"_view.{field}")
    try:
        default = attrgetter(field)(msgspec.convert({}, view))
    except (msgspec.ValidationError, AttributeError):  # the field, or one around it, has none
        return read
    in_body = paths.reader(path)

    def read_or_look(obj: KubeObject[Any]) -> JSONValue:
        value = read(obj)
        return in_body(obj) if value == default else value

    return read_or_look


def read_fenced(index: Index[V], obj: KubeObject[V]) -> Placement:
    """Return an object's values; if reading fails, the object is not in this index."""
    try:
        return placement_of(index.read(obj))
    except ENDS_PROGRAM:
        raise
    except BaseException as error:  # noqa: BLE001 - user code, or a body that does not fit the path
        index.failures += 1
        index.last_failure = f"{type(error).__name__} for {obj.key!r}"
        if index.failures == 1:
            _log.warning(
                "index %s failed on %s with %s: the object is cached, but not in this index;"
                " further failures are counted, not logged",
                index.name,
                obj.key,
                type(error).__name__,
            )
        return None


def read_again(index: Index[V], obj: KubeObject[V]) -> Placement:
    """Return the values of an object that was read before, without counting a failure again."""
    try:
        return placement_of(index.read(obj))
    except ENDS_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001 - user code; counted when the object arrived
        return None


def values_of(index: Index[V], obj: KubeObject[V] | None) -> tuple[str, ...]:
    """Return the values of an object that was read before; empty for None."""
    placement = None if obj is None else read_again(index, obj)
    if placement is None:
        return ()
    return (placement,) if isinstance(placement, str) else placement


def has_value(index: Index[V], obj: KubeObject[V], wanted: str) -> bool:
    """Return whether an object that was read before has a value."""
    placement = read_again(index, obj)
    return placement == wanted or (isinstance(placement, tuple) and wanted in placement)
