"""The cases of kstatus and kubectl, by their names, and where the answer differs from theirs.

Sources: cli-utils pkg/kstatus/status/status_compute_test.go; kubectl
pkg/polymorphichelpers/rollout_status_test.go. kstatus says Current where it is Ready here.
"""

from __future__ import annotations

from typing import Any

import pytest

from pyinformer import readiness
from tests.readiness.bodies import body, condition, counts

_DEPLOYED = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
_DAEMONS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberReady",
)
_SET = ("replicas", "readyReplicas", "currentReplicas")
_REPLICAS = ("replicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas")
_PENDING = {
    "phase": "Pending",
    "conditions": [condition("PodScheduled", "False", "Unschedulable", message="0/3 nodes fit")],
}
_ROLLED_OUT = [condition("Progressing", "True", "NewReplicaSetAvailable"), condition("Available")]


def _pod(phase: str, ready: str = "False", **status: Any) -> dict[str, Any]:
    conditions = [condition("Ready", ready, "PodCompleted")]
    return body("Pod", status={"phase": phase, "conditions": conditions, **status})


def _set(**status: Any) -> dict[str, Any]:
    return body("StatefulSet", spec={"replicas": 4}, status=counts(4, *_SET, **status))


def _replica_set(**status: Any) -> dict[str, Any]:
    return body("ReplicaSet", spec={"replicas": 4}, status=counts(4, *_REPLICAS, **status))


def _custom(**status: Any) -> dict[str, Any]:
    return body("Database", status=status)


def _job(conditions: list[Any] | None = None, **status: Any) -> dict[str, Any]:
    spec = {"completions": 10, "parallelism": 2}
    return body("Job", spec=spec, status={"conditions": conditions or [], **status})


def _definition(**statuses: tuple[str, str]) -> dict[str, Any]:
    conditions = [condition(name, *found) for name, found in statuses.items()]
    return body("CustomResourceDefinition", status={"conditions": conditions})


_KSTATUS: list[tuple[str, dict[str, Any], str, str]] = [
    ("podNoStatus", body("Pod"), "InProgress", "has no phase yet"),
    ("podReady", _pod("Running", "True"), "Ready", "is running and ready"),
    ("podCompletedSuccessfully", _pod("Succeeded"), "Ready", "is in the phase Succeeded"),
    (
        "podBeingScheduled",
        body("Pod", status=_PENDING),
        "InProgress",
        "condition PodScheduled is False: 0/3 nodes fit",
    ),
    (
        "podCrashLooping",
        body(
            "Pod",
            status={
                "phase": "Running",
                "conditions": [condition("PodScheduled", "False", "Unschedulable")],
                "containerStatuses": [
                    {"name": "nginx", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
                ],
            },
        ),
        "Failed",
        "container nginx is waiting: CrashLoopBackOff",
    ),
    ("pvcNoStatus", body("PersistentVolumeClaim"), "InProgress", "has no phase yet"),
    (
        "pvcBound",
        body("PersistentVolumeClaim", status={"phase": "Bound"}),
        "Ready",
        "is in the phase Bound",
    ),
    ("stsNoStatus", body("StatefulSet"), "InProgress", "its controller has not observed it yet"),
    (
        "stsBadStatus",
        body("StatefulSet", status=counts(1, "currentReplicas")),
        "InProgress",
        "0 of 1 replicas are created",
    ),
    ("stsOK", _set(), "Ready", "4 of 4 replicas are ready"),
    ("stsLessReady", _set(readyReplicas=2), "InProgress", "2 of 4 replicas are ready"),
    ("stsLessCurrent", _set(currentReplicas=2), "InProgress", "0 of 4 replicas are updated"),
    ("stsExtraPods", _set(replicas=8), "InProgress", "8 replicas exist, and 4 are wanted"),
    ("dsNoStatus", body("DaemonSet"), "InProgress", "its controller has not observed it yet"),
    (
        "dsBadStatus",
        body("DaemonSet", status=counts(1, "currentReplicas")),
        "InProgress",
        "the number of its pods has not been computed",
    ),
    ("dsOK", body("DaemonSet", status=counts(4, *_DAEMONS)), "Ready", "4 of 4 pods are available"),
    (
        "dsLessReady",
        body("DaemonSet", status=counts(4, *_DAEMONS, numberReady=2)),
        "InProgress",
        "2 of 4 pods are ready",
    ),
    (
        "dsDifferentGeneration",
        body("DaemonSet", generation=2, status=counts(4, *_DAEMONS)),
        "InProgress",
        "generation 2 is not observed yet, only 1",
    ),
    (
        "dsLessAvailable",
        body("DaemonSet", status=counts(4, *_DAEMONS, numberAvailable=2)),
        "InProgress",
        "2 of 4 pods are available",
    ),
    ("depNoStatus", body("Deployment"), "InProgress", "its controller has not observed it yet"),
    (
        "depOK",
        body("Deployment", status=counts(1, *_DEPLOYED, conditions=_ROLLED_OUT)),
        "Ready",
        "1 of 1 replicas are available",
    ),
    (
        "depNotProgressing",
        body(
            "Deployment",
            spec={"progressDeadlineSeconds": 45},
            status=counts(
                1,
                *_DEPLOYED,
                conditions=[
                    condition("Progressing", "False", "Some reason"),
                    condition("Available"),
                ],
            ),
        ),
        "InProgress",
        "condition Progressing is False: Some reason",
    ),
    (
        "depNoProgressDeadlineSeconds",
        body("Deployment", status=counts(1, *_DEPLOYED, conditions=[condition("Available")])),
        "Ready",
        "1 of 1 replicas are available",
    ),
    (
        "depNotAvailable",
        body(
            "Deployment",
            status=counts(1, *_DEPLOYED, conditions=[condition("Available", "False")]),
        ),
        "InProgress",
        "condition Available is False",
    ),
    ("rsNoStatus", body("ReplicaSet"), "InProgress", "its controller has not observed it yet"),
    (
        "rsOK1",
        _replica_set(conditions=[condition("ReplicaFailure", "False")]),
        "Ready",
        "4 of 4 replicas are available",
    ),
    ("rsOK2", _replica_set(), "Ready", "4 of 4 replicas are available"),
    (
        "rsLessAvailable",
        _replica_set(availableReplicas=2),
        "InProgress",
        "2 of 4 replicas are available",
    ),
    ("rsLessReady", _replica_set(readyReplicas=2), "InProgress", "2 of 4 replicas are ready"),
    (
        "rsReplicaFailure",
        _replica_set(conditions=[condition("ReplicaFailure", message="exceeded quota")]),
        "InProgress",
        "condition ReplicaFailure is True: exceeded quota",
    ),
    (
        "pdbNotObserved",
        body("PodDisruptionBudget", generation=2, status=counts(1)),
        "InProgress",
        "generation 2 is not observed yet, only 1",
    ),
    (
        "pdbObserved",
        body("PodDisruptionBudget", status=counts(1)),
        "Ready",
        "its allowed disruptions are computed",
    ),
    ("crdNoStatus", body("Database"), "Ready", "no condition says that it is not ready"),
    (
        "crdReady",
        _custom(conditions=[condition("Ready", "True", "AllOk", message="All looks ok")]),
        "Ready",
        "condition Ready is True: All looks ok",
    ),
    (
        "crdNotReady",
        _custom(observedGeneration=1, conditions=[condition("Ready", "False", "NotReadyYet")]),
        "InProgress",
        "condition Ready is False: NotReadyYet",
    ),
    (
        "crdNoCondition",
        _custom(conditions=[condition("SomeCondition", "False")]),
        "Ready",
        "no condition says that it is not ready",
    ),
    (
        "crdMismatchStatusGeneration",
        body("Database", generation=2, status={"observedGeneration": 1}),
        "InProgress",
        "generation 2 is not observed yet, only 1",
    ),
    ("jobNoStatus", body("Job"), "InProgress", "0 pods have succeeded"),
    ("jobComplete", _job([condition("Complete")], succeeded=1), "Ready", "is complete"),
    (
        "jobFailed",
        _job([condition("Failed", "True", "JobFailed")], succeeded=3, failed=1),
        "Failed",
        "condition Failed is True: JobFailed",
    ),
    ("cronjobNoStatus", body("CronJob"), "Ready", "no condition says that it is not ready"),
    (
        "cronjobWithStatus",
        body("CronJob", status=None),
        "Ready",
        "no condition says that it is not ready",
    ),
    ("serviceDefault", body("Service"), "Ready", "needs no load balancer"),
    (
        "serviceNodePort",
        body("Service", spec={"type": "NodePort"}),
        "Ready",
        "needs no load balancer",
    ),
    (
        "serviceLBnok",
        body("Service", spec={"type": "LoadBalancer"}),
        "InProgress",
        "has no address of a load balancer yet",
    ),
    (
        "crdNoConditions",
        body("CustomResourceDefinition"),
        "InProgress",
        "has no condition Established yet",
    ),
    (
        "crdInstalling",
        _definition(NamesAccepted=("True", "NoConflicts"), Established=("False", "Installing")),
        "InProgress",
        "condition Established is False: Installing",
    ),
    (
        "crdNamesNotAccepted",
        _definition(NamesAccepted=("False", "SomeReason")),
        "Failed",
        "condition NamesAccepted is False: SomeReason",
    ),
    (
        "crdEstablished",
        _definition(NamesAccepted=("True", ""), Established=("True", "InitialNamesAccepted")),
        "Ready",
        "condition Established is True: InitialNamesAccepted",
    ),
]

_OTHERWISE: list[tuple[str, dict[str, Any], str, str]] = [
    # kstatus: Current, since a pod that has failed changes no more.
    (
        "podCompletedFailed",
        _pod("Failed", reason="Evicted"),
        "Failed",
        "is in the phase Failed: Evicted",
    ),
    # kstatus: Failed, once 15 s have passed since the creation; no clock is read here.
    (
        "podUnschedulable",
        body("Pod", status=_PENDING),
        "InProgress",
        "condition PodScheduled is False: 0/3 nodes fit",
    ),
    # kstatus: Current, as soon as a job has started.
    (
        "jobInProgress",
        _job(
            [condition("Failed", "False"), condition("Complete", "False")],
            startTime="2019-06-04T01:17:13Z",
            succeeded=3,
        ),
        "InProgress",
        "3 of 10 pods have succeeded",
    ),
    # kstatus: Current, as soon as it has the clusterIP that every service has.
    (
        "serviceLBok",
        body("Service", spec={"type": "LoadBalancer", "clusterIP": "1.2.3.4"}),
        "InProgress",
        "has no address of a load balancer yet",
    ),
]


@pytest.mark.parametrize(
    ("obj", "state", "reason"), [pytest.param(*case[1:], id=case[0]) for case in _KSTATUS]
)
def test_a_case_of_kstatus_has_its_state(obj: dict[str, Any], state: str, reason: str) -> None:
    assert readiness.of(obj) == readiness.Readiness(state, reason)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("obj", "state", "reason"), [pytest.param(*case[1:], id=case[0]) for case in _OTHERWISE]
)
def test_a_case_of_kstatus_has_another_state(obj: dict[str, Any], state: str, reason: str) -> None:
    assert readiness.of(obj) == readiness.Readiness(state, reason)  # type: ignore[arg-type]


def _rollout(kind: str, generation: int, spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    return body(kind, generation=generation, spec=spec, status=status)


def _deployment(generation: int, desired: int, *found: int) -> dict[str, Any]:
    names = ("observedGeneration", "replicas", "updatedReplicas", "availableReplicas")
    status = dict(zip(names, found, strict=True))
    return _rollout("Deployment", generation, {"replicas": desired}, **status)


def _daemons(generation: int, updated: int, desired: int, available: int) -> dict[str, Any]:
    return _rollout(
        "DaemonSet",
        generation,
        {"updateStrategy": {"type": "RollingUpdate"}},
        observedGeneration=1,
        updatedNumberScheduled=updated,
        desiredNumberScheduled=desired,
        numberAvailable=available,
        # Their cases leave both at 0, which cannot be if pods are available.
        currentNumberScheduled=desired,
        numberReady=desired,
    )


def _stateful(generation: int, observed: int, *found: int, **more: Any) -> dict[str, Any]:
    rolling = {"partition": more["partition"]} if "partition" in more else None
    kind = more.get("type", "RollingUpdate")
    strategy = {"type": kind, "rollingUpdate": rolling}
    names = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
    status = {**dict(zip(names, found, strict=True)), "observedGeneration": observed}
    revisions = {"currentRevision": "foo", "updateRevision": "foo"} if "same" in more else {}
    spec = {"replicas": 3, "updateStrategy": strategy}
    return _rollout("StatefulSet", generation, spec, **status, **revisions)


_KUBECTL: list[tuple[str, dict[str, Any], str]] = [
    ("Deployment test1", _deployment(0, 1, 1, 1, 0, 1), "0 of 1 replicas are updated"),
    ("Deployment test2", _deployment(1, 1, 1, 2, 1, 2), "2 replicas exist, and 1 are wanted"),
    ("Deployment test3", _deployment(1, 2, 1, 2, 2, 1), "1 of 2 replicas are available"),
    ("Deployment test4", _deployment(1, 2, 1, 2, 2, 2), ""),
    ("Deployment test5", _deployment(2, 2, 1, 2, 2, 2), "generation 2 is not observed yet, only 1"),
    ("DaemonSet test1", _daemons(0, 0, 1, 0), "0 of 1 pods are updated"),
    ("DaemonSet test2", _daemons(1, 2, 2, 1), "1 of 2 pods are available"),
    ("DaemonSet test3", _daemons(1, 2, 2, 2), ""),
    ("DaemonSet test4", _daemons(2, 2, 2, 2), "generation 2 is not observed yet, only 1"),
    # kubectl refuses to answer; what it would wait for is not ready.
    (
        "on delete returns an error",
        _stateful(1, 1, 0, 1, 0, 0, type="OnDelete"),
        "0 of 3 replicas are created",
    ),
    (
        "unobserved update is not complete",
        _stateful(2, 1, 3, 3, 3, 0),
        "generation 2 is not observed yet, only 1",
    ),
    (
        "if all pods are not ready the update is not complete",
        _stateful(1, 2, 3, 2, 3, 0),
        "2 of 3 replicas are ready",
    ),
    (
        "partition update completes when all replicas above the partition are updated",
        _stateful(1, 2, 3, 3, 2, 1, partition=2),
        "",
    ),
    (
        "partition update is in progress if all pods above the partition have not been updated",
        _stateful(1, 2, 3, 3, 3, 0, partition=2),
        "0 of 1 replicas are updated",
    ),
    ("update completes when all replicas are current", _stateful(1, 2, 3, 3, 3, 3, same=True), ""),
]


@pytest.mark.parametrize(
    ("obj", "reason"), [pytest.param(*case[1:], id=case[0]) for case in _KUBECTL]
)
def test_a_case_of_kubectl_is_done_or_not(obj: dict[str, Any], reason: str) -> None:
    found = readiness.of(obj)
    if reason:
        assert found == readiness.Readiness("InProgress", reason)
    else:
        assert found.state == "Ready"
