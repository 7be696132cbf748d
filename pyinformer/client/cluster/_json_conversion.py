"""Converts what the caller passes to be written into a fresh dict of plain JSON values.

It takes a dict, a KubeObject, a model (a msgspec Struct, a dataclass, a pydantic model, or one of a
Kubernetes client's), or the object of another library with `to_dict()`. In a model None means
absent, at every depth; elsewhere it means null.
Errors name types and places and never values.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct

from pyinformer.errors import InvalidArgumentError, InvalidModelError, InvalidTypeError
from pyinformer.objects import (
    MAX_DEPTH,
    JSONObject,
    JSONValue,
    KubeObject,
    ObjectMeta,
    check_written_names,
    converts_itself,
)


class DataclassModel(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


class PydanticModel(Protocol):
    """An instance of a pydantic model, as far as it matters here."""

    def model_dump_json(self) -> str:
        """Return the model as JSON."""
        ...


class ClientModel(Protocol):
    """A model or a dynamic object of kubernetes_asyncio, kubernetes, kr8s or lightkube."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as a dict."""
        ...


Model: TypeAlias = Struct | DataclassModel | PydanticModel | ClientModel
"""A typed object, or a part of one."""

Body: TypeAlias = Mapping[str, JSONValue] | KubeObject[object] | Model
"""An object to be written."""

NO_UNICODE: Final = "must be Unicode; it has half of a surrogate pair, from a file name perhaps"

TOO_DEEP: Final = (
    f"must not have more than {MAX_DEPTH} levels, nor contain itself; nothing was sent"
)
"""Why a body is refused that could not be read again."""

_PLAIN = (int, bool, type(None))
_CONTAINERS = (dict, list)
_OTHERWISE: Final = (str, float, Enum, Mapping)
"""Classes whose values are not written by their fields, even if they are dataclasses as well."""
_SHOWN = (str, int, bool)
_WORDS: Final = {None: "null", False: "false", True: "true"}


def body_of(body: Body, argument: str = "obj", *, level: int = 1) -> JSONObject:
    """Return an object as a new dict.

    Args:
        body: the object; it is not changed.
        argument: its name, for errors.
        level: 1, or 2 for a field of what is sent.

    Raises:
        InvalidTypeError: it is not an object, or has a value that JSON cannot express.
        InvalidArgumentError: it has a number that JSON cannot express, or too many levels.
        InvalidObjectError: the body of a KubeObject cannot be decoded.
    """
    return _checked(body, argument, level, omit_defaults=True)


def whole_body_of(model: Body, argument: str, *, level: int = 1) -> JSONObject:
    """Return all fields of a model, including those that have their default value.

    Raises:
        InvalidTypeError: it is not an object, or has a value that JSON cannot express.
        InvalidArgumentError: it has a number that JSON cannot express.
    """
    return _checked(model, argument, level, omit_defaults=False)


def whole_fields_of(
    fields: Mapping[str, object], argument: str, *, model: type[object]
) -> JSONObject:
    """Return fields of a model, as `whole_body_of` does.

    Args:
        fields: by their names in JSON.
        argument: for errors.
        model: whose they are, for errors.

    Raises:
        InvalidTypeError: as for `whole_body_of`.
        InvalidArgumentError: as for `whole_body_of`.
    """
    return _converted(fields, argument, _How(omit_defaults=False, keep_nulls=False), 1, model)


def plain_fields(model: object) -> dict[str, object]:
    """Return the fields of a Struct or a dataclass, by their names in JSON.

    Args:
        model: of a class for which `is_plain_model` is true.
    """
    return dict(_fields_of(model, omit_defaults=False) or ())


def is_model(body: object) -> bool:
    """Return whether this is a typed object, which may not know all of its fields."""
    return not isinstance(body, Mapping | KubeObject) and not _is_dynamic(body)


def is_plain_model(kind: type[object]) -> bool:
    """Return whether a class is a Struct or a dataclass whose fields are those of its JSON."""
    return _is_plain_model(cast("Hashable", kind))


@lru_cache(maxsize=256)  # models are classes of the program; bounded for those made on the fly
def _is_plain_model(kind: Any) -> bool:  # noqa: ANN401 - a class
    if any(hasattr(kind, name) for name in ("model_dump", "openapi_types")):
        return False
    if issubclass(kind, Struct):
        return not issubclass(kind, KubeObject) and not kind.__struct_config__.array_like
    is_other = issubclass(kind, _OTHERWISE) or hasattr(kind, "to_dict")
    return dataclasses.is_dataclass(kind) and not is_other


def encode_body(body: JSONValue, content_type: str = "") -> bytes:
    """Return the JSON text of what `body_of` made.

    Args:
        body: JSON values.
        content_type: where the server reads YAML, the text is of the same value there.
    """
    raw = msgspec.json.encode(body)
    if "yaml" not in content_type:
        return raw
    from pyinformer.objects import json_for_yaml

    return json_for_yaml(raw)


def _checked(body: Body, argument: str, level: int, *, omit_defaults: bool) -> JSONObject:
    if isinstance(body, KubeObject):
        return body.to_dict()
    how = _How(omit_defaults, keep_nulls=not is_model(body))
    return _converted(body, argument, how, level, type(body))


def json_of(value: object, argument: str) -> JSONValue:
    """Return any value as JSON values.

    Args:
        value: such as a list of the operations of a JSON patch.
        argument: for errors.

    Raises:
        InvalidTypeError: as for `body_of`.
        InvalidArgumentError: as for `body_of`.
    """
    return _value_of(value, argument, _How(omit_defaults=False, keep_nulls=True), 1, type(value))


def _converted(
    body: object, argument: str, how: _How, level: int, kind: type[object]
) -> JSONObject:
    found = _value_of(body, argument, how, level, kind)
    if not isinstance(found, dict):
        reason = f"must be an object, its dict or a model, not {kind.__name__}"
        raise InvalidTypeError(argument, reason)
    return found


def _value_of(body: object, argument: str, how: _How, level: int, kind: type[object]) -> JSONValue:
    try:
        return _json(body, how, level)
    except InvalidModelError:
        raise
    except TypeError as error:
        reason = f"JSON cannot express a value in {kind.__name__}: {error}"
        raise InvalidTypeError(argument, reason) from error
    except RecursionError as error:
        raise InvalidArgumentError(argument, TOO_DEEP) from error
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(argument, f"a text in it {NO_UNICODE}") from error
    except _NotFiniteError as error:
        raise InvalidArgumentError(
            argument, "must not contain NaN or infinity, which JSON cannot express"
        ) from error
    except _SameNameError as error:
        reason = "has two keys of the same name in one mapping, an Enum and its text perhaps"
        raise InvalidArgumentError(argument, reason) from error
    except ValueError as error:  # a model's own serializers; their words may quote the object
        reason = f"a {kind.__name__} cannot be written as JSON: {type(error).__name__}"
        raise InvalidArgumentError(argument, reason) from None


class _NotFiniteError(Exception):
    """A float that JSON would turn into null, which deletes."""


class _SameNameError(Exception):
    """Two keys of a mapping have the same text."""


class _How(NamedTuple):
    omit_defaults: bool
    keep_nulls: bool


def _json(value: Any, how: _How, level: int) -> JSONValue:  # noqa: ANN401
    if type(value) is dict or type(value) is list:
        return _plain(value, how, level)
    if type(value) in _PLAIN:
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _NotFiniteError
        return float(value)
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return _unicode(value)
    if isinstance(value, Struct) and is_plain_model(type(value)):
        fields = _of_struct(value, omit_defaults=how.omit_defaults) or {}
        return _plain(fields, _How(how.omit_defaults, keep_nulls=False), level)
    named = _fields_of(value, omit_defaults=how.omit_defaults)
    if named is not None:
        within = _How(how.omit_defaults, keep_nulls=False) if is_model(value) else how
        return _plain(named, within, level)
    if isinstance(value, list | tuple):
        return _plain(value, how, level)
    return msgspec.to_builtins(value, str_keys=True, order="deterministic")


def _plain(value: Mapping[Any, Any] | Sequence[Any], how: _How, level: int) -> JSONValue:
    """Convert what is in a container; large objects consist of ASCII texts for the most part.

    Each level takes one frame of the stack, so that the deepest allowed body fits.
    """
    if level > MAX_DEPTH:
        raise RecursionError
    below = level + 1
    if type(value) is dict or isinstance(value, Mapping):
        keep_nulls = how.keep_nulls
        found: JSONObject = {}
        for name, field in value.items():
            if type(name) is not str or not name.isascii():
                key, name = name, _unicode(_key_text(name))  # noqa: PLW2901
                if name in found or (key != name and name in value):
                    raise _SameNameError
            if type(field) is str and field.isascii():
                found[name] = field
            elif field is not UNSET and (keep_nulls or field is not None):
                nests = type(field) in _CONTAINERS
                found[name] = (_plain if nests else _json)(field, how, below)
        return found
    items: list[JSONValue] = []
    for one in value:
        if type(one) is str and one.isascii():
            items.append(one)
        else:
            items.append((_plain if type(one) in _CONTAINERS else _json)(one, how, below))
    return items


def _key_text(key: Any) -> str:  # noqa: ANN401
    """Return the name of a field as encoders of JSON write it."""
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool):
        return _WORDS[key]
    (text,) = msgspec.to_builtins({key: None}, str_keys=True)
    return str(text)


def _unicode(text: str) -> str:
    """Return a text that JSON can express."""
    found = str.__str__(text)  # a subclass may show another one
    if not found.isascii():
        found.encode()
    return found


def _fields_of(value: Any, *, omit_defaults: bool) -> Mapping[str, object] | None:  # noqa: ANN401
    """Return the fields of a mapping or a model under their names in JSON; None for others."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type):
        return None
    if isinstance(value, KubeObject):
        return value.to_dict()
    kind = type(value)  # dynamic objects of clients seem to have every attribute
    if hasattr(kind, "model_dump"):
        check_written_names(kind)
        dumped: Mapping[str, object] = value.model_dump(mode="json", by_alias=True)
        values = value.model_dump(mode="python", by_alias=True)
        revealed: Mapping[str, object] = _revealed(dumped, values)
        return revealed
    if hasattr(kind, "openapi_types"):
        return {value.attribute_map[name]: getattr(value, name) for name in value.openapi_types}
    if isinstance(value, Struct):
        return _of_struct(value, omit_defaults=omit_defaults)
    if converts_itself(kind) or _is_dynamic(value):
        converted: Mapping[str, object] = value.to_dict()
        return converted
    if is_dataclass := dataclasses.is_dataclass(value):
        check_written_names(kind)
    fields = dataclasses.fields(value) if is_dataclass else getattr(kind, "__attrs_attrs__", None)
    return None if fields is None else {one.name: getattr(value, one.name) for one in fields}


def _of_struct(value: Struct, *, omit_defaults: bool) -> Mapping[str, object] | None:
    if isinstance(value, ObjectMeta):
        raise TypeError("an ObjectMeta is not all of the metadata, which obj.to_dict() has")
    if omit_defaults or value.__struct_config__.array_like:
        found = msgspec.to_builtins(value, str_keys=True, order="deterministic")
        return found if isinstance(found, dict) else None
    return dict(_struct_fields(value))


def _revealed(dumped: Any, values: Any) -> Any:  # noqa: ANN401
    """Return what pydantic makes of a model for JSON, with what it hides of the values there.

    A secret becomes asterisks, which would be written over it; NaN and infinity become null in
    places, which deletes. What a serializer of the model makes stays as it is.
    """
    if type(values) in _SHOWN:
        return dumped
    if isinstance(dumped, dict) and isinstance(values, dict) and len(dumped) == len(values):
        pairs = zip(dumped.items(), values.values(), strict=True)
        return {name: _revealed(one, value) for (name, one), value in pairs}
    if isinstance(dumped, list) and isinstance(values, AbstractSet):
        # pydantic writes it in the order of its hashes, which another process has otherwise.
        shown = [_revealed("", one) for one in values] if _hides(dumped) else dumped
        return sorted(shown, key=_place_in_set)
    if isinstance(dumped, list) and isinstance(values, Sequence) and len(dumped) == len(values):
        return [_revealed(one, value) for one, value in zip(dumped, values, strict=True)]
    if _hides([dumped]) and hasattr(values, "get_secret_value"):
        secret = values.get_secret_value()
        return secret.decode() if isinstance(secret, bytes) else secret
    if dumped is None and isinstance(values, float):
        raise _NotFiniteError
    return dumped


def _place_in_set(value: JSONValue) -> tuple[float, bytes]:
    return (value if isinstance(value, int | float) else math.inf), msgspec.json.encode(value)


def _hides(dumped: list[Any]) -> bool:
    return all(isinstance(one, str) and not one.strip("*") for one in dumped)


def _is_dynamic(value: object) -> bool:
    """Return whether this is another library's object of any kind, of kr8s for example.

    Its `to_dict` gives the names in JSON, which that of a model may not.
    """
    kind = type(value)
    is_typed = isinstance(value, Struct) or any(
        hasattr(kind, name) for name in ("openapi_types", "model_dump", "__dataclass_fields__")
    )
    return callable(getattr(kind, "to_dict", None)) and not is_typed and not converts_itself(kind)


def _struct_fields(value: Struct) -> Iterator[tuple[str, object]]:
    config = value.__struct_config__
    if config.tag_field is not None:
        yield config.tag_field, config.tag
    names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    for encoded, name in names:  # msgspec.structs.fields() reads all annotations, each time
        yield encoded, getattr(value, name)
