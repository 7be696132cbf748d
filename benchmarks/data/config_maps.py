"""ConfigMaps of about 1.5 KB: an application's settings as text, applied by kubectl.

An object depends on the seed, its index and its revision alone.
"""

from __future__ import annotations

from random import Random

from benchmarks.data.kinds import CONFIG_MAPS, Sizes, as_go_writes, measure_sizes, timestamp
from benchmarks.data.pod_parts import JSON
from benchmarks.data.workloads import make_uid

_NAMESPACES = 50
_TIERS = ("frontend", "backend", "batch", "infra")
_OPTIONS = (
    "cache_ttl",
    "checkout_timeout",
    "connect_timeout",
    "feature_set",
    "idle_limit",
    "ledger_account",
    "max_in_flight",
    "metrics_prefix",
    "partition_key",
    "pool_size",
    "queue_name",
    "rate_limit",
    "region",
    "retry_budget",
    "sample_rate",
    "session_store",
    "shard",
    "tenant",
    "trace_header",
    "upstream",
)


class ConfigMapGenerator:
    """Make the ConfigMaps of one synthetic cluster."""

    kind = CONFIG_MAPS

    def __init__(self, objects: int, *, seed: int = 0) -> None:
        """Make objects numbered 0 to objects - 1; another seed gives other settings."""
        self._seed = seed

    def object(self, index: int, *, resource_version: int, revision: int = 0) -> bytes:
        """Render ConfigMap `index`; a revision is in its settings."""
        rng = Random(f"config-map/{self._seed}/{index}")
        data: dict[str, JSON] = {
            "application.yaml": _settings(rng, index, revision),
            "proxy.conf": _proxy(rng),
        }
        document: dict[str, JSON] = {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": _metadata(rng, index, resource_version=resource_version, data=data),
            "data": data,
        }
        return as_go_writes(document)

    def sizes(self, objects: int, *, sample: int = 500) -> Sizes:
        """Measure `sample` ConfigMaps, spread over the first `objects`."""
        return measure_sizes(self, objects, sample=sample)


def _settings(rng: Random, index: int, revision: int) -> str:
    chosen = sorted(rng.sample(_OPTIONS, k=rng.randrange(15, 21)))
    lines = [f'  {option}: "{rng.getrandbits(48):012x}"' for option in chosen]
    head = ["server:", "  port: 8080", f"  application: {index}", f"  revision: {revision}"]
    return "\n".join([*head, *lines, ""])


def _proxy(rng: Random) -> str:
    backends = "".join(
        f"\tserver 10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}:8080;\n"
        for _ in range(rng.randrange(3, 7))
    )
    return f"upstream application {{\n{backends}}}\nserver {{\n\tlisten 80;\n}}\n"


def _metadata(
    rng: Random, index: int, *, resource_version: int, data: dict[str, JSON]
) -> dict[str, JSON]:
    name = f"settings-{rng.getrandbits(24):06x}-{index}"
    labels: dict[str, JSON] = {"app.kubernetes.io/name": name, "tier": rng.choice(_TIERS)}
    created = timestamp(index * 41)
    fields: dict[str, JSON] = {
        "f:data": {".": {}, **{f"f:{key}": {} for key in data}},
        "f:metadata": {"f:labels": {".": {}, **{f"f:{key}": {} for key in labels}}},
    }
    return {
        "name": name,
        "namespace": f"team-{index % _NAMESPACES:03d}-prod",
        "uid": make_uid(rng),
        "resourceVersion": str(resource_version),
        "creationTimestamp": created,
        "labels": labels,
        "managedFields": [
            {
                "manager": "kubectl",
                "operation": "Apply",
                "apiVersion": "v1",
                "time": created,
                "fieldsType": "FieldsV1",
                "fieldsV1": fields,
            }
        ],
    }
