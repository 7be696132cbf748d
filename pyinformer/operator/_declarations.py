"""What a reconcile function owns and watches, as its decorator gets it: records, or tuples.

Arguments are checked when a record is made, so the traceback shows the user's line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Generic, TypeAlias, final

from pyinformer._runtime.tasks import check_plain
from pyinformer.cache.informer import InformerSettings, Memory, Scope
from pyinformer.controller.sources import Keys, MappingFunction, PredicateFunction
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import KubeObject, Selector, V, check_view_or_model
from pyinformer.operator._functions_with_cluster import shown_as
from pyinformer.operator._listers import Listers

DEFAULT_MEMORY: Final = "strip_managed_fields"

ListersMapping: TypeAlias = Callable[[KubeObject[V], Listers], Keys]
"""A mapping that reads the operator's caches: `mapping(obj, listers)`."""


@final
@dataclass(frozen=True, slots=True)
class Owns(Generic[V]):
    """A resource that a reconcile creates, with an owner reference to its object.

        owns=[Owns("v1", "secrets", label_selector="app=db", memory="metadata")]

    A change of one of them reconciles its owner.

    Raises:
        InvalidArgumentError: a value is invalid.
        InvalidSelectorError: a selector cannot be parsed.
        InvalidTypeError: the predicate cannot be called, or objects cannot be decoded to the model.
    """

    api_version: str
    """`v1`, or `group/version`."""
    plural: str
    """The resource's plural name, as in its URL."""
    _: KW_ONLY
    label_selector: Selector = None
    """Only the objects with these labels; they must be on every object that is created."""
    field_selector: Selector = None
    """Only the objects with these fields."""
    predicate: PredicateFunction[V] | None = None
    """Drops changes that do not matter."""
    model: type[V] | None = None
    """What the `view` of each object is, for readers of the cache and the predicate."""
    memory: Memory | None = None
    """What the cache keeps of each object, as for `SharedInformerFactory.informer`; `metadata`
    keeps no value of a Secret. None is `strip_managed_fields`, unless another declaration of the
    same resource and selectors has a value; beside None that cannot be `metadata`."""

    def __post_init__(self) -> None:
        """Check the values."""
        _check(self)


@final
@dataclass(frozen=True, slots=True)
class Watches(Generic[V]):
    """A resource on which reconciled objects depend.

        watches=[Watches("v1", "pods", services_of, label_selector="app")]

    A change of one of them reconciles what the mapping returns for its old and new state.

    Raises:
        InvalidArgumentError: a value is invalid.
        InvalidSelectorError: a selector cannot be parsed.
        InvalidTypeError: a function cannot be called, or objects cannot be decoded to the model.
    """

    api_version: str
    """`v1`, or `group/version`."""
    plural: str
    """The resource's plural name, as in its URL."""
    mapping: MappingFunction[V] | Callable[[KubeObject[V], Listers], Keys]
    """Returns the keys that an object concerns: `mapping(obj)`, or `mapping(obj, listers)`, which
    can read the operator's caches. It must be quick and must not wait. The reconcile gets None for
    the key of an object outside of its selectors, as for one that is gone: if it has selectors, the
    mapping must not return such a key."""
    _: KW_ONLY
    label_selector: Selector = None
    """Only the objects with these labels."""
    field_selector: Selector = None
    """Only the objects with these fields."""
    predicate: PredicateFunction[V] | None = None
    """Drops changes that do not matter, before they are mapped."""
    model: type[V] | None = None
    """What the `view` of each object is, for the mapping, the predicate and readers."""
    memory: Memory | None = None
    """As for `Owns`."""

    def __post_init__(self) -> None:
        """Check the values."""
        _check(self)
        shape = "mapping(obj) or mapping(obj, listers)"
        check_plain(self.mapping, shape, 1 + self._takes_listers, may_generate=True)

    @property
    def _takes_listers(self) -> bool:
        """Whether the mapping is called with two arguments: only if it cannot be with one."""
        try:
            signature = inspect.signature(self.mapping)
        except (ValueError, TypeError):  # some builtins have none
            return False
        return not _binds(signature, 1) and _binds(signature, 2)

    def mapping_with(self, listers: Listers) -> MappingFunction[V]:
        """Return the mapping as a function of the object alone; for the operator itself."""
        mapping: Any = self.mapping
        if not self._takes_listers:
            return mapping  # type: ignore[no-any-return]  # it takes one argument

        @shown_as(mapping)
        def mapped(obj: KubeObject[V]) -> Keys:
            """Call the mapping with the listers."""
            return mapping(obj, listers)  # type: ignore[no-any-return]  # the source checks it

        return mapped


Owned: TypeAlias = tuple[str, str] | Owns[Any]
"""An owned resource; `("apps/v1", "statefulsets")` is short for `Owns("apps/v1", ...)`."""

Watched: TypeAlias = tuple[str, str, MappingFunction[None] | ListersMapping[None]] | Watches[Any]
"""A watched resource; `("v1", "secrets", users_of)` is short for `Watches("v1", ...)`."""


def checked_owned(owns: Sequence[Owned]) -> tuple[Owns[Any], ...]:
    """Return the owned resources as records.

    Raises:
        InvalidArgumentError: an entry is invalid.
    """
    return tuple(
        one if isinstance(one, Owns) else Owns(*_entry("owns", one, 2))
        for one in _list("owns", owns)
    )


def checked_watched(watches: Sequence[Watched]) -> tuple[Watches[Any], ...]:
    """Return the watched resources as records.

    Raises:
        InvalidArgumentError: an entry is invalid.
        InvalidTypeError: a mapping cannot be called.
    """
    return tuple(
        one if isinstance(one, Watches) else Watches(*_entry("watches", one, 3))
        for one in _list("watches", watches)
    )


def scope_of(declared: Owns[Any] | Watches[Any]) -> Scope:
    """Return what a record declares, without namespaces.

    Raises:
        InvalidArgumentError: the resource is malformed.
        InvalidSelectorError: a selector cannot be parsed.
    """
    labels, fields = declared.label_selector, declared.field_selector
    return Scope.of(declared.api_version, declared.plural, None, labels, fields)


def _check(declared: Owns[Any] | Watches[Any]) -> None:
    scope_of(declared)
    check_kept(declared.model, declared.memory)
    if declared.predicate is not None:
        check_plain(declared.predicate, "predicate(old, new)", 2)


def check_kept(model: type | None, memory: Memory | None) -> None:
    """Refuse how a cache is to keep objects, now and not when the operator starts.

    Raises:
        InvalidArgumentError: the memory is invalid, or does not fit the model.
        InvalidTypeError: objects cannot be decoded to the model, or a view could be changed.
    """
    if model is not None:
        check_view_or_model(model)
    kept = DEFAULT_MEMORY if memory is None else memory
    InformerSettings(model=model, memory=kept)


def _binds(signature: inspect.Signature, arguments: int) -> bool:
    try:
        signature.bind(*(None,) * arguments)
    except TypeError:
        return False
    return True


def _list(argument: str, given: Sequence[Any]) -> Sequence[Any]:
    record = argument.capitalize()
    if isinstance(given, str | Owns | Watches) or not isinstance(given, Iterable):
        reason = f"must be a list of tuples or {record}(...) records, not {given!r}"
        raise InvalidArgumentError(argument, reason)
    found = tuple(given)
    if found and isinstance(found[0], str):
        raise InvalidArgumentError(argument, f"must be a list of tuples: {argument}=[{given!r}]")
    return found


def _entry(argument: str, entry: tuple[Any, ...], size: int) -> tuple[Any, ...]:
    if not isinstance(entry, tuple) or len(entry) != size:
        record = argument.capitalize()
        shape = '("apps/v1", "statefulsets")' if size == 2 else '("v1", "secrets", mapping)'  # noqa: PLR2004
        reason = f"must have entries like {shape} or {record}{shape}, got {entry!r}"
        raise InvalidArgumentError(argument, reason)
    return entry
