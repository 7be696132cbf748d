"""The fields of a class by their annotations, with the type variables of generic bases replaced."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard, TypeVar, get_args, get_origin, get_type_hints


def field_hints(kind: type[Any], arguments: Sequence[object] = ()) -> dict[str, Any]:
    """Return the types of the fields of a class by name, with what `Annotated` adds.

    Args:
        kind: a Struct, a dataclass or a TypedDict.
        arguments: what the class itself is parametrized with: `Spec` in `Resource[Spec]`.

    Raises:
        NameError: an annotation names what is not defined.
        TypeError: an annotation is not a type.
    """
    known: dict[type[Any], Mapping[object, object]] = {}
    _collect(kind, arguments, known)
    hints = get_type_hints(kind, include_extras=True)
    return {name: _bind(hint, known[_declaring(kind, name)]) for name, hint in hints.items()}


def is_typed_dict(kind: object) -> TypeGuard[type[Any]]:
    """Return whether this is a TypedDict: that of `typing`, or that of typing_extensions."""
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__total__")


def _collect(
    kind: type[Any], arguments: Sequence[object], known: dict[type[Any], Mapping[object, object]]
) -> None:
    """Find out what the type variables of a class and of its bases stand for."""
    bound = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
    known[kind] = bound
    for base in vars(kind).get("__orig_bases__", kind.__bases__):
        origin = get_origin(base) or base
        if isinstance(origin, type) and origin not in known:
            _collect(origin, [_bind(each, bound) for each in get_args(base)], known)


def _declaring(kind: type[Any], name: str) -> type[Any]:
    """Return the class that declares a field: of a TypedDict, which has no bases, itself."""
    return next((one for one in kind.__mro__ if name in inspect.get_annotations(one)), kind)


def _bind(hint: Any, bound: Mapping[object, object]) -> Any:  # noqa: ANN401 - a type form
    """Replace type variables by what they stand for."""
    if isinstance(hint, TypeVar):
        return bound.get(hint, hint)
    variables = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
    return hint[tuple(bound.get(each, each) for each in variables)] if variables else hint
