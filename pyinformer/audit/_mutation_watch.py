"""Values that a program made of cached objects and keeps, watched for changes by a digest.

A model that a program stores and hands to several of its parts enters with the object it was made
of; what is kept is a digest, the object (which the cache has anyway) and a weak reference where the
model's type allows one. The number of watched values is bounded, and the oldest make room.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, cast, final

from pyinformer.apimachinery import InformerError, InvalidTypeError
from pyinformer.audit._mutation import CacheMutation, digest_of

if TYPE_CHECKING:
    from pyinformer.apimachinery import KubeObject, View
    from pyinformer.audit._mutation_ledger import SharedValue


@final
class WatchedValue:
    """One value of a program's own.

    Args:
        name: what reports call it, and who is named as its reader.
        record: the object that it was made of.
        value: the dict or the model.

    Raises:
        InvalidTypeError: it is nothing that a digest can be made of.
    """

    __slots__ = ("_get", "_is_derived", "digest", "name", "record")

    def __init__(self, name: str, record: KubeObject[View | None], value: object) -> None:
        self.name = name
        self.record = record
        self.digest = digest_of(value)
        if self.digest is None:
            reason = f"a {type(value).__name__} cannot be written as JSON, so no change is noticed"
            raise InvalidTypeError("value", reason)
        self._get = _reference(value)
        original = self._made_anew(type(value))
        # What was changed before it was watched would be taken for a mutation's paths.
        self._is_derived = original is None or digest_of(original) != self.digest

    @property
    def what(self) -> str:
        """What a report calls it."""
        return f"the value watched as {self.name}"

    @property
    def readers(self) -> Collection[tuple[str, str]]:
        """Only its own name: who else has it, the program knows."""
        return ((self.name, ""),)

    def current(self) -> object:
        """Return it as it is; None if nobody has it any more."""
        return self._get()

    def original(self) -> object:
        """Make it anew from the object's bytes, unless it was never just that."""
        return None if self._is_derived else self._made_anew(type(self._get()))

    def _made_anew(self, kind: type[object]) -> object:
        try:
            return self.record.to_dict() if kind is dict else self.record.as_type(kind)
        except InformerError:
            return None


@final
class WatchedValues:
    """All of them, as a source of shared values.

    Args:
        limit: how many are watched; the oldest make room.
    """

    name = "watched values"

    def __init__(self, limit: int) -> None:
        self.dropped: int = 0
        """How many had to make room."""
        self._limit = limit
        self._values: OrderedDict[tuple[str, str], WatchedValue] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: WatchedValue) -> None:
        """Watch a value in place of the one of the same name and key."""
        about = value.name, value.record._key
        self._values.pop(about, None)
        self._values[about] = value
        if len(self._values) > self._limit:
            self._values.popitem(last=False)
            self.dropped += 1

    def remove(self, name: str, key: str) -> None:
        """Watch a value no more; one that is not watched is no error."""
        self._values.pop((name, key), None)

    def values(self) -> Iterable[SharedValue]:
        """Return those that somebody still has."""
        for about, value in list(self._values.items()):
            if value.current() is None:
                self._values.pop(about, None)
            else:
                yield value

    def handlers(self) -> tuple[str, ...]:
        """Return nothing: each value names its own."""
        return ()

    def heal(self, value: SharedValue) -> None:
        """Do nothing: the value is the program's own."""

    def misplaced(self) -> Iterable[CacheMutation | None]:
        """Return nothing: no index holds them."""
        return ()

    def tell(self, mutation: CacheMutation) -> None:
        """Do nothing: no informer counts them."""


def _reference(value: object) -> Callable[[], object]:
    try:
        return cast("Callable[[], object]", weakref.ref(value))
    except TypeError:  # dicts, and structs without a place for it
        return lambda: value
