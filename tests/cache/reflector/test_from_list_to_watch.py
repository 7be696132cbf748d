"""Between a list and its watch nothing is lost, and a list without a version is repeated.

Changes happen in the gap between the two, and lists come without a version that a watch can use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import json

from pyinformer.objects import GroupVersionResource
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.running import (
    listed,
    options,
    put,
    reflecting,
    remove,
    until_held,
    verbs,
    watches,
)
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[APIServer]:
    """Return a server with two pods."""
    with APIServer() as made:
        put(made, "a", "b")
        yield made


async def test_a_change_between_a_list_and_its_watch_is_delivered(server: APIServer) -> None:
    """Also a deletion and a new object of the deleted one's name; by no second list."""
    server.faults.add(Fault(verb="watch", hang=True))
    async with reflecting(server) as running:
        await until_held(server)
        before = running.sink.versions()
        at = running.reflector.position
        remove(server, "a", "b")
        put(server, "b", "c")
        server.faults.release()
        await running.until_equal()

        versions = listed(server)
        assert watches(server)[0] == at
        assert verbs(server).count("list") == 1
        last = running.sink.history["default/a"]
        assert len(last) == 2
        assert last[0] == f"add {before['default/a']}"
        assert last[1].startswith("delete ")
        assert running.sink.history["default/b"][-1] == f"add {versions['default/b']}"
        assert len(running.sink.history["default/b"]) == 3
        assert running.sink.history["default/c"] == [f"add {versions['default/c']}"]


def items_without_order(metadata: dict[str, str], **versions: str) -> bytes:
    """Return a list of pods at versions that are not numbers."""
    items = [
        {"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": v}}
        for name, v in versions.items()
    ]
    listing = {"kind": "PodList", "apiVersion": "v1", "items": items}
    return json.encode(listing | {"metadata": metadata})


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"resourceVersion": "0"}, id="zero"),
        pytest.param({"resourceVersion": ""}, id="empty"),
        pytest.param({}, id="missing"),
    ],
)
async def test_lists_with_an_invalid_version_are_repeated_and_never_watched(
    server: APIServer, metadata: dict[str, str]
) -> None:
    """An aggregated server may give none: the cache follows at the pace of `poll_seconds`."""
    server.faults.add(
        Fault(verb="list", body=items_without_order(metadata, a="x", b="y")),
        Fault(verb="list", body=items_without_order(metadata, b="z", c="x"), times=None),
    )
    polling = options(order="opaque", poll_seconds=0.05)
    async with reflecting(server, with_options=polling) as running:
        await until(lambda: running.sink.versions() == {"default/b": "z", "default/c": "x"})
        loads = running.reflector.status().loads
        await until(lambda: running.reflector.status().loads > loads)
        told = running.sink.history
        history = {key: [one.split()[0] for one in told[key]] for key in told}
        assert history == {
            "default/a": ["add", "delete?"],
            "default/b": ["add", "update"],
            "default/c": ["add"],
        }
    assert set(verbs(server)) == {"list"}


async def test_a_list_without_a_version_is_not_a_list_of_a_built_in_resource(
    server: APIServer,
) -> None:
    server.faults.add(Fault(verb="list", body=items_without_order({}, a="x"), times=3))
    async with reflecting(server) as running:
        await running.until_equal()
        assert running.reflector.status().guard.order == "global"
        assert running.sink.history.keys() == listed(server).keys()


async def test_an_aggregated_api_whose_lists_have_no_version_is_polled_unasked(
    server: APIServer,
) -> None:
    metrics = GroupVersionResource.of("metrics.k8s.io/v1beta1", "pods")
    items = [{"metadata": {"name": "a", "namespace": "default"}, "window": "30s"}]
    listing = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": items}
    body = json.encode(listing | {"metadata": {}})
    server.faults.add(Fault(match=lambda one: "metrics" in one.path, body=body, times=None))
    async with reflecting(server, resource=metrics, with_options=options(poll_seconds=0.05)) as run:
        await until(lambda: run.reflector.status().loads >= 3)
        assert run.reflector.status().guard.order == "opaque"
        assert {key: len(told) for key, told in run.sink.history.items()} == {"default/a": 1}
