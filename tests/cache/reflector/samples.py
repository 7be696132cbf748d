"""Objects, lines and a sink for the tests of the reflector that need no server.

A pod is its name, its version and its uid; a line is what a watch would send of it. The sink is a
dict that records what happened to each key, and fails where a handler would see an impossible life.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping

from pyinformer.cache.reflector import FollowedServer, Lineage, RequestBudget, WatchListMemory
from pyinformer.objects import (
    Added,
    Deleted,
    Event,
    GroupVersionResource,
    KubeObject,
    ObjectCodec,
    ObjectMeta,
    Updated,
)

PODS = GroupVersionResource.of("v1", "pods")
UID = "uid-1"


def meta(version: str, uid: str = UID) -> ObjectMeta:
    """Return what a guard looks at."""
    return ObjectMeta("", "a", uid, version)


def pod_bytes(name: str, version: str | None, uid: str = UID) -> bytes:
    """Return a pod as a watch sends it; a version of None leaves it out."""
    fields = {"name": name, "uid": uid}
    if version is not None:
        fields["resourceVersion"] = version
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": fields, "spec": {"nodeName": version}}
    return json.dumps(body, separators=(",", ":")).encode()


def codec() -> ObjectCodec[None]:
    """Return a codec that has seen a pod."""
    made: ObjectCodec[None] = ObjectCodec(PODS)
    data = pod_bytes("first", "1")
    made.decode(data, 0, len(data))
    return made


_CODEC = codec()


def pod(name: str, version: str, uid: str = UID) -> KubeObject[None]:
    """Return a pod."""
    data = pod_bytes(name, version, uid)
    return _CODEC.decode(data, 0, len(data))


def line(kind: str, name: str, version: str | None, uid: str = UID) -> bytes:
    """Return an event of a watch, without its line end."""
    return b'{"type":"%s","object":%s}' % (kind.encode(), pod_bytes(name, version, uid))


def bookmark(version: str, *, ends_initial_events: bool = False) -> bytes:
    """Return a bookmark as a watch sends it."""
    end = '"annotations":{"k8s.io/initial-events-end":"true"},' if ends_initial_events else ""
    metadata = f'{{{end}"resourceVersion":"{version}"}}'
    body = f'{{"kind":"Pod","apiVersion":"v1","metadata":{metadata}}}'
    return f'{{"type":"BOOKMARK","object":{body}}}'.encode()


def status_bytes(code: int, reason: str = "", message: str = "") -> bytes:
    """Return a Status object."""
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason}
    return json.dumps({**body, "message": message}, separators=(",", ":")).encode()


def words(event: Event[None]) -> str:
    """Return an event in words: `add 1`, `update 1 2`, `delete 2`, `delete? 2`."""
    match event:
        case Added(new):
            return f"add {new.metadata.resource_version}"
        case Updated(old, new):
            return f"update {old.metadata.resource_version} {new.metadata.resource_version}"
        case Deleted(last):
            mark = "?" if event.final_state_unknown else ""
            return f"delete{mark} {last.metadata.resource_version}"


class DictSink:
    """A store that keeps each key's history."""

    def __init__(self, *objects: KubeObject[None]) -> None:
        self.objects: dict[str, KubeObject[None]] = {obj.key: obj for obj in objects}
        self.history: dict[str, list[str]] = defaultdict(list)
        self.bookmarks: list[str] = []
        self.synced_at: list[str] = []

    def get(self, key: str) -> KubeObject[None] | None:
        """Return the newest state of a key."""
        return self.objects.get(key)

    def keys(self) -> list[str]:
        """Return every key."""
        return list(self.objects)

    def versions(self) -> dict[str, str]:
        """Return the resource version of each object."""
        return {key: obj.metadata.resource_version for key, obj in self.objects.items()}

    def apply_nowait(self, event: Event[None]) -> None:
        """Apply one change, and fail if it cannot follow."""
        key = event.key
        known = self.objects.get(key)
        match event:
            case Added(new):
                assert known is None, f"{new!r} is added twice"
                self.objects[key] = new
            case Updated(old, new):
                assert known is old, f"{new!r} replaces what was not there"
                assert old.metadata.uid == new.metadata.uid
                self.objects[key] = new
            case Deleted(last):
                assert known is not None, f"{last!r} was not there"
                assert known.metadata.uid == last.metadata.uid
                del self.objects[key]
        self.history[key].append(words(event))

    def replace_nowait(
        self, objects: Mapping[str, KubeObject[None]], resource_version: str
    ) -> Iterator[None]:
        """Replace the content by a complete list, and apply the differences."""
        for key, old in list(self.objects.items()):
            if key not in objects:
                self.apply_nowait(Deleted(old, final_state_unknown=True))
        yield
        for key, new in objects.items():
            known = self.objects.get(key)
            if known is None:
                self.apply_nowait(Added(new))
            elif known.metadata.uid != new.metadata.uid:
                self.apply_nowait(Deleted(known, final_state_unknown=True))
                self.apply_nowait(Added(new))
            elif known.metadata.resource_version != new.metadata.resource_version:
                self.apply_nowait(Updated(known, new))
        self.synced_at.append(resource_version)

    def bookmark_nowait(self, resource_version: str) -> None:
        """Record a bookmark."""
        self.bookmarks.append(resource_version)


def server_with(
    memory: WatchListMemory | None = None,
    budget: RequestBudget | None = None,
    lineage: Lineage | None = None,
) -> FollowedServer:
    """Return what reflectors share, with the parts that a test has; the others are new."""
    server = FollowedServer()
    server.watch_list_memory = memory or server.watch_list_memory
    server.request_budget = budget or server.request_budget
    server.lineage = lineage or Lineage(attempt=server.request_budget.attempt)
    return server
