"""The page on the caches of an operator: its test passes, and its operator repeats no write."""

from __future__ import annotations

from pyinformer.testing import World
from tests.docs.pages import module_of

PAGE = "docs/howto/operator-caches.md"  # its blocks of "python"


def test_the_test_of_the_page_passes() -> None:
    module_of(PAGE).test_a_new_secret_restarts_the_pods()


def test_the_operator_of_the_page_writes_nothing_twice() -> None:
    page = module_of(PAGE)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"template": {"spec": {}}},
    }
    with World([deployment]) as world:
        (deployments,) = page.app.controllers(world.cluster, world.factory)
        for _ in range(2):
            assert world.reconcile(deployments, "shop/web").error is None
        assert len(world.writes) == 1
