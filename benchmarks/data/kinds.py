"""What a generated collection is: its kind, its objects, its sizes.

An object depends on the seed, its index and its revision alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec

from benchmarks.data.pod_parts import JSON


@dataclass(frozen=True, slots=True)
class Kind:
    """A namespaced resource of the API."""

    api_version: str
    """`version`, or `group/version`."""
    resource: str
    kind: str
    is_custom: bool = False
    """Custom resources are written with sorted keys, and in lists with kind and apiVersion."""

    @property
    def root(self) -> str:
        """The path of its group and version: `/api/v1`, `/apis/apps/v1`."""
        return (
            f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        )

    @property
    def type_meta(self) -> bytes:
        """What each of its objects begins with, between the brace and the metadata."""
        kind, version = f'"kind":"{self.kind}",', f'"apiVersion":"{self.api_version}",'
        return (version + kind if self.is_custom else kind + version).encode()


PODS = Kind("v1", "pods", "Pod")
CONFIG_MAPS = Kind("v1", "configmaps", "ConfigMap")
LEASES = Kind("coordination.k8s.io/v1", "leases", "Lease")
WIDGETS = Kind("bench.example.com/v1", "widgets", "Widget", is_custom=True)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes in bytes over a sample of objects."""

    mean_bytes: float
    min_bytes: int
    max_bytes: int
    managed_fields_share: float
    """Part of the JSON that is managedFields, 0 to 1."""
    workloads: int = 0
    """How many templates the objects come from; 0 where each is its own."""


class Collection(Protocol):
    """The objects of one kind in one synthetic cluster, numbered from 0."""

    @property
    def kind(self) -> Kind:
        """What they are."""
        ...

    def object(self, index: int, *, resource_version: int, revision: int = 0) -> bytes:
        """Render an object as a watch event carries it.

        Args:
            index: its number; its identity (namespace, name, uid) depends on it alone.
            resource_version: what metadata.resourceVersion says.
            revision: 0 is the object as created; each later one differs.
        """
        ...

    def sizes(self, objects: int, *, sample: int = 500) -> Sizes:
        """Measure `sample` objects, spread over the first `objects`."""
        ...


def measure_sizes(
    collection: Collection, objects: int, *, sample: int, workloads: int = 0
) -> Sizes:
    """Measure `sample` objects, spread over the first `objects`."""
    lengths, managed = [], 0
    for number in range(min(objects, sample)):
        # a stride that no number of workloads divides, so that every sort of them is met
        body = collection.object(number * 7_919 % objects, resource_version=1_000_000 + number)
        lengths.append(len(body))
        managed += len(_ManagedDecoder.decode(body).metadata.managed_fields)
    return Sizes(
        mean_bytes=sum(lengths) / len(lengths),
        min_bytes=min(lengths),
        max_bytes=max(lengths),
        managed_fields_share=managed / sum(lengths),
        workloads=workloads,
    )


def as_go_writes(document: dict[str, JSON]) -> bytes:
    """Encode a document; Go writes `&` as an escape, and nothing generated holds `<` or `>`."""
    return msgspec.json.encode(document).replace(b"&", rb"\u0026")


def timestamp(seconds: int) -> str:
    """Write an instant, `seconds` after the year's begin (months have 28 days here)."""
    day, rest = divmod(seconds, 86_400)
    return (
        f"2026-{1 + day // 28 % 12:02d}-{1 + day % 28:02d}"
        f"T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}Z"
    )


class _ManagedMeta(msgspec.Struct, rename="camel"):
    managed_fields: msgspec.Raw


class _Managed(msgspec.Struct):
    metadata: _ManagedMeta


_ManagedDecoder = msgspec.json.Decoder(_Managed)
