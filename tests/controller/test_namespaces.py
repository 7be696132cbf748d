"""Controllers of several namespaces, one of which the server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pyinformer import Controller, ControllerGroup, ControllerOptions, Request, SharedInformer
from pyinformer.errors import CacheNotSyncedError, CacheSyncTimeoutError, NotCachedError
from pyinformer.testing import Fault
from tests.cache.informer.clusters import HURRIED, cluster_of, pod
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer import KubeObject
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer


def config_map(key: str, *, controlled_by: str = "") -> JSONObject:
    """Return a config map to create, controlled by a pod of its namespace."""
    namespace, _, name = key.partition("/")
    metadata: JSONObject = {"name": name, "namespace": namespace}
    if controlled_by:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": controlled_by,
                "uid": f"uid-{controlled_by}",
                "controller": True,
            }
        ]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def team(server: APIServer, name: str) -> None:
    """Create a Namespace of the team."""
    metadata: JSONObject = {"name": name, "labels": {"team": "web"}}
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def forbid(server: APIServer, plural: str, namespace: str | None) -> None:
    """Refuse a resource in one namespace, or in all of them if None."""
    server.faults.add(Fault(resource=plural, namespace=namespace, status=403, times=None))


async def ignore(request: Request, obj: KubeObject | None) -> None:
    """Do nothing."""


@pytest.mark.parametrize("chosen_by", ["names", "labels"])
async def test_owned_objects_are_read_while_an_added_namespace_is_forbidden(
    apiserver: APIServer, chosen_by: str
) -> None:
    team(apiserver, "a")
    apiserver.create(pod("app", namespace="a"))
    apiserver.create(config_map("a/one", controlled_by="app"))
    forbid(apiserver, "configmaps", "new")
    async with cluster_of(apiserver) as cluster:
        pods = SharedInformer(cluster, "v1", "pods")
        maps: SharedInformer[None] = (
            SharedInformer(cluster, "v1", "configmaps", namespaces=["a"], options=HURRIED)
            if chosen_by == "names"
            else SharedInformer(
                cluster, "v1", "configmaps", namespace_selector="team=web", options=HURRIED
            )
        )
        controller = Controller("pods", ignore, pods)
        owned = controller.owns(maps)
        async with controller:
            team(apiserver, "new")
            if chosen_by == "names":
                await maps.set_namespaces(["a", "new"])
            await until(lambda: maps.namespaces == {"a", "new"} and not maps.has_synced)

            assert [obj.key for obj in owned.owned_by(Request("a/app"))] == ["a/one"]
            assert [obj.key for obj in owned.owned_by("a/app")] == ["a/one"]
            assert owned.owned_by(pods.lister["a/app"]) == []  # the reference has another uid
            with pytest.raises(CacheNotSyncedError, match=r"configmaps\.v1 in new"):
                owned.owned_by("new/app")

            apiserver.faults.clear()
            await until(lambda: maps.has_synced)
            assert owned.owned_by("new/app") == []


async def test_owned_objects_of_a_namespace_that_is_not_followed_are_not_known(
    apiserver: APIServer,
) -> None:
    """No object is found there: to a reconcile, that would look as if there was none."""
    async with cluster_of(apiserver) as cluster:
        pods = SharedInformer(cluster, "v1", "pods")
        maps = SharedInformer(cluster, "v1", "configmaps", namespaces=["a"])
        controller = Controller("pods", ignore, pods)
        owned = controller.owns(maps)
        async with controller:
            with pytest.raises(NotCachedError, match="'b'"):
                owned.owned_by("b/app")


async def test_nothing_is_owned_in_a_namespace_that_is_gone(apiserver: APIServer) -> None:
    """The reconcile of a deleted object has to end, even if another namespace is forbidden."""
    team(apiserver, "a")
    forbid(apiserver, "configmaps", "b")
    apiserver.create(config_map("a/one", controlled_by="app"))
    async with cluster_of(apiserver) as cluster:
        pods = SharedInformer(cluster, "v1", "pods")
        maps = SharedInformer(cluster, "v1", "configmaps", namespace_selector="team=web")
        controller = Controller("pods", ignore, pods)
        owned = controller.owns(maps)
        async with controller:
            assert len(owned.owned_by("a/app")) == 1
            team(apiserver, "b")
            apiserver.delete("v1", "namespaces", "a")
            await until(lambda: maps.namespaces == {"b"})
            assert owned.owned_by("a/app") == []


def keys_of(calls: list[tuple[str, bool]]) -> set[str]:
    """Return the keys that were reconciled with an object."""
    return {key for key, is_there in calls if is_there}


async def test_a_controller_starts_without_a_namespace_that_is_forbidden(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    """As while it runs: the namespace waits, and its objects come when the right is granted."""
    for namespace in ("a", "b", "new"):
        team(apiserver, namespace)
        apiserver.create(config_map(f"{namespace}/one"))
        apiserver.create(config_map(f"{namespace}/owned", controlled_by="app"))
        apiserver.create(pod("app", namespace=namespace))
    forbid(apiserver, "configmaps", "new")
    calls: list[tuple[str, bool]] = []

    async def reconcile(request: Request, obj: KubeObject | None) -> None:
        calls.append((request.key, obj is not None))

    async with cluster_of(apiserver) as cluster:
        pods = SharedInformer(cluster, "v1", "pods", namespace_selector="team=web")
        maps = SharedInformer(
            cluster, "v1", "configmaps", namespace_selector="team=web", options=HURRIED
        )
        mine = Controller("maps", reconcile, maps)
        owners = Controller("pods", ignore, pods)
        owned = owners.owns(maps)
        async with ControllerGroup(mine, owners) as group:
            assert all(one.has_synced and one.is_running for one in group.status().controllers)
            await until(lambda: {"a/one", "b/one"} <= keys_of(calls))
            assert [obj.key for obj in owned.owned_by("a/app")] == ["a/owned"]
            (line,) = (one for one in caplog.messages if "controller maps starts without" in one)
            assert "configmaps.v1 in new: forbidden" in line
            assert "new" in {str(one.namespace) for one in maps.status().namespaces}
            assert not maps.has_synced

            apiserver.create(config_map("a/two"))
            await until(lambda: "a/two" in keys_of(calls))
            assert "new/one" not in keys_of(calls)
            apiserver.faults.clear()
            await until(lambda: "new/one" in keys_of(calls))
            assert [obj.key for obj in owned.owned_by("new/app")] == ["new/owned"]
    assert all(is_there for _, is_there in calls)


async def test_a_controller_starts_though_its_only_namespace_is_forbidden(
    apiserver: APIServer,
) -> None:
    """A program that follows no namespace starts, and runs when the first one is forbidden."""
    team(apiserver, "new")
    apiserver.create(config_map("new/one"))
    forbid(apiserver, "configmaps", "new")
    calls: list[str] = []

    async def reconcile(request: Request, obj: KubeObject | None) -> None:
        calls.append(request.key)

    async with cluster_of(apiserver) as cluster:
        maps = SharedInformer(
            cluster, "v1", "configmaps", namespace_selector="team=web", options=HURRIED
        )
        async with Controller("maps", reconcile, maps):
            assert calls == []
            apiserver.faults.clear()
            await until(lambda: calls == ["new/one"])


async def test_a_controller_starts_late_without_a_namespace_whose_list_fails(
    apiserver: APIServer,
) -> None:
    """One object that a conversion webhook does not like fails the list of its namespace."""
    for namespace in ("a", "new"):
        team(apiserver, namespace)
        apiserver.create(config_map(f"{namespace}/one"))
    apiserver.faults.add(Fault(resource="configmaps", namespace="new", status=500, times=None))
    calls: list[str] = []

    async def reconcile(request: Request, obj: KubeObject | None) -> None:
        calls.append(request.key)

    options = ControllerOptions(sync_timeout_seconds=1.0)
    async with cluster_of(apiserver) as cluster:
        maps = SharedInformer(
            cluster, "v1", "configmaps", namespace_selector="team=web", options=HURRIED
        )
        async with Controller("maps", reconcile, maps, options=options):
            await until(lambda: calls == ["a/one"])
            apiserver.faults.clear()
            await until(lambda: calls == ["a/one", "new/one"])


@pytest.mark.parametrize(
    ("scope", "refused"),
    [
        pytest.param({"namespaces": ["a", "new"]}, {"namespace": "new"}, id="named"),
        pytest.param({"namespace_selector": "team=web"}, {"plural": "namespaces"}, id="unknown"),
    ],
)
async def test_a_namespace_that_the_program_names_has_to_sync(
    apiserver: APIServer, scope: dict[str, Any], refused: dict[str, str]
) -> None:
    team(apiserver, "a")
    forbid(apiserver, refused.get("plural", "configmaps"), refused.get("namespace"))
    async with cluster_of(apiserver) as cluster:
        maps: SharedInformer[None] = SharedInformer(cluster, "v1", "configmaps", **scope)
        options = ControllerOptions(sync_timeout_seconds=0.3)
        with pytest.raises(CacheSyncTimeoutError, match="403"):
            async with Controller("maps", ignore, maps, options=options):
                pass
