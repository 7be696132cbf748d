"""Fields of models that can never be decoded: msgspec knows nothing of their classes.

Of a pydantic model in a Struct or a dataclass, or of an `ipaddress.IPv4Address`, msgspec only
checks whether the decoded value is an instance, which no value of JSON is.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

_OF_JSON: Final = (dict, list, str, int, float, bool, types.NoneType)


class UndecodableField(NamedTuple):
    """A field into which no value can be decoded."""

    path: str
    """Such as `spec.targets[]`; empty for the model as a whole."""
    reason: str


@lru_cache(maxsize=256)  # models are classes of the program; bounded for those made on the fly
def undecodable_field(model: Any) -> UndecodableField | None:  # noqa: ANN401 - any kind of model
    """Return a field of a Struct or dataclass that can never be decoded; None if there is none."""
    try:
        info = msgspec.inspect.type_info(model)
    except (TypeError, NameError):  # another error names it
        return None
    return next(_search(info, "", set()), None)


def _search(info: object, path: str, seen: set[type]) -> Iterator[UndecodableField]:
    if isinstance(info, msgspec.inspect.CustomType):
        if not _may_be_of_json(info.cls):
            yield UndecodableField(path, _reason(info.cls))
        return
    kind = getattr(info, "cls", None)
    if kind is not None:
        if kind in seen:
            return
        seen.add(kind)
    for field in getattr(info, "fields", ()):
        if isinstance(field, msgspec.inspect.Field):
            yield from _search(field.type, f"{path}.{field.encode_name}".lstrip("."), seen)
    one = (getattr(info, name, None) for name in ("item_type", "value_type"))
    for inner in (*filter(None, one), *getattr(info, "item_types", ())):
        yield from _search(inner, f"{path}[]", seen)
    for inner in getattr(info, "types", ()):  # of a union
        yield from _search(inner, path, seen)


def _may_be_of_json(kind: Any) -> bool:  # noqa: ANN401 - a class, or a generic one
    try:
        return any(issubclass(each, kind) for each in _OF_JSON)
    except TypeError:
        return True  # such as a protocol that cannot be checked


def _reason(kind: Any) -> str:  # noqa: ANN401 - as above
    name = getattr(kind, "__name__", repr(kind))
    if hasattr(kind, "model_validate_json"):
        return f"{name} is a pydantic model: the model around it has to be a pydantic model, too"
    return f"nothing of an object can be decoded into {name}: use a type of JSON, such as str"
