"""Take the picture of the page `/debug` for its guide: `make debug-picture`.

The program in it is real, and has each trouble; only the place of its code is another.
"""

from __future__ import annotations

import asyncio
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PIL import Image

from tests.tools import troubled_program as program_module
from tests.tools.chromium import browser
from tests.tools.troubled_program import troubled_program

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

PICTURE: Final = Path(__file__).resolve().parents[2] / "docs" / "_static" / "debug.png"
_WIDTH: Final = 1200
_HEIGHT: Final = 800
_COLOURS: Final = 200  # half the size, without a visible difference
_LATE_MS: Final = 13_000.0  # so that a handler is behind
_PLACES: Final = {program_module.__file__: "/app/databases.py", "http://127.0.0.1": "https://eu"}


async def main() -> None:
    """Run the program and the browser, and write the picture."""
    async with troubled_program() as program, browser(width=_WIDTH, height=_HEIGHT) as seen:
        page = seen.page
        await page.route("**/status", _of_another_place)
        await page.goto(program.url)
        await page.fill("#explain-informer", "eu: pods.v1")
        await page.fill("#explain-key", "shop/cart")
        await page.press("#explain-key", "Enter")
        await page.wait_for_timeout(_LATE_MS)
        await _take(page)
        await page.unroute_all(behavior="wait")


async def _of_another_place(route: Route) -> None:
    answer = await route.fetch()
    text = await answer.text()
    for place, another in _PLACES.items():
        text = text.replace(place, another)
    await route.fulfill(response=answer, body=text)


async def _take(page: Page) -> None:
    end = await page.locator("#hot-keys").bounding_box()
    assert end is not None
    clip = {"x": 0.0, "y": 0.0, "width": _WIDTH, "height": end["y"] + end["height"] + 8}
    taken = Image.open(BytesIO(await page.screenshot(full_page=True, clip=clip)))
    taken.quantize(_COLOURS).save(PICTURE, optimize=True)


if __name__ == "__main__":
    asyncio.run(main())
