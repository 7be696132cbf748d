"""What an object is, read by hand where the decoder of whole objects gave up.

What enters are the undecoded fields of one object and its text, or of a huge one only the start;
what leaves are its kind, its metadata's fields and the four of them that identify it. What cannot
be identified is refused by an error that names the object as far as its text does.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Raw

from pyinformer.apimachinery._errors import InvalidObjectError
from pyinformer.apimachinery._json import DECODE_FAILURES
from pyinformer.apimachinery._keys import object_key
from pyinformer.apimachinery._wire import WireMeta, WireObject, decode_fields

if TYPE_CHECKING:
    from pyinformer.apimachinery._keys import GroupVersionResource

Fields: TypeAlias = dict[str, Raw]
"""The fields of a JSON object, by name, not decoded."""

_METADATA = b'"metadata":'
_NEAR_BYTES = 65_536  # where a name is looked for in an object that cannot be decoded

_decode_text = msgspec.json.Decoder(str).decode
_read_value = json.JSONDecoder(strict=False).raw_decode
_next_key = re.compile(r"[ \t\r\n]*+[{,][ \t\r\n]*+").match
_next_value = re.compile(r"[ \t\r\n]*+:[ \t\r\n]*+").match


def fields_of_head(head: bytes) -> Fields:
    """Return the fields of a JSON object that are complete in the first bytes of its text.

    They are not proven: what is in them is decoded by whoever uses them.
    """
    text = head.decode("latin-1")  # a character is a byte, whatever it stands for
    fields: Fields = {}
    position = 0
    try:
        while (comma := _next_key(text, position)) is not None:
            name, position = _read_value(text, comma.end())
            if not isinstance(name, str) or (colon := _next_value(text, position)) is None:
                break
            _, position = _read_value(text, colon.end())
            fields[name] = Raw(head[colon.end() : position])
    except (ValueError, RecursionError):
        pass  # here it is cut off
    return fields


def named_kind(resource: GroupVersionResource, fields: Fields, text: bytes) -> tuple[str, str]:
    """Return the kind and the apiVersion that an object names.

    Returns:
        An empty kind, or the resource's apiVersion, if it names none.

    Raises:
        InvalidObjectError: one of them is no text.
    """
    try:
        kind = _decode_text(fields["kind"]) if "kind" in fields else ""
        if "apiVersion" not in fields:
            return kind, resource.api_version
        return kind, _decode_text(fields["apiVersion"])
    except DECODE_FAILURES as error:
        raise unreadable(resource, text, f"has a kind that cannot be decoded: {error}") from error


def metadata_of(resource: GroupVersionResource, fields: Fields, text: bytes) -> Fields:
    """Return the fields of an object's metadata.

    Raises:
        InvalidObjectError: it has none, or no name in it.
    """
    try:
        meta = decode_fields(fields["metadata"])
        if not _decode_text(meta["name"]):
            raise KeyError("name")
    except KeyError as error:
        raise unreadable(resource, text, f"has no {error.args[0]}") from error
    except DECODE_FAILURES as error:
        reason = f"has metadata that cannot be decoded: {error}"
        raise unreadable(resource, text, reason) from error
    return meta


def identity_of(resource: GroupVersionResource, meta: Fields, text: bytes) -> WireObject:
    """Read the four fields without which an object cannot be told from another.

    Raises:
        InvalidObjectError: one of them is no text.
    """
    wanted = ("namespace", "name", "uid", "resourceVersion")
    try:
        values = [_decode_text(meta[field]) if field in meta else "" for field in wanted]
    except DECODE_FAILURES as error:
        reason = f"has an identity that cannot be decoded: {error}"
        raise unreadable(resource, text, reason) from error
    namespace, name, uid, resource_version = values
    return WireObject(
        WireMeta(name=name, namespace=namespace, uid=uid, resource_version=resource_version)
    )


def unreadable(resource: GroupVersionResource, text: bytes, reason: str) -> InvalidObjectError:
    """Return the error for an object that is refused."""
    named = _name_in(text)
    what = f"{resource} {named!r}" if named else str(resource)
    return InvalidObjectError(what, f"an object that {reason}")


def _name_in(text: bytes) -> str:
    """Return the key of an object that cannot be decoded, if its metadata alone can; or nothing."""
    start = text.find(_METADATA)
    try:
        near = text[start + len(_METADATA) :][:_NEAR_BYTES]
        words = near.decode("utf-8", "replace").lstrip()
        meta, _ = json.JSONDecoder().raw_decode(words)
        return object_key(meta.get("namespace") or "", meta["name"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
