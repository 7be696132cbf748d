"""The owners of the generated pods: one workload is one pod template.

A workload is a function of (seed, number) alone, whatever was asked for before.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from random import Random

_NAMESPACES = 50
_TEAMS = ("payments", "search", "checkout", "identity", "ledger", "catalog", "mail", "edge")
_TIERS = ("frontend", "backend", "batch", "infra")
_ENV_POOL = (
    ("DATABASE_URL", "postgres://{name}.db.svc.cluster.local:5432/{token}?sslmode=require&pool=8"),
    ("CACHE_ADDR", "redis-{token}.cache.svc.cluster.local:6379"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel-collector.observability.svc:4317"),
    ("FEATURE_FLAGS", "checkout_v2,pricing_{token}"),
    ("LOG_LEVEL", "info"),
    ("GOMAXPROCS", "2"),
    ("BUILD_REVISION", "{token}"),
    ("REGION", "eu-west-1"),
)


@dataclass(frozen=True, slots=True)
class Workload:
    """What all pods of one ReplicaSet or StatefulSet have in common."""

    namespace: str
    name: str
    template_hash: str
    owner_kind: str
    owner_name: str
    owner_uid: str
    labels: dict[str, str]
    """Without the labels a StatefulSet adds per pod."""
    annotations: dict[str, str]
    env: tuple[tuple[str, str], ...]
    image: str
    image_digest: str
    has_sidecar: bool

    @property
    def is_stateful(self) -> bool:
        """Whether every pod has labels of its own (its name and ordinal)."""
        return self.owner_kind == "StatefulSet"


def make_workload(seed: int, number: int) -> Workload:
    """Build workload `number`; one in ten is a StatefulSet, one in ten has a sidecar."""
    rng = Random(f"workload/{seed}/{number}")
    team = rng.choice(_TEAMS)
    name = f"{team}-svc-{number}"
    template_hash = f"{rng.getrandbits(40):010x}"
    stateful = number % 10 == 9
    return Workload(
        namespace=f"team-{number % _NAMESPACES:03d}-prod",
        name=name,
        template_hash=template_hash,
        owner_kind="StatefulSet" if stateful else "ReplicaSet",
        owner_name=name if stateful else f"{name}-{template_hash}",
        owner_uid=make_uid(rng),
        labels=_labels(rng, name=name, team=team, template_hash=template_hash, stateful=stateful),
        annotations=_annotations(rng, number),
        env=_env(rng, name),
        image=f"registry.example.com/{team}/{name}:v{rng.randrange(1, 9)}.{rng.randrange(40)}",
        image_digest=f"{rng.getrandbits(256):064x}",
        has_sidecar=number % 10 == 0,
    )


def make_uid(rng: Random) -> str:
    """Draw a random (version 4) UUID from `rng`."""
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _labels(
    rng: Random, *, name: str, team: str, template_hash: str, stateful: bool
) -> dict[str, str]:
    hash_label = "controller-revision-hash" if stateful else "pod-template-hash"
    labels = {
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/name": name,
        "team": team,
        "tier": rng.choice(_TIERS),
        hash_label: template_hash,
    }
    return dict(sorted(labels.items()))


def _annotations(rng: Random, number: int) -> dict[str, str]:
    annotations = {"prometheus.io/port": "8080", "prometheus.io/scrape": "true"}
    if rng.random() < 0.5:
        annotations["checksum/config"] = f"{rng.getrandbits(256):064x}"
    if number % 100 == 7:  # clusters hold some text that is not ASCII, and it costs more to check
        annotations["contact"] = "équipe paiements"
    return annotations


def _env(rng: Random, name: str) -> tuple[tuple[str, str], ...]:
    chosen = rng.sample(_ENV_POOL, k=rng.randrange(3, 7))
    return tuple(
        (key, value.format(name=name, token=f"{rng.getrandbits(32):08x}")) for key, value in chosen
    )
