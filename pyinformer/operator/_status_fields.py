"""Which fields by convention the status of a model has."""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pyinformer.operator._rules import fields_of

_BY_CONVENTION: Final = frozenset({"conditions", "observedGeneration"})


def status_fields_of(model: type) -> frozenset[str]:
    """Return which of `conditions` and `observedGeneration` the status of a model has.

    A status of any content, such as a dict, has both.
    """
    hints = [hint for name, hint in fields_of(model, ()) if name == "status"]
    return frozenset().union(*map(_fields_in, hints))


def _fields_in(hint: object) -> frozenset[str]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _fields_in(arguments[0])
    if origin in {Union, UnionType}:
        return frozenset().union(*map(_fields_in, arguments))
    kind = origin or hint
    if kind is Any or (isinstance(kind, type) and issubclass(kind, Mapping)):
        return _BY_CONVENTION
    if not isinstance(kind, type):
        return frozenset()
    return _BY_CONVENTION & {name for name, _ in fields_of(kind, arguments)}
