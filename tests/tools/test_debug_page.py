"""The page `/debug` in a browser: what people see, and what the page never does."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyinformer
from pyinformer import SharedInformerFactory
from pyinformer.operator import Health
from pyinformer.testing import APIServer
from tests.tools.chromium import browser
from tests.tools.troubled_program import HOSTILE, troubled_program
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Page

    from pyinformer.objects import JSONObject
    from pyinformer.operator import HealthServer
    from tests.tools.chromium import Browser

_WAIT_MS = 60_000.0


async def rows(page: Page, section: str) -> list[str]:
    """Return the text of each row of a section, its cells apart."""
    found = await page.locator(f"#{section} tbody tr").all_inner_texts()
    return [" | ".join(row.split("\t")) for row in found]


async def shown(page: Page, words: str) -> None:
    """Wait until some words are on the page."""
    await page.get_by_text(words).first.wait_for(timeout=_WAIT_MS)


def hosts_of(seen: Browser) -> set[str]:
    """Return the servers that were asked for something."""
    return {urlsplit(url).netloc for url in seen.requests}


async def test_each_trouble_is_shown_the_worst_first_and_a_key_is_explained() -> None:
    async with troubled_program() as program, browser() as seen:
        page = seen.page
        await page.goto(url := program.url)
        await shown(page, "QuotaExceededError at")
        informers = await rows(page, "informers")
        assert [row.split(" | ")[:2] for row in informers] == [
            ["forbidden", "eu: secrets.v1"],
            ["watching", "eu: pods.v1"],
            ["watching", "eu: configmaps.v1 in shop"],
        ]
        assert '"list" is missing' in informers[0]
        assert "audit | eu: pods.v1 | 7 |" in (await rows(page, "handlers"))[0]
        assert (await rows(page, "controllers"))[0].startswith("hot loop | databases | ")
        assert "eu:shop/slow" in (await rows(page, "workers"))[0]
        failing = [row.split(" | ")[2:5] for row in await rows(page, "failing-keys")]
        assert sorted(failing) == [
            ["eu:shop/cart", "1", "QuotaExceededError"],
            ["eu:shop/payments", "1", "QuotaExceededError"],
            ["eu:shop/search", "1", "QuotaExceededError"],
        ]
        assert "eu:shop/spinning" in (await rows(page, "hot-keys"))[0]
        assert "eu:shop/staged | StatefulSet shop/db: 0 of" in (await rows(page, "waiting-keys"))[0]
        assert (await rows(page, "leases"))[0].startswith("leads | ops/db-operator | pod-1 | pod-1")
        assert [row.split(" | ")[:2] for row in await rows(page, "clusters")] == [
            ["down", "us"],
            ["open", "eu"],
        ]
        assert len(await rows(page, "event-loop")) == 1
        assert "not ready: not synced: eu: secrets.v1" in await page.inner_text("#problems")
        assert await page.inner_text("#verdicts") == "live: yes ready: no"

        await page.locator("#failing-keys tr", has_text="shop/cart").get_by_text("explain").click()
        await shown(page, "shop/cart in the cache of eu: pods.v1")
        assert await page.input_value("#explain-key") == "shop/cart"
        await page.fill("#explain-informer", "eu: pods.v1")
        await page.fill("#explain-key", "shop/none")
        await page.press("#explain-key", "Enter")
        await shown(page, "It is not cached, and no deletion of it is remembered.")
        await page.fill("#explain-key", "a/b/c")
        await page.press("#explain-key", "Enter")
        await shown(page, "400: key: must be 'namespace/name' or 'name'")

        await page.locator("#informers tr", has_text="pods.v1").get_by_text("journal").click()
        await shown(page, "loaded by watch-list at")
        assert "reflector.guard.epoch" in await page.inner_text("#fields")

        await page.keyboard.press("/")
        await page.keyboard.type("SECRETS")
        assert len(await rows(page, "informers")) == 1
        await page.keyboard.press("Escape")
        assert len(await rows(page, "informers")) == 3

    assert hosts_of(seen) == {urlsplit(url).netloc}
    (complaint,) = seen.complaints  # of the key that is none
    assert "status of 400" in complaint


async def test_hostile_names_and_messages_stay_text() -> None:
    async with troubled_program(hostile=HOSTILE) as program, browser() as seen:
        page = seen.page
        await page.goto(url := program.url)
        await shown(page, "us<img src=x onerror=alert(1)>")
        for section in ("informers", "handlers", "controllers", "failing-keys", "clusters"):
            text = "".join(await rows(page, section))
            assert "<img src=x onerror=alert(1)>" in text or section == "failing-keys", section
            assert "\u202e" not in text
        await page.locator("#informers tr", has_text="secrets").get_by_text("journal").click()
        await shown(page, "list secrets.v1: 403 Forbidden")
        assert await page.locator("img").count() == 0
        with_html = "document.body.innerHTML = '<b>x</b>'"
        refusal = await page.evaluate(
            f"(() => {{ try {{ {with_html} }} catch (e) {{ return e.name }} }})()"
        )
        assert refusal == "TypeError"

    assert [one for one in seen.complaints if "TrustedHTML" not in one] == []
    assert hosts_of(seen) == {urlsplit(url).netloc}


@asynccontextmanager
async def many_informers(number: int) -> AsyncIterator[HealthServer]:
    """Serve the status of informers that have not been started, and of one that has."""
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        factory = SharedInformerFactory(cluster)
        for at in range(number):
            one = factory.informer("v1", "pods", label_selector=f"app=a{at}")
            one.add_event_handler(lambda _: None, name=f"handler-{at}")
        async with Health(factory).server() as server:
            yield server


async def test_a_thousand_informers_are_counted_filtered_and_not_all_drawn() -> None:
    async with many_informers(1_000) as server, browser() as seen:
        page = seen.page
        await page.goto(f"{server.url}/debug")
        await shown(page, "1,000, 1,000 in trouble, the worst 25 are shown")
        assert len(await rows(page, "informers")) == len(await rows(page, "handlers")) == 25
        await page.locator("#informers").get_by_text("Show 100 more of 1,000").click()
        assert len(await rows(page, "informers")) == 125
        await page.fill("#filter", "app=a777")
        assert len(await rows(page, "informers")) == 1
        assert await page.locator("#informer-names option").count() == 1_000
        assert await page.locator("*").count() < 5_000
        # What a redraw takes away from the person who reads: neither the focus nor the selection.
        await page.fill("#filter", "")
        button = page.locator("#informers tbody button").nth(3)
        await button.focus()
        await page.evaluate("update()")
        assert await button.evaluate("one => one === document.activeElement")

    assert seen.complaints == []


async def test_the_share_of_a_replica_is_shown() -> None:
    with APIServer() as api:
        async with pyinformer.connect(server=api.url) as cluster:
            one, two = (sharing_operator(name).running(cluster) for name in ("one", "two"))
            async with one, two, one.health.server() as server, browser() as seen:
                await seen.page.goto(f"{server.url}/debug")
                await shown(seen.page, "db-operator.one")
                await until(lambda: one.sharing is not None and one.sharing.open == 64)
                # Not "64" alone, which is at first the number of those without an owner.
                await seen.page.get_by_role("row", name="by key 64 0 0 2 0").wait_for()
                (share,) = await rows(seen.page, "sharing")
                assert share == (
                    "shares | default/db-operator | db-operator.one | 128 by key | 64 | 0 | 0 | 2"
                    " | 0 | - | -"
                )
    assert seen.complaints == []


def sharing_operator(identity: str) -> pyinformer.Operator:
    """Return one replica of an operator."""
    app = pyinformer.Operator("db-operator", sharding=pyinformer.Buckets(identity=identity))

    @app.reconcile("v1", "configmaps")
    async def reconcile(request: object, obj: object, cluster: object) -> None:
        """Do nothing."""

    return app


async def test_a_program_that_ends_is_reported_with_the_age_of_what_is_shown() -> None:
    async with browser() as seen:
        page = seen.page
        async with many_informers(3) as server:
            await page.goto(f"{server.url}/debug")
            await shown(page, "3, 3 in trouble")
        await shown(page, "The program does not answer: Failed to fetch.")
        assert "What is shown is of 2" in await page.inner_text("#lost")
        assert await page.title() == "pyinformer: no answer"
        assert len(await rows(page, "informers")) == 3
        await page.route("**/status", lambda route: route.fulfill(json=_OF_ANOTHER_VERSION))
        await page.locator("#lost").wait_for(state="hidden", timeout=_WAIT_MS)
        await shown(page, "/status has schema 7; this page knows 1")
        assert "the program was restarted" in await page.inner_text("#problems")
        (informer,) = await rows(page, "informers")
        assert informer.startswith("not synced, - | pods.v9 | - | - | - | - | - | - | - | -")
        await page.unroute_all(behavior="wait")


async def test_the_page_of_another_name_for_this_host_shows_nothing() -> None:
    """An attacker's name that resolves to 127.0.0.1 makes the browser ask this server."""
    async with many_informers(3) as server, browser() as seen:
        foreign = f"http://attacker.example:{server.port}"
        answer = await seen.page.goto(f"{foreign}/debug")
        assert answer is not None
        assert answer.status == 403
        found = await seen.page.evaluate(
            "async () => { const r = await fetch('/status'); return [r.status, await r.text()] }"
        )
        assert found[0] == 403
        assert "pods" not in found[1]
        # From its own page it gets neither the state nor the script, and may not frame the page.
        crossing = await seen.page.evaluate(
            f"async () => {{ try {{ await fetch('{server.url}/status'); return 'read' }}"
            " catch (e) { return e.name } }"
        )
        assert crossing == "TypeError"


_OF_ANOTHER_VERSION: JSONObject = {
    "schema": 7,
    "informers": [{"informer": "pods.v9", "unknown": {"a": 1}}],
    "controllers": None,
    "program": {"pid": 1},
}
