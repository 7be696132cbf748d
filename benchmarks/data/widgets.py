"""Custom resources of about 40 KB: a large spec, a status, and managedFields of two writers.

An object depends on the seed, its index and its revision alone.
"""

from __future__ import annotations

from random import Random

import msgspec

from benchmarks.data.kinds import WIDGETS, Sizes, measure_sizes, timestamp
from benchmarks.data.pod_parts import JSON, Tree
from benchmarks.data.workloads import make_uid

_NAMESPACES = 50
_STAGES = (50, 70)
_MODES = ("blue-green", "canary", "rolling", "shadow")
_PARTS = ("exporter", "gateway", "indexer", "loader", "planner", "router", "writer")
_STAGE_FIELDS = ("f:enabled", "f:env", "f:image", "f:mode", "f:resources", "f:weight")


class WidgetGenerator:
    """Make the Widgets of one synthetic cluster."""

    kind = WIDGETS

    def __init__(self, objects: int, *, seed: int = 0) -> None:
        """Make objects numbered 0 to objects - 1; another seed gives other stages."""
        self._seed = seed

    def object(self, index: int, *, resource_version: int, revision: int = 0) -> bytes:
        """Render Widget `index`; its revisions differ in the status."""
        rng = Random(f"widget/{self._seed}/{index}")
        names = [f"{rng.choice(_PARTS)}-{n:02d}" for n in range(rng.randrange(*_STAGES))]
        created = timestamp(index * 47)
        document: Tree = {
            "apiVersion": "bench.example.com/v1",
            "kind": "Widget",
            "metadata": _metadata(rng, index, names, resource_version=resource_version),
            "spec": {
                "paused": False,
                "replicas": rng.randrange(1, 9),
                "stages": [_stage(rng, name) for name in names],
            },
            "status": _status(rng, names, created=created, revision=revision),
        }
        return msgspec.json.encode(document, order="deterministic")

    def sizes(self, objects: int, *, sample: int = 500) -> Sizes:
        """Measure `sample` Widgets, spread over the first `objects`."""
        return measure_sizes(self, objects, sample=min(sample, 100))


def _metadata(rng: Random, index: int, names: list[str], *, resource_version: int) -> Tree:
    created = timestamp(index * 47)
    stages: Tree = {
        f'k:{{"name":"{name}"}}': {".": {}, **{field: {} for field in _STAGE_FIELDS}}
        for name in names
    }
    spec: Tree = {".": {}, "f:paused": {}, "f:replicas": {}, "f:stages": {".": {}, **stages}}
    status: Tree = {"f:conditions": {}, "f:observedGeneration": {}, "f:stages": {}}
    operator = {**_managed("widget-operator", {"f:status": status}), "subresource": "status"}
    return {
        "annotations": {"bench.example.com/digest": f"{rng.getrandbits(256):064x}"},
        "creationTimestamp": created,
        "generation": 1,
        "labels": {"app.kubernetes.io/name": f"widget-{index % 500}", "tier": rng.choice("abcd")},
        "managedFields": [_managed("kubectl", {"f:spec": spec}), operator],
        "name": f"widget-{rng.getrandbits(24):06x}-{index}",
        "namespace": f"team-{index % _NAMESPACES:03d}-prod",
        "resourceVersion": str(resource_version),
        "uid": make_uid(rng),
    }


def _managed(manager: str, fields: Tree) -> Tree:
    return {
        "apiVersion": "bench.example.com/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "manager": manager,
        "operation": "Update",
        "time": "2026-01-01T00:00:00Z",
    }


def _stage(rng: Random, name: str) -> Tree:
    env: list[JSON] = [
        {"name": f"SETTING_{n}", "value": f"{rng.getrandbits(64):016x}"}
        for n in range(rng.randrange(2, 6))
    ]
    cpu = rng.randrange(1, 40) * 100
    return {
        "enabled": rng.random() < 0.9,
        "env": env,
        "image": f"registry.example.com/widgets/{name}:v{rng.randrange(1, 9)}.{rng.randrange(40)}",
        "mode": rng.choice(_MODES),
        "name": name,
        "resources": {"limits": {"cpu": f"{cpu}m", "memory": f"{cpu}Mi"}},
        "weight": round(rng.random(), 3),
    }


def _status(rng: Random, names: list[str], *, created: str, revision: int) -> Tree:
    condition: Tree = {
        "lastTransitionTime": created,
        "message": f"{len(names)} stages are at revision {revision}",
        "reason": "Settled",
        "status": "True" if revision % 8 != 5 else "False",
        "type": "Ready",
    }
    return {
        "conditions": [condition],
        "observedGeneration": 1,
        "stages": [
            {
                "digest": f"sha256:{rng.getrandbits(256):064x}",
                "name": name,
                "observed": revision,
                "phase": "Running",
                "since": created,
            }
            for name in names
        ],
    }
