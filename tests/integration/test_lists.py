"""Lists, deletions of many, and requests of the caller's own, on both servers."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import pytest

from pyinformer.errors import (
    BadRequestError,
    InvalidArgumentError,
    ModelMismatchError,
    NotFoundError,
)
from pyinformer.objects import FieldSelector, GroupVersionResource, LabelSelector
from tests.integration.objects import CONFIG_MAPS, NODES, unique
from tests.integration.servers import WIDGETS

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pyinformer import Cluster, KubeObject
    from pyinformer.client.transport import Body
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

_COUNT = 7


class Metadata(msgspec.Struct):
    """The little that a program knows of metadata."""

    name: str


class ConfigMap(msgspec.Struct):
    """The little that a program knows of a config map."""

    metadata: Metadata
    data: dict[str, str]


def _config_map(number: int, namespace: str) -> JSONObject:
    made = CONFIG_MAPS.make(f"c{number}", namespace)
    made["metadata"]["labels"] = {"odd": str(number % 2)}
    return {**made, "data": {"number": str(number)}}


async def _fill(server: Server) -> str:
    """Make seven config maps in a namespace of their own, and return its name."""
    namespace = server.namespace()
    for number in range(_COUNT):
        server.api.create(_config_map(number, namespace))
    return namespace


def _names(objects: list[KubeObject]) -> list[str]:
    return [obj.metadata.name for obj in objects if obj.metadata.name != "kube-root-ca.crt"]


@pytest.mark.covers(
    "client-go tools/pager: TestListPager_List",
    "controller-runtime pkg/client: with structured objects / should fetch collection of",
    "kube-client src: client_ext_list_get_pods_svcs",
)
@pytest.mark.parametrize("page_size", [0, 1, 3, _COUNT, 500])
async def test_all_objects_are_listed_once_whatever_the_size_of_a_page(
    server: Server, page_size: int
) -> None:
    namespace = await _fill(server)
    async with server.connect() as cluster:
        found = cluster.list("v1", "configmaps", namespace=namespace, page_size=page_size)
        assert found.resource_version == ""
        objects = [obj async for obj in found]
        assert _names(objects) == [f"c{number}" for number in range(_COUNT)]
        assert all(obj.gvk.kind == "ConfigMap" for obj in objects)
        assert int(found.resource_version) > 0
        assert await found.next_page() == []


@pytest.mark.covers(
    "controller-runtime pkg/client: with structured objects / should fetch collection of"
)
async def test_selectors_are_evaluated_by_the_server(server: Server) -> None:
    namespace = await _fill(server)
    async with server.connect() as cluster:
        odd = cluster.list(
            "v1", "configmaps", namespace=namespace, label_selector={"odd": "1"}, page_size=2
        )
        assert _names([obj async for obj in odd]) == ["c1", "c3", "c5"]
        one = cluster.list(
            "v1", "configmaps", namespace=namespace, field_selector="metadata.name=c4"
        )
        assert _names([obj async for obj in one]) == ["c4"]


@pytest.mark.covers(
    "controller-runtime pkg/client: with structured objects / should fetch collection of"
)
async def test_models_are_returned_instead_of_objects(server: Server) -> None:
    namespace = await _fill(server)
    async with server.connect() as cluster:
        odd = {"odd": "1"}
        models = [
            one.data["number"]
            async for one in cluster.list(
                "v1", "configmaps", namespace=namespace, label_selector=odd, model=ConfigMap
            )
        ]
        assert models == ["1", "3", "5"]
        bare = CONFIG_MAPS.make("without-data", namespace)
        del bare["data"]
        server.api.create(bare)
        misfit = cluster.list(
            "v1",
            "configmaps",
            namespace=namespace,
            field_selector="metadata.name=without-data",
            model=ConfigMap,
        )
        with pytest.raises(ModelMismatchError, match="does not fit ConfigMap"):
            await anext(misfit)


async def test_a_list_at_a_version_shows_that_version(server: Server) -> None:
    namespace = await _fill(server)
    async with server.connect() as cluster:
        before = cluster.list("v1", "configmaps", namespace=namespace)
        await before.next_page()
        await cluster.delete("v1", "configmaps", f"{namespace}/c3")
        then = cluster.list(
            "v1",
            "configmaps",
            namespace=namespace,
            resource_version=before.resource_version,
            resource_version_match="Exact",
            page_size=2,
        )
        assert _names([obj async for obj in then]) == [f"c{number}" for number in range(_COUNT)]
        assert then.resource_version == before.resource_version


async def test_two_tasks_share_a_list_without_a_repetition(server: Server) -> None:
    namespace = await _fill(server)
    async with server.connect() as cluster:
        found = cluster.list("v1", "configmaps", namespace=namespace, page_size=2)
        taken: list[KubeObject] = []

        async def take() -> None:
            """Take what is left."""
            taken.extend([obj async for obj in found])

        async with anyio.create_task_group() as group:
            group.start_soon(take)
            group.start_soon(take)
        assert sorted(_names(taken)) == [f"c{number}" for number in range(_COUNT)]


@pytest.mark.covers("client-go tools/pager: TestListPager_EachListItem")
async def test_a_page_that_was_cancelled_is_requested_again(server: Server) -> None:
    namespace = await _fill(server)
    async with server.connect() as cluster:
        found = cluster.list("v1", "configmaps", namespace=namespace, page_size=2)
        first = await found.next_page()
        page = asyncio.ensure_future(found.next_page())
        await asyncio.sleep(0)
        page.cancel()
        await asyncio.wait([page])
        assert page.cancelled()
        rest = [obj async for obj in found]
        assert _names([*first, *rest]) == [f"c{number}" for number in range(_COUNT)]


@pytest.mark.covers("client-go tools/pager: TestListPager_EachListItem")
async def test_an_error_of_the_loops_body_is_the_callers_own(server: Server) -> None:
    namespace = await _fill(server)
    async with server.connect() as cluster:
        found = cluster.list("v1", "configmaps", namespace=namespace, page_size=2)
        with pytest.raises(KeyError, match="mine"):
            async for _ in found:
                raise KeyError("mine")
        rest = [obj async for obj in found]
        assert _names(rest) == [f"c{number}" for number in range(1, _COUNT)]


@pytest.mark.covers("kube-client src: client_ext_list_get_pods_svcs")
async def test_a_resource_that_is_not_served_names_similar_resources(server: Server) -> None:
    async with server.connect() as cluster:
        with pytest.raises(NotFoundError, match="configmaps"):
            await anext(cluster.list("v1", "configmap"))
        with pytest.raises(BadRequestError):
            await anext(cluster.list("v1", "configmaps", field_selector="data.a=b"))
        with pytest.raises(InvalidArgumentError, match="page_size"):
            cluster.list("v1", "configmaps", page_size=-1)


@pytest.mark.covers(
    "controller-runtime pkg/client: should delete an existing object from a go struct"
)
async def test_a_deletion_of_many_deletes_what_matches(server: Server) -> None:
    namespace = await _fill(server)
    async with server.connect() as cluster:
        odd = {"odd": "1"}
        gone = await cluster.delete_collection(
            "v1", "configmaps", namespace=namespace, label_selector=odd, dry_run=True
        )
        assert _names(list(gone)) == ["c1", "c3", "c5"]
        assert len(await _left(cluster, namespace)) == _COUNT
        gone = await cluster.delete_collection(
            "v1", "configmaps", namespace=namespace, label_selector=odd
        )
        assert _names(list(gone)) == ["c1", "c3", "c5"]
        assert await _left(cluster, namespace) == ["c0", "c2", "c4", "c6"]


async def _left(cluster: Cluster, namespace: str) -> list[str]:
    return _names([obj async for obj in cluster.list("v1", "configmaps", namespace=namespace)])


async def test_a_deletion_of_many_needs_the_right_scope(server: Server) -> None:
    async with server.connect() as cluster:
        with pytest.raises(InvalidArgumentError, match="needs a namespace"):
            await cluster.delete_collection("v1", "configmaps")
        with pytest.raises(InvalidArgumentError, match="has no namespaces"):
            await cluster.delete_collection("v1", "nodes", namespace="default")
        with pytest.raises(NotFoundError, match="configmaps"):
            await cluster.delete_collection("v1", "configmap", namespace="default")
        nothing = {"suite.example.com/none": "1"}
        assert await cluster.delete_collection("v1", "nodes", label_selector=nothing) == ()
        assert NODES.plural == "nodes"


async def test_any_request_can_be_sent(server: Server) -> None:
    namespace = await _fill(server)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    async with server.connect() as cluster:
        version = json.loads(await cluster.request("GET", "/version"))
        assert version["gitVersion"].startswith("v")
        listed = json.loads(await cluster.request("GET", path, query=[("limit", "2")]))
        assert len(listed["items"]) == 2
        made = json.loads(await cluster.request("POST", path, body=_config_map(9, namespace)))
        assert made["metadata"]["name"] == "c9"
        patch = {"data": {"number": "90"}}
        patched = await cluster.request(
            "PATCH", f"{path}/c9", body=patch, content_type="application/merge-patch+json"
        )
        assert json.loads(patched)["data"] == {"number": "90"}
        await cluster.request("DELETE", f"{path}/c9")
        with pytest.raises(NotFoundError):
            await cluster.request("GET", f"{path}/c9")


@pytest.mark.parametrize(
    ("argument", "selector"),
    [
        pytest.param("label_selector", "", id="text"),
        pytest.param("label_selector", " ", id="space"),
        pytest.param("label_selector", {}, id="mapping"),
        pytest.param("label_selector", {"matchLabels": {}}, id="manifest"),
        pytest.param("label_selector", LabelSelector.parse(None), id="parsed"),
        pytest.param("field_selector", "", id="fields"),
        pytest.param("field_selector", {}, id="fields-mapping"),
        pytest.param("field_selector", FieldSelector.parse(None), id="fields-parsed"),
    ],
)
async def test_a_deletion_by_an_empty_selector_is_refused(
    server: Server, argument: str, selector: Any
) -> None:
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("a", namespace))
    options = {argument: selector}
    async with server.connect() as cluster:
        with pytest.raises(InvalidArgumentError, match=f"{argument}: .*None"):
            await cluster.delete_collection("v1", "configmaps", namespace=namespace, **options)
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        for name in ("labelSelector", "fieldSelector"):
            with pytest.raises(InvalidArgumentError, match="selects all objects"):
                await cluster.request("DELETE", path, query=[(name, " ")])
        await cluster.get("v1", "configmaps", f"{namespace}/a")
        gone = await cluster.delete_collection(
            "v1", "configmaps", namespace=namespace, label_selector=None
        )
    assert f"{namespace}/a" in [one.key for one in gone]


_BY_NAMESPACE = {
    **dict.fromkeys(("v1/configmaps", "v1/pods", "apps/v1/deployments"), True),
    **dict.fromkeys(("storage.k8s.io/v1/storageclasses", f"{WIDGETS}/widgets"), True),
    **dict.fromkeys(("v1/nodes", "v1/namespaces", f"{WIDGETS}/planets"), False),
    "certificates.k8s.io/v1/certificatesigningrequests": False,
}
"""Resources, and whether their objects can be selected by `metadata.namespace`."""


async def _items_of(listing: AbstractAsyncContextManager[Body]) -> list[JSONObject]:
    """Read a response of a ListWatch to its end; return the objects of the list."""
    answer = b""
    async with listing as body:
        while piece := await body.read():
            answer += piece
    items: list[JSONObject] = json.loads(answer)["items"]
    return items


@pytest.mark.parametrize("resource", _BY_NAMESPACE)
async def test_a_list_of_nothing_under_a_role_of_one_name_suits_every_resource(
    server: Server, resource: str
) -> None:
    """Not every kind has a second field beside its name that could contradict it."""
    server.serve_widgets()
    api_version, _, plural = resource.rpartition("/")
    async with server.connect() as cluster:
        by_namespace = cluster.list(api_version, plural, field_selector="metadata.namespace=-")
        if _BY_NAMESPACE[resource]:
            assert await by_namespace.next_page() == []
        else:
            with pytest.raises(BadRequestError, match="field label not supported"):
                await by_namespace.next_page()

        selector = FieldSelector.parse("metadata.name=a")
        gvr = GroupVersionResource.of(api_version, plural)
        one = cluster.list_watch(gvr, field_selector=selector)
        assert not await _items_of(one.nothing().list(resource_version="0"))
        assert FieldSelector.parse(dict(one.nothing().selectors)["fieldSelector"]).name == "a"


async def test_one_object_is_selected_whatever_its_name_has(server: Server) -> None:
    """Those of roles may have what has a meaning in selectors."""
    name = unique("a,b=c\\d")
    roles = ("rbac.authorization.k8s.io/v1", "clusterroles")
    role = {"apiVersion": roles[0], "kind": "ClusterRole", "metadata": {"name": name}, "rules": []}
    async with server.connect() as cluster:
        await cluster.create(role)
        try:
            one = cluster.list_watch(GroupVersionResource.of(*roles)).only(name)
            items = await _items_of(one.list())
        finally:
            await cluster.delete(*roles, name)
    assert [found["metadata"]["name"] for found in items] == [name]
