"""Models: classes of users into which objects are decoded, for reconciles and for listers.

An object that does not fit the model stays cached; reading it as a model is an error that names its
key and the field.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from pyinformer.apimachinery._object import KubeObject, converts_itself
from pyinformer.apimachinery._view import View
from pyinformer.errors import InvalidObjectError, InvalidTypeError, ModelMismatchError

M = TypeVar("M")

_OBJECTS: Final = (
    msgspec.inspect.StructType,
    msgspec.inspect.DataclassType,
    msgspec.inspect.TypedDictType,
    msgspec.inspect.DictType,
)
"""The kinds of classes into which an object can be decoded."""


def check_model(model: type[object]) -> None:
    """Refuse a class into which an object cannot be decoded.

    Raises:
        InvalidTypeError: it is neither a msgspec Struct, a dataclass, a TypedDict, a pydantic model
            nor a model of a Kubernetes client.
    """
    is_generated = hasattr(model, "model_validate_json") or hasattr(model, "openapi_types")
    if is_generated or converts_itself(model):
        return
    try:
        is_object = isinstance(msgspec.inspect.type_info(model), _OBJECTS)
    except (TypeError, NameError):  # not a type, or its fields have undefined names
        is_object = False
    if not is_object:
        name = getattr(model, "__name__", repr(model))
        reason = f"an object cannot be decoded into {name}: use a msgspec.Struct or a dataclass"
        raise InvalidTypeError("model", reason)


def decode_model(obj: KubeObject[View | None], model: type[M]) -> M:
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
    """Return the path of the field that does not fit; empty if the error does not name it."""
    problems: Any = getattr(error, "errors", None)  # pydantic's
    if callable(problems):
        found = problems(include_url=False, include_context=False, include_input=False)
        return ".".join(map(str, found[0]["loc"])) if found else ""
    place = str(error).rpartition(" - at `")[2] if " - at `" in str(error) else ""
    return place.partition("$")[2].rstrip("`").removeprefix(".")  # msgspec's `$.spec.replicas`
