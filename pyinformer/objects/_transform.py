"""The user's change to an object before it is cached, and the fence around that code.

The fields that identify the object are restored after the change. If a transform raises, its change
is dropped and the object is kept as the server sent it, with the reason as its `problem`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, final

from msgspec import Struct

from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer.errors import InformerError, InvalidTypeError
from pyinformer.objects._decoding_structs import encode
from pyinformer.objects._json_decoders import JSONObject, decode_object


@final
class BytesTransform(Struct, frozen=True):
    """A transform that works on the JSON text itself.

    Args:
        function: takes and returns the bytes of one JSON object.
    """

    function: Callable[[bytes], bytes]


Transform: TypeAlias = Callable[[JSONObject], JSONObject] | BytesTransform
"""Takes the object as a new dict and returns the dict to keep; or a BytesTransform."""

_IDENTITY = frozenset({"namespace", "name", "uid", "resourceVersion"})


def apply_transform(transform: Transform, raw: bytes) -> tuple[bytes, str]:
    """Return the object's new bytes, or its old ones with the reason for that."""
    try:
        original = decode_object(raw, "the object to transform")
        changed = _call(transform, raw)
        return encode(_with_identity(original, changed)), ""
    except ENDS_PROGRAM:
        raise
    except BaseException as error:  # noqa: BLE001 - user code; its failure must not lose the object
        return raw, f"transform failed: {type(error).__name__}{_words_of(error)}"


def _words_of(error: BaseException) -> str:
    """Return the words of an error of our own, and the place of another one.

    The words of user code may quote the object, and this text is kept, logged and shown.
    """
    if isinstance(error, InformerError):
        return f": {error}"
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return "" if place is None else f" at {place.tb_frame.f_code.co_filename}:{place.tb_lineno}"


def _call(transform: Transform, raw: bytes) -> JSONObject:
    if isinstance(transform, BytesTransform):
        return decode_object(transform.function(raw), "what the transform returned")
    changed = transform(decode_object(raw, "the object to transform"))
    if not isinstance(changed, dict):
        reason = f"must return a dict, not {type(changed).__name__}"
        raise InvalidTypeError("transform", reason)
    return changed


def _with_identity(original: JSONObject, changed: JSONObject) -> JSONObject:
    """Return a transform's result with the object's identity, without changing the user's dict."""
    metadata = changed.get("metadata", {})
    if not isinstance(metadata, dict):
        reason = f"must leave metadata a dict, not {type(metadata).__name__}"
        raise InvalidTypeError("transform", reason)
    known = original["metadata"]
    identity = {name: known[name] for name in known if name in _IDENTITY}
    others = {name: metadata[name] for name in metadata if name not in _IDENTITY - identity.keys()}
    kept = {"apiVersion": original["apiVersion"], "kind": original["kind"]}
    return {**changed, **kept, "metadata": {**others, **identity}}
