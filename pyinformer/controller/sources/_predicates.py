"""Predicates: which changes matter to a controller, by an object's old and new state.

`old` is None if the object appeared, `new` if it disappeared. A predicate decides about each event
before events are merged, so it sees every state. A filter by state passes an object that enters the
state and one that leaves it, however filters are combined.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, overload

import msgspec
from typing_extensions import TypeVar

from pyinformer._runtime.tasks import check_plain, name_of, refuse_awaitable
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import KubeObject, LabelSelector, V, decoder_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.objects import Selector

PredicateFunction: TypeAlias = Callable[[KubeObject[V] | None, KubeObject[V] | None], bool]
"""Returns whether a change matters: `function(old, new)`. It runs on the event loop, so it must be
quick and must not wait. If it raises, the change counts as one that matters."""

StateFunction: TypeAlias = Callable[[KubeObject[V]], bool]
"""Returns whether an object is in a state that matters: `function(obj)`; see PredicateFunction."""

_W = TypeVar("_W", default=object, contravariant=True)
_A = TypeVar("_A")

_NOT_DESIRED: Final = frozenset({"metadata", "status"})
_decode_fields = decoder_of(dict[str, msgspec.Raw], skims=True)


class Predicate(Generic[_W]):
    """A predicate that can be combined: `labels_changed | matches(is_ready)`, `~paused`.

    Args:
        function: `function(old, new)`.

    Raises:
        InvalidTypeError: it cannot be called, or is asynchronous.

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
        reason = f"{self!r} must be combined by `&`, `|` and `~`, not by `and`, `or` and `not`"
        raise InvalidArgumentError("predicate", reason)

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
        test = all if every else any
        super().__init__(lambda old, new: test(part(old, new) for part in parts))

    def __repr__(self) -> str:
        return _names(self.parts, every=self.every)


@overload  # first, since a lambda's parameter has no type of its own to infer a view from
def matches(function: Callable[[KubeObject[object]], bool]) -> Predicate: ...
@overload
def matches(function: StateFunction[_A]) -> Predicate[_A]: ...
def matches(function: StateFunction[_A]) -> Predicate[_A]:
    """Pass changes of objects that are in a state, enter it or leave it.

    Filters by state are combined as states: `matches(f) & matches(g)` filters by the state "f and
    g", and `~matches(f)` by the state "not f", so both pass objects that enter or leave it.

    Args:
        function: `function(obj)`; not called for a state that does not exist.

    Raises:
        InvalidTypeError: it cannot be called, or is asynchronous.
    """
    check_plain(function, "state(obj)", 1)
    return _StateFilter(function, f"matches({name_of(function)})")


def matches_labels(label_selector: Selector | LabelSelector) -> Predicate:
    """Pass changes of objects that a label selector selects, before the change or after it.

    It is the state filter `matches` for labels, and is combined in the same way. An informer's
    `label_selector` also keeps other objects out of the cache and the network.

    Args:
        label_selector: as a text (`app=web,tier in (a,b)`), a mapping of labels, or a LabelSelector
            as manifests have it; an empty one selects every object.

    Raises:
        InvalidSelectorError: it cannot be parsed.
        InvalidTypeError: it is not a selector.

    Source:
        controller-runtime pkg/predicate/predicate.go, LabelSelectorPredicate.
    """
    selector = LabelSelector.parse(label_selector)
    selects = selector.matches
    return _StateFilter(
        lambda obj: selects(obj.metadata.labels), f"matches_labels({str(selector)!r})"
    )


def all_of(*predicates: PredicateFunction[_A]) -> Predicate[_A]:
    """Pass changes that every predicate passes; the same as `&`.

    Raises:
        InvalidArgumentError: none was given.
        InvalidTypeError: one of them is not a predicate.
    """
    return _combine(predicates, every=True)


def any_of(*predicates: PredicateFunction[_A]) -> Predicate[_A]:
    """Pass changes that at least one predicate passes; the same as `|`.

    Raises:
        InvalidArgumentError: none was given.
        InvalidTypeError: one of them is not a predicate.
    """
    return _combine(predicates, every=False)


def negate(predicate: PredicateFunction[_A]) -> Predicate[_A]:
    """Pass changes that a predicate drops; for a filter by state, filter by the opposite state.

    Additions and deletions are negated, too: `generation_changed` passes them, its negation does
    not.

    Raises:
        InvalidTypeError: it is not a predicate.
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
    """Return the answer of a predicate.

    Raises:
        InvalidTypeError: the answer would have to be awaited; or what the predicate raises.
    """
    found: object = predicate(old, new)
    if found is True or found is False:
        return found
    refuse_awaitable(found, "predicate")
    return bool(found)


def _combine(predicates: tuple[PredicateFunction[_A], ...], *, every: bool) -> Predicate[_A]:
    """Check and combine predicates; filters by state alone become one filter by state."""
    if not predicates:
        raise InvalidArgumentError("predicates", "must be one or more")
    for each in predicates:
        _check(each)
    states = [each.state for each in predicates if isinstance(each, _StateFilter)]
    if len(states) < len(predicates):
        return _Combined(predicates, every=every)
    test = all if every else any
    return _StateFilter(lambda obj: test(s(obj) for s in states), _names(predicates, every=every))


def _names(predicates: tuple[PredicateFunction[_A], ...], *, every: bool) -> str:
    names = (repr(p) if isinstance(p, Predicate) else name_of(p) for p in predicates)
    return f"({(' & ' if every else ' | ').join(names)})"


def _check(predicate: object) -> None:
    check_plain(predicate, "predicate(old, new)", 2)


def _generation_changed(old: KubeObject[object] | None, new: KubeObject[object] | None) -> bool:
    if old is None or new is None:
        return True
    generation = new.metadata.generation
    if generation == 0 or generation != old.metadata.generation:
        return True
    # For a kind without generations, the server keeps what a client writes there.
    try:
        return _desired(old) != _desired(new)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True


def _desired(obj: KubeObject[object]) -> dict[str, bytes]:
    """Return the text of each field except the metadata and the status."""
    fields = _decode_fields(obj.raw)
    return {name: bytes(text) for name, text in fields.items() if name not in _NOT_DESIRED}


def _resource_version_changed(
    old: KubeObject[object] | None, new: KubeObject[object] | None
) -> bool:
    if old is None or new is None:
        return True
    return old.metadata.resource_version != new.metadata.resource_version


def _labels_changed(old: KubeObject[object] | None, new: KubeObject[object] | None) -> bool:
    return old is None or new is None or _differ(old.metadata.labels, new.metadata.labels)


def _annotations_changed(old: KubeObject[object] | None, new: KubeObject[object] | None) -> bool:
    return old is None or new is None or _differ(old.annotations, new.annotations)


def _differ(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    return dict(old) != dict(new)


generation_changed: Final[Predicate] = Predicate(_generation_changed)
"""Passes changes of the desired state (mostly `spec`), not of the status. Additions, deletions and
objects of a kind without generations, such as ConfigMaps, always pass; if a client wrote a
generation into such an object, changes of metadata or status alone do not pass."""

resource_version_changed: Final[Predicate] = Predicate(_resource_version_changed)
"""Passes every change except resyncs, which sources drop by default."""

labels_changed: Final[Predicate] = Predicate(_labels_changed)
"""Passes changes of labels; additions and deletions, too."""

annotations_changed: Final[Predicate] = Predicate(_annotations_changed)
"""Passes changes of annotations; it decodes both states. Additions and deletions pass, too."""
