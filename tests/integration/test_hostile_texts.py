"""What a tenant writes into names and references forges no line of a log or a page.

RBAC kinds take any path segment for a name, and every kind takes any text for an owner's name.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pyinformer
from pyinformer import Controller, KubeObject, Request, SharedInformerFactory
from pyinformer.operator import Health
from tests.hostile import FORGED, STORABLE, assert_shown_safely
from tests.limiters import doubling
from tests.waiting import until

if TYPE_CHECKING:
    import pytest

    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

RBAC = "rbac.authorization.k8s.io/v1"
_CONFIG = pyinformer.ControllerOptions(rate_limiter=doubling(100.0, 100.0))


def _role(namespace: str, name: str) -> JSONObject:
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": []}


def _owned(namespace: str, number: int, owner: str) -> JSONObject:
    reference = {"apiVersion": RBAC, "kind": "Role", "name": owner, "uid": f"uid-{number}"}
    metadata = {
        "namespace": namespace,
        "name": f"owned-{number}",
        "ownerReferences": [{**reference, "controller": True}],
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def test_names_of_roles_and_owners_forge_no_line(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pyinformer")
    namespace = server.namespace()
    for number, text in enumerate(STORABLE):
        server.api.create(_role(namespace, text))
        server.api.create(_owned(namespace, number, text))
    heard: list[str] = []
    asked: list[Request] = []

    def handle(event: pyinformer.Event[Any]) -> None:
        heard.append(event.key)
        raise ValueError(event.key)

    async def reconcile(request: Request, obj: KubeObject[None] | None) -> None:
        asked.append(request)
        raise LookupError(f"{request} {obj!r}")

    async with server.connect() as cluster, SharedInformerFactory(cluster) as factory:
        roles = factory.informer(RBAC, "roles", namespaces=namespace)
        maps = factory.informer("v1", "configmaps", namespaces=namespace)
        roles.add_event_handler(handle)
        controller = Controller("roles", reconcile, roles, options=_CONFIG)
        source = controller.owns(maps)
        await factory.start()
        async with controller:
            await until(lambda: len(heard) == len(asked) == len(STORABLE))
            health = Health(factory, controller)
            pages = health.pages()
            texts = [str(factory.status()), health.overview(), controller.status().line()]
            texts += [str(pages["/status"]({"format": "text", "informer": "roles"}))]
            texts += [str(pages["/explain"]({"informer": "roles", "key": k})) for k in heard]

    assert {request.key for request in asked} == set(heard)  # as data they are what they are
    assert source.status().refused == len(STORABLE)
    for message in caplog.messages:
        assert_shown_safely(message)
    for text in texts:
        for line in text.split("\n"):
            assert_shown_safely(line)
            assert not line.startswith(FORGED)
    for request in asked:
        assert_shown_safely(str(request))
