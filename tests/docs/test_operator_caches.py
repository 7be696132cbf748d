"""The page on the caches of an operator: its test passes, and its operator repeats no write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import pyinformer
from pyinformer.testing import APIServer, World
from tests.docs.pages import module_of
from tests.waiting import until

PAGE = "docs/howto/operator-caches.md"  # its blocks of "python"


def test_the_test_of_the_page_passes() -> None:
    module_of(PAGE).test_a_new_secret_restarts_the_pods()


@pytest.mark.parametrize("mounts", [False, True])
def test_the_operator_of_the_page_writes_once_where_a_secret_is_mounted(*, mounts: bool) -> None:
    page = module_of(PAGE)
    volumes = [{"name": "key", "secret": {"secretName": "key"}}] if mounts else []
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"template": {"spec": {"volumes": volumes}}},
    }
    with World([deployment]) as world:
        (deployments,) = page.app.controllers(world.cluster, world.factory)
        for _ in range(2):
            assert world.reconcile(deployments, "shop/web").error is None
        assert len(world.writes) == mounts


async def test_the_operator_of_the_page_follows_kinds_that_come_later(
    apiserver: APIServer,
) -> None:
    page = module_of(PAGE)

    @pyinformer.operator.custom_resource("acme.io/v1", "rockets")
    @dataclass
    class Rocket:
        """A kind of the test."""

    (definition,) = _definitions(Rocket)
    definition["metadata"]["labels"] = {"acme.io/labelled": "yes"}
    rocket = {"apiVersion": "acme.io/v1", "kind": "Rocket", "metadata": {"name": "one"}}

    def labels() -> dict[str, str]:
        """Return the labels of the object."""
        found = apiserver.get("acme.io/v1", "rockets", "one")
        return dict(found["metadata"].get("labels", {}))

    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        page.labeller.running(cluster),
    ):
        apiserver.create(definition)
        await until(lambda: page.followed == {"rockets.acme.io"})
        apiserver.create(rocket, namespace="default")
        await until(lambda: labels() == {"team": "none"})


def _definitions(model: type) -> list[dict[str, Any]]:
    app = pyinformer.Operator("test")

    @app.reconcile("acme.io/v1", "rockets", model=model)
    async def reconcile(request: object, found: object, cluster: object) -> None: ...

    return app.custom_resource_definitions()
