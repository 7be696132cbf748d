"""The rules of the built-in kinds, by group and kind.

docs/howto/readiness.md has the reasons where kubectl and kstatus differ.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pyinformer.readiness._fields import Body, condition, items, read, shown
from pyinformer.readiness._result import Readiness, failed, in_progress, ready

_COUNTS: Final = {  # in the order in which pods get there
    "replicas": "created",
    "currentNumberScheduled": "scheduled",
    "updatedReplicas": "updated",
    "updatedNumberScheduled": "updated",
    "readyReplicas": "ready",
    "numberReady": "ready",
    "availableReplicas": "available",
    "numberAvailable": "available",
}


def _deployment(body: Body) -> Readiness:
    progressing = condition(body, "Progressing")
    if progressing.reason == "ProgressDeadlineExceeded":
        return failed(str(progressing))
    found = _replicas(body, ("updatedReplicas", "availableReplicas"))
    # Its controller writes conditions and counts at once; without them the counts are enough.
    for each in (progressing, condition(body, "Available")):
        if found.state == "Ready" and each.status == "False":
            return in_progress(str(each))
    return found


def _stateful_set(body: Body) -> Readiness:
    is_delayed = read(body, "spec.minReadySeconds", int, 0) > 0
    found = _replicas(body, ["availableReplicas"] if is_delayed else ["readyReplicas"])
    if found.state != "Ready" or read(body, "spec.updateStrategy.type", str, "") == "OnDelete":
        return found
    desired = read(body, "spec.replicas", int, 1)
    updated = read(body, "status.updatedReplicas", int, 0)
    partition = read(body, "spec.updateStrategy.rollingUpdate.partition", int, None)
    if partition is not None:
        desired = max(desired - partition, 0)
        return found if updated >= desired else in_progress(_short(updated, desired, "updated"))
    current = read(body, "status.currentReplicas", int, 0)
    revisions = {read(body, f"status.{each}Revision", str, "") for each in ("current", "update")}
    is_complete = current >= desired and len(revisions) == 1
    return found if is_complete else in_progress(_short(updated, desired, "updated"))


def _daemon_set(body: Body) -> Readiness:
    desired = read(body, "status.desiredNumberScheduled", int, None)
    if desired is None:
        return in_progress("the number of its pods has not been computed")
    counts = ["currentNumberScheduled", "numberReady", "numberAvailable"]
    if read(body, "spec.updateStrategy.type", str, "") != "OnDelete":
        counts.append("updatedNumberScheduled")
    return _counted(body, desired, counts, "pods")


def _replicas(
    body: Body, counts: Sequence[str] = ("readyReplicas", "availableReplicas")
) -> Readiness:
    failure = condition(body, "ReplicaFailure")
    if failure.status == "True":
        return in_progress(str(failure))
    desired, existing = read(body, "spec.replicas", int, 1), read(body, "status.replicas", int, 0)
    found = _counted(body, desired, ["replicas", *counts], "replicas")
    if found.state == "Ready" and existing > desired:
        return in_progress(f"{existing} replicas exist, and {desired} are wanted")
    return found


def _counted(body: Body, desired: int, counts: list[str], what: str) -> Readiness:
    words = ""
    for name in (each for each in _COUNTS if each in counts):
        count, words = read(body, f"status.{name}", int, 0), _COUNTS[name]
        if count < desired:
            return in_progress(_short(count, desired, words, what))
    return ready(_short(desired, desired, words, what))


def _short(count: int, desired: int, words: str, what: str = "replicas") -> str:
    return f"{count} of {desired} {what} are {words}"


def _pod(body: Body) -> Readiness:
    phase, why = read(body, "status.phase", str, ""), read(body, "status.reason", str, "")
    if phase in ("Succeeded", "Failed"):
        words = f"is in the phase {phase}" + (f": {shown(why)}" if why else "")
        return (ready if phase == "Succeeded" else failed)(words)
    found, scheduled = condition(body, "Ready"), condition(body, "PodScheduled")
    if phase == "Running" and found.status == "True":
        return ready("is running and ready")
    waiting: dict[str, str] = {}
    for one in items(body, "status.initContainerStatuses", "status.containerStatuses"):
        reason, name = read(one, "state.waiting.reason", str, ""), read(one, "name", str, "")
        waiting.setdefault(reason, f"container {shown(name)} is waiting: {shown(reason)}")
    if "CrashLoopBackOff" in waiting:
        return failed(waiting["CrashLoopBackOff"])
    if scheduled.status == "False":
        return in_progress(str(scheduled))
    for reason in filter(None, waiting):
        return in_progress(waiting[reason])
    if phase == "Running":
        return in_progress(str(found))
    return in_progress(f"is in the phase {shown(phase)}" if phase else "has no phase yet")


def _job(body: Body) -> Readiness:
    broken, complete = condition(body, "Failed"), condition(body, "Complete")
    if broken.status == "True":
        return failed(str(broken))
    if complete.status == "True":
        return ready("is complete")
    if read(body, "spec.suspend", bool, False):
        return in_progress("is suspended")
    completions = read(body, "spec.completions", int, None)
    wanted = "" if completions is None else f" of {completions}"
    return in_progress(f"{read(body, 'status.succeeded', int, 0)}{wanted} pods have succeeded")


def _phase(body: Body, *, good: tuple[str, ...], bad: str = "") -> Readiness:
    phase = read(body, "status.phase", str, "")
    result = ready if phase in good else failed if phase and phase == bad else in_progress
    return result(f"is in the phase {shown(phase)}" if phase else "has no phase yet")


def _service(body: Body) -> Readiness:
    is_balanced = read(body, "spec.type", str, "") == "LoadBalancer"
    return _load_balancer(body) if is_balanced else ready("needs no load balancer")


def _load_balancer(body: Body) -> Readiness:
    for one in items(body, "status.loadBalancer.ingress"):
        address = read(one, "ip", str, "") or read(one, "hostname", str, "")
        if address:
            return ready(f"has the address {shown(address)}")
    return in_progress("has no address of a load balancer yet")


def _disruption_budget(body: Body) -> Readiness:
    allowed = condition(body, "DisruptionAllowed")
    is_broken = allowed.reason == "SyncFailed"
    return in_progress(str(allowed)) if is_broken else ready("its allowed disruptions are computed")


def _definition(body: Body) -> Readiness:
    names, established = condition(body, "NamesAccepted"), condition(body, "Established")
    if names.status == "False":
        return failed(str(names))
    if established.status == "False" and established.reason != "Installing":
        return failed(str(established))
    return by_condition(body, name="Established")


def by_condition(body: Body, *, name: str) -> Readiness:
    """Return what one condition says, without which an object is not ready."""
    found = condition(body, name)
    return (ready if found.status == "True" else in_progress)(str(found))


BUILT_IN: Final[dict[tuple[str, str], Callable[[Body], Readiness]]] = {
    ("", "Namespace"): partial(_phase, good=("Active",)),
    ("", "PersistentVolume"): partial(_phase, good=("Available", "Bound"), bad="Failed"),
    ("", "PersistentVolumeClaim"): partial(_phase, good=("Bound",), bad="Lost"),
    ("", "Pod"): _pod,
    ("", "ReplicationController"): _replicas,
    ("", "Service"): _service,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("apiregistration.k8s.io", "APIService"): partial(by_condition, name="Available"),
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replicas,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "Job"): _job,
    ("networking.k8s.io", "Ingress"): _load_balancer,
    ("policy", "PodDisruptionBudget"): _disruption_budget,
}
"""The rule of each kind; other kinds are read by their conditions."""

_OBSERVING: Final = (_daemon_set, _deployment, _disruption_budget, _replicas, _stateful_set)
OBSERVED: Final = frozenset(kind for kind, rule in BUILT_IN.items() if rule in _OBSERVING)
"""Kinds whose controllers always write `status.observedGeneration`: without it none has run."""
