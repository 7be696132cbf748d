"""The JSON types, and the only place that makes decoders of JSON.

Bytes were checked when they arrived, except for two things that a skipping decoder does not check:
numbers out of range, and text that is not UTF-8. Both become one typed error here. No text that is
nested too deeply reaches a decoder: how deep a decoder can go depends on the interpreter and on the
stack of the thread, and where the stack ends, so does the process.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar, overload

import msgspec

from pyinformer.errors import InvalidObjectError
from pyinformer.objects._depth import MAX_DEPTH, Text, check_depth, check_skipped_depth

JSONValue: TypeAlias = Any
"""Any value JSON can express: None, bool, int, float, str, list or dict of such."""

JSONObject: TypeAlias = dict[str, JSONValue]
"""A JSON object as Python decodes it; the caller that receives it owns it."""

TOO_DEEP: Final = f"it is nested too deeply; {MAX_DEPTH} levels are the limit"
"""What an error states about such a text."""

DECODE_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of the decoder; the last one for nesting that is too deep."""

_T = TypeVar("_T")
FloatHook: TypeAlias = Callable[[str], float] | None
_Bytes: TypeAlias = bytes | bytearray | memoryview
_TEXT_MAPS: Final = frozenset({"labels", "annotations"})
_may_have_half: Final = re.compile(rb"\\u[dD]").search
_NO_CHARACTER: Final = b"\\ufffd"
_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)
_encode: Final = msgspec.json.Encoder().encode
_building: Final = threading.Lock()


@overload
def unbounded_decoder_of(
    kind: type[_T], *, float_hook: FloatHook = ...
) -> Callable[[_Bytes], _T]: ...
@overload
def unbounded_decoder_of(kind: Any, *, float_hook: FloatHook = ...) -> Callable[[_Bytes], Any]: ...  # noqa: ANN401 - any type
def unbounded_decoder_of(kind: Any, *, float_hook: FloatHook = None) -> Callable[[Any], Any]:
    """Return a decoder for texts whose depth the caller has checked.

    Other threads may need the type for the first time, too. msgspec keeps what it learns of a class
    in the class, and not all at once: a decoder that is built meanwhile in another thread crashes
    the process (msgspec 0.22).

    Raises:
        TypeError: nothing can be decoded into the type.
    """
    with _building:
        return msgspec.json.Decoder(kind, float_hook=float_hook).decode


@overload
def decoder_of(
    kind: type[_T], *, skims: bool = ..., float_hook: FloatHook = ...
) -> Callable[[Text], _T]: ...
@overload
def decoder_of(
    kind: Any = ...,  # noqa: ANN401 - any type
    *,
    skims: bool = ...,
    float_hook: FloatHook = ...,
) -> Callable[[Text], Any]: ...
def decoder_of(
    kind: Any = Any,
    *,
    skims: bool = False,
    float_hook: FloatHook = None,
) -> Callable[[Text], Any]:
    """Return a decoder that raises `TooDeepError` for a text that is nested too deeply.

    Args:
        kind: the type to decode into; any JSON value by default.
        skims: the type has a fixed depth, and the other fields are skipped. Those may be nested
            deeper than values that are decoded.
        float_hook: makes a number of the text of a float where the type is any; None for a float.

    Raises:
        TypeError: nothing can be decoded into the type.
    """
    decode: Callable[[Any], Any] = unbounded_decoder_of(kind, float_hook=float_hook)
    check = check_skipped_depth if skims else check_depth

    def bounded(text: Text) -> Any:  # noqa: ANN401 - as the type
        check(text)
        return decode(text)

    return bounded


_decode_object: Final = decoder_of(JSONObject)


def null_as_absent(kind: type[_T], *, skims: bool = True) -> Callable[[bytes], _T]:
    """Return a decoder for which a field that is null is absent, as it is for Go.

    Encoders of other languages write null where Go leaves a field out. Only a document that cannot
    be decoded as it is costs a second decode.

    Args:
        kind: a type without raw parts, whose nulls would be left out as well.
        skims: as for `decoder_of`.
    """
    decode = decoder_of(kind, skims=skims)

    def read(text: bytes) -> _T:
        try:
            return decode(text)
        except msgspec.ValidationError:
            if b"null" not in text:
                raise
        return decode(without_nulls(text))

    return read


def without_lone_surrogates(text: bytes) -> bytes:
    r"""Return a JSON text in which halves of surrogate pairs are U+FFFD, as Go reads them.

    Encoders of other languages write such a half as `\ud800`; it is not a character, and not
    UTF-8. The length of the text stays the same.
    """
    return _ESCAPE.sub(_whole_character, text) if _may_have_half(text) else text


def _whole_character(found: re.Match[bytes]) -> bytes:
    return _NO_CHARACTER if found["half"] else found[0]


def without_nulls(text: bytes) -> bytes:
    """Return a JSON object without the fields that are null, at any depth.

    Raises:
        msgspec.DecodeError: it is not a JSON object.
        UnicodeDecodeError: it is not UTF-8.
        RecursionError: it is nested too deeply.
    """
    return _encode(_without_nulls(_decode_object(text)))


def _without_nulls(value: JSONValue) -> JSONValue:
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _with_empty_texts(one) if name in _TEXT_MAPS else _without_nulls(one)
        for name, one in value.items()
        if one is not None
    }


def _with_empty_texts(value: JSONValue) -> JSONValue:
    """Return a map of texts in which null is an empty text, as it is for Go."""
    if not isinstance(value, dict):
        return value
    return {name: "" if one is None else one for name, one in value.items()}


# msgspec's message where one of a few values is expected, and for the tag of a union.
_QUOTED = re.compile(r"^(Invalid (?:enum )?value) .*", re.DOTALL)


def complaint_of(error: BaseException) -> str:
    """Return msgspec's message in one line and without the value, which can be a Secret's."""
    if isinstance(error, RecursionError):
        return TOO_DEEP
    words, at, place = str(error).rpartition(" - at `")  # as msgspec ends it
    complaint = _QUOTED.sub(r"\1", words if at else place)
    return " ".join(f"{complaint}{at}{place if at else ''}".split())


def shown_complaint_of(error: BaseException) -> str:
    """Return what is wrong for logs: without the words of user code, which may quote the object."""
    if isinstance(error, DECODE_FAILURES) and error.__cause__ is None:
        return complaint_of(error)
    name = type(error.__cause__ or error).__name__
    return f"{name}, whose words may quote the object and are not shown"


def cause_of(error: BaseException) -> BaseException:
    """Return the error for a traceback, without the value that it may quote."""
    if isinstance(error, msgspec.ValidationError) and _QUOTED.match(str(error)):
        return type(error)(complaint_of(error))
    return error


def decode_object(raw: bytes, what: str) -> JSONObject:
    """Decode one JSON object into a dict of the caller's own.

    Args:
        raw: the object's bytes.
        what: how an error names the object.

    Raises:
        InvalidObjectError: the bytes are not a JSON object, or have a number out of range.
    """
    try:
        return _decode_object(raw)
    except DECODE_FAILURES as error:
        words = complaint_of(error) if isinstance(error, RecursionError) else error
        raise InvalidObjectError(what, f"cannot be decoded: {words}") from error
