"""Objects for the tests of the object model: JSON text in, records out.

A body is written as a dict or as the text itself, where spaces, order or duplicate keys matter.
"""

from __future__ import annotations

import json
from typing import Any

from benchmarks.data.pods import PodGenerator
from pyinformer.objects import GroupVersionResource, JSONObject, KubeObject, ObjectCodec

PODS = GroupVersionResource.of("v1", "pods")

ENOUGH = 128
"""Objects from which the first dictionary of compact bodies is trained."""

_generator = PodGenerator(3_000)

POD: JSONObject = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "web",
        "namespace": "default",
        "uid": "u-1",
        "resourceVersion": "7",
        "generation": 2,
        "labels": {"app": "web", "tier": "front"},
        "annotations": {"example.com/team": "blue"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u-0"},
            {
                "apiVersion": "v1",
                "kind": "Node",
                "name": "n",
                "uid": "u-9",
                "controller": True,
                "blockOwnerDeletion": False,
            },
        ],
        "finalizers": ["example.com/wait"],
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "nodeName": "node-1",
        "priority": 5,
        "containers": [{"name": "c", "image": "x:1", "ports": [{"containerPort": 80}]}],
        "hostname": None,
    },
    "status": {"phase": "Running"},
}


def pods(start: int, count: int) -> list[bytes]:
    """Return the text of pods as a server sends them, each of another name."""
    return [
        _generator.pod(number, resource_version=number + 1)
        for number in range(start, start + count)
    ]


def text_of(body: JSONObject | str | bytes) -> bytes:
    """Return a body as a server writes it."""
    if isinstance(body, dict):
        body = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return body.encode() if isinstance(body, str) else body


def decode(codec: ObjectCodec[Any], body: JSONObject | str | bytes) -> KubeObject[Any]:
    """Decode one body out of the middle of a buffer, as the transport hands it over."""
    text = text_of(body)
    return codec.decode(b"[" + text + b"}]", 1, 1 + len(text))


def pod(body: JSONObject | str | bytes = POD, **options: Any) -> KubeObject[Any]:
    """Decode a pod with a codec of its own."""
    return decode(ObjectCodec(PODS, **options), body)


def meta(**fields: Any) -> JSONObject:
    """Return the smallest pod with these fields in its metadata."""
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web", **fields}}
