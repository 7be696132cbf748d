"""Lists and watches of metadata have media types of their own; other requests accept JSON."""

from __future__ import annotations

import pytest

from pyinformer.client.transport import ListWatch
from pyinformer.objects import GroupVersionResource
from tests.client.transport.serving import always, connected, response, serving

PODS = GroupVersionResource.of("v1", "pods")


@pytest.mark.parametrize(
    ("question", "accept"),
    [
        (
            {"metadata_only": True, "limit": 2},
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
        ),
        ({"limit": 2}, "application/json"),
        (
            {"metadata_only": True, "own_connection_seconds": 5.0},
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
        ),
    ],
    ids=["metadata", "whole", "own-connection"],
)
async def test_a_metadata_list_has_its_accept_header(
    question: dict[str, object], accept: str
) -> None:
    async with serving(always(response())) as server, connected(server.url) as connection:
        source = ListWatch(connection, PODS)
        async with source.list(**question) as body:  # type: ignore[arg-type] # a table of them
            while await body.read():
                pass
    assert server.requests[0].headers["accept"] == accept


@pytest.mark.covers("kube-client src: test_partial_object_meta_watch_uses_metadata_header")
async def test_a_source_of_metadata_requests_nothing_else_in_its_watches() -> None:
    async with serving(always(response())) as server, connected(server.url) as connection:
        source = ListWatch(connection, PODS, metadata_only=True)
        async with source.watch(resource_version="7", timeout_seconds=5.0) as body:
            while await body.read():
                pass
    assert server.requests[0].headers["accept"] == (
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
    )
