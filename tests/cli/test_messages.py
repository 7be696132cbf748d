"""Changes in words: what matters is said, what does not is left out."""

from __future__ import annotations

import pytest

from pyinformer.cli.demo import _manifests
from pyinformer.cli.demo._messages import (
    DeploymentView,
    EventLog,
    NodeView,
    PodView,
    deployment_message,
    node_message,
    pod_message,
)
from pyinformer.objects import Added, Deleted, Event, JSONObject, KubeObject, Updated
from tests.cli.cluster_objects import pod, view


def _pod(phase: str = "Pending", node: str = "") -> KubeObject[PodView]:
    return view(pod("web-1", phase=phase, node=node), "pods", PodView)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        pytest.param(Added(_pod()), "web-1 is new", id="new"),
        pytest.param(Added(_pod(), is_in_initial_list=True), None, id="was-there"),
        pytest.param(Updated(_pod(), _pod(node="n2")), "web-1 goes to n2", id="scheduled"),
        pytest.param(
            Updated(_pod(node="n2"), _pod("Running", "n2")),
            "web-1 on n2: Pending -> Running",
            id="running",
        ),
        pytest.param(Updated(_pod(), _pod()), None, id="nothing-to-say"),
        pytest.param(Deleted(_pod("Running", "n2")), "web-1 on n2 is gone", id="gone"),
        pytest.param(Deleted(_pod()), "web-1 on no node is gone", id="never-scheduled"),
    ],
)
def test_changes_of_a_pod_are_described(event: Event[PodView], words: str | None) -> None:
    assert pod_message(event) == words


def _node(*, unschedulable: bool) -> KubeObject[NodeView]:
    body = _manifests.node("node-3", "zone-1")
    body["spec"]["unschedulable"] = unschedulable
    return view(body, "nodes", NodeView)


def test_the_start_of_a_drain_is_described_with_the_pods_to_move() -> None:
    event = Updated(_node(unschedulable=False), _node(unschedulable=True))

    words = node_message(event, {"node-3": 14}.__getitem__)

    assert words == "node-3 is being drained: 14 pods to move"


def test_the_end_of_a_drain_is_described_and_heartbeats_are_not() -> None:
    out, back = _node(unschedulable=True), _node(unschedulable=False)

    assert node_message(Updated(out, back), len) == "node-3 accepts pods again"
    assert node_message(Updated(back, back), len) is None
    assert node_message(Added(back), len) is None


def _deployment(version: int, **status: int) -> KubeObject[DeploymentView]:
    body: JSONObject = _manifests.deployment("web", "shop", 5, version)
    body["status"].update(status)
    return view(body, "deployments", DeploymentView)


def test_a_rollout_is_followed_from_image_to_the_last_replica() -> None:
    before, begun = _deployment(6), _deployment(7)
    on_the_way = _deployment(7, replicas=6, updatedReplicas=3)

    assert deployment_message(Updated(before, begun)) == "deployment web: from image v6 to v7"
    assert (
        deployment_message(Updated(begun, on_the_way))
        == "deployment web: 3 of 5 replicas on image v7"
    )
    assert (
        deployment_message(Updated(on_the_way, begun))
        == "deployment web: all 5 replicas on image v7"
    )
    assert deployment_message(Updated(begun, begun)) is None
    assert deployment_message(Added(begun)) is None


def test_a_diary_keeps_the_last_sentence_about_each_object() -> None:
    event_log = EventLog()
    event_log.record("pods", "a", "a is new")
    event_log.record("pods", "b", "b is new")
    event_log.record("nodes", "n", "n is drained")
    event_log.record("pods", "a", "a goes to n")
    event_log.record("pods", "c", None)

    assert [entry.text for entry in event_log.last("pods", 5)] == ["b is new", "a goes to n"]
    assert [entry.text for entry in event_log.last("pods", 1)] == ["a goes to n"]
    assert event_log.last("pods", -1) == []
    assert [entry.text for entry in event_log.last_of_each(after=2)] == [
        "n is drained",
        "a goes to n",
    ]
    assert [entry.text for entry in event_log.last_of_each(after=3)] == ["a goes to n"]


def test_a_diary_is_bounded() -> None:
    event_log = EventLog()
    for number in range(1000):
        event_log.record("pods", str(number), "is new")

    assert event_log.count == 1000
    assert 20 <= len(event_log.last("pods", 1000)) < 100
