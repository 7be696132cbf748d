"""Loops for the tests of this folder: virtual time for those marked `virtual_time`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.informer.virtual_time import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", "virtual_time: runs on a loop that jumps to the next timer")


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Choose the loop of one test."""
    if item.get_closest_marker("virtual_time") is not None:
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}
