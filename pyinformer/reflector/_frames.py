"""What reading a watch can run into, as exceptions of the reflector's own."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, final

from pyinformer.apimachinery import (
    InformerError,
    InvalidObjectError,
    KubeObject,
    ListInconsistentError,
    ProtocolError,
    V,
)
from pyinformer.transport import read_frame_head, read_frame_slowly

if TYPE_CHECKING:
    from pyinformer.apimachinery import ObjectCodec
    from pyinformer.reflector._state import Breach


@final
class StreamBroken(Exception):  # noqa: N818 - control flow between our own modules
    """A watch whose content cannot be followed any further."""

    def __init__(
        self, breach: Breach, error: InformerError, line: bytes = b"", *, verify: str = ""
    ) -> None:
        super().__init__(str(error))
        self.breach = breach
        self.error = error
        self.verify = verify
        self.digest = hashlib.blake2b(line).digest() if line else b""


@final
class ListBehindError(ProtocolError):
    """A complete list is older than what is cached: lagging, or the server's history is another."""


@final
class ListUnorderedError(ListInconsistentError):
    """A list holds an object that is newer than the list: versions have no order there."""


@final
class ListWithoutVersionError(ProtocolError):
    """A list says nothing of its version: a wrong body, or an API that has none."""


def decode_any(codec: ObjectCodec[V], line: bytes) -> KubeObject[V]:
    """Decode the object of a line that does not look as API servers write it.

    Raises:
        ProtocolError: the line is not an event.
        InvalidObjectError: its object cannot be identified.
    """
    _, data, start, end = read_frame_slowly(line, 0, len(line))
    return codec.decode(data, start, end)


def decode_oversized(
    codec: ObjectCodec[V], head: bytes, size_bytes: int
) -> tuple[str, KubeObject[V]]:
    """Tell the type of an event that is too long, and what its head has of its object.

    Raises:
        ProtocolError: the line is not an event.
        InvalidObjectError: its object cannot be identified.
    """
    kind, start = read_frame_head(head)
    return kind, codec.decode_head(head[start:-1], size_bytes - start - 1)


__all__ = [
    "InvalidObjectError",
    "ListBehindError",
    "ListUnorderedError",
    "ListWithoutVersionError",
    "StreamBroken",
    "decode_any",
    "decode_oversized",
]
