"""The page on webhooks: its program, its test, and the manifests of it."""

from __future__ import annotations

from pyinformer.cli.project._manifest_settings import ManifestSettings
from pyinformer.cli.project._manifests import manifests_of
from tests.docs import pages

PAGE = "docs/howto/webhooks.md"


async def test_the_test_of_the_page_passes() -> None:
    page = pages.module_of(PAGE)
    await page.test_an_engine_is_final()


def test_the_program_of_the_page_has_manifests() -> None:
    page = pages.module_of(PAGE)
    files = manifests_of(page.app, ManifestSettings(), "0.1.0")
    assert "databases.validate.db.webhook" in files["deploy/webhooks.yaml"]
