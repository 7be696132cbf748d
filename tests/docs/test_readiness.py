"""The page on readiness: its programs run, and its operator waits for its Deployment."""

from __future__ import annotations

from pyinformer.readiness import of
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
