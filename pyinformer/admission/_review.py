"""One review, as a hook's function gets it, and how the function refuses."""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Literal, NamedTuple, TypeAlias, final

import typing_extensions

from pyinformer._printable import printable, shortened
from pyinformer.errors import InformerError, InvalidArgumentError
from pyinformer.objects import check_text

if TYPE_CHECKING:
    from pyinformer.objects import GroupVersionKind, JSONObject, KubeObject

M = typing_extensions.TypeVar("M", default="KubeObject")

HookOperation: TypeAlias = Literal["create", "update", "delete"]
"""A write that hooks are asked about. A patch is an update, or a creation by apply."""

_MAX_TEXT: Final = 1_000  # characters of a refusal
_MAX_WARNING: Final = 256  # what the API server sends of one
_MAX_WARNINGS: Final = 16  # all of them have to fit into the 4 KiB that it sends
_CLIENT_ERRORS: Final = range(400, 500)
_UNPROCESSABLE: Final = 422


@final
class Denied(InformerError):  # noqa: N818 - what it says
    """Raised by a hook: the request is refused, and its client gets the text.

    Attributes:
        message: why, for the person who wrote the object.
        status: the HTTP status at the client, 400 to 499.
    """

    def __init__(self, message: str, *, status: int = _UNPROCESSABLE) -> None:
        check_text("message", message)
        if isinstance(status, bool) or status not in _CLIENT_ERRORS:
            raise InvalidArgumentError("status", f"must be 400 to 499, got {status!r}")
        self.message = message
        self.status = status
        super().__init__(f"{message}; the client gets {status}")

    @property
    def shown(self) -> str:
        """The text for the client, in one line: parts of it may be those of a tenant."""
        return shown(self.message)


def shown(text: str) -> str:
    """Return a text for the client of the API server, in one printable line."""
    return shortened(printable(text), _MAX_TEXT)


@final
class User(NamedTuple):
    """Who sent the request, as the API server has authenticated it."""

    name: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = {}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Review(Generic[M]):
    """One request that the API server asks about: by whom, how, and what was there before."""

    uid: str
    """Of the review. A request is reviewed again if others have changed its object since."""
    operation: HookOperation
    kind: GroupVersionKind
    """The kind of the object, in the version that was asked for."""
    namespace: str
    """Empty for an object that is in none."""
    name: str
    """Empty while the server has not made one from `generateName`."""
    subresource: str
    """`status` or `scale`, if that is written; empty for the object itself."""
    user: User
    dry_run: bool
    """Whether nothing will be stored: the hook must have no effect elsewhere."""
    options: JSONObject
    """Of the request: its field manager, and its grace period for a deletion."""
    old_object: KubeObject | None
    """The object before the write; None for a creation."""
    warnings: list[str]
    """What `warn` was called with."""
    decode: Callable[[KubeObject], M]

    @property
    def old(self) -> M | None:
        """The object before the write, as the model; None for a creation. Decoded at each read.

        Raises:
            ModelMismatchError: it does not fit the model. If the hook does not handle that, the
                request is refused with the place.
        """
        return None if self.old_object is None else self.decode(self.old_object)

    def warn(self, text: str) -> None:
        """Let the client show a warning, whether or not the request is allowed.

        The server sends 256 characters of a warning, and 16 of them fit.

        Raises:
            InvalidTypeError: it is not a text.
        """
        check_text("text", text)
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(shortened(printable(text), _MAX_WARNING))
