"""The statuses that this process wrote last, so that a second write of one does not miss the first.

A status is compared with the object that the caller has, which may be older than this process's own
last write. Only the fields that the same writer wrote are taken from the response, so that a new
status neither removes nor restores what others have changed in the meantime: other clients, and
other reconciles and tasks of this process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias, final

import msgspec

from pyinformer.client.cluster._condition_merge import CONDITIONS, by_type, with_changed
from pyinformer.errors import InvalidObjectError
from pyinformer.objects import (
    JSONObject,
    JSONValue,
    KubeObject,
    older,
    resource_version_is_well_formed,
)

_MAX_REMEMBERED: Final = 1_024  # as many as are written while a cache is behind
_MAX_BYTES: Final = 8_388_608
_MAX_WRITERS: Final = 16  # of one object
_MAX_FIELD_BYTES: Final = 65_536  # names in maps, which may be others each time, must not add up

_Fields: TypeAlias = "dict[str, _Fields] | None"
"""Which fields were written: by name, with those in them; None for a value as a whole.

An empty map that was written owns none of the fields that others put into it.

Those in a list of conditions are its types.
"""


class StatusAt(NamedTuple):
    """The status of an object in one resource version."""

    version: str
    status: JSONValue


class _Fieldset(NamedTuple):
    version: str
    """The newest in the responses to their writer."""
    fields: _Fields


class _Written(NamedTuple):
    version: str
    writers: Mapping[Hashable, _Fieldset]
    """What each wrote, the last one last."""
    status: JSONValue
    """The whole status in the newest response."""
    size: int


class _Answer(NamedTuple):
    found: KubeObject
    size: int


@final
class StatusPatchBases:
    """What the responses to a process's last writes of statuses say about the fields it wrote.

    Args:
        limit: of how many objects they are kept; the least recently written are dropped first.
        limit_bytes: how many bytes they may have together.
    """

    def __init__(self, *, limit: int = _MAX_REMEMBERED, limit_bytes: int = _MAX_BYTES) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._written: OrderedDict[str, _Written] = OrderedDict()  # by uid
        self._answers: OrderedDict[str, _Answer] = OrderedDict()  # to other writes, by uid
        self._bytes = 0

    def patched(self, found: KubeObject, status: JSONValue, writer: Hashable = None) -> None:
        """Record the response to a merge patch or an apply.

        Args:
            found: the object in the response.
            status: what was written of its status; of conditions, only those that were changed.
            writer: which reconcile or task wrote it.
        """
        with suppress(InvalidObjectError, RecursionError):  # too deep: the write itself is done
            self._record(found, _fields_of(status), writer)

    def replaced(self, found: KubeObject, writer: Hashable = None) -> None:
        """Record the response to a write of the whole status."""
        with suppress(InvalidObjectError, RecursionError):
            self._record(found, None, writer)

    def answered(self, found: KubeObject, size: int) -> None:
        """Record the response to a write of anything else in the object: it has the status, too.

        Args:
            found: the object in the response.
            size: its bytes. Statuses that were written are kept rather than such objects.
        """
        uid, version = found.metadata.uid, found.metadata.resource_version
        for known in self._known(uid):
            if not _is_older(known, version):
                return
        if uid and size <= self._limit_bytes:
            self._forget(uid)
            self._answers[uid] = _Answer(found, size)
            self._bytes += size
            self._make_room()

    def seen_in(self, obj: KubeObject[object], writer: Hashable = None) -> JSONObject | None:
        """Return an object's status with what a writer has written since; None if nothing.

        Args:
            obj: the object as its caller knows it.
            writer: which reconcile or task reads it.
        """
        written = self._written.get(obj.metadata.uid)
        if written is None or writer not in written.writers:
            return None
        mine = written.writers[writer]
        if not _is_older(obj.metadata.resource_version, mine.version):
            return None
        with suppress(RecursionError):
            status = _overlaid(obj.to_dict().get("status"), written.status, mine.fields)
            return status if isinstance(status, dict) else {}
        return None

    def newest(self, obj: KubeObject[object]) -> StatusAt:
        """Return the newest status of an object that this process knows, of any writer."""
        uid, version = obj.metadata.uid, obj.metadata.resource_version
        answer, written = self._answers.get(uid), self._written.get(uid)
        if answer is not None and _is_older(version, answer.found.metadata.resource_version):
            obj, version = answer.found, answer.found.metadata.resource_version
        if written is not None and _is_older(version, written.version):
            return StatusAt(written.version, written.status)
        return StatusAt(version, obj.to_dict().get("status"))

    def _known(self, uid: str) -> list[str]:
        """Return the versions of an object that are known."""
        answer, written = self._answers.get(uid), self._written.get(uid)
        versions = [] if answer is None else [answer.found.metadata.resource_version]
        return versions if written is None else [*versions, written.version]

    def _forget(self, uid: str) -> None:
        """Drop the object of a response."""
        known = self._answers.pop(uid, None)
        self._bytes -= 0 if known is None else known.size

    def _make_room(self) -> None:
        while (
            len(self._written) + len(self._answers) > self._limit or self._bytes > self._limit_bytes
        ):
            kept: OrderedDict[str, _Answer] | OrderedDict[str, _Written]
            kept = self._answers or self._written
            self._bytes -= kept.popitem(last=False)[1].size

    def _record(self, found: KubeObject, fields: _Fields, writer: Hashable) -> None:
        meta, status = found.metadata, found.at("status", default=None)
        known, version = self._written.pop(meta.uid, None), meta.resource_version
        mine, writers = _Fieldset(version, fields), dict[Hashable, _Fieldset]()
        if known is not None:
            self._bytes -= known.size
            writers.update(known.writers)
            earlier = writers.pop(writer, mine)
            joined = _joined(earlier.fields, fields)
            if len(msgspec.json.encode(joined)) <= _MAX_FIELD_BYTES:
                fields = joined
            is_late = _is_older(version, earlier.version)  # the responses arrived in another order
            mine = _Fieldset(earlier.version if is_late else version, fields)
            if _is_older(version, known.version):
                version, status = known.version, known.status
        writers[writer] = mine
        while len(writers) > _MAX_WRITERS:
            del writers[next(iter(writers))]
        size = len(msgspec.json.encode((*(one.fields for one in writers.values()), status)))
        if not meta.uid or size > self._limit_bytes:
            return
        if not any(_is_older(version, one) for one in self._known(meta.uid)):
            self._forget(meta.uid)
        self._written[meta.uid] = _Written(version, writers, status, size)
        self._bytes += size
        self._make_room()


def _is_older(version: str, than: str) -> bool:
    ordered = resource_version_is_well_formed(version) and resource_version_is_well_formed(than)
    return ordered and older(version, than)


def _fields_of(patch: JSONValue) -> _Fields:
    if not isinstance(patch, dict):
        return None
    return {
        name: dict.fromkeys(types)
        if name == CONDITIONS and isinstance(value, list) and (types := by_type(value))
        else _fields_of(value)
        for name, value in patch.items()
    }


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
        old, new = found.get(name), stored.get(name)
        types = by_type(new) if name == CONDITIONS and by_type(old) is not None else None
        if types is not None and inner is not None:
            kept = with_changed(old, {one: types.get(one) for one in inner})
            value: JSONValue = None if new is None and not kept else kept
        else:
            value = _overlaid(old, new, inner)
        if value is None:
            found.pop(name, None)
        else:
            found[name] = value
    return found
