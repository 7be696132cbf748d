"""Debian's Chromium, driven by playwright: a page, what it requested, and what it complained of."""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Page

_FLAGS: Final = (
    "--no-sandbox",  # which does not work for root, as in a container
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A name that resolves to this host, as in an attack by rebinding; no other name resolves.
    "--host-resolver-rules=MAP attacker.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class Browser:
    """One page of a new browser, with an empty profile.

    Attributes:
        page: the page.
        requests: the addresses of all requests, in their order.
        complaints: what the console has of errors, refusals by the policy among them.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.context.on("request", lambda one: self.requests.append(one.url))
        page.on("console", lambda one: self._complain(one.type, one.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda one: self.complaints.append(f"dialog: {one.message}"))

    def _complain(self, kind: str, words: str) -> None:
        if kind in {"error", "warning"}:
            self.complaints.append(words)


@asynccontextmanager
async def browser(
    *, width: int = 1280, height: int = 900, scheme: Literal["dark", "light"] = "light"
) -> AsyncIterator[Browser]:
    """Start the browser; it ends with the block."""
    from playwright.async_api import async_playwright

    program = shutil.which("chromium")
    assert program is not None, "chromium is not installed: make test-tools installs it as root"
    async with (
        async_playwright() as playwright,
        await playwright.chromium.launch(executable_path=program, args=_FLAGS) as started,
    ):
        context = await started.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        yield Browser(await context.new_page())
