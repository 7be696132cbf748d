"""The pages on credentials and on rights: their programs run, and print what they show."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import pyinformer
from pyinformer.client.transport import StaticCredentials
from pyinformer.testing import APIServer, Token
from tests.cache.informer.clusters import pod
from tests.docs import pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Of each page the "python" blocks are run as one module.
_CREDENTIALS = "docs/howto/credentials.md"
_RIGHTS = "docs/howto/least-privilege.md"


@pytest.fixture
def strict() -> Iterator[APIServer]:
    """A server that evaluates roles."""
    with APIServer(rbac=True) as server:
        yield server


def with_plugin(server: APIServer, folder: Path) -> str:
    """Write a kubeconfig whose user is an exec plug-in."""
    said = folder / "said.json"
    version = "client.authentication.k8s.io/v1"
    status = {"token": server.token}
    said.write_text(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}))
    content = yaml.safe_load(server.kubeconfig())
    plugin = {"apiVersion": version, "command": shutil.which("cat"), "args": [str(said)]}
    plugin["interactiveMode"] = "Never"
    content["users"][0]["user"] = {"exec": plugin}
    path = folder / "config"
    path.write_text(yaml.safe_dump(content))
    return str(path)


async def test_the_programs_of_the_page_on_credentials_work(
    strict: APIServer, tmp_path: Path
) -> None:
    shown = pages.module_of(_CREDENTIALS)
    strict.create(pod("a"))
    secret: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret"}
    strict.create({**secret, "metadata": {"name": "s", "namespace": "default"}})
    path = with_plugin(strict, tmp_path)

    assert await shown.names_of_pods(path) == ["a"]
    assert not await shown.may_jane_see(path, "default/s")


async def test_custom_credentials_are_requested_again_after_a_refusal() -> None:
    shown = pages.module_of(_CREDENTIALS)
    fetched: list[str] = []

    async def fetch() -> str:
        fetched.append(f"t{len(fetched)}")
        return fetched[-1]

    with APIServer(tokens=[Token(value="t0"), Token(value="t1")]) as server:
        config = shown.config_of(server.url, fetch)
        async with pyinformer.connect(config=config) as cluster:
            server.create(pod("a"))
            await cluster.get("v1", "pods", "default/a")
            server.expire_token("t0")
            await cluster.get("v1", "pods", "default/a")
    assert fetched == ["t0", "t1"]


async def test_the_page_on_rights_prints_what_it_shows() -> None:
    shown = pages.module_of(_RIGHTS)
    first, more, discovery = [block.text for block in pages.blocks(_RIGHTS, "yaml")]
    assert await shown.rights() == first
    for rule in yaml.safe_load(more):
        assert set(rule) == {"apiGroups", "resources", "verbs"}
    (rule,) = yaml.safe_load(discovery)
    assert set(rule) == {"nonResourceURLs", "verbs"}


async def test_the_refusal_that_the_page_on_rights_shows_is_the_one_that_is_raised(
    strict: APIServer,
) -> None:
    shown = pages.module_of(_RIGHTS)
    (words,) = [block.text.strip() for block in pages.blocks(_RIGHTS, "text")]
    strict.ensure_namespace("shop")
    token = strict.token_for_service_account("follower", "shop")
    credentials = StaticCredentials.bearer(token)
    config = pyinformer.client.ClusterConfig(server=strict.url, credentials=credentials)
    async with (
        pyinformer.connect(config=config) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        assert '"get" is missing' in await shown.why_not(cluster, "shop/s")
        secrets = factory.informer("v1", "secrets", namespaces="shop")
        await factory.start()
        with pytest.raises(pyinformer.CacheSyncTimeoutError) as late:
            await factory.wait_for_cache_sync(timeout_seconds=2.0)
    assert words in str(late.value)
    assert secrets.status().reflector.last_error == words
