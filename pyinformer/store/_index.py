"""One index: from a value to the objects that have it.

What enters are objects and what an index function says of them; what is kept are buckets, a dict
from value to the objects by key. A bucket holds the objects themselves, so that reading one needs
no second look-up. Index values are text; numbers and booleans become text, None is not indexed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeAlias

from pyinformer.apimachinery import (
    IndexNotFoundError,
    InvalidTypeError,
    JSONValue,
    KubeObject,
    V,
)

IndexValue: TypeAlias = str | int | float | bool
"""What an object can be found by."""

IndexFunction: TypeAlias = Callable[["KubeObject[Any]"], "IndexValue | Iterable[IndexValue] | None"]
"""Says by which values an object can be found: one, several, or None. It must be pure: it runs on
the loop when an object arrives, and on a reader's thread when that object moves at this moment."""

Placement: TypeAlias = str | tuple[str, ...] | None
"""The values of one object, normalised."""

_FEW: Final = 8
"""To search so many values one by one is quicker than to make a set of them."""


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """How an index does."""

    name: str
    values: int
    failures: int
    """How often an object arrived that the function raised for: it is cached, not in this index."""
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
    reason = f"index values are text, numbers or booleans, not {type(value).__name__}"
    raise InvalidTypeError("value", reason)


def placement_of(values: JSONValue) -> Placement:
    """Normalise what an index function or a path gave."""
    if values is None or values.__class__ is str:
        return values
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        return tuple(dict.fromkeys(text_of(value) for value in values if value is not None))
    return text_of(values)


class Index(Generic[V]):
    """The buckets of one index.

    Args:
        name: the name it is read by.
        read: returns the values of an object as they are; it may raise.
        is_function: it is a user's, and may answer otherwise the next time.
        is_fixed: every state of an object has the same value.
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
        """Return an index of the same kind with nothing in it."""
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
        """Tell whether an object is not where its function says now that it belongs."""
        values = () if placement is None else _values(placement)
        return any(key not in self.buckets.get(value, ()) for value in values)

    def move(self, key: str, placement: Placement, obj: KubeObject[V]) -> None:
        """Put an object where it belongs, and take it out of wherever else it is."""
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
