"""Controllers of several namespaces, one of which the server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer import Controller, Request, SharedInformer
from pyinformer.errors import CacheNotSyncedError, NotCachedError
from pyinformer.testing import Fault
from tests.informer.clusters import HURRIED, cluster_of, pod
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer import KubeObject
    from pyinformer.apimachinery import JSONObject
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


def forbid(server: APIServer, plural: str, namespace: str) -> None:
    """Refuse a resource in one namespace."""
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
