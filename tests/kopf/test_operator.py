"""kopf on pyinformer, as its handlers see it, against the embedded API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pyinformer.kopf
from pyinformer.testing import APIServer
from tests.kopf.operators import Events, operating, put, registry_of, remove
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        put(running, "a", "b")
        yield running


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    pyinformer.kopf.install()
    yield
    pyinformer.kopf.uninstall()


async def test_handlers_receive_lists_and_events_as_from_kopf(server: APIServer) -> None:
    events = Events()
    async with operating(registry_of(server, events)):
        await until(lambda: len(events.seen) == 2)
        put(server, "c")
        put(server, "a", team="x")
        remove(server, "b")
        await until(lambda: len(events.seen) == 5)
    assert events.types_of("a") == [None, "MODIFIED"]
    assert events.types_of("b") == [None, "DELETED"]
    assert events.types_of("c") == ["ADDED"]
