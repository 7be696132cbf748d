"""Deployments of the demo's cluster and how one rolls to its next version.

In go the pods that run, out come the sizes that the old and the new replica set should have now.
Here nothing is written to a server, so that a rollout can be followed step by step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyinformer.apimachinery import JSONObject

_SURGE_SHARE = 4  # a quarter of the replicas may be on their way at the same time


@dataclass(eq=False)
class Pod:
    """What the world remembers of a pod."""

    name: str
    namespace: str
    node: str | None = None
    phase: str = "Pending"
    turns_at: int = 0
    """The step at which it goes on to its next phase."""


@dataclass(eq=False)
class ReplicaSet:
    """The pods of one version."""

    name: str
    version: int
    body: JSONObject
    desired: int
    pods: dict[str, Pod] = field(default_factory=dict)
    reported: tuple[int, int, int] = (0, 0, 0)
    """Desired, existing and ready replicas as they were last written."""

    @property
    def ready(self) -> int:
        """How many of its pods run."""
        return sum(pod.phase == "Running" for pod in self.pods.values())


@dataclass(eq=False)
class Workload:
    """A deployment: the replica set of its version, and the one that it comes from."""

    app: str
    namespace: str
    replicas: int
    body: JSONObject
    version: int
    current: ReplicaSet
    previous: ReplicaSet | None = None
    reported: tuple[int, int, int] = (0, 0, 0)
    """Existing, updated and ready replicas as they were last written."""

    @property
    def sets(self) -> tuple[ReplicaSet, ...]:
        """Its replica sets, the newest first."""
        return (self.current,) if self.previous is None else (self.current, self.previous)

    @property
    def is_rolling(self) -> bool:
        """Whether pods of the previous version are left, or new ones are missing."""
        behind = self.previous is not None and bool(self.previous.pods)
        return behind or self.current.desired < self.replicas

    def roll(self) -> None:
        """Let the replica sets have the sizes that this moment of a rollout asks for."""
        if self.previous is None:
            return
        ready = self.current.ready
        surge = max(1, self.replicas // _SURGE_SHARE)
        self.current.desired = min(self.replicas, ready + surge)
        self.previous.desired = max(0, self.replicas - ready)
