"""Metadata of an object: small, immutable at every depth, and not tracked by the garbage collector.

Labels are a mapping over one flat tuple of strings: a frozen record with a dict in it would be
neither immutable nor untracked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import ItemsView, Mapping, ValuesView
from typing import TYPE_CHECKING, Final, NoReturn, final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

_FEW: Final = 64
"""Up to this many keys, a linear search is the fastest; more keys are kept sorted."""


@final
class OwnerReference(Struct, frozen=True, gc=False, rename="camel"):
    """One entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


if TYPE_CHECKING:

    @final
    class Labels(Mapping[str, str]):
        """An immutable mapping of text to text: labels, or annotations."""

        _flat: tuple[str, ...]

        def __init__(self, flat: tuple[str, ...] = ()) -> None: ...
        @classmethod
        def of(cls, labels: Mapping[str, str]) -> Labels:
            """Copy a mapping."""
            ...

        def __getitem__(self, key: str) -> str: ...
        def __iter__(self) -> Iterator[str]: ...
        def __len__(self) -> int: ...

else:

    @final
    class _SortedKeys(tuple):
        """Many keys, sorted, and then their values; a key is found by bisection.

        An API server stores 100,000 labels of one object, and comparing all of them pair by pair
        would take minutes. It is a tuple, so that few labels need no test of how many they are.
        """

        __slots__ = ()

        def __contains__(self, key: object) -> bool:
            return self._search(key) is not None

        def index(self, key: object, *_: int) -> int:
            """Return the place of a key."""
            place = self._search(key)
            if place is None:
                raise ValueError(key)
            return place

        def _search(self, key: object) -> int | None:
            if not isinstance(key, str):
                return None
            half = len(self) // 2
            place = bisect_left(self, key, 0, half)
            return place if place < half and self[place] == key else None

    @final
    class Labels(Struct, frozen=True, gc=False, eq=False):
        """An immutable mapping of text to text: labels, or annotations."""

        _flat: tuple[str, ...] = ()
        """All keys, then all values: a key is found by one search at the speed of C."""

        @classmethod
        def of(cls, labels: Mapping[str, str]) -> Labels:
            """Copy a mapping."""
            if len(labels) > _FEW:
                labels = dict(sorted(labels.items()))
                return cls(_SortedKeys((*labels.keys(), *labels.values())))
            return cls((*labels.keys(), *labels.values()))

        def __getitem__(self, key: str) -> str:
            flat = self._flat
            half = len(flat) // 2
            try:
                return flat[half + flat.index(key, 0, half)]
            except ValueError:
                raise KeyError(key) from None

        def get(self, key: str, default: object = None) -> object:
            """Return the value of a key, or the default."""
            flat = self._flat
            if key in flat:
                half = len(flat) // 2
                place = flat.index(key)
                if place < half:  # otherwise it is a value
                    return flat[half + place]
            return default

        def __iter__(self) -> Iterator[str]:
            return iter(self._flat[: len(self._flat) // 2])

        def __len__(self) -> int:
            return len(self._flat) // 2

        def __hash__(self) -> int:
            return hash(frozenset(self.items()))

        def __repr__(self) -> str:
            return f"Labels({dict(self.items())!r})"

        def items(self) -> ItemsView[str, str]:
            """Return the keys with their values, in the order of the keys."""
            return _Items(self)

        def values(self) -> ValuesView[str]:
            """Return the values, in the order of the keys."""
            return _Values(self)

        __contains__ = Mapping.__contains__
        __eq__ = Mapping.__eq__
        __ne__ = object.__ne__  # that of a Struct does not call __eq__
        keys = Mapping.keys

    # The views of Mapping would search for each key again.
    class _Items(ItemsView):
        __slots__ = ()

        def __iter__(self) -> Iterator[tuple[str, str]]:
            flat = self._mapping._flat  # noqa: SLF001 - they are one class
            half = len(flat) // 2
            return zip(flat[:half], flat[half:], strict=True)

    class _Values(ValuesView):
        __slots__ = ()

        def __iter__(self) -> Iterator[str]:
            flat = self._mapping._flat  # noqa: SLF001 - they are one class
            return iter(flat[len(flat) // 2 :])

    # A Struct cannot inherit from Mapping (their metaclasses differ), so it is registered as one.
    Mapping.register(Labels)

NO_LABELS = Labels(())


@final
class ObjectMeta(Struct, frozen=True, gc=False):
    """The metadata of an object, shared and immutable.

    Annotations and managed fields are not in it: read `obj.annotations`, or `obj.to_dict()`.
    """

    namespace: str
    """Empty for a cluster-scoped object."""
    name: str
    uid: str
    resource_version: str
    generation: int = 0
    labels: Labels = NO_LABELS
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str | None = None
    """RFC 3339, as the server wrote it."""
    deletion_timestamp: str | None = None
    """RFC 3339; set while the object waits for its finalizers."""

    if not TYPE_CHECKING:
        # Type checkers refuse it already.
        @property
        def annotations(self) -> NoReturn:
            """Raise an error that names where annotations are."""
            message = "ObjectMeta has no annotations: read obj.annotations"
            raise AttributeError(message)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls this object, if there is one."""
        return next((owner for owner in self.owner_references if owner.controller), None)
