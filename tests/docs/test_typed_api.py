"""The page on the typed API: its programs run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyinformer
from tests.docs.pages import module_of

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

PAGE = "docs/howto/typed-api.md"  # its blocks of "python"


async def test_the_programs_of_the_page_work(apiserver: APIServer) -> None:
    shown = module_of(PAGE)
    labels = {"app": "web"}
    containers = [{"name": "c", "image": "web:1"}]
    apiserver.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            },
        }
    )
    metadata = {"name": "a", "namespace": "shop"}
    apiserver.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    async with pyinformer.connect(server=apiserver.url) as cluster:
        assert await shown.scale(cluster, "shop", "web", 3) == 3
        assert await shown.exists(cluster, "shop", "a") is True
        assert await shown.exists(cluster, "shop", "b") is False
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        assert await shown.exists(cluster, "shop", "a") is None
