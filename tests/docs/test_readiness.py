"""The page on readiness: its programs run, and its operator waits for its Deployment."""

from __future__ import annotations

import asyncio

import pytest

import pyinformer
from pyinformer.errors import WaitTimeoutError
from pyinformer.readiness import of
from pyinformer.testing import APIServer
from tests.docs import pages
from tests.readiness.test_on_a_server import CASES

PAGE = "docs/howto/readiness.md"


def test_the_operator_of_the_page_waits_for_its_deployment() -> None:
    page = pages.module_of(PAGE)
    page.test_a_shop_is_ready_once_its_deployment_is()
    assert page.found == of(page.deployment)

    assert page.found.state == "InProgress"


def test_the_page_has_the_number_of_cases_that_kubectl_judges() -> None:
    kinds = {case.kind for case, _ in CASES.values()}
    assert f"{len(CASES)} statuses of {len(kinds)} kinds" in pages.read(PAGE)


async def test_a_script_waits_at_the_cache(apiserver: APIServer) -> None:
    page = pages.module_of(PAGE)
    waiting = {**page.deployment, "metadata": {"namespace": "shop", "name": "web"}}
    apiserver.create(waiting)
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        pyinformer.SharedInformer(cluster, "apps/v1", "deployments") as deployments,
    ):
        with pytest.raises(WaitTimeoutError):
            await page.until_ready(deployments, "shop/web", timeout_seconds=0.05)
        task = asyncio.create_task(page.until_ready(deployments, "shop/web"))
        status = {"observedGeneration": 2, "updatedReplicas": 3, "availableReplicas": 3}
        apiserver.patch("apps/v1", "deployments", "web", {"status": status}, "shop")
        ready = await task
    assert ready is not None
    assert of(ready).state == "Ready"
