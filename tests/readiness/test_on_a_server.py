"""Statuses that a real API server has stored, judged here and by kubectl."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer import readiness
from tests.foreign.kubectl import Kubectl
from tests.readiness.bodies import VERSIONS, condition

if TYPE_CHECKING:
    from pyinformer.testing import KubeAPIServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]

_NAMESPACE = "judged"
_LABELS = {"app": "web"}
_TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": _LABELS},
    "spec": {"containers": [{"name": "c", "image": "example.com/web:1"}]},
}
_TIME = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class _Case:
    """An object with its status, and the question for kubectl to which it answers yes or no."""

    kind: str
    spec: dict[str, Any]
    status: dict[str, Any]
    question: str

    def body(self, name: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": _NAMESPACE}
        found = {"apiVersion": VERSIONS.get(self.kind, "v1"), "kind": self.kind}
        return {**found, "metadata": metadata, "spec": self.spec, "status": self.status}


def _workload(kind: str, status: dict[str, Any], **spec: Any) -> _Case:
    selected = {"selector": {"matchLabels": _LABELS}, "template": _TEMPLATE, **spec}
    return _Case(kind, selected, {"observedGeneration": 1, **status}, "rollout status")


def _deployment(replicas: int, updated: int, available: int, *conditions: Any) -> _Case:
    status = {"replicas": replicas, "updatedReplicas": updated, "readyReplicas": available}
    more: dict[str, Any] = {"availableReplicas": available, "conditions": list(conditions)}
    return _workload("Deployment", {**status, **more}, replicas=2)


def _stateful_set(ready: int, updated: int, *revisions: str, **rolling: int) -> _Case:
    status: dict[str, Any] = {"replicas": 3, "readyReplicas": ready, "availableReplicas": ready}
    status |= {"currentReplicas": 3, "updatedReplicas": updated}
    status |= dict(zip(("currentRevision", "updateRevision"), revisions, strict=True))
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return _workload("StatefulSet", status, replicas=3, serviceName="web", updateStrategy=strategy)


def _daemon_set(updated: int, available: int) -> _Case:
    status = {"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0}
    more = {"updatedNumberScheduled": updated, "numberReady": available}
    return _workload("DaemonSet", {**status, **more, "numberAvailable": available})


def _pod(ready: str) -> _Case:
    status = {"phase": "Running", "conditions": [condition("Ready", ready)]}
    return _Case("Pod", _TEMPLATE["spec"], status, "wait --for=condition=Ready")


def _job(*finished: str) -> _Case:
    conditions = [condition(each, lastTransitionTime=_TIME) for each in finished]
    status: dict[str, Any] = {
        "startTime": _TIME,
        "conditions": conditions,
        "uncountedTerminatedPods": {},
    }
    if finished:
        status |= {"succeeded": 1, "completionTime": _TIME}
    spec = {"template": {"spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}}
    return _Case("Job", spec, status, "wait --for=condition=Complete")


def _claim(phase: str) -> _Case:
    storage = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": storage}
    question = "wait --for=jsonpath={.status.phase}=Bound"
    return _Case("PersistentVolumeClaim", spec, {"phase": phase}, question)


def _service(*addresses: str) -> _Case:
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    status = {"loadBalancer": {"ingress": [{"ip": each} for each in addresses]}}
    question = "wait --for=jsonpath={.status.loadBalancer.ingress[0].ip}"
    return _Case("Service", spec, status, question)


_TOO_LATE = condition("Progressing", "False", "ProgressDeadlineExceeded")
_AVAILABLE = condition("Available", "True", "MinimumReplicasAvailable")

CASES = {
    "deployment-done": (_deployment(2, 2, 2, _AVAILABLE), "Ready"),
    "deployment-not-updated": (_deployment(2, 1, 2, _AVAILABLE), "InProgress"),
    "deployment-with-old-pods": (_deployment(3, 2, 2, _AVAILABLE), "InProgress"),
    "deployment-not-available": (_deployment(2, 2, 1), "InProgress"),
    "deployment-too-late": (_deployment(2, 1, 1, _TOO_LATE), "Failed"),
    "set-done": (_stateful_set(3, 3, "a", "a"), "Ready"),
    "set-not-ready": (_stateful_set(2, 3, "a", "a"), "InProgress"),
    "set-not-updated": (_stateful_set(3, 1, "a", "b"), "InProgress"),
    "set-with-a-partition": (_stateful_set(3, 1, "a", "b", partition=2), "Ready"),
    "set-below-its-partition": (_stateful_set(3, 0, "a", "b", partition=2), "InProgress"),
    "daemons-done": (_daemon_set(2, 2), "Ready"),
    "daemons-not-updated": (_daemon_set(1, 2), "InProgress"),
    "daemons-not-available": (_daemon_set(2, 1), "InProgress"),
    "pod-ready": (_pod("True"), "Ready"),
    "pod-not-ready": (_pod("False"), "InProgress"),
    "job-complete": (_job("SuccessCriteriaMet", "Complete"), "Ready"),
    "job-running": (_job(), "InProgress"),
    "claim-bound": (_claim("Bound"), "Ready"),
    "claim-pending": (_claim("Pending"), "InProgress"),
    "service-with-an-address": (_service("192.0.2.1"), "Ready"),
    "service-without-an-address": (_service(), "InProgress"),
}


@pytest.fixture
def kubectl(kube_apiserver_session: KubeAPIServer, tmp_path: Path) -> Kubectl:
    """The installed kubectl, in the namespace of the tests."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("there is no kubectl on PATH")
    kube_apiserver_session.ensure_namespace(_NAMESPACE)
    kube_apiserver_session.close_connections()
    kubeconfig = kube_apiserver_session.write_kubeconfig(tmp_path / "kubeconfig")
    return Kubectl(Path(program), kubeconfig, tmp_path, _NAMESPACE)


def _says_yes(kubectl: Kubectl, question: str, name: str) -> bool:
    """Return whether kubectl sees what it is asked for, at once."""
    words = question.split()
    if words[0] == "wait":
        return kubectl.succeeds(*words, name, "--timeout=0s") is not None
    printed = kubectl.succeeds(*words, name, "--watch=false") or ""
    finished = ("successfully rolled out", "roll out complete", "rolling update complete")
    return any(each in printed for each in finished)


@pytest.mark.parametrize(
    ("case", "state"), [pytest.param(*case, id=name) for name, case in CASES.items()]
)
def test_kubectl_agrees_that_an_object_is_ready_or_not(
    kube_apiserver_session: KubeAPIServer,
    kubectl: Kubectl,
    request: pytest.FixtureRequest,
    case: _Case,
    state: str,
) -> None:
    name = request.node.callspec.id
    kube_apiserver_session.create(case.body(name))
    kube_apiserver_session.close_connections()
    stored = kubectl.json("get", case.kind, name)
    assert stored["status"].keys() >= {part for part, value in case.status.items() if value}
    assert readiness.of(stored).state == state
    assert _says_yes(kubectl, case.question, f"{case.kind}/{name}") is (state == "Ready")
