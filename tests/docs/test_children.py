"""The page on children: its operator runs, waits for its stage, and deletes what it has made."""

from __future__ import annotations

from pyinformer.testing import World
from tests.docs import pages

PAGE = "docs/howto/children.md"


def test_the_operator_of_the_page_waits_for_its_stage() -> None:
    pages.module_of(PAGE).test_traffic_waits_for_the_web_stage()


def test_the_user_of_the_page_is_dropped_before_its_object_is_gone() -> None:
    pages.module_of(PAGE).test_a_user_is_dropped_before_its_object_is_gone()


def test_the_children_of_the_page_go_with_their_owner() -> None:
    page = pages.module_of(PAGE)
    with World([page.SHOP]) as world:
        (shops,) = page.app.controllers(world.cluster, world.factory)
        world.reconcile(shops, "shop/a")
        world.delete("acme.io/v1", "shops", "a", namespace="shop")
        for _ in range(3):
            assert world.reconcile(shops, "shop/a").error is None
            world.collect_garbage()
        assert world.list("acme.io/v1", "shops") == []
        assert world.list("apps/v1", "deployments") == []
        assert world.list("v1", "secrets") == []
