"""The page on webhooks: its program, and its test."""

from __future__ import annotations

from tests.docs import pages

PAGE = "docs/howto/webhooks.md"


async def test_the_test_of_the_page_passes() -> None:
    page = pages.module_of(PAGE)
    await page.test_an_engine_is_final()


def test_the_server_is_asked_to_call_the_hooks_of_the_page() -> None:
    page = pages.module_of(PAGE)
    _, validating = page.app.webhook_configurations(service_account="db/db")
    assert validating["webhooks"][0]["name"] == "databases.validate.db.webhook"


def test_the_world_of_the_page_asks_the_hooks() -> None:
    pages.module_of(PAGE).test_an_engine_is_final_in_a_world()
