"""A tenant's object that is nested deeply, and a kopf operator on pyinformer, on a real server."""

from __future__ import annotations

import secrets
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

import kopf
import pyinformer.kopf
from pyinformer.client.transport import Connection
from tests.integration.servers import RealServer
from tests.integration.test_hostile_objects import Nested
from tests.integration.test_losses import create_soon, definition, gadget
from tests.kopf.operators import operating
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.testing import KubeAPIServer


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    pyinformer.kopf.install()
    yield
    pyinformer.kopf.uninstall()


@pytest.mark.real
@pytest.mark.timeout(300)
async def test_a_deep_object_does_not_end_a_kopf_operator(
    kube_apiserver: KubeAPIServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither at its start nor later; all other objects have their handlers called."""
    server = RealServer(kube_apiserver)
    group, namespace = f"{secrets.token_hex(4)}.example.com", server.namespace()
    server.api.create(definition(group, "v1"))
    await create_soon(server, gadget(group, namespace, "first"))
    registry, seen = kopf.OperatorRegistry(), list[tuple[str, str]]()
    info = kopf.ConnectionInfo(server=kube_apiserver.url, token=server.token, insecure=True)

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return info

    @kopf.on.event(group, "v1", "gadgets", registry=registry)
    async def record(name: str, type: str | None, **_: Any) -> None:
        seen.append((name, str(type)))

    async with aclosing(Connection(server.config())) as connection:
        nested = Nested(connection, group, namespace)
        await nested.create("early", 3_000)
        async with operating(registry, namespaces=[namespace], clusterwide=False) as running:
            await until(lambda: ("first", "None") in seen)
            await nested.create("late", 9_900)
            await nested.patch("late", 1)
            server.api.create(gadget(group, namespace, "second"))
            await until(lambda: ("second", "ADDED") in seen)
            assert not running.done()
            await nested.delete("early")
            await until(lambda: ("early", "DELETED") in seen)
    assert {name for name, _ in seen} == {"first", "second", "early"}
    for name in ("early", "late"):
        assert caplog.text.count(f"{namespace}/{name} cannot be decoded") == 1
