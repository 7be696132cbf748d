"""Models: classes of users into which objects are decoded, for reconciles and for listers.

An object that does not fit the model stays cached; reading it as a model is an error that names its
key and the field.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Hashable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)
from uuid import UUID

import msgspec

from pyinformer.errors import (
    InvalidModelError,
    InvalidObjectError,
    InvalidTypeError,
    ModelMismatchError,
)
from pyinformer.objects._field_hints import field_hints, is_typed_dict
from pyinformer.objects._model_checks import (
    check_not_pydantic_dataclass,
    check_parts,
    check_status,
    complete,
    has_fields,
    is_pydantic,
    unreadable_model,
)
from pyinformer.objects._object import KubeObject, converts_itself

M = TypeVar("M")

_OBJECTS: Final = (
    msgspec.inspect.StructType,
    msgspec.inspect.DataclassType,
    msgspec.inspect.DictType,
)
"""The kinds of classes into which an object can be decoded."""

_IMMUTABLE: Final = (
    *(bool, int, float, str, bytes, types.NoneType, msgspec.UnsetType),
    *(datetime, date, time, timedelta, Decimal, UUID, Enum),
)
"""The classes of values that no reader can change."""


WRITTEN_OTHERWISE: Final = (
    "is written under another name than it is read, or not at all, so that edits would be lost;"
    " `alias` sets the name for both"
)
"""Why a field is refused."""


def check_model(model: type[object]) -> None:
    """Refuse a class into which an object cannot be decoded.

    Raises:
        InvalidTypeError: it is neither a msgspec Struct, a dataclass, a pydantic model nor a model
            of a Kubernetes client; or its annotations cannot be read.
        InvalidModelError: a part of it would be read wrongly; names the field.
    """
    if is_typed_dict(model):
        reason = (
            f"must not be a TypedDict such as {model.__name__}, at the top: it is a plain dict, so"
            " that a patch could not keep the fields that it does not know; use a msgspec.Struct or"
            " a dataclass"
        )
        raise InvalidTypeError("model", reason)
    if hasattr(model, "openapi_types") or converts_itself(model):
        return
    try:
        complete(model)
        is_object = is_pydantic(model) or isinstance(msgspec.inspect.type_info(model), _OBJECTS)
    except (TypeError, NameError, SyntaxError) as error:
        if has_fields(model) or not isinstance(error, TypeError):
            raise unreadable_model(model, error) from error
        is_object = False
    if getattr(getattr(model, "__struct_config__", None), "array_like", False):
        reason = f"{model.__name__} has array_like=True, so it is read from arrays, not objects"
        raise InvalidTypeError("model", reason)
    if not is_object:
        name = getattr(model, "__name__", repr(model))
        reason = f"an object cannot be decoded into {name}: use a msgspec.Struct or a dataclass"
        raise InvalidTypeError("model", reason)
    check_parts(model)
    check_status(model)


def check_written_names(model: type[object]) -> None:
    """Refuse a pydantic model with a field that is written under another name than it is read.

    An edit of it would be stored beside the field, or dropped by the server, without an error. A
    model that serializes itself may write any names. Other kinds of models have one name for both,
    except a pydantic dataclass, which is refused.

    Raises:
        InvalidModelError: names the field.
    """
    _check_once(cast("Hashable", model))


@lru_cache(maxsize=256)
def _check_once(model: Any) -> None:  # noqa: ANN401 - a class
    check_not_pydantic_dataclass(model)
    _check_names(model, model.__name__, "", set())


def _check_names(kind: Any, model: str, path: str, seen: set[Any]) -> None:  # noqa: ANN401
    for argument in get_args(kind):
        _check_names(argument, model, path, seen)
    if not isinstance(kind, type) or kind in seen or not hasattr(kind, "model_dump"):
        return
    seen.add(kind)
    if _writes_itself(kind):
        return
    fields: Any = getattr(kind, "model_fields", {})
    for name, field in fields.items():
        read, written = _read_name(name, field), field.serialization_alias or field.alias or name
        where = f"{path}.{read}".lstrip(".")
        if where in {"apiVersion", "kind"} or field.exclude:  # no edit of it is meant to be written
            continue
        if read != written:
            raise InvalidModelError(model, where, WRITTEN_OTHERWISE)
        if where != "metadata":  # what is in it is the server's
            _check_names(field.annotation, model, where, seen)


def _read_name(name: str, field: Any) -> str:  # noqa: ANN401 - a FieldInfo of pydantic
    """Return under which name a field of pydantic is read first, with the path inside it."""
    alias = field.validation_alias or field.alias or name
    if choices := getattr(alias, "choices", None):
        alias = choices[0]
    return alias if isinstance(alias, str) else ".".join(map(str, alias.path))


def _writes_itself(kind: Any) -> bool:  # noqa: ANN401 - a pydantic model
    decorators = getattr(kind, "__pydantic_decorators__", None)
    if decorators is None or decorators.model_serializers:
        return True
    return any("model_dump" in vars(one) and "pydantic" not in one.__module__ for one in kind.mro())


def decode_model(obj: KubeObject[object], model: type[M]) -> M:
    """Decode an object into a model of the caller's own.

    Raises:
        ModelMismatchError: the object does not fit the model; names its key and the field.
    """
    try:
        return obj.as_type(model)
    except InvalidObjectError as error:
        path = _path_of(error.__cause__)
        raise ModelMismatchError(
            error.what, error.reason, key=str(obj.key), path=path, shown=error.shown
        ) from error


def _path_of(error: BaseException | None) -> str:
    """Return the path of the field that does not fit; empty if the error does not name it."""
    problems: Any = getattr(error, "errors", None)  # pydantic's
    if callable(problems):
        found = problems(include_url=False, include_context=False, include_input=False)
        return ".".join(map(str, found[0]["loc"])) if found else ""
    place = str(error).rpartition(" - at `")[2] if " - at `" in str(error) else ""
    return place.partition("$")[2].rstrip("`").removeprefix(".")  # msgspec's `$.spec.replicas`


def why_mutable(model: type[object]) -> str:
    """Return why a reader could change an instance of a model; empty if none can.

    An instance that cannot be changed can be shared by all readers. The declarations decide: the
    class and those of its fields must be frozen, and hold no lists, sets or dicts.

    Args:
        model: a class that `check_model` accepts.
    """
    return _Walk().why(model, getattr(model, "__name__", repr(model)))


class _Field(NamedTuple):
    name: str
    kind: Any


class _Walk:
    """Searches the declarations of a model for a value that can be changed."""

    def __init__(self) -> None:
        self._seen: set[Any] = set()

    def why(self, kind: Any, where: str) -> str:  # noqa: ANN401 - an annotation
        """Return why a value of this type can be changed; empty if it cannot."""
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self.why(arguments[0], where)
        if origin in {Union, types.UnionType}:
            return self._first(_Field(where, each) for each in arguments)
        if origin is Literal:
            return ""
        if origin in {tuple, frozenset}:
            return self._first(_Field(f"{where}[]", each) for each in arguments if each is not ...)
        if not isinstance(kind, type) or origin is not None:
            return f"{where} is {kind}, which readers could change: use a tuple or a frozen class"
        return "" if issubclass(kind, _IMMUTABLE) else self._why_class(kind, where)

    def _why_class(self, kind: type[Any], where: str) -> str:
        if kind in self._seen:
            return ""
        self._seen.add(kind)
        fields = _frozen_fields(kind)
        if fields is None:
            return f"{where} is a {kind.__name__}, which is not frozen"
        for name in getattr(kind, "__private_attributes__", ()):  # pydantic never freezes these
            return f"{where}.{name} is a private attribute, which readers could change"
        return self._first(_Field(f"{where}.{name}", each) for name, each in fields)

    def _first(self, fields: Iterable[_Field]) -> str:
        return next((why for name, kind in fields if (why := self.why(kind, name))), "")


def _frozen_fields(kind: type[Any]) -> Iterable[_Field] | None:
    """Return the fields of a frozen class; None for a class that is not frozen."""
    config: Any = getattr(kind, "model_config", None)  # pydantic's
    if config is not None and is_pydantic(kind):
        if not config.get("frozen") or config.get("extra") == "allow":
            return None
        fields: Any = kind.model_fields
        return [_Field(name, field.annotation) for name, field in fields.items()]
    is_frozen = (
        kind.__struct_config__.frozen
        if issubclass(kind, msgspec.Struct)
        else dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]  # typeshed lacks it
    )
    if not is_frozen:
        return None
    hints = field_hints(kind)
    names: Iterable[str] = (
        kind.__struct_fields__
        if issubclass(kind, msgspec.Struct)
        else [each.name for each in dataclasses.fields(kind)]
    )
    return [_Field(name, hints[name]) for name in names]
