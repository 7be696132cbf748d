"""The page on other clients: its programs run, with the packages that it names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pyinformer
from tests.docs.pages import module_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.testing import APIServer

PAGE = "docs/howto/share-a-client.md"  # its blocks of "python"


async def test_the_programs_of_the_page_work(apiserver: APIServer, tmp_path: Path) -> None:
    apiserver.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    meta = {"namespace": "default", "name": "a"}
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "web:1"}]}
    apiserver.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    kubeconfig = str(apiserver.write_kubeconfig(tmp_path / "kubeconfig"))
    shown = module_of(PAGE)

    assert await shown.pods_on("n", kubeconfig) == ["a"]
    assert await asyncio.to_thread(shown.names_of_nodes, kubeconfig) == ["n"]
    async with pyinformer.connect(server=apiserver.url) as cluster:
        pod = await cluster.get("v1", "pods", "default/a")
        assert shown.images_of(pod) == ["web:1"]
        await shown.label(cluster, pod, "blue")
        assert (await cluster.get("v1", "pods", "default/a")).metadata.labels == {"team": "blue"}
