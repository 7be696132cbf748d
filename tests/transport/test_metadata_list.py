"""A list of metadata accepts its own media type; every other request accepts plain JSON."""

from __future__ import annotations

import pytest

from pyinformer.apimachinery import GroupVersionResource
from pyinformer.transport import ListWatch
from tests.transport.serving import always, connected, response, serving

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
