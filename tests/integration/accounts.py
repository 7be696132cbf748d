"""Service accounts whose only rights are what `required_rbac` prints."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pyinformer.testing import APIServer
from tests.integration.servers import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pyinformer import Cluster
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

ACCOUNT = "watcher"


def embedded_with_roles(*, watch_list: bool = True) -> Iterator[Server]:
    """Run an embedded server that evaluates roles."""
    with APIServer(tls=True, rbac=True, strict_namespaces=True, watch_list=watch_list) as api:
        server = EmbeddedServer(api)
        server.token = str(api.token)
        yield server


def token_of(server: Server, namespace: str) -> str:
    """Make the service account, and return a token of it."""
    if isinstance(server.api, APIServer):
        return server.api.token_for_service_account(ACCOUNT, namespace)
    metadata = {"name": ACCOUNT, "namespace": namespace}
    server.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token"
    body: JSONObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    answer = server.api.request("POST", path, body={**body, "spec": {"expirationSeconds": 3600}})
    return str(answer["status"]["token"])


@asynccontextmanager
async def as_the_account(server: Server, namespace: str) -> AsyncIterator[Cluster]:
    """Connect as the service account of a namespace."""
    token = await asyncio.to_thread(token_of, server, namespace)
    async with server.connect(token=token) as cluster:
        yield cluster


async def apply(server: Server, *found: dict[str, Any]) -> None:
    """Create what was printed."""
    for document in found:
        await asyncio.to_thread(server.api.create, document)


def grant(server: Server, role: dict[str, Any], rules: list[Any]) -> None:
    """Give a Role other rules."""
    metadata = role["metadata"]
    now = server.api.get(role["apiVersion"], "roles", metadata["name"], metadata["namespace"])
    server.api.update({**now, "rules": rules})
