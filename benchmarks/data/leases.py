"""Leases of about 0.6 KB, as elected leaders renew them: the smallest objects that change often.

An object depends on the seed, its index and its revision alone.
"""

from __future__ import annotations

from random import Random

from benchmarks.data.kinds import LEASES, Sizes, as_go_writes, measure_sizes, timestamp
from benchmarks.data.pod_parts import JSON
from benchmarks.data.workloads import make_uid

_NAMESPACES = 50
_RENEW_SECONDS = 10
_FIELDS: dict[str, JSON] = {
    "f:spec": {"f:holderIdentity": {}, "f:leaseDurationSeconds": {}, "f:renewTime": {}},
}


class LeaseGenerator:
    """Make the Leases of one synthetic cluster."""

    kind = LEASES

    def __init__(self, objects: int, *, seed: int = 0) -> None:
        """Make objects numbered 0 to objects - 1; another seed gives other holders."""
        self._seed = seed

    def object(self, index: int, *, resource_version: int, revision: int = 0) -> bytes:
        """Render Lease `index`; each revision is renewed ten seconds later."""
        rng = Random(f"lease/{self._seed}/{index}")
        name = f"lease-{rng.getrandbits(24):06x}-{index}"
        renewed = timestamp(86_400 + index + _RENEW_SECONDS * revision)
        document: dict[str, JSON] = {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": _metadata(rng, name, index, resource_version=resource_version),
            "spec": {
                "holderIdentity": f"{name}_{rng.getrandbits(32):08x}",
                "leaseDurationSeconds": 15,
                "renewTime": f"{renewed[:-1]}.{rng.randrange(1_000_000):06d}Z",
                "leaseTransitions": rng.randrange(9),
            },
        }
        return as_go_writes(document)

    def sizes(self, objects: int, *, sample: int = 500) -> Sizes:
        """Measure `sample` Leases, spread over the first `objects`."""
        return measure_sizes(self, objects, sample=sample)


def _metadata(rng: Random, name: str, index: int, *, resource_version: int) -> dict[str, JSON]:
    created = timestamp(index)
    return {
        "name": name,
        "namespace": f"team-{index % _NAMESPACES:03d}-prod",
        "uid": make_uid(rng),
        "resourceVersion": str(resource_version),
        "creationTimestamp": created,
        "managedFields": [
            {
                "manager": "controller",
                "operation": "Update",
                "apiVersion": "coordination.k8s.io/v1",
                "time": created,
                "fieldsType": "FieldsV1",
                "fieldsV1": _FIELDS,
            }
        ],
    }
