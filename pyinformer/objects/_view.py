"""Views: the part of an object that a user wants decoded once and shared.

A user subclasses `View` with fields in snake case. A view is decoded in the same pass as the
metadata and is frozen. It is refused if a field could be mutated, since all readers share the view,
or would be tracked by the garbage collector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec
from msgspec import Struct, StructMeta
from msgspec import inspect as msginspect
from typing_extensions import dataclass_transform

from pyinformer.errors import InvalidModelError, InvalidTypeError
from pyinformer.objects._model_checks import check_parts

if TYPE_CHECKING:

    @dataclass_transform(
        frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,)
    )
    class _ViewMeta(type):
        """What type checkers see: a frozen dataclass with keyword arguments only."""

    class View(metaclass=_ViewMeta):
        """Base class of views; declare fields as in a dataclass."""

        def __init_subclass__(cls, *, rename: str | None = "camel") -> None: ...

else:

    class _ViewMeta(StructMeta):
        def __new__(
            mcs, name: str, bases: tuple[type, ...], namespace: dict[str, object], **options: object
        ) -> type:
            for option, value in _VIEW_OPTIONS.items():
                options.setdefault(option, value)
            return super().__new__(mcs, name, bases, namespace, **options)

    _VIEW_OPTIONS = {"rename": "camel", "kw_only": True, "frozen": True, "gc": False}

    class View(Struct, metaclass=_ViewMeta):
        """Base class of views; declare fields as in a dataclass."""


_ALREADY_THERE = {
    "metadata": "obj.metadata and obj.annotations",
    "kind": "obj.gvk",
    "apiVersion": "obj.gvk",
}

_IMMUTABLE = (
    msginspect.NoneType,
    msginspect.BoolType,
    msginspect.IntType,
    msginspect.FloatType,
    msginspect.StrType,
    msginspect.BytesType,
    msginspect.DateTimeType,
    msginspect.DateType,
    msginspect.TimeType,
    msginspect.TimeDeltaType,
    msginspect.DecimalType,
    msginspect.EnumType,
    msginspect.LiteralType,
)


def is_view(model: object) -> TypeGuard[type[View]]:
    """Return whether a model is a View, which is decoded when an object arrives."""
    return isinstance(model, type) and issubclass(model, View)


def check_view(view: type[View]) -> None:
    """Refuse a view that cannot be decoded, or that a reader could change.

    Raises:
        InvalidTypeError: naming the field and what to use instead.
    """
    name = getattr(view, "__name__", repr(view))
    if not is_view(view):
        raise _invalid(name, "it must be a subclass of pyinformer.View")
    try:
        info = msginspect.type_info(view)
    except (TypeError, NameError, SyntaxError) as error:
        raise _invalid(name, f"its types cannot be decoded: {error}") from error
    struct = _as_struct(info)
    for field in struct.fields:
        for taken in {field.name, field.encode_name} & _ALREADY_THERE.keys():
            reason = f"{taken} is on every object already: use {_ALREADY_THERE[taken]}"
            raise _invalid(name, reason)
    try:
        check_parts(view)
    except InvalidModelError as error:
        raise _invalid(name, error.reason) from error
    mutable = _mutable(info, name, frozenset())
    if mutable is not None:
        raise _invalid(name, mutable)


def _invalid(view: str, reason: str) -> InvalidTypeError:
    return InvalidTypeError("model", f"{view} cannot be a view: {reason}", given=view)


def _as_struct(info: msginspect.Type) -> msginspect.StructType:
    if not isinstance(info, msginspect.StructType):
        raise _invalid(repr(info), "it must be a structure")
    return info


def _mutable(info: msginspect.Type, where: str, seen: frozenset[type]) -> str | None:
    """Return why a value of this type could be changed, or None."""
    if isinstance(info, msginspect.Metadata):
        return _mutable(info.type, where, seen)
    if isinstance(info, _IMMUTABLE):
        return None
    if isinstance(info, msginspect.UnionType):
        return _first(_mutable(option, where, seen) for option in info.types)
    if isinstance(info, msginspect.VarTupleType):
        return _mutable(info.item_type, f"{where}[]", seen)
    if isinstance(info, msginspect.TupleType):
        return _first(_mutable(item, f"{where}[]", seen) for item in info.item_types)
    if isinstance(info, msginspect.StructType):
        return _mutable_struct(info, where, seen)
    generic = type(info).__name__.removesuffix("Type").lower()
    kind = getattr(getattr(info, "cls", None), "__name__", generic)
    reason = "which readers could change or the garbage collector would have to walk"
    return f"{where} is a {kind}, {reason}; use text, a tuple, or a nested View"


def _mutable_struct(info: msginspect.StructType, where: str, seen: frozenset[type]) -> str | None:
    config: Any = info.cls.__struct_config__
    if not config.frozen or config.gc:
        return f"{where} is a {info.cls.__name__}, which must be a View (frozen, not collected)"
    if info.cls in seen:
        return None
    inner = seen | {info.cls}
    return _first(
        _mutable(f.type, f"{where}.{f.name}", inner) or _mutable_default(f, f"{where}.{f.name}")
        for f in info.fields
    )


def _mutable_default(field: msginspect.Field, where: str) -> str | None:
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    if isinstance(default, list | dict | set | bytearray):
        kind = type(default).__name__
        return f"{where} has a {kind} as its default, which readers could change; use ()"
    return None


def _first(reasons: Any) -> str | None:  # noqa: ANN401 - a generator of str | None
    return next((reason for reason in reasons if reason is not None), None)
