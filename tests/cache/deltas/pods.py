"""Small pods for the tests of the queues, and deltas as one can read them.

A pod's resource version stands for its value: `pod("foo", 10)`. A delta reads as upstream names
it: `Added foo 10`, a tombstone as `Deleted foo (unknown 10)`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from functools import cache

from pyinformer.cache.deltas import DeletedFinalStateUnknown, Delta
from pyinformer.objects import (
    Added,
    Deleted,
    Event,
    GroupVersionResource,
    KubeObject,
    ObjectCodec,
    Updated,
)

_CODEC: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("v1", "pods"))


def pod_bytes(name: str, version: int, uid: str = "") -> bytes:
    """Return a pod as a server writes it."""
    meta = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return json.dumps({"kind": "Pod", "apiVersion": "v1", "metadata": meta}).encode()


@cache
def pod(name: str, version: int = 1, uid: str = "") -> KubeObject[None]:
    """Return a pod; the same arguments give the same record."""
    data = pod_bytes(name, version, uid)
    return _CODEC.decode(data, 0, len(data))


def known(*objects: KubeObject[None]) -> dict[str, KubeObject[None]]:
    """Return a store: objects by key."""
    return {obj.key: obj for obj in objects}


def unknown(name: str, version: int | None = None) -> DeletedFinalStateUnknown[None]:
    """Return a tombstone; without a version no state was ever seen."""
    return DeletedFinalStateUnknown(name, None if version is None else pod(name, version))


def read(delta: Delta[None]) -> str:
    """Return a delta in words."""
    match delta.object:
        case KubeObject() as obj:
            what = _state(obj)
        case DeletedFinalStateUnknown(key, last):
            what = f"{key} (unknown{f' {last.metadata.resource_version}' if last else ''})"
        case None:
            what = ", ".join(map(_state, delta.objects.values()))
    return " ".join(part for part in (delta.type.value, delta.resource_version, what) if part)


def _state(obj: KubeObject[None]) -> str:
    return f"{obj.key} {obj.metadata.resource_version}"


def read_all(deltas: Iterable[Delta[None]]) -> list[str]:
    """Return deltas in words."""
    return [read(delta) for delta in deltas]


def store_event(store: dict[str, KubeObject[None]], event: Event[None]) -> None:
    """Apply events to a store, and fail where their order would be impossible for a handler."""
    match event:
        case Added(new):
            assert new.key not in store, f"{new!r} is added twice"
            store[new.key] = new
        case Updated(old, new):
            assert store[new.key] is old, f"{new!r} replaces what was not there"
            assert old.metadata.uid == new.metadata.uid
            store[new.key] = new
        case Deleted(last):
            assert store.pop(last.key).metadata.uid == last.metadata.uid


async def settled() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)
