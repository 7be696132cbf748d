"""Reads what identifies an object by hand, where the decoder of whole objects failed.

An object that cannot be identified is refused with an error that names it as far as possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Raw

from pyinformer.errors import InvalidObjectError
from pyinformer.objects._decoding_structs import WireMeta, WireObject, encode
from pyinformer.objects._json_decoders import DECODE_FAILURES, decoder_of
from pyinformer.objects._json_field_scanner import Fields, fields_of, identity_in
from pyinformer.objects._keys_and_kinds import object_key

if TYPE_CHECKING:
    from pyinformer.objects._keys_and_kinds import GroupVersionResource

_NEAR_BYTES = 65_536  # where a name is looked for in an object that cannot be decoded

_NULL = Raw(b"null")
_decode_text = decoder_of(str, skims=True)
_decode_metadata = decoder_of(WireMeta, skims=True)


def named_kind(resource: GroupVersionResource, fields: Fields, text: bytes) -> tuple[str, str]:
    """Return the kind and the apiVersion that an object names.

    Returns:
        An empty kind, or the resource's apiVersion, if it names none.

    Raises:
        InvalidObjectError: one of them is not a text.
    """
    try:
        kind, api_version = (_text_of(fields, name) for name in ("kind", "apiVersion"))
        return kind, api_version or resource.api_version
    except DECODE_FAILURES as error:
        raise unreadable(resource, text, f"has a kind that cannot be decoded: {error}") from error


def _text_of(fields: Fields, name: str) -> str:
    """Return a text; empty if it is absent or null, which are the same for Go."""
    value = fields.get(name, _NULL)
    return "" if value == _NULL else _decode_text(value)


def metadata_of(resource: GroupVersionResource, fields: Fields, text: bytes) -> Fields:
    """Return the fields of an object's metadata.

    Raises:
        InvalidObjectError: it has none, or no name in it.
    """
    try:
        if fields["metadata"] == _NULL:
            raise KeyError("metadata")
        meta = fields_of(fields["metadata"])
        if not _text_of(meta, "name"):
            raise KeyError("name")
    except KeyError as error:
        raise unreadable(resource, text, f"has no {error.args[0]}") from error
    except DECODE_FAILURES as error:
        reason = f"has metadata that cannot be decoded: {error}"
        raise unreadable(resource, text, reason) from error
    return meta


def known_by_metadata(meta: Fields) -> WireObject:
    """Read an object's metadata alone; managedFields may be nested as deeply as the object.

    Raises:
        msgspec.DecodeError: one of its fields is of another type.
        RecursionError: one of its other fields is nested too deeply.
    """
    rest = {name: value for name, value in meta.items() if name != "managedFields"}
    return WireObject(_decode_metadata(encode(rest)))


def identity_of(resource: GroupVersionResource, meta: Fields, text: bytes) -> WireObject:
    """Read the four fields that identify an object.

    Raises:
        InvalidObjectError: one of them is not a text.
    """
    wanted = ("namespace", "name", "uid", "resourceVersion")
    try:
        values = [_text_of(meta, field) for field in wanted]
    except DECODE_FAILURES as error:
        reason = f"has an identity that cannot be decoded: {error}"
        raise unreadable(resource, text, reason) from error
    namespace, name, uid, resource_version = values
    return WireObject(
        WireMeta(name=name, namespace=namespace, uid=uid, resource_version=resource_version)
    )


def unreadable(resource: GroupVersionResource, text: bytes, reason: str) -> InvalidObjectError:
    """Return the error for an object that is refused."""
    named = key_in(text[:_NEAR_BYTES])
    what = f"{resource} {named!r}" if named else str(resource)
    return InvalidObjectError(what, f"an object that {reason}")


def key_in(text: bytes) -> str:
    """Return the key of an object that cannot be decoded, or nothing if its text has no name."""
    found = identity_in(text)
    return object_key(found.namespace, found.name) if found.name else ""
