"""A simulated cluster: deployments roll out, pods start and end, nodes are drained.

Each step sends the writes that a scheduler, controllers and kubelets would send. The same seed and
number of steps give the same objects: nothing here reads a clock.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, final

from pyinformer.cli.demo import _manifests
from pyinformer.objects import JSONObject

_APPS = {
    "shop": {"web": 40, "cart": 24, "checkout": 20},
    "media": {"api": 32, "thumbs": 28},
    "data": {"ingest": 28, "search": 24, "queue": 16},
}
_JOBS_NAMESPACE = "batch"
_NODES = 8
_ZONES = 3
_FIRST_VERSION = 6
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # as in generated names: they cannot form words
_FIRST_ROLLOUT, _REST_BETWEEN_ROLLOUTS = 4, 8
_FIRST_DRAIN, _REST_BETWEEN_DRAINS, _EMPTY_FOR = 14, 30, 10
_JOB_EVERY = 4
_STARTS_AT_ONCE = 4  # pods that a controller creates or deletes per step
_EVICTIONS = 2
_SURGE_SHARE = 4  # a quarter of the replicas may start at the same time


@dataclass(eq=False)
class Pod:
    """The state of a simulated pod."""

    name: str
    namespace: str
    node: str | None = None
    phase: str = "Pending"
    turns_at: int = 0
    """The step at which its next phase begins."""


@dataclass(eq=False)
class ReplicaSet:
    """The pods of one version of a deployment."""

    name: str
    version: int
    body: JSONObject
    desired: int
    pods: dict[str, Pod] = field(default_factory=dict)
    reported: tuple[int, int, int] = (0, 0, 0)
    """The desired, existing and ready replicas that were last written."""

    @property
    def ready(self) -> int:
        """The number of running pods."""
        return sum(pod.phase == "Running" for pod in self.pods.values())


@dataclass(eq=False)
class Workload:
    """A deployment: the replica sets of its current and its previous version."""

    app: str
    namespace: str
    replicas: int
    body: JSONObject
    version: int
    current: ReplicaSet
    previous: ReplicaSet | None = None
    reported: tuple[int, int, int] = (0, 0, 0)
    """The existing, updated and ready replicas that were last written."""

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
        """Set the sizes of the replica sets for the current state of a rollout."""
        if self.previous is None:
            return
        ready = self.current.ready
        surge = max(1, self.replicas // _SURGE_SHARE)
        self.current.desired = min(self.replicas, ready + surge)
        self.previous.desired = max(0, self.replicas - ready)


class DemoWriter(Protocol):
    """The API of a server that the world writes to."""

    def create(self, obj: JSONObject, *, namespace: str | None = None) -> JSONObject:
        """Create an object and return what was stored."""
        ...

    def patch(
        self,
        api_version: str,
        plural: str,
        name: str,
        changes: JSONObject,
        namespace: str | None = None,
    ) -> JSONObject:
        """Merge changes into an object and return what was stored."""
        ...

    def delete(
        self, api_version: str, plural: str, name: str, namespace: str | None = None
    ) -> JSONObject:
        """Delete an object and return its last state."""
        ...


@final
class DemoWorld:
    """The cluster's scheduler, controllers and kubelets in one.

    Args:
        server: receives the writes.
        seed: the seed of every random choice.
    """

    def __init__(self, server: DemoWriter, *, seed: int = 0) -> None:
        self._server = server
        self._rng = random.Random(seed)
        self._step = 0
        self._names: set[str] = set()
        self._workloads: list[Workload] = []
        self._jobs: dict[str, Pod] = {}
        self._load = {f"node-{number}": 0 for number in range(1, _NODES + 1)}
        self._rolling: Workload | None = None
        self._next_rollout = _FIRST_ROLLOUT
        self._draining: str | None = None
        self._next_drain = _FIRST_DRAIN

    def populate(self) -> None:
        """Create the initial objects: every pod is scheduled and running."""
        for number, name in enumerate(self._load):
            self._server.create(_manifests.node(name, f"zone-{number % _ZONES + 1}"))
        for namespace in (*_APPS, _JOBS_NAMESPACE):
            self._server.create(_manifests.namespace(namespace))
        for namespace, apps in _APPS.items():
            for app, replicas in apps.items():
                self._deploy(app, namespace, replicas)

    def step(self) -> None:
        """Advance by one step."""
        self._step += 1
        self._beat()
        self._roll_out()
        self._drain()
        self._run_jobs()
        for workload in self._workloads:
            for replica_set in workload.sets:
                self._reconcile(workload, replica_set)
            self._report(workload)
        for pod in list(self._pods()):
            self._move_on(pod)

    def _deploy(self, app: str, namespace: str, replicas: int) -> None:
        version = _FIRST_VERSION
        body = self._server.create(_manifests.deployment(app, namespace, replicas, version))
        current = self._replica_set(app, namespace, version, replicas, body)
        workload = Workload(app, namespace, replicas, body, version, current)
        for _ in range(replicas):
            pod = self._new_pod(workload, current)
            self._bind(pod)
            self._start(pod)
        current.reported = workload.reported = (replicas, replicas, replicas)
        self._workloads.append(workload)

    def _replica_set(
        self, app: str, namespace: str, version: int, replicas: int, owner: JSONObject
    ) -> ReplicaSet:
        name = self._name(app, 5)
        body = _manifests.replica_set(
            name, app=app, namespace=namespace, version=version, replicas=replicas, owner=owner
        )
        stored = self._server.create(body)
        return ReplicaSet(name, version, stored, replicas, reported=(replicas, replicas, replicas))

    def _name(self, prefix: str, length: int) -> str:
        while True:
            name = f"{prefix}-{''.join(self._rng.choices(_LETTERS, k=length))}"
            if name not in self._names:
                self._names.add(name)
                return name

    def _pods(self) -> Iterator[Pod]:
        for workload in self._workloads:
            for replica_set in workload.sets:
                yield from replica_set.pods.values()
        yield from self._jobs.values()

    def _beat(self) -> None:
        """Write the heartbeat of one node, in turn."""
        name = list(self._load)[self._step % _NODES]
        minutes, seconds = divmod(self._step, 60)
        beat = f"2026-01-01T00:{minutes % 60:02}:{seconds:02}Z"
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": beat}
        self._server.patch("v1", "nodes", name, {"status": {"conditions": [condition]}})

    def _move_on(self, pod: Pod) -> None:
        if pod.node is None:
            self._bind(pod)
        elif self._step >= pod.turns_at:
            if pod.phase == "Pending":
                self._start(pod)
            elif pod.name in self._jobs:
                self._end(pod)

    def _bind(self, pod: Pod) -> None:
        free = [name for name in self._load if name != self._draining]
        pod.node = min(free, key=lambda name: (self._load[name], name))
        self._load[pod.node] += 1
        pod.turns_at = self._step + self._rng.randint(3, 8)
        self._patch_pod(pod, {"spec": {"nodeName": pod.node}})

    def _start(self, pod: Pod) -> None:
        pod.phase = "Running"
        pod.turns_at = self._step + self._rng.randint(10, 40)  # used only for jobs
        address = (
            f"10.{self._rng.randrange(256)}.{self._rng.randrange(256)}.{len(self._names) % 256}"
        )
        self._patch_pod(pod, {"status": _manifests.running(address)})

    def _end(self, job: Pod) -> None:
        if job.phase == "Succeeded":
            self._delete_pod(job, self._jobs)
            return
        job.phase = "Succeeded"
        job.turns_at = self._step + self._rng.randint(3, 10)
        self._patch_pod(job, {"status": {"phase": job.phase, "conditions": []}})

    def _patch_pod(self, pod: Pod, changes: JSONObject) -> None:
        self._server.patch("v1", "pods", pod.name, changes, pod.namespace)

    def _delete_pod(self, pod: Pod, owner: dict[str, Pod]) -> None:
        del owner[pod.name]
        if pod.node is not None:
            self._load[pod.node] -= 1
        self._server.delete("v1", "pods", pod.name, pod.namespace)

    def _new_pod(self, workload: Workload, replica_set: ReplicaSet) -> Pod:
        pod = Pod(self._name(replica_set.name, 3), workload.namespace)
        replica_set.pods[pod.name] = pod
        self._server.create(
            _manifests.pod(
                pod.name, workload.app, pod.namespace, replica_set.version, replica_set.body
            )
        )
        return pod

    def _reconcile(self, workload: Workload, replica_set: ReplicaSet) -> None:
        surplus = len(replica_set.pods) - replica_set.desired
        for _ in range(min(-surplus, _STARTS_AT_ONCE)):
            self._new_pod(workload, replica_set)
        for pod in list(replica_set.pods.values())[: max(0, min(surplus, _STARTS_AT_ONCE))]:
            self._delete_pod(pod, replica_set.pods)

    def _report(self, workload: Workload) -> None:
        """Write the replica counts in spec and status that have changed."""
        for one in workload.sets:
            now = (one.desired, len(one.pods), one.ready)
            if now != one.reported:
                one.reported = now
                changes = {
                    "spec": {"replicas": now[0]},
                    "status": {"replicas": now[1], "readyReplicas": now[2]},
                }
                self._server.patch("apps/v1", "replicasets", one.name, changes, workload.namespace)
        sets = workload.sets
        total = sum(len(one.pods) for one in sets)
        now = (total, len(workload.current.pods), sum(one.ready for one in sets))
        if now != workload.reported:
            workload.reported = now
            names = ("replicas", "updatedReplicas", "readyReplicas")
            self._patch_deployment(workload, {"status": dict(zip(names, now, strict=True))})

    def _patch_deployment(self, workload: Workload, changes: JSONObject) -> None:
        self._server.patch("apps/v1", "deployments", workload.app, changes, workload.namespace)

    def _roll_out(self) -> None:
        if self._rolling is not None:
            self._rolling.roll()
            if not self._rolling.is_rolling:
                self._rolling = None
                self._next_rollout = self._step + _REST_BETWEEN_ROLLOUTS
        elif self._step >= self._next_rollout:
            self._rolling = self._rng.choice(self._workloads)
            self._begin_rollout(self._rolling)

    def _begin_rollout(self, workload: Workload) -> None:
        if workload.previous is not None:  # only the last version is kept
            self._server.delete(
                "apps/v1", "replicasets", workload.previous.name, workload.namespace
            )
        workload.version += 1
        workload.previous = workload.current
        template = _manifests.template(workload.app, workload.version)
        self._patch_deployment(workload, {"spec": {"template": template}})
        workload.current = self._replica_set(
            workload.app, workload.namespace, workload.version, 0, workload.body
        )
        workload.roll()

    def _drain(self) -> None:
        if self._draining is None:
            if self._step >= self._next_drain:
                self._draining = self._rng.choice(list(self._load))
                self._cordon(self._draining, cordoned=True)
            return
        if self._load[self._draining] > 0:
            self._evict(self._draining)
            self._next_drain = self._step + _EMPTY_FOR
        elif self._step >= self._next_drain:
            self._cordon(self._draining, cordoned=False)
            self._draining = None
            self._next_drain = self._step + _REST_BETWEEN_DRAINS

    def _cordon(self, node: str, *, cordoned: bool) -> None:
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        spec = {"unschedulable": cordoned or None, "taints": [taint] if cordoned else None}
        self._server.patch("v1", "nodes", node, {"spec": spec})

    def _evict(self, node: str) -> None:
        owners = [one.pods for workload in self._workloads for one in workload.sets] + [self._jobs]
        on_node = [(pod, pods) for pods in owners for pod in pods.values() if pod.node == node]
        for pod, pods in on_node[:_EVICTIONS]:
            self._delete_pod(pod, pods)

    def _run_jobs(self) -> None:
        if self._step % _JOB_EVERY == 0:
            app = self._rng.choice(("report", "backup", "mail"))
            job = Pod(self._name(app, 5), _JOBS_NAMESPACE)
            self._jobs[job.name] = job
            self._server.create(_manifests.pod(job.name, app, job.namespace, 1))
