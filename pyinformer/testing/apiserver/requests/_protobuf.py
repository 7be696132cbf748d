"""Decode protobuf request bodies, which Go clients send for built-in resources.

The result is the JSON that Go would have written: zero values are left out unless a pointer led to
them. The server never writes protobuf. Field numbers are in a table printed from client-go's types
(`client_go fields` in tests/foreign).

Source:
    apimachinery pkg/runtime/serializer/protobuf/protobuf.go: the envelope, runtime.Unknown.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import base64
import functools
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from typing import Final, TypeAlias

import msgspec

from pyinformer.objects import JSONObject, JSONValue, decoder_of
from pyinformer.testing.apiserver.requests.failures import Failure

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5  # wire types
_SIGN: Final = 1 << 63
_RANGE: Final = 1 << 64
_MORE: Final = 0x80  # set in every byte of a varint but the last

_decode = decoder_of()

_Wire: TypeAlias = int | bytes
_Field: TypeAlias = tuple[str, str, str]  # name, type, flags


class _Tables(msgspec.Struct):
    """The parsed table: types by kind, and fields by type and number."""

    kinds: dict[str, str]
    types: dict[str, dict[str, _Field]]


def json_of(raw: bytes) -> bytes:
    """Convert a protobuf body to JSON.

    Raises:
        Failure: the body is not protobuf (400), or its kind is unknown (415).
    """
    if not raw:
        return b""
    try:
        if not raw.startswith(_MAGIC):
            raise ValueError("provided data does not appear to be a protobuf message")
        envelope = dict(_fields(raw[len(_MAGIC) :]))
        head = dict(_fields(_bytes(envelope.get(1, b""))))
        api_version, kind = (_bytes(head.get(number, b"")).decode() for number in (1, 2))
        name = _tables().kinds.get(f"{api_version}/{kind}")
        if name is None:
            raise _unknown(api_version, kind)
        body = _message(_bytes(envelope.get(2, b"")), name)
    except (ValueError, IndexError, OverflowError) as error:
        message = f"the object provided is unrecognized (must be of type runtime.Unknown): {error}"
        raise Failure(400, message) from None
    return msgspec.json.encode({"apiVersion": api_version, "kind": kind, **body})


def _unknown(api_version: str, kind: str) -> Failure:
    message = (
        f"this server cannot read {kind} of {api_version} as protobuf: let the client send"
        " application/json (in Go: rest.Config.ContentType)"
    )
    return Failure(415, message)


@functools.cache
def _tables() -> _Tables:
    table = files("pyinformer.testing.apiserver.requests") / "protobuf_fields.json"
    return decoder_of(_Tables)(table.read_bytes())


def _message(raw: bytes, name: str) -> JSONObject:
    described = _tables().types[name]
    found: JSONObject = {}
    for number, value in _fields(raw):
        field = described.get(str(number))
        if field is not None:
            _add(found, field, value)
    return found


def _add(found: JSONObject, field: _Field, value: _Wire) -> None:
    name, kind, flags = field
    if "m" in flags:
        entry = dict(_fields(_bytes(value)))
        key = _bytes(entry.get(1, b"")).decode()
        found.setdefault(name, {})[key] = _value(entry.get(2, _zero(kind)), kind)
    elif "r" in flags:
        found.setdefault(name, []).append(_value(value, kind))
    elif "i" in flags:
        found.update(_message(_bytes(value), kind))
    elif "p" in flags or value or "." in kind or kind == "intorstring":
        found[name] = _value(value, kind)  # Go writes empty structs, too


def _value(value: _Wire, kind: str) -> JSONValue:
    if (kind in ("int", "bool")) is not isinstance(value, int):
        raise ValueError(f"a field has the wrong wire type for {kind}")
    if isinstance(value, int):
        return _number(value, kind)
    match kind:
        case "string":
            return value.decode()
        case "bytes":
            return base64.b64encode(value).decode()
        case "time" | "microtime":
            return _time(value, "microseconds" if kind == "microtime" else "seconds")
        case "quantity":
            return _bytes(dict(_fields(value)).get(1, b"")).decode()
        case "raw":
            inner = _bytes(dict(_fields(value)).get(1, b""))
            return _decode(inner) if inner else None
        case "list":
            return [_bytes(item).decode() for _, item in _fields(value)]
        case "intorstring":
            found = dict(_fields(value))
            return (
                _bytes(found.get(3, b"")).decode()
                if found.get(1)
                else _value(found.get(2, 0), "int")
            )
    return _message(value, kind)


def _number(value: int, kind: str) -> JSONValue:
    if kind == "bool":
        return bool(value)
    return value - _RANGE if value >= _SIGN else value


def _time(raw: bytes, precision: str) -> JSONValue:
    found = dict(_fields(raw))
    if not found:
        return None
    moment = datetime.fromtimestamp(int(found.get(1, 0)), tz=UTC)
    moment = moment.replace(microsecond=int(found.get(2, 0)) // 1000, tzinfo=None)
    return f"{moment.isoformat(timespec=precision)}Z"


def _zero(kind: str) -> _Wire:
    return 0 if kind in ("int", "bool") else b""


def _bytes(value: _Wire) -> bytes:
    if isinstance(value, int):
        raise ValueError("a field must hold a message, but holds a number")  # noqa: TRY004 - as the rest
    return value


def _fields(raw: bytes) -> Iterator[tuple[int, _Wire]]:
    """Split a message into field numbers and their encoded values."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(raw, at)
            yield number, value
            continue
        if wire == _LENGTH:
            size, at = _varint(raw, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"there is no wire type {wire}")
        if at + size > len(raw):
            raise ValueError("unexpected EOF")
        yield number, raw[at : at + size]
        at += size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & ~_MORE) << shift
        at, shift = at + 1, shift + 7
        if not byte & _MORE:
            return value, at
        if shift >= 70:  # noqa: PLR2004 - ten bytes are the longest
            raise ValueError("a varint overflows")
