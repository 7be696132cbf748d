"""The page on admission policies: its program makes documents, which a real server compiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

import pyinformer
from pyinformer.policies import compile_policies, policies_yaml
from tests.docs import pages

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.testing import KubeAPIServer

PAGE = "docs/howto/policies.md"


def test_the_program_of_the_page_makes_policies_with_their_bindings() -> None:
    page = pages.module_of(PAGE)
    documents = yaml.safe_load_all(policies_yaml(page.app.policies))
    assert [one["metadata"]["name"] for one in documents] == [
        "pinned-images.acme.io",
        "pinned-images.acme.io",
        "owner.acme.io",
        "owner.acme.io",
    ]


@pytest.mark.real
@pytest.mark.timeout(200)
async def test_a_server_compiles_the_policies_of_the_page(
    kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    page = pages.module_of(PAGE)
    kubeconfig = kube_apiserver_session.write_kubeconfig(tmp_path / "kubeconfig")
    async with pyinformer.connect(kubeconfig) as cluster:
        assert len(await compile_policies(cluster, page.app.policies)) == 4


def test_the_world_of_the_page_enforces_the_policy() -> None:
    pages.module_of(PAGE).test_latest_is_refused()
