"""What makes an object of each kind ready, beyond the cases of upstream."""

from __future__ import annotations

from typing import Any

import pytest

from pyinformer import readiness
from tests.readiness.bodies import VERSIONS, body, condition, counts

_DAEMONS = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable")


def _deployment(replicas: Any, number: int, **status: Any) -> dict[str, Any]:
    names = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    return body("Deployment", spec={"replicas": replicas}, status=counts(number, *names, **status))


def _set(spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    names = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
    return body("StatefulSet", spec={"replicas": 3, **spec}, status=counts(3, *names, **status))


def _waiting(kind: str, phase: str, reason: str, **status: Any) -> dict[str, Any]:
    waiting = [{"name": "web", "state": {"waiting": {"reason": reason}}}]
    return body("Pod", status={"phase": phase, kind: waiting, **status})


def _phase(kind: str, phase: str) -> dict[str, Any]:
    return body(kind, status={"phase": phase})


def _balanced(kind: str, *addresses: dict[str, Any]) -> dict[str, Any]:
    status = {"loadBalancer": {"ingress": list(addresses)}}
    return body(kind, spec={"type": "LoadBalancer"}, status=status)


def _conditions(kind: str, *conditions: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return body(kind, **{"status": {"conditions": list(conditions)}, **parts})


_TOO_LATE = condition("Progressing", "False", "ProgressDeadlineExceeded", message="timed out")
_ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
_TWO = {"updateStrategy": {"rollingUpdate": {"partition": 2}}}
_BACK_OFF = "ImagePullBackOff"
_LOOP = "CrashLoopBackOff"
_OLD = {"currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1}

_CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "deployment-of-none": (_deployment(0, 0), "Ready", "0 of 0 replicas are available"),
    "deployment-scaled-down": (
        _deployment(0, 2),
        "InProgress",
        "2 replicas exist, and 0 are wanted",
    ),
    "deployment-without-a-number": (_deployment(None, 1), "Ready", "1 of 1 replicas are available"),
    "deployment-past-its-deadline": (
        _deployment(3, 1, conditions=[_TOO_LATE]),
        "Failed",
        "condition Progressing is False: timed out",
    ),
    "deployment-past-the-deadline-of-an-earlier-generation": (
        {**_deployment(3, 1, conditions=[_TOO_LATE]), "metadata": {"generation": 2}},
        "InProgress",
        "generation 2 is not observed yet, only 1",
    ),
    "deployment-paused": (
        _deployment(2, 2, conditions=[condition("Progressing", "Unknown", "DeploymentPaused")]),
        "Ready",
        "2 of 2 replicas are available",
    ),
    "replication-controller": (
        body(
            "ReplicationController",
            spec={"replicas": 2},
            status=counts(2, "replicas", "readyReplicas", availableReplicas=1),
        ),
        "InProgress",
        "1 of 2 replicas are available",
    ),
    "set-on-delete": (_set(_ON_DELETE, **_OLD), "Ready", "3 of 3 replicas are ready"),
    "set-on-delete-that-is-not-ready": (
        _set(_ON_DELETE, readyReplicas=1),
        "InProgress",
        "1 of 3 replicas are ready",
    ),
    "set-with-a-partition": (_set(_TWO, **_OLD), "Ready", "3 of 3 replicas are ready"),
    "set-with-a-partition-above-all": (
        _set({"updateStrategy": {"rollingUpdate": {"partition": 5}}}, updatedReplicas=0),
        "Ready",
        "3 of 3 replicas are ready",
    ),
    "set-of-two-revisions": (_set({}, **_OLD), "InProgress", "1 of 3 replicas are updated"),
    "set-whose-pods-are-ready-too-shortly": (
        _set({"minReadySeconds": 10}, availableReplicas=2),
        "InProgress",
        "2 of 3 replicas are available",
    ),
    "daemons-on-delete": (
        body("DaemonSet", spec=_ON_DELETE, status=counts(2, *_DAEMONS)),
        "Ready",
        "2 of 2 pods are available",
    ),
    "daemons-not-updated": (
        body("DaemonSet", status=counts(2, *_DAEMONS, updatedNumberScheduled=1)),
        "InProgress",
        "1 of 2 pods are updated",
    ),
    "daemons-on-no-node": (
        body("DaemonSet", status=counts(0, *_DAEMONS)),
        "Ready",
        "0 of 0 pods are available",
    ),
    "pod-without-an-image": (
        _waiting("containerStatuses", "Pending", _BACK_OFF),
        "InProgress",
        f"container web is waiting: {_BACK_OFF}",
    ),
    "pod-whose-init-container-crashes": (
        _waiting("initContainerStatuses", "Pending", _LOOP),
        "Failed",
        f"container web is waiting: {_LOOP}",
    ),
    "pod-that-is-not-ready": (
        _conditions(
            "Pod",
            status={
                "phase": "Running",
                "conditions": [condition("Ready", "False", "ContainersNotReady")],
            },
        ),
        "InProgress",
        "condition Ready is False: ContainersNotReady",
    ),
    "pod-on-a-lost-node": (_phase("Pod", "Unknown"), "InProgress", "is in the phase Unknown"),
    "job-suspended": (body("Job", spec={"suspend": True}), "InProgress", "is suspended"),
    "job-of-any-number": (
        body("Job", status={"succeeded": 2}),
        "InProgress",
        "2 pods have succeeded",
    ),
    "job-that-fails-soon": (
        _conditions("Job", condition("FailureTarget"), condition("Complete", "False")),
        "InProgress",
        "0 pods have succeeded",
    ),
    "claim-lost": (_phase("PersistentVolumeClaim", "Lost"), "Failed", "is in the phase Lost"),
    "claim-pending": (
        _phase("PersistentVolumeClaim", "Pending"),
        "InProgress",
        "is in the phase Pending",
    ),
    "volume-available": (
        _phase("PersistentVolume", "Available"),
        "Ready",
        "is in the phase Available",
    ),
    "volume-released": (
        _phase("PersistentVolume", "Released"),
        "InProgress",
        "is in the phase Released",
    ),
    "volume-failed": (_phase("PersistentVolume", "Failed"), "Failed", "is in the phase Failed"),
    "namespace-active": (_phase("Namespace", "Active"), "Ready", "is in the phase Active"),
    "namespace-terminating": (
        _phase("Namespace", "Terminating"),
        "InProgress",
        "is in the phase Terminating",
    ),
    "service-elsewhere": (
        body("Service", spec={"type": "ExternalName", "externalName": "a.example"}),
        "Ready",
        "needs no load balancer",
    ),
    "service-with-an-address": (
        _balanced("Service", {"ip": "192.0.2.1"}),
        "Ready",
        "has the address 192.0.2.1",
    ),
    "service-with-an-empty-address": (
        _balanced("Service", {"ports": []}),
        "InProgress",
        "has no address of a load balancer yet",
    ),
    "ingress-with-an-address": (
        _balanced("Ingress", {"hostname": "a.example"}),
        "Ready",
        "has the address a.example",
    ),
    "ingress-without": (body("Ingress"), "InProgress", "has no address of a load balancer yet"),
    "budget-without-a-status": (
        body("PodDisruptionBudget"),
        "InProgress",
        "its controller has not observed it yet",
    ),
    "budget-that-cannot-be-computed": (
        body(
            "PodDisruptionBudget",
            status=counts(1, conditions=[condition("DisruptionAllowed", "False", "SyncFailed")]),
        ),
        "InProgress",
        "condition DisruptionAllowed is False: SyncFailed",
    ),
    "definition-that-is-refused": (
        _conditions("CustomResourceDefinition", condition("Established", "False", "NotAccepted")),
        "Failed",
        "condition Established is False: NotAccepted",
    ),
    "api-service-available": (
        _conditions("APIService", condition("Available", "True", "Passed")),
        "Ready",
        "condition Available is True: Passed",
    ),
    "api-service-without-endpoints": (
        _conditions("APIService", condition("Available", "False", "MissingEndpoints")),
        "InProgress",
        "condition Available is False: MissingEndpoints",
    ),
    "api-service-new": (body("APIService"), "InProgress", "has no condition Available yet"),
    "config-map": (body("ConfigMap"), "Ready", "no condition says that it is not ready"),
    "stalled": (
        _conditions("Database", condition("Stalled", message="no quota"), condition("Reconciling")),
        "Failed",
        "condition Stalled is True: no quota",
    ),
    "stalled-though-built-in": (
        _conditions("Service", condition("Stalled")),
        "Failed",
        "condition Stalled is True",
    ),
    "reconciling": (
        _conditions("Database", condition("Ready"), condition("Reconciling", "True", "Resizing")),
        "InProgress",
        "condition Reconciling is True: Resizing",
    ),
    "failed": (
        _conditions("Database", condition("Ready"), condition("Failed", "True", "NoDisk")),
        "Failed",
        "condition Failed is True: NoDisk",
    ),
    "ready-before-available": (
        _conditions("Database", condition("Available"), condition("Ready", "False")),
        "InProgress",
        "condition Ready is False",
    ),
    "available": (
        _conditions("Database", condition("Available", "Unknown")),
        "InProgress",
        "condition Available is Unknown",
    ),
    "ready-for-an-earlier-generation": (
        _conditions("Database", condition("Ready", observedGeneration=1), generation=2),
        "InProgress",
        "condition Ready is Unknown: it is about an earlier generation",
    ),
    "stalled-for-an-earlier-generation": (
        _conditions("Database", condition("Stalled", observedGeneration=1), generation=2),
        "InProgress",
        "condition Stalled is Unknown: it is about an earlier generation",
    ),
    "a-condition-without-a-status": (
        _conditions("Database", {"type": "Ready"}),
        "InProgress",
        "condition Ready is Unknown",
    ),
    "only-metadata": (
        body("PartialObjectMetadata"),
        "InProgress",
        "only its metadata is here, and the status is needed",
    ),
}


@pytest.mark.parametrize(
    ("obj", "state", "reason"), [pytest.param(*case, id=name) for name, case in _CASES.items()]
)
def test_a_status_has_a_state_and_a_reason(obj: dict[str, Any], state: str, reason: str) -> None:
    assert readiness.of(obj) == readiness.Readiness(state, reason)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [*VERSIONS, "Pod", "Service", "ConfigMap", "Namespace"])
def test_an_object_that_is_being_deleted_is_never_ready(kind: str) -> None:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
    complete = [condition("Complete"), condition("Failed"), condition("Stalled")]
    found = readiness.of(body(kind, metadata=deleted, status={"conditions": complete}))
    assert found == readiness.Readiness("InProgress", "is being deleted")


def test_a_message_of_a_status_is_one_short_line_of_printable_text() -> None:
    message = "no\nquota\u202e " + "x" * 1000
    found = readiness.of(_conditions("Database", condition("Ready", "False", message=message)))
    assert found.reason.startswith("condition Ready is False: no quota\\u202e xxx")
    assert found.reason.isprintable()
    assert len(found.reason) < 250
