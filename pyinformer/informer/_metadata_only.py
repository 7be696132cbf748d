"""What cannot work where metadata is all that is kept of an object.

The settings of an informer and its indexes enter; an error leaves where something would be read
that is never there, so that nothing looks empty that only was not asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyinformer.apimachinery import InvalidArgumentError, parse_path

if TYPE_CHECKING:
    from pyinformer.apimachinery import View
    from pyinformer.store import IndexFunction

_INSTEAD: Final = "ask for the informer with another `memory`"
_ALWAYS_THERE: Final = frozenset({"metadata", "kind", "apiVersion"})


def check_projection(memory: str, projection: type[View] | None) -> None:
    """Refuse a view of what is not there: a view never has fields of the metadata.

    Raises:
        InvalidArgumentError: naming the view.
    """
    if memory == "metadata" and projection is not None:
        name = getattr(projection, "__name__", repr(projection))
        reason = (
            f"{name} reads what is not kept: with memory='metadata' there is obj.metadata and"
            f" obj.annotations; leave the projection out, or {_INSTEAD}"
        )
        raise InvalidArgumentError("projection", reason)


def check_readable(memory: str, by: str | IndexFunction) -> None:
    """Refuse an index by a path that no object has.

    Raises:
        InvalidArgumentError: naming the path.
        InvalidArgumentError: it is none.
    """
    if memory == "metadata" and isinstance(by, str) and parse_path(by)[0] not in _ALWAYS_THERE:
        reason = f"{by} is not kept with memory='metadata', so nothing would ever be found by it"
        raise InvalidArgumentError("by", f"{reason}; {_INSTEAD}")
