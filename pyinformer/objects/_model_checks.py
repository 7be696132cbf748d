"""Finds the parts of a model that its decoder would misread: classes with rules of another library.

msgspec decodes Structs and dataclasses. It takes a pydantic dataclass for a plain one and ignores
its aliases and validators, and no object fits a part that is a model of another library, or of a
class that msgspec does not know.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    get_args,
    get_origin,
)

import msgspec

from pyinformer.errors import InvalidModelError, InvalidTypeError
from pyinformer.objects._field_hints import field_hints, is_typed_dict
from pyinformer.objects._meta import Labels, ObjectMeta

_OF_THE_CACHE: Final = (ObjectMeta, Labels)
_OF_JSON: Final = (dict, list, str, int, float, bool, types.NoneType)
_HAS_FIELDS: Final = ("__struct_fields__", "__dataclass_fields__", "__attrs_attrs__", "_fields")


def check_parts(model: Any, *, is_field: bool = False) -> None:  # noqa: ANN401 - any type
    """Refuse a model with a part that would be read wrongly, or that no object fits.

    Args:
        model: a model, or the type of a field.
        is_field: it is the type of a field, which msgspec decodes whatever it is.

    Raises:
        InvalidModelError: names the field, and what to use instead.
    """
    by_pydantic = is_pydantic(model) and not is_field
    if (found := _unreadable_part(model, by_pydantic=by_pydantic)) is not None:
        raise InvalidModelError(getattr(model, "__name__", repr(model)), *found)


def check_status(model: Any) -> None:  # noqa: ANN401 - a class with fields
    """Refuse a status that is a dict of models: written as it was read, it would remove the rest.

    Raises:
        InvalidModelError: it is one.
    """
    kind = get_origin(model) or model
    hint = dict(_fields(kind, get_args(model))).get("status")
    for each in (hint, *get_args(hint)):
        origin = get_origin(each) or each
        is_mapping = isinstance(origin, type) and issubclass(origin, Mapping)
        if is_typed_dict(each) or (is_mapping and any(map(_has_models, get_args(each)))):
            reason = (
                "has values that are plain dicts: status() would remove what its type does not"
                " declare, such as fields that other programs write; use a msgspec.Struct or a"
                " dataclass, and inside of it a dict"
            )
            raise InvalidModelError(kind.__name__, "status", reason)


def _has_models(hint: Any) -> bool:  # noqa: ANN401 - an annotation
    kind = get_origin(hint) or hint
    is_model = isinstance(kind, type) and (_has_fields(kind) or is_pydantic(kind))
    return is_model or any(map(_has_models, get_args(hint)))


def complete(model: Any) -> None:  # noqa: ANN401 - any type
    """Resolve the annotations of a pydantic model that names classes which came after it.

    Raises:
        NameError: one of them is not defined.
    """
    if is_pydantic(model) and not getattr(model, "__pydantic_complete__", True):
        model.model_rebuild()


def unreadable_model(model: Any, error: Exception) -> InvalidTypeError:  # noqa: ANN401 - any type
    """Return the error for a model whose annotations its decoder cannot read.

    Args:
        model: the class.
        error: what the decoder raised.
    """
    name = getattr(model, "__name__", repr(model))
    words = str(error).partition("\n")[0]  # pydantic's errors end with the address of a page
    reason = f"an annotation of {name}, or of a part of it, cannot be read: {words}"
    if isinstance(error, NameError):
        reason += "; define it in the module, or import it there outside of `if TYPE_CHECKING:`"
    return InvalidTypeError("model", reason)


def has_fields(model: object) -> bool:
    """Return whether a class declares fields: it is a Struct, a dataclass or the like."""
    return isinstance(model, type) and any(hasattr(model, name) for name in _HAS_FIELDS)


def field_names(model: type[Any]) -> frozenset[str]:
    """Return the names that the fields of a class have in JSON."""
    kind = get_origin(model) or model
    return frozenset(name for name, _ in _fields(kind, get_args(model)))


def check_not_pydantic_dataclass(model: type[Any]) -> None:
    """Refuse a pydantic dataclass, which would be written without its aliases.

    Raises:
        InvalidModelError: it is one.
    """
    if _is_pydantic_dataclass(model):
        raise InvalidModelError(model.__name__, "", _why_pydantic_dataclass(model))


@lru_cache(maxsize=256)
def _unreadable_part(model: Any, *, by_pydantic: bool) -> tuple[str, str] | None:  # noqa: ANN401
    parts = _parts(model, "", by_pydantic=by_pydantic, seen=set())
    return next(((path, why) for path, why in parts if why), None)


def _parts(
    hint: Any,  # noqa: ANN401 - an annotation
    path: str,
    *,
    by_pydantic: bool,
    seen: set[Any],
) -> Iterator[tuple[str, str]]:
    """Yield the places of all classes in a model, each with the reason why it is refused."""
    named = getattr(hint, "__value__", getattr(hint, "__supertype__", None))
    arguments = get_args(named or hint)
    is_annotated = get_origin(hint) is Annotated
    if is_annotated:
        arguments = arguments[:1]
    for each in arguments if named is None else (named,):
        yield from _parts(each, path, by_pydantic=by_pydantic, seen=seen)
    kind = get_origin(hint) or hint
    is_class = isinstance(kind, type) and kind is not types.UnionType and not is_annotated
    if not is_class or kind in seen:
        return
    seen.add(kind)
    if why := _why_unreadable(kind, by_pydantic=by_pydantic):
        yield path, why
        return
    for name, each in _fields(kind):
        yield from _parts(each, f"{path}.{name}".lstrip("."), by_pydantic=by_pydantic, seen=seen)


def _why_unreadable(kind: type[Any], *, by_pydantic: bool) -> str:
    if kind in _OF_THE_CACHE:
        return (
            f"is {kind.__name__}, which the cache makes of an object and JSON does not fit: read"
            " app.object_of(model).metadata, or declare a class with the fields that you need"
        )
    if by_pydantic:
        return ""
    if _is_pydantic_dataclass(kind):
        return _why_pydantic_dataclass(kind)
    if is_pydantic(kind):
        return (
            f"is the pydantic model {kind.__name__}, which only another pydantic model can contain:"
            " derive the whole model from pydantic.BaseModel"
        )
    if hasattr(kind, "openapi_types"):
        return (
            f"is {kind.__name__} of a Kubernetes client, which only models of that client can"
            " contain: use a msgspec.Struct or a dataclass"
        )
    if _is_never_decoded(kind):
        return (
            f"nothing of an object can be decoded into {kind.__name__}: use a type of JSON, such as"
            " str"
        )
    return ""


def _is_never_decoded(kind: type[Any]) -> bool:
    """Return whether msgspec only checks that a value is an instance, which none of JSON is.

    Classes that msgspec knows are not inspected: two threads that do so for the first time can end
    the process.
    """
    if _has_fields(kind) or issubclass(kind, (enum.Enum, msgspec.UnsetType)):
        return False
    try:
        info = msgspec.inspect.type_info(kind)
        is_unknown = isinstance(info, msgspec.inspect.CustomType)
        return is_unknown and not any(issubclass(each, kind) for each in _OF_JSON)
    except (TypeError, NameError):  # another error names it, or it is a protocol
        return False


def _why_pydantic_dataclass(kind: type[Any]) -> str:
    return (
        f"{kind.__name__} is a pydantic dataclass, whose aliases and validators would be ignored:"
        " derive the whole model from pydantic.BaseModel, or use dataclasses.dataclass"
    )


def is_pydantic(kind: object) -> bool:
    """Return whether a class is a model of pydantic, which decodes and checks itself."""
    return hasattr(kind, "model_validate_json")


def _is_pydantic_dataclass(kind: object) -> bool:
    return hasattr(kind, "__pydantic_validator__") and dataclasses.is_dataclass(kind)


def _has_fields(kind: type[Any]) -> bool:
    return has_fields(kind) or is_typed_dict(kind)


def _fields(kind: type[Any], arguments: Sequence[object] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a class under their names in JSON, with their types."""
    if is_pydantic(kind):
        for name, field in kind.model_fields.items():
            yield field.alias or name, field.annotation
        return
    if not _has_fields(kind):
        return
    own = _made_by_itself(kind)
    encoded = {}
    if issubclass(kind, msgspec.Struct):
        encoded = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    try:
        hints = field_hints(kind, arguments)
    except (NameError, TypeError):  # the decoder refuses the class, and says why
        return
    for name, hint in hints.items():
        if get_origin(hint) is not ClassVar and hint is not ClassVar and name not in own:
            yield encoded.get(name, name), hint


def _made_by_itself(kind: Any) -> set[str]:  # noqa: ANN401 - a class with fields
    """Return the fields with `init=False`, which are not meant to be in an object."""
    is_dataclass = dataclasses.is_dataclass(kind)
    fields = dataclasses.fields(kind) if is_dataclass else getattr(kind, "__attrs_attrs__", ())
    return {each.name for each in fields if not each.init}
