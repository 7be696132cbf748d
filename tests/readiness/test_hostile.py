"""Bodies of any content have an answer, and a better status never has a worse one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer import readiness
from tests.hostile import HOSTILE, assert_shown_safely
from tests.readiness.bodies import VERSIONS, body, condition
from tests.soak import examples

_KINDS = (
    *(*VERSIONS, "Pod", "Service", "Namespace", "PersistentVolume", "PersistentVolumeClaim"),
    *("ReplicationController", "ConfigMap"),
)
_CONTROLLED = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
_CONDITIONS = (
    *("Ready", "Available", "Progressing", "Stalled", "Reconciling", "Failed", "Complete"),
    *("Established", "NamesAccepted", "PodScheduled", "ReplicaFailure", "DisruptionAllowed"),
)
_COUNTS = (
    *("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "currentReplicas"),
    *("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled"),
    *("numberReady", "numberAvailable"),
)
_scalars = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.just(10**300), st.floats(), st.text()),
    st.sampled_from(("True", "False", "Running", "LoadBalancer", "OnDelete", *HOSTILE)),
)
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def _fields(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects that have some of these fields, each of which may be any JSON instead."""
    return st.fixed_dictionaries({}, optional={k: v | _json for k, v in strategies.items()})


_small = st.integers(-1, 4)
_conditions = st.lists(
    _fields(
        type=st.sampled_from(_CONDITIONS),
        status=st.sampled_from(("True", "False", "Unknown")),
        reason=st.sampled_from(("ProgressDeadlineExceeded", "Installing", "SyncFailed", "Other")),
        observedGeneration=_small,
    ),
    max_size=3,
)
_state = _fields(waiting=_fields(reason=st.sampled_from(("CrashLoopBackOff", "Other"))))
_containers = st.lists(_fields(name=st.text(), state=_state), max_size=2)
_status = _fields(
    observedGeneration=_small,
    conditions=_conditions,
    phase=st.sampled_from(("Running", "Pending", "Failed", "Succeeded", "Bound", "Lost", "Active")),
    containerStatuses=_containers,
    initContainerStatuses=_containers,
    loadBalancer=_fields(ingress=st.lists(_fields(ip=st.text(), hostname=st.text()), max_size=2)),
    startTime=st.text(),
    succeeded=_small,
    currentRevision=st.sampled_from("ab"),
    updateRevision=st.sampled_from("ab"),
    **dict.fromkeys(_COUNTS, _small),
)
_strategy = _fields(
    type=st.sampled_from(("OnDelete", "RollingUpdate")), rollingUpdate=_fields(partition=_small)
)
_spec = _fields(
    replicas=_small,
    updateStrategy=_strategy,
    type=st.sampled_from(("LoadBalancer", "ClusterIP")),
    suspend=st.booleans(),
    completions=_small,
    minReadySeconds=_small,
)
_metadata = _fields(generation=_small, deletionTimestamp=st.text())
_bodies = st.builds(
    lambda kind, parts: {**body(kind), **parts},
    st.sampled_from(_KINDS),
    _fields(metadata=_metadata, spec=_spec, status=_status),
)


@given(obj=_bodies | st.dictionaries(st.text(), _json))
@settings(max_examples=examples(300))
def test_a_body_of_any_content_has_a_state_and_is_not_changed(obj: dict[str, Any]) -> None:
    before = copy.deepcopy(obj)
    found = readiness.of(obj)
    assert found.state in {"Ready", "InProgress", "Failed"}
    assert found.reason
    assert_shown_safely(found.reason)
    assert repr(obj) == repr(before)  # NaN is not equal to itself


@given(obj=_bodies)
@settings(max_examples=examples(100))
def test_an_object_is_ready_no_more_once_it_is_changed_or_deleted(obj: dict[str, Any]) -> None:
    status = obj.get("status")
    status = {**status, "observedGeneration": 1} if isinstance(status, dict) else {}
    deleted = {**obj, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    changed = {**obj, "metadata": {"generation": 2}, "status": {"observedGeneration": 1, **status}}
    assert readiness.of(deleted).reason == "is being deleted"
    assert readiness.of(changed).state == "InProgress"


@given(
    kind=st.sampled_from(_CONTROLLED),
    desired=st.integers(0, 3),
    counts=st.fixed_dictionaries(dict.fromkeys(_COUNTS, st.integers(0, 3))),
    more=st.sampled_from(
        [name for name in _COUNTS if not name.startswith(("replicas", "desired"))]
    ),
)
@settings(max_examples=examples(150))
def test_more_pods_that_are_ready_never_take_readiness_away(
    kind: str, desired: int, counts: dict[str, int], more: str
) -> None:
    def answer(numbers: dict[str, int]) -> str:
        status = {**numbers, "observedGeneration": 1}
        return readiness.of(body(kind, spec={"replicas": desired}, status=status)).state

    if answer(counts) == "Ready":
        assert answer({**counts, more: counts[more] + 1}) == "Ready"


@given(
    kind=st.sampled_from(_CONTROLLED),
    desired=st.integers(1, 3),
    counts=st.fixed_dictionaries(dict.fromkeys(_COUNTS, st.integers(0, 3))),
)
@settings(max_examples=examples(150))
def test_an_object_with_fewer_pods_than_desired_is_never_ready(
    kind: str, desired: int, counts: dict[str, int]
) -> None:
    status = {**counts, "observedGeneration": 1, "desiredNumberScheduled": desired}
    found = readiness.of(body(kind, spec={"replicas": desired}, status=status))
    available = "numberAvailable" if kind == "DaemonSet" else "availableReplicas"
    if kind == "StatefulSet":
        available = "readyReplicas"
    if counts[available] < desired:
        assert found.state == "InProgress"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        pytest.param({"status": 5}, "status is not an object", id="status"),
        pytest.param({"metadata": []}, "metadata is not an object", id="metadata"),
        pytest.param(
            {"spec": {"replicas": True}}, "spec.replicas is not a 64-bit integer", id="bool"
        ),
        pytest.param(
            {"spec": {"replicas": 3.0}}, "spec.replicas is not a 64-bit integer", id="float"
        ),
        pytest.param(
            {"spec": {"replicas": 10**5000}}, "spec.replicas is not a 64-bit integer", id="huge"
        ),
        pytest.param(
            {"status": {"observedGeneration": 1, "conditions": {}}},
            "status.conditions is not a list",
            id="conditions",
        ),
        pytest.param(
            {"status": {"observedGeneration": 1, "conditions": [5]}},
            "status.conditions has an entry that is not an object",
            id="condition",
        ),
        pytest.param(
            {
                "status": {
                    "observedGeneration": 1,
                    "conditions": [condition("Stalled", message=5)],
                }
            },
            "message is not a text",
            id="message",
        ),
    ],
)
def test_a_field_of_a_wrong_type_is_the_reason(parts: dict[str, Any], reason: str) -> None:
    status = {"status": {"observedGeneration": 1}}
    found = readiness.of({**body("Deployment"), **status, **parts})
    assert found == readiness.Readiness("InProgress", reason)
