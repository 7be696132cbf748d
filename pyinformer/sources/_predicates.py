"""Which changes matter to a controller: functions of an object's old and new state.

`old` is None where the object appeared, `new` where it disappeared. What leaves is yes or no, per
event and before anything is merged, so that a passing state is never overlooked. A filter by state
passes who enters it and who leaves it, however filters are combined.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, overload

import msgspec
from typing_extensions import TypeVar

from pyinformer.apimachinery import (
    InvalidArgumentError,
    InvalidTypeError,
    KubeObject,
    V,
    View,
    invalid_handler,
)
from pyinformer.tasks import check_callable, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

PredicateFunction: TypeAlias = Callable[[KubeObject[V] | None, KubeObject[V] | None], bool]
"""Says whether a change matters: `function(old, new)`. It runs on the event loop, so it must be
quick and must not wait. If it raises, the change counts as one that matters."""

StateFunction: TypeAlias = Callable[[KubeObject[V]], bool]
"""Says whether an object is in a state that matters: `function(obj)`; otherwise as a predicate."""

_NOT_WANTED: Final = frozenset({"metadata", "status"})
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_W = TypeVar("_W", bound=View | None, default=View | None, contravariant=True)
_A = TypeVar("_A", bound=View | None)


class Predicate(Generic[_W]):
    """A predicate that can be combined: `labels_changed | matches(is_ready)`, `~paused`.

    Args:
        function: `function(old, new)`.

    Raises:
        InvalidTypeError: it could not be called, or would have to be awaited.

    Source:
        controller-runtime pkg/predicate/predicate.go.
    """

    def __init__(
        self, function: Callable[[KubeObject[_W] | None, KubeObject[_W] | None], bool]
    ) -> None:
        check_plain(function, "predicate(old, new)", 2)
        self._function = function

    def __call__(self, old: KubeObject[_W] | None, new: KubeObject[_W] | None) -> bool:
        return self._function(old, new)

    def __and__(self: Predicate[_A], other: PredicateFunction[_A]) -> Predicate[_A]:
        return all_of(self, other)

    def __rand__(self: Predicate[_A], other: PredicateFunction[_A]) -> Predicate[_A]:
        return all_of(other, self)

    def __or__(self: Predicate[_A], other: PredicateFunction[_A]) -> Predicate[_A]:
        return any_of(self, other)

    def __ror__(self: Predicate[_A], other: PredicateFunction[_A]) -> Predicate[_A]:
        return any_of(other, self)

    def __invert__(self: Predicate[_A]) -> Predicate[_A]:
        return negate(self)

    def __bool__(self) -> bool:
        reason = f"{self!r} is no yes or no: combine by `&`, `|` and `~`"
        raise InvalidArgumentError("predicate", f"{reason}, not by `and`, `or` and `not`")

    def __repr__(self) -> str:
        return name_of(self._function)


class _StateFilter(Predicate[_W]):
    """Passes changes of objects that are, or were, in a state."""

    def __init__(self, state: Callable[[KubeObject[_W]], bool], name: str) -> None:
        self.state = state
        self._name = name
        super().__init__(self._touches)

    def _touches(self, old: KubeObject[_W] | None, new: KubeObject[_W] | None) -> bool:
        state = self.state
        return (new is not None and state(new)) or (old is not None and state(old))

    def __repr__(self) -> str:
        return self._name


class _Combined(Predicate[_W]):
    """Several predicates of which all, or any, must pass."""

    def __init__(self, parts: tuple[PredicateFunction[_W], ...], *, every: bool) -> None:
        self.parts = parts
        self.every = every
        super().__init__(self._all if every else self._any)

    def _all(self, old: KubeObject[_W] | None, new: KubeObject[_W] | None) -> bool:
        return all(part(old, new) for part in self.parts)

    def _any(self, old: KubeObject[_W] | None, new: KubeObject[_W] | None) -> bool:
        return any(part(old, new) for part in self.parts)

    def __repr__(self) -> str:
        names = (repr(p) if isinstance(p, Predicate) else name_of(p) for p in self.parts)
        return f"({(' & ' if self.every else ' | ').join(names)})"


@overload  # first, since a lambda's parameter has no type of its own to infer a view from
def matches(function: Callable[[KubeObject[View | None]], bool]) -> Predicate: ...
@overload
def matches(function: StateFunction[_A]) -> Predicate[_A]: ...
def matches(function: StateFunction[_A]) -> Predicate[_A]:
    """Pass changes of objects that are in a state, enter it or leave it.

    Filters by state are combined as states: `matches(f) & matches(g)` is a filter by the state
    "f and g", `~matches(f)` one by the state "not f", which who enters or leaves passes, too.

    Args:
        function: `function(obj)`; not called for what does not exist.

    Raises:
        InvalidTypeError: it could not be called, or would have to be awaited.
    """
    check_plain(function, "state(obj)", 1)
    return _StateFilter(function, f"matches({name_of(function)})")


def all_of(*predicates: PredicateFunction[_A]) -> Predicate[_A]:
    """Pass changes that every predicate passes; the same as `&`.

    Raises:
        InvalidArgumentError: there is none.
        InvalidTypeError: one of them is no predicate.
    """
    states = _states(predicates)
    if states is not None:
        return _StateFilter(lambda obj: all(s(obj) for s in states), _names(" & ", predicates))
    return _Combined(predicates, every=True)


def any_of(*predicates: PredicateFunction[_A]) -> Predicate[_A]:
    """Pass changes that some predicate passes; the same as `|`.

    Raises:
        InvalidArgumentError: there is none.
        InvalidTypeError: one of them is no predicate.
    """
    states = _states(predicates)
    if states is not None:
        return _StateFilter(lambda obj: any(s(obj) for s in states), _names(" | ", predicates))
    return _Combined(predicates, every=False)


def negate(predicate: PredicateFunction[_A]) -> Predicate[_A]:
    """Pass changes that a predicate drops; of a filter by state, the filter by its opposite.

    Mind additions and deletions: `generation_changed` passes them, so its negation drops them.

    Raises:
        InvalidTypeError: it is no predicate.
    """
    if isinstance(predicate, _StateFilter):
        state = predicate.state
        return _StateFilter(lambda obj: not state(obj), f"~{predicate!r}")
    if isinstance(predicate, _Combined):  # so that the filters in it stay filters by state
        return _Combined(tuple(negate(p) for p in predicate.parts), every=not predicate.every)
    _check(predicate)
    return Predicate(lambda old, new: not predicate(old, new))


def verdict(
    predicate: PredicateFunction[_A], old: KubeObject[_A] | None, new: KubeObject[_A] | None
) -> bool:
    """Ask a predicate, and refuse an answer that would have to be awaited.

    Raises:
        InvalidTypeError: it would; or whatever the predicate raises.
    """
    found: object = predicate(old, new)
    if found is True or found is False:
        return found
    if inspect.isawaitable(found):
        if inspect.iscoroutine(found):
            found.close()
        raise InvalidTypeError("predicate", "would have to be awaited; it decides in one step")
    return bool(found)


def _states(predicates: tuple[PredicateFunction[_A], ...]) -> list[StateFunction[_A]] | None:
    """Check what is to be combined; return the states if there is nothing but filters by state."""
    if not predicates:
        raise InvalidArgumentError("predicates", "are none; give one or more")
    for each in predicates:
        _check(each)
    filters = [each for each in predicates if isinstance(each, _StateFilter)]
    return [each.state for each in filters] if len(filters) == len(predicates) else None


def _names(operator: str, predicates: tuple[PredicateFunction[_A], ...]) -> str:
    return f"({operator.join(map(repr, predicates))})"


def _check(predicate: object) -> None:
    check_plain(predicate, "predicate(old, new)", 2)


def check_plain(
    function: object, shape: str, arguments: int, *, may_generate: bool = False
) -> None:
    """Refuse what cannot be called, or would have to be awaited: the event's step never waits.

    Raises:
        InvalidTypeError: by its name, and with the shape.
    """
    check_callable(function, shape, arguments, may_generate=may_generate)
    if inspect.iscoroutinefunction(function):
        reason = f"it is asynchronous; write `def {shape}`: it decides in the step of the event"
        raise invalid_handler(name_of(function), reason)


def _generation_changed(
    old: KubeObject[View | None] | None, new: KubeObject[View | None] | None
) -> bool:
    if old is None or new is None:
        return True
    generation = new.metadata.generation
    if generation == 0 or generation != old.metadata.generation:
        return True
    # Of a kind that counts no generations, the server keeps what a client writes there.
    try:
        return _wanted(old) != _wanted(new)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True


def _wanted(obj: KubeObject[View | None]) -> dict[str, bytes]:
    """Return the text of each field beside the metadata and the status."""
    fields = _decode_fields(obj.raw)
    return {name: bytes(text) for name, text in fields.items() if name not in _NOT_WANTED}


def _resource_version_changed(
    old: KubeObject[View | None] | None, new: KubeObject[View | None] | None
) -> bool:
    if old is None or new is None:
        return True
    return old.metadata.resource_version != new.metadata.resource_version


def _labels_changed(
    old: KubeObject[View | None] | None, new: KubeObject[View | None] | None
) -> bool:
    return old is None or new is None or _differ(old.metadata.labels, new.metadata.labels)


def _annotations_changed(
    old: KubeObject[View | None] | None, new: KubeObject[View | None] | None
) -> bool:
    return old is None or new is None or _differ(old.annotations, new.annotations)


def _differ(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    return dict(old) != dict(new)


generation_changed: Final[Predicate] = Predicate(_generation_changed)
"""Passes changes of what is wanted (mostly `spec`), not of the status; additions and deletions too.
Objects of a kind that counts no generations (a ConfigMap, for one) always pass; if a client
wrote a generation into one, every change passes that is not of metadata or status alone."""

resource_version_changed: Final[Predicate] = Predicate(_resource_version_changed)
"""Passes every change but those that a reminder makes up; sources drop these by default."""

labels_changed: Final[Predicate] = Predicate(_labels_changed)
"""Passes changes of labels; additions and deletions, too."""

annotations_changed: Final[Predicate] = Predicate(_annotations_changed)
"""Passes changes of annotations, for which it decodes both states; additions and deletions too."""
