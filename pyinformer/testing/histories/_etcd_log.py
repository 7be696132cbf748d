"""What etcd's events say of objects, and whether etcd still has the history that was followed.

A watch of etcd delivers no event for what a restore has taken away or put back. The log knows all
keys that live, and compares them with etcd's after each new connection.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable
from typing import Final, TypeAlias, final

import msgspec

from pyinformer.objects import JSONObject, decoder_of, split_api_version
from pyinformer.testing.apiserver.requests import Failure, json_of
from pyinformer.testing.histories._digests import digest_of, status_digests
from pyinformer.testing.histories._records import TruthRecord

_REGISTRY: Final = "/registry/"
_PROTOBUF: Final = b"k8s\x00"
_PLURALS: Final = {
    "controllers": "replicationcontrollers",
    "ingress": "ingresses",
    "minions": "nodes",
    "services/endpoints": "endpoints",
    "services/specs": "services",
}
"""Resources whose folder in etcd has another name."""


class KeyValue(msgspec.Struct, frozen=True):
    """A key of etcd; keys and values are in base64, and numbers are texts."""

    key: str
    mod_revision: str
    value: str = ""

    @property
    def name(self) -> str:
        """The key as text."""
        return base64.b64decode(self.key).decode(errors="replace")

    @property
    def revision(self) -> int:
        """The revision that changed it last."""
        return int(self.mod_revision)


class WatchEvent(msgspec.Struct, frozen=True):
    """One change of one key."""

    kv: KeyValue
    type: str = "PUT"


class _Known(msgspec.Struct, frozen=True, gc=False):
    """A key that lives."""

    revision: int
    resource: str
    key: str
    uid: str
    content: int
    """The hash of its value."""


_State: TypeAlias = tuple[int, int]
"""The revision of a key, and the hash of its value."""

_decode = decoder_of(JSONObject)


def resource_name(group: str, plural: str) -> str:
    """Return the name of a resource in a history: `pods`, or `deployments.apps`."""
    return f"{plural}.{group}" if group else plural


@final
class EtcdLog:
    """Follows the events, without etcd.

    Args:
        resources: which resources to report; None is all.
        fields: the paths of the fields to report of each object.
    """

    def __init__(
        self, *, resources: Collection[str] | None = None, fields: Collection[str] = ()
    ) -> None:
        self.revision: int = 0
        """The newest revision that was seen."""
        self._resources = None if resources is None else frozenset(resources)
        self._fields = tuple(fields)
        self._live: dict[str, _Known] = {}
        self._gone: dict[str, int] = {}
        self._unproven: dict[str, _State] | None = None
        self._proven_at = 0

    def apply(self, event: WatchEvent) -> TruthRecord | None:
        """Take over an event; return what it says of an object, if it is about one."""
        kv = event.kv
        self.revision = max(self.revision, kv.revision)
        if event.type == "DELETE":
            return self._deleted(kv)
        record = self._put(kv)
        self._gone.pop(kv.name, None)
        self._live[kv.name] = _Known(
            kv.revision, record.resource, record.key, record.uid, hash(kv.value)
        )
        return self._wanted(record)

    def _deleted(self, kv: KeyValue) -> TruthRecord | None:
        known = self._live.pop(kv.name, None)
        self._gone[kv.name] = kv.revision
        if known is None:
            return None
        return self._wanted(
            TruthRecord(
                revision=kv.revision,
                resource=known.resource,
                key=known.key,
                uid=known.uid,
                verb="delete",
            )
        )

    def _wanted(self, record: TruthRecord) -> TruthRecord | None:
        is_wanted = self._resources is None or record.resource in self._resources
        return record if record.resource and is_wanted else None

    def _put(self, kv: KeyValue) -> TruthRecord:
        obj = _object(base64.b64decode(kv.value))
        metadata = obj.get("metadata") or {}
        resource, key = _place(kv.name, obj)
        return TruthRecord(
            revision=kv.revision,
            resource=resource,
            key=key,
            uid=str(metadata.get("uid") or ""),
            labels=metadata.get("labels") or {},
            fields={path: _text_at(obj, path) for path in self._fields},
            digest=digest_of(obj) if obj else "",
            status=status_digests(obj.get("status")),
        )

    def begin_proof(self, keys: Iterable[KeyValue], revision: int) -> bool:
        """Take over which keys etcd has after a new connection, to compare them.

        Args:
            keys: all keys, with their values: a restored history uses its revisions again.
            revision: at which they were read.

        Returns:
            Whether etcd may still have the history that was followed.
        """
        self._gone.clear()
        self._unproven = {kv.name: (kv.revision, hash(kv.value)) for kv in keys}
        self._proven_at = revision
        if revision < self.revision:
            return False
        if any(
            state[0] <= self.revision and self._state_of(name) != state
            for name, state in self._unproven.items()
        ):
            return False
        return revision > self.revision or self.is_proven()

    def is_proven(self) -> bool:
        """Return whether the keys that etcd had are those that the events leave.

        It is decided once the events have reached the revision at which the keys were read, and
        true before that.
        """
        unproven = self._unproven
        if unproven is None or self.revision < self._proven_at:
            return True
        self._unproven = None
        later = self._proven_at
        is_there = all(
            self._state_of(name) == state or self._changed_at(name) > later
            for name, state in unproven.items()
        )
        extra = self._live.keys() - unproven.keys()
        return is_there and all(self._live[name].revision > later for name in extra)

    def _changed_at(self, name: str) -> int:
        return max(self._state_of(name)[0], self._gone.get(name, 0))

    def _state_of(self, name: str) -> _State:
        known = self._live.get(name)
        return (0, 0) if known is None else (known.revision, known.content)

    def replace(self, keys: Iterable[KeyValue], revision: int) -> list[TruthRecord]:
        """Take over another history; return what it says of each object that lives."""
        self._live.clear()
        self._gone.clear()
        self._unproven = None
        records = [self.apply(WatchEvent(kv)) for kv in keys]
        self.revision = revision
        return [record for record in records if record is not None]


def _object(value: bytes) -> JSONObject:
    """Decode a stored object; empty if it is neither JSON nor a kind whose fields are known."""
    try:
        found = _decode(json_of(value) if value.startswith(_PROTOBUF) else value)
    except (msgspec.DecodeError, Failure, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _place(name: str, obj: JSONObject) -> tuple[str, str]:
    """Return the resource and the key of an object; empty if it is not one."""
    if not name.startswith(_REGISTRY):
        return "", ""
    parts = name.removeprefix(_REGISTRY).split("/")
    metadata = obj.get("metadata") or {}
    depth = 2 if metadata.get("namespace") else 1
    folder = "/".join(parts[:-depth])
    plural = _PLURALS.get(folder, folder.rpartition("/")[2])
    group, version = split_api_version(str(obj.get("apiVersion") or ""))
    return (resource_name(group, plural) if version else ""), "/".join(parts[-depth:])


def _text_at(obj: JSONObject, path: str) -> str:
    found: object = obj
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return "" if found is None else str(found)
