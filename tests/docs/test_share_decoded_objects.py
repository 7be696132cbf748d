"""The page on sharing decoded objects: what it shows runs, and its detector does what it says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import pytest

import pyinformer
from tests.cache.informer.clusters import cluster_of, pod

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

_PAGE = Path(__file__).parents[2] / "docs/howto/share-decoded-objects.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page defines."""
    module = ModuleType("share_decoded_objects")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in _BLOCK.findall(_PAGE.read_text(encoding="utf-8")):
        exec(compile(block, str(_PAGE), "exec"), module.__dict__)  # noqa: S102 - our own page
    return module.__dict__


async def test_the_scheduler_of_the_page_counts_pending_pods(
    apiserver: APIServer, shown: dict[str, Any]
) -> None:
    for name, phase in (("a", "Pending"), ("b", "Running")):
        apiserver.create({**pod(name, node="node-1"), "status": {"phase": phase}})
    apiserver.create(pod("c", node="node-2"))
    async with cluster_of(apiserver) as cluster:
        assert await shown["schedule"](cluster) == 1


async def test_the_detector_of_the_page_reports_a_mutation(
    apiserver: APIServer, shown: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    apiserver.create(pod("a"))
    async with cluster_of(apiserver) as cluster:
        factory: pyinformer.SharedInformerFactory = shown["watched_factory"](cluster)
        async with factory:
            pods = factory.informer("v1", "pods", sharing="decoded")
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            cast("dict[str, Any]", pods.lister.decoded["default/a"])["mine"] = 1
            found = await factory.mutation_detector.verify()

    assert [mutation.key for mutation in found] == ["default/a"]
    assert capsys.readouterr().out == "default/a mine: absent became int\n"
