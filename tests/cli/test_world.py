"""The simulated cluster: one seed gives one sequence of events, with the documented changes."""

from __future__ import annotations

from collections.abc import Callable

from pyinformer.cli.demo._simulated_cluster import DemoWorld
from pyinformer.objects import JSONObject
from pyinformer.testing import APIServer

_RESOURCES = (
    ("v1", "pods"),
    ("v1", "nodes"),
    ("apps/v1", "deployments"),
    ("apps/v1", "replicasets"),
)
_MANY_STEPS = 600


def _inhabited(seed: int) -> tuple[APIServer, DemoWorld]:
    server = APIServer(seed=seed)
    world = DemoWorld(server, seed=seed)
    world.populate()
    return server, world


def _after(steps: int, seed: int) -> list[JSONObject]:
    server, world = _inhabited(seed)
    for _ in range(steps):
        world.step()
    found = [obj for resource in _RESOURCES for obj in server.list(*resource)]
    for obj in found:
        del obj["metadata"]["creationTimestamp"]  # a clock has written it, and when who wrote what
        for entry in obj["metadata"]["managedFields"]:
            del entry["time"]
        obj["metadata"]["managedFields"].sort(key=str)  # they are in the order of their times
    return found


def _step_until(world: DemoWorld, condition: Callable[[], object]) -> None:
    for _ in range(_MANY_STEPS):
        if condition():
            return
        world.step()
    raise AssertionError(f"it did not happen in {_MANY_STEPS} steps")


def test_the_same_seed_gives_the_same_cluster() -> None:
    assert _after(60, seed=7) == _after(60, seed=7)


def test_another_seed_gives_another_cluster() -> None:
    assert _after(40, seed=7) != _after(40, seed=8)


def test_at_rest_it_has_a_few_hundred_running_pods_on_nodes() -> None:
    server, _ = _inhabited(0)
    pods = server.list("v1", "pods")

    assert 200 <= len(pods) < 1000
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert {pod["spec"]["nodeName"] for pod in pods} == {
        node["metadata"]["name"] for node in server.list("v1", "nodes")
    }


def test_a_rollout_ends_with_every_replica_on_the_next_version() -> None:
    server, world = _inhabited(0)

    def rolled() -> list[JSONObject]:
        return [
            one
            for one in server.list("apps/v1", "deployments")
            if one["spec"]["template"]["metadata"]["labels"]["version"] == "v7"
            and one["status"]["updatedReplicas"] == one["spec"]["replicas"]
            and one["status"]["replicas"] == one["spec"]["replicas"]
            and one["status"]["readyReplicas"] == one["spec"]["replicas"]
        ]

    _step_until(world, rolled)
    app = rolled()[0]["metadata"]["name"]
    pods = server.list("v1", "pods", None, f"app={app}")

    assert {pod["metadata"]["labels"]["version"] for pod in pods} == {"v7"}
    assert len(pods) == rolled()[0]["spec"]["replicas"]
    sizes = sorted(
        one["spec"]["replicas"] for one in server.list("apps/v1", "replicasets", None, f"app={app}")
    )
    assert sizes == [0, len(pods)]


def test_a_drained_node_is_emptied_and_takes_pods_again() -> None:
    server, world = _inhabited(0)

    def cordoned() -> list[str]:
        nodes = server.list("v1", "nodes")
        return [one["metadata"]["name"] for one in nodes if one["spec"].get("unschedulable")]

    _step_until(world, cordoned)
    (node,) = cordoned()
    selector = f"spec.nodeName={node}"
    assert server.list("v1", "pods", field_selector=selector)

    _step_until(world, lambda: not server.list("v1", "pods", field_selector=selector))
    assert cordoned() == [node]

    _step_until(world, lambda: not cordoned())
    _step_until(world, lambda: server.list("v1", "pods", field_selector=selector))


def test_jobs_come_and_go() -> None:
    server, world = _inhabited(0)
    seen = set[str]()

    def one_is_gone() -> bool:
        now = {pod["metadata"]["name"] for pod in server.list("v1", "pods", "batch")}
        seen.update(now)
        return seen != now

    _step_until(world, one_is_gone)
