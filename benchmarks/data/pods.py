"""Realistic pods as JSON bytes, in the field order of Kubernetes' Go types.

Pod(index, revision) depends on seed, index and revision alone, so that any two processes, and any
two runs, see the same bytes.
"""

from __future__ import annotations

from random import Random

from benchmarks.data.kinds import PODS, Sizes, as_go_writes, measure_sizes, timestamp
from benchmarks.data.pod_parts import JSON, managed_fields, pod_spec, pod_status
from benchmarks.data.workloads import Workload, make_uid, make_workload

_PODS_PER_WORKLOAD = 20
_MIN_WORKLOADS = 500
_NODES = 1_000


class PodGenerator:
    """Make the pods of one synthetic cluster."""

    kind = PODS

    def __init__(self, objects: int, *, seed: int = 0) -> None:
        """Lay out the cluster.

        Args:
            objects: how many pods the cluster has; pods are numbered 0 to objects - 1.
            seed: another seed gives other names, environments and addresses.
        """
        count = max(_MIN_WORKLOADS, objects // _PODS_PER_WORKLOAD)
        self._seed = seed
        self._workloads = [make_workload(seed, number) for number in range(count)]

    @property
    def workloads(self) -> int:
        """How many the pods belong to."""
        return len(self._workloads)

    def pod(self, index: int, *, resource_version: int, revision: int = 0) -> bytes:
        """Render pod `index`, with kind and apiVersion first, as a watch event carries it.

        Args:
            index: number of the pod; identity (name, uid, node) depends on it alone.
            resource_version: what metadata.resourceVersion says.
            revision: 0 is the pod as created; each later one changes the status.
        """
        return as_go_writes(
            self._document(index, resource_version=resource_version, revision=revision)
        )

    def object(self, index: int, *, resource_version: int, revision: int = 0) -> bytes:
        """Render pod `index`: the name that all collections have for it."""
        return self.pod(index, resource_version=resource_version, revision=revision)

    def sizes(self, objects: int, *, sample: int = 500) -> Sizes:
        """Measure `sample` pods, spread over the first `objects`."""
        return measure_sizes(self, objects, sample=sample, workloads=self.workloads)

    def _document(self, index: int, *, resource_version: int, revision: int) -> dict[str, JSON]:
        workload = self._workloads[index % len(self._workloads)]
        rng = Random(f"pod/{self._seed}/{index}")
        ordinal = index // len(self._workloads)
        address = f"10.{index >> 16 & 255}.{index >> 8 & 255}.{index & 255}"
        node = rng.randrange(_NODES)
        created = timestamp(index * 37)
        return {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": _metadata(
                workload,
                rng,
                ordinal=ordinal,
                address=address,
                created=created,
                resource_version=resource_version,
            ),
            "spec": pod_spec(
                workload,
                node_name=f"ip-10-{node // 256}-{node % 256}-17.eu-west-1.compute.internal",
                token_volume=f"kube-api-access-{rng.getrandbits(20):05x}",
            ),
            "status": pod_status(
                workload,
                rng,
                host_address=f"10.200.{node // 256}.{node % 256}",
                pod_address=address,
                created=created,
                revision=revision,
            ),
        }


def _metadata(
    workload: Workload,
    rng: Random,
    *,
    ordinal: int,
    address: str,
    created: str,
    resource_version: int,
) -> dict[str, JSON]:
    prefix = f"{workload.owner_name}-"
    suffix = f"{rng.getrandbits(20):05x}{ordinal}"
    name = f"{prefix}{ordinal}" if workload.is_stateful else f"{prefix}{suffix}"
    labels = dict(workload.labels)
    if workload.is_stateful:
        labels["apps.kubernetes.io/pod-index"] = str(ordinal)
        labels["statefulset.kubernetes.io/pod-name"] = name
    annotations = dict(workload.annotations)
    annotations["cni.example.com/interface"] = f"eni{rng.getrandbits(44):011x}"
    annotations["cni.example.com/address"] = f"{address}/32"
    return {
        "name": name,
        "generateName": prefix,
        "namespace": workload.namespace,
        "uid": make_uid(rng),
        "resourceVersion": str(resource_version),
        "generation": 1,
        "creationTimestamp": created,
        "labels": dict(sorted(labels.items())),
        "annotations": dict(sorted(annotations.items())),
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": workload.owner_kind,
                "name": workload.owner_name,
                "uid": workload.owner_uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": managed_fields(
            workload, labels=labels, annotations=annotations, address=address, created=created
        ),
    }
