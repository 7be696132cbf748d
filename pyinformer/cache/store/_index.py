"""One index: a dict from each value to the objects that have it.

Buckets hold the objects themselves, so a read needs no second lookup. Index values are texts;
numbers and booleans become texts, None is not indexed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeAlias

from pyinformer.errors import IndexNotFoundError, InvalidTypeError
from pyinformer.objects import JSONValue, KubeObject, V, check_text

NAMESPACE_INDEX: Final = "namespace"
"""The index that every cache has."""

IndexValue: TypeAlias = str | int | float | bool
"""A value under which an index has an object."""

IndexFunction: TypeAlias = Callable[["KubeObject[Any]"], "IndexValue | Iterable[IndexValue] | None"]
"""Returns the values under which an object is found: one, several, or None. It must be pure: it
runs on the loop when an object arrives, and on a reader's thread while that object is moved."""

Placement: TypeAlias = str | tuple[str, ...] | None
"""The values of one object, normalised."""

_FEW: Final = 8
"""Up to this many values, a linear search is faster than building a set."""


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """Counters of an index."""

    name: str
    values: int
    failures: int
    """How often the function raised for a new object, which is then cached but not indexed."""
    last_failure: str


def text_of(value: IndexValue) -> str:
    """Return an index value as text, as JSON writes it."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return str.__str__(value)  # of a subclass too: buckets are found by plain text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    reason = f"must be a text, a number or a boolean, not {type(value).__name__}"
    raise InvalidTypeError("value", reason)


def placement_of(values: JSONValue) -> Placement:
    """Return the normalised values of an index function or a path."""
    if values is None or values.__class__ is str:
        return values
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        return tuple(dict.fromkeys(text_of(value) for value in values if value is not None))
    return text_of(values)


class Index(Generic[V]):
    """The buckets of one index.

    Args:
        name: the name it is read by.
        read: returns the values of an object, not normalised; it may raise.
        is_function: whether `read` is a user's function, which may not be pure.
        is_fixed: whether every state of an object has the same value.
    """

    __slots__ = ("buckets", "failures", "is_fixed", "is_function", "last_failure", "name", "read")

    def __init__(
        self,
        name: str,
        read: Callable[[KubeObject[V]], JSONValue],
        *,
        is_function: bool = False,
        is_fixed: bool = False,
    ) -> None:
        self.name = name
        self.is_fixed = is_fixed
        self.is_function = is_function
        self.read = read
        self.buckets: dict[str, dict[str, KubeObject[V]]] = {}
        self.failures = 0
        self.last_failure = ""

    def empty_copy(self) -> Index[V]:
        """Return an empty index of the same kind."""
        copy = Index(self.name, self.read, is_function=self.is_function, is_fixed=self.is_fixed)
        copy.failures, copy.last_failure = self.failures, self.last_failure
        return copy

    def place(self, key: str, placement: Placement, obj: KubeObject[V]) -> None:
        """Put an object into the buckets of its values."""
        if placement is None:
            return
        buckets = self.buckets
        for value in (placement,) if placement.__class__ is str else placement:
            bucket = buckets.get(value)
            if bucket is None:
                buckets[value] = bucket = {}
            bucket[key] = obj

    def displace(self, key: str, placement: Placement, remaining: Placement) -> None:
        """Take a key out of the buckets of its old values, except of those that remain."""
        if placement is None or placement == remaining:
            return
        stay: Collection[str] = () if remaining is None else _values(remaining)
        if len(stay) > _FEW:  # a tenant can write 100,000 values into one object
            stay = frozenset(stay)
        for value in _values(placement):
            bucket = self.buckets.get(value)
            if bucket is None or value in stay:
                continue
            bucket.pop(key, None)
            if not bucket:
                del self.buckets[value]

    def has_misplaced(self, key: str, placement: Placement) -> bool:
        """Return whether an object is missing under a value that its function returns now."""
        values = () if placement is None else _values(placement)
        return any(key not in self.buckets.get(value, ()) for value in values)

    def move(self, key: str, placement: Placement, obj: KubeObject[V]) -> None:
        """Put an object under its values, and remove it from all others."""
        self.place(key, placement, obj)
        elsewhere = tuple(value for value, bucket in self.buckets.items() if key in bucket)
        self.displace(key, elsewhere, placement)

    def statistics(self) -> IndexStatistics:
        """Return the index's size and its failures."""
        return IndexStatistics(self.name, len(self.buckets), self.failures, self.last_failure)


def _values(placement: str | tuple[str, ...]) -> tuple[str, ...]:
    return (placement,) if isinstance(placement, str) else placement


def find_index(indexes: Mapping[str, Index[V]], name: str) -> Index[V]:
    """Return the index with this name.

    Raises:
        IndexNotFoundError: there is no such index.
    """
    try:
        return indexes[name]
    except KeyError:
        raise IndexNotFoundError(index=name, known=tuple(indexes)) from None
    except TypeError:  # checked only then: each read by an index passes here
        check_text("name", name)
        raise
