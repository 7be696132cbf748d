"""The statuses that this process wrote last, so that a second write of one does not miss the first.

A status is compared with the object that the caller has, which may be older than this process's own
last write. Only the fields that were written are taken from the response to it, so that a new
status neither removes nor restores what other clients have changed in the meantime.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias, final

import msgspec

from pyinformer.apimachinery import (
    JSONObject,
    JSONValue,
    KubeObject,
    View,
    older,
    resource_version_is_well_formed,
)
from pyinformer.errors import InvalidObjectError

_MAX_REMEMBERED: Final = 1_024  # as many as are written while a cache is behind
_MAX_BYTES: Final = 8_388_608
_MAX_FIELD_BYTES: Final = 65_536  # names in maps, which may be others each time, must not add up

_Fields: TypeAlias = "dict[str, _Fields] | None"
"""Which fields were written: by name, with those in them; None for a value as a whole."""


class _Written(NamedTuple):
    version: str
    fields: _Fields
    status: JSONValue
    """The whole status in the newest response."""
    size: int


@final
class WrittenStatuses:
    """What the responses to a process's last writes of statuses say about the fields it wrote.

    Args:
        limit: of how many objects they are kept; the least recently written are dropped first.
        limit_bytes: how many bytes they may have together.
    """

    def __init__(self, *, limit: int = _MAX_REMEMBERED, limit_bytes: int = _MAX_BYTES) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._written: OrderedDict[str, _Written] = OrderedDict()  # by uid
        self._bytes = 0

    def patched(self, found: KubeObject, status: JSONValue) -> None:
        """Record the response to a merge patch or an apply.

        Args:
            found: the object in the response.
            status: what was sent for its status.
        """
        with suppress(InvalidObjectError, RecursionError):  # too deep: the write itself is done
            self._record(found, _fields_of(status))

    def replaced(self, found: KubeObject) -> None:
        """Record the response to a write of the whole status."""
        with suppress(InvalidObjectError, RecursionError):
            self._record(found, None)

    def seen_in(self, obj: KubeObject[View | None]) -> JSONObject | None:
        """Return an object's status with what this process has written since; None if nothing.

        Args:
            obj: the object as its caller knows it.
        """
        written = self._written.get(obj.metadata.uid)
        if written is None or not _is_older(obj.metadata.resource_version, written.version):
            return None
        with suppress(RecursionError):
            status = _overlaid(obj.to_dict().get("status"), written.status, written.fields)
            return status if isinstance(status, dict) else {}
        return None

    def _record(self, found: KubeObject, fields: _Fields) -> None:
        meta, status = found.metadata, found.at("status", default=None)
        known, version = self._written.pop(meta.uid, None), meta.resource_version
        if known is not None:
            self._bytes -= known.size
            joined = _joined(known.fields, fields)
            if len(msgspec.json.encode(joined)) <= _MAX_FIELD_BYTES:
                fields = joined
            if _is_older(version, known.version):  # the responses arrived in the other order
                version, status = known.version, known.status
        size = len(msgspec.json.encode((fields, status)))
        if not meta.uid or size > self._limit_bytes:
            return
        self._written[meta.uid] = _Written(version, fields, status, size)
        self._bytes += size
        while len(self._written) > self._limit or self._bytes > self._limit_bytes:
            self._bytes -= self._written.popitem(last=False)[1].size


def _is_older(version: str, than: str) -> bool:
    ordered = resource_version_is_well_formed(version) and resource_version_is_well_formed(than)
    return ordered and older(version, than)


def _fields_of(patch: JSONValue) -> _Fields:
    if not isinstance(patch, dict) or not patch:  # {} is a value: it may replace a text
        return None
    return {name: _fields_of(value) for name, value in patch.items()}


def _joined(first: _Fields, second: _Fields) -> _Fields:
    if first is None or second is None:
        return None
    both = {name: _joined(first[name], second[name]) for name in first.keys() & second.keys()}
    return {**first, **second, **both}


def _overlaid(before: JSONValue, stored: JSONValue, fields: _Fields) -> JSONValue:
    """Return a value with the written fields as they are stored."""
    if fields is None or not isinstance(stored, dict):
        return stored
    found = dict(before) if isinstance(before, dict) else {}
    for name, inner in fields.items():
        value = _overlaid(found.get(name), stored.get(name), inner)
        if value is None:
            found.pop(name, None)
        else:
            found[name] = value
    return found
