"""Small pods for the tests of the cache: a node, an app label, a resource version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pyinformer.cache.store import Indexer
from pyinformer.objects import (
    GroupVersionResource,
    KubeObject,
    ObjectCodec,
    View,
)


class Spec(View):
    """Where a pod runs."""

    node_name: str | None = None


class PodView(View):
    """What these tests project."""

    spec: Spec = Spec()


_RESOURCE = GroupVersionResource.of("v1", "pods")
_PLAIN: ObjectCodec[Any] = ObjectCodec(_RESOURCE)
_VIEWED: ObjectCodec[Any] = ObjectCodec(_RESOURCE, view=PodView)


def pod(
    name: str,
    node: object = None,
    *,
    namespace: str = "default",
    version: int = 1,
    labels: dict[str, str] | None = None,
    viewed: bool = False,
    **rest: object,
) -> KubeObject[Any]:
    """Return a pod; `rest` are further fields of its body."""
    meta = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": str(version)}
    body = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {**meta, "labels": labels or {}},
        "spec": {"nodeName": node},
        **rest,
    }
    text = json.dumps(body).encode()
    return (_VIEWED if viewed else _PLAIN).decode(text, 0, len(text))


def by_key(objects: Iterable[KubeObject[Any]]) -> dict[str, KubeObject[Any]]:
    """Return objects by key, as a complete list hands them over."""
    return {obj.key: obj for obj in objects}


def replace(store: Indexer[Any], *objects: KubeObject[Any], version: str = "1") -> None:
    """Hand a complete list over, all of its steps."""
    for _ in store.replace_nowait(by_key(objects), version):
        pass


def names(objects: Iterable[KubeObject[Any]]) -> list[str]:
    """Return the sorted names of objects."""
    return sorted(obj.metadata.name for obj in objects)
