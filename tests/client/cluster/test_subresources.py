"""What writes to subresources count for: loop detection, the term of a leader, discovery."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

import pyinformer
from pyinformer.errors import (
    FencedError,
    ForbiddenError,
    InvalidArgumentError,
    NotFoundError,
)
from pyinformer.testing import Fault
from tests.client.cluster.test_write_context import writing
from tests.guards import Guard, guarded

if TYPE_CHECKING:
    from pyinformer import Cluster, KubeObject
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer

_WEB: Final = ("apps/v1", "deployments", "default/web")
_POD: Final = ("v1", "pods", "default/a")
_EVICTION: Final[JSONObject] = {"apiVersion": "policy/v1", "kind": "Eviction"}


async def _web(cluster: Cluster) -> KubeObject:
    return await cluster.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 1},
        }
    )


def _pod(apiserver: APIServer) -> None:
    metadata = {"name": "a", "namespace": "default"}
    apiserver.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})


def _scaled(scale: KubeObject, replicas: int) -> JSONObject:
    return {**scale.to_dict(), "spec": {"replicas": replicas}}


async def test_the_version_of_a_scale_shows_whether_its_object_changed(
    apiserver: APIServer,
) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        web = await _web(cluster)
        with writing() as recorder:
            scale = await cluster.get(*_WEB, subresource="scale")
            after = await cluster.replace(_scaled(scale, 2), subresource="scale", of=web)
            assert recorder.take() == [True]
            await cluster.replace(_scaled(after, 2), subresource="scale", of=web)
            assert recorder.take() == [False]
            whole = await cluster.get(*_WEB)
            assert await cluster.replace(whole) == whole
            assert recorder.take() == [False]  # its version is known from the scale
        assert cluster.write_statistics().unchanged == 2


async def test_an_eviction_is_a_change_and_a_token_is_none(apiserver: APIServer) -> None:
    _pod(apiserver)
    apiserver.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}})
    request: JSONObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    account = ("v1", "serviceaccounts", "default/sa")
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with writing() as recorder:
            await cluster.create(request, subresource="token", of=account)
            assert recorder.take() == []
            await cluster.create(_EVICTION, subresource="eviction", of=_POD)
            assert recorder.take() == [True]


async def test_a_term_records_what_is_written_and_refuses_the_rest(
    apiserver: APIServer,
) -> None:
    _pod(apiserver)
    async with pyinformer.connect(server=apiserver.url) as cluster:
        web = await _web(cluster)
        scale = await cluster.get(*_WEB, subresource="scale")
        with guarded(Guard(announces=False)) as guard:
            after = await cluster.replace(_scaled(scale, 2), subresource="scale", of=web)
            await cluster.create(_EVICTION, subresource="eviction", of=_POD)
            assert guard.written == [
                ("deployments.v1.apps", after.metadata.resource_version),
                ("pods.v1", ""),
            ]
            guard.shut()
            with pytest.raises(FencedError):
                await cluster.replace(_scaled(after, 3), subresource="scale", of=web)
    assert apiserver.get("apps/v1", "deployments", "web")["spec"]["replicas"] == 2


async def test_no_request_is_added_to_a_write(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        await _web(cluster)
        scale = await cluster.get(*_WEB, subresource="scale")
        apiserver.clear_requests()
        for replicas in (2, 3):
            scale = await cluster.replace(_scaled(scale, replicas), subresource="scale", of=_WEB)
        assert [one.method for one in apiserver.requests] == ["PUT", "PUT"]


async def test_an_absent_object_costs_no_discovery_where_the_subresource_is_known(
    apiserver: APIServer,
) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        await _web(cluster)
        apiserver.clear_requests()
        for _ in range(2):
            with pytest.raises(NotFoundError, match='"none" not found'):
                await cluster.get("apps/v1", "deployments", "default/none", subresource="scale")
        assert len(apiserver.requests) == 2


async def test_the_server_decides_where_discovery_is_forbidden(apiserver: APIServer) -> None:
    _pod(apiserver)
    apiserver.faults.add(Fault(match=lambda one: one.path == "/api/v1", status=403, times=None))
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(ForbiddenError):
            await cluster.find_resource("v1/pods")
        with pytest.raises(NotFoundError, match="could not find the requested resource"):
            await cluster.create(_EVICTION, subresource="evict", of=_POD)
        await cluster.create(_EVICTION, subresource="eviction", of=_POD)
        with pytest.raises(NotFoundError, match='"a" not found'):
            await cluster.get(*_POD)


async def test_a_subresource_that_is_added_later_is_written(apiserver: APIServer) -> None:
    place = ("example.com/v1", "gadgets", "default/g")
    apiserver.register("example.com/v1", "Gadget", "gadgets")
    async with pyinformer.connect(server=apiserver.url) as cluster:
        metadata = {"name": "g", "namespace": "default"}
        body = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": metadata}
        gadget = await cluster.create({**body, "spec": {"replicas": 1}})
        with pytest.raises(NotFoundError, match="has: none"):
            await cluster.get(*place, subresource="scale")
        apiserver.register("example.com/v1", "Gadget", "gadgets", has_scale=True)
        scale = await cluster.get(*place, subresource="scale")
        after = await cluster.replace(_scaled(scale, 2), subresource="scale", of=gadget)
        assert after.at("spec.replicas", int) == 2


@pytest.mark.covers(
    "controller-runtime pkg/client: Patch / Metadata Client / should merge patch with options"
)
async def test_metadata_alone_names_the_object(apiserver: APIServer) -> None:
    _pod(apiserver)
    async with pyinformer.connect(server=apiserver.url) as cluster:
        factory = pyinformer.SharedInformerFactory(cluster)
        async with factory:
            pods = factory.informer("v1", "pods", memory="metadata")
            await factory.start()
            await factory.wait_for_cache_sync()
            await cluster.create(_EVICTION, subresource="eviction", of=pods.lister.get("default/a"))
        with pytest.raises(NotFoundError):
            await cluster.get(*_POD)


async def test_arguments_that_do_not_fit_are_refused(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        web = await _web(cluster)
        with pytest.raises(InvalidArgumentError, match="of: needs a subresource"):
            await cluster.replace(web, of=web)
        with pytest.raises(InvalidArgumentError, match="must have a namespace"):
            await cluster.create(_EVICTION, subresource="eviction", of=("v1", "pods", "a"))
        with pytest.raises(InvalidArgumentError, match="cannot be a name"):
            await cluster.get(*_WEB, subresource="..")
        with pytest.raises(InvalidArgumentError, match="must have 1 to 128"):
            await cluster.apply(web.to_dict(), field_manager="")


async def test_a_cancelled_write_leaves_the_cluster_usable(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        web = await _web(cluster)
        scale = await cluster.get(*_WEB, subresource="scale")
        apiserver.faults.add(Fault(verb="update", hang=True))
        write = asyncio.ensure_future(
            cluster.replace(_scaled(scale, 2), subresource="scale", of=web)
        )
        await asyncio.to_thread(apiserver.wait_for_request, lambda one: one.method == "PUT")
        write.cancel()
        await asyncio.wait([write])
        assert write.cancelled()
        apiserver.faults.clear()
        after = await cluster.replace(_scaled(scale, 3), subresource="scale", of=web)
        assert after.at("spec.replicas", int) == 3
