"""The page on models: its programs run."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.objects import JSONObject, why_mutable
from tests.cache.informer.clusters import cluster_of
from tests.docs import pages
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

_PAGE = "docs/howto/views-and-models.md"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page defines."""
    module = ModuleType("models")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in pages.blocks(_PAGE, "python"):
        exec(compile(block.text, _PAGE, "exec"), module.__dict__)  # noqa: S102 - our own page
    return module.__dict__


def _deployment(name: str, replicas: object, image: str = "nginx") -> JSONObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "c", "image": image}]}},
        },
    }


async def test_the_program_of_the_page_counts_replicas(
    apiserver: APIServer, shown: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    apiserver.create(_deployment("web", 2))
    apiserver.create(_deployment("api", 3))
    apiserver.create(_deployment("db", 5, image="postgres"))
    async with cluster_of(apiserver) as cluster:
        assert await shown["follow"](cluster) == 5
        async with pyinformer.SharedInformerFactory(cluster) as factory:
            deployments = factory.informer("apps/v1", "deployments", model=shown["Deployment"])
            deployments.add_event_handler(on_update=shown["scaled"])
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            for replicas in (4, "many"):
                web = apiserver.get("apps/v1", "deployments", "web", namespace="shop")
                web["spec"]["replicas"] = replicas
                apiserver.update(web)
            await until(lambda: deployments.status().handlers[0].failed == 1)
            assert len(list(shown["readable"](deployments))) == 2
    said = "shop/web: 2 -> 4\ncannot read shop/web, field spec.replicas\n"
    assert capsys.readouterr().out == said


def test_the_model_of_the_page_is_shared(shown: dict[str, Any]) -> None:
    assert why_mutable(shown["Deployment"]) == ""
