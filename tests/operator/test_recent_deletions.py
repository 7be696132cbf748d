"""The memory of recent deletions is bounded, and says what it has forgotten."""

from __future__ import annotations

from typing import Any

import pytest

import pyinformer
from pyinformer.controller import Controller
from pyinformer.controller.sources import PrimarySource
from pyinformer.operator._recent_deletions import RecentDeletions
from pyinformer.testing import World
from tests.waiting import until


def _map(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@pytest.mark.parametrize("since", [None, 0.0, 1e9])
def test_the_oldest_of_too_many_deletions_are_forgotten_with_a_warning(
    caplog: pytest.LogCaptureFixture, since: float | None
) -> None:
    async def scenario(world: World) -> None:
        async def reconcile(_request: pyinformer.Request, _obj: Any) -> None:
            raise AssertionError

        factory = pyinformer.SharedInformerFactory(world.cluster)
        informer = factory.informer("v1", "configmaps")
        deletions = RecentDeletions(limit=3)
        deletions.follow("maps", [PrimarySource(informer)])
        async with factory:
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100.0)
            for number in range(5):
                await world.cluster.delete("v1", "configmaps", f"default/n{number}")
            await until(lambda: not informer.lister.keys())
            controller: Controller[None] = Controller("maps", reconcile, [informer])
            deletions.enqueue(controller, informer, since_at=since)
            kept = 0 if since == 1e9 else 3
            assert controller.status().queue.depth == kept
            deletions.close()

    with World([_map(f"n{number}") for number in range(5)], virtual_time=True) as world:
        world.run(lambda: scenario(world))
    assert ("more than 3 deletions were seen" in caplog.text) is (since != 1e9)
