"""Models of the user's own: what a reconcile gets in the place of a cached object.

In goes an object as it is cached; out comes a model decoded for this one call, so that nobody else
sees what is done to it. An object that does not fit stays cached and fails its own reconcile.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from pyinformer.apimachinery import (
    InvalidObjectError,
    InvalidTypeError,
    KubeObject,
    ModelMismatchError,
    View,
)

M = TypeVar("M")

_OBJECTS: Final = (
    msgspec.inspect.StructType,
    msgspec.inspect.DataclassType,
    msgspec.inspect.TypedDictType,
    msgspec.inspect.DictType,
)
"""What an object can be decoded into."""


def check_model(model: type[object]) -> None:
    """Refuse what nothing can be decoded into.

    Raises:
        InvalidTypeError: it is neither a msgspec Struct, a dataclass, a TypedDict, a pydantic model
            nor a model of a Kubernetes client.
    """
    if hasattr(model, "model_validate_json") or hasattr(model, "openapi_types"):
        return
    try:
        is_object = isinstance(msgspec.inspect.type_info(model), _OBJECTS)
    except (TypeError, NameError):  # no type, or one with fields of names that nobody defined
        is_object = False
    if not is_object:
        name = getattr(model, "__name__", repr(model))
        reason = f"nothing can be decoded into {name}: make it a msgspec.Struct or a dataclass"
        raise InvalidTypeError("model", reason)


def decode(obj: KubeObject[View | None], model: type[M]) -> M:
    """Decode an object into a model of the caller's own.

    Raises:
        ModelMismatchError: the object does not fit the model; names its key and the field.
    """
    try:
        return obj.as_type(model)
    except InvalidObjectError as error:
        path = _path_of(error.__cause__)
        raise ModelMismatchError(error.what, error.reason, key=str(obj.key), path=path) from error


def _path_of(error: BaseException | None) -> str:
    """Return the field that a model's complaint is about, as far as it says so."""
    problems: Any = getattr(error, "errors", None)  # pydantic's
    if callable(problems):
        found = problems(include_url=False, include_context=False, include_input=False)
        return ".".join(map(str, found[0]["loc"])) if found else ""
    place = str(error).rpartition(" - at `")[2] if " - at `" in str(error) else ""
    return place.partition("$")[2].rstrip("`").removeprefix(".")  # msgspec's `$.spec.replicas`
