"""An object with half of a surrogate pair: it is cached, and stops no other object."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from pyinformer.cache.reflector import ReflectorOptions
from tests.cache.reflector.samples import bookmark, line, pod_bytes
from tests.cache.reflector.scripted import Pieces, ScriptedBody, ScriptedServer, following, silence
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.client.transport import Body

pytestmark = pytest.mark.virtual_time

HALF = rb"\ud800"


def pod(name: str, version: str) -> dict[str, object]:
    return json.loads(pod_bytes(name, version))  # type: ignore[no-any-return] # it is one


def halved(text: bytes) -> bytes:
    """Put the half where the version of a node name is."""
    return text.replace(b'"nodeName":"91"', b'"nodeName":"' + HALF + b'"')


class Halving(ScriptedServer):
    """A server that lists `b` with the half, and then sends changes of all objects."""

    @asynccontextmanager
    async def answer(self, path: str, query: dict[str, str]) -> AsyncIterator[Body]:
        """Answer a list or a watch."""
        pieces = self._changes() if "watch" in query else self._halved(path, query)
        try:
            yield ScriptedBody(pieces)
        finally:
            await pieces.aclose()

    async def _halved(self, path: str, query: dict[str, str]) -> Pieces:
        async for piece in self._list(path, query):
            yield halved(piece)

    async def _changes(self) -> Pieces:
        event = line("MODIFIED", "b", "101").replace(b'"101"}}}', b'"' + HALF + b'"}}}')
        assert HALF in event
        odd = event.replace(b'{"type"', b'{ "type"').replace(b'"101"', b'"102"')
        yield b"".join(
            one + b"\n" for one in (event, line("MODIFIED", "a", "101"), odd, bookmark("103"))
        )
        await asyncio.Event().wait()


async def test_an_object_with_half_a_character_is_cached_and_stops_no_other() -> None:
    server = Halving(silence, pods=[pod("a", "90"), pod("b", "91"), pod("c", "92")])
    options = ReflectorOptions(use_watch_list=False)
    async with following(server, options=options) as (reflector, sink):
        await until(lambda: reflector.position == "103")
        assert sink.versions() == {"a": "101", "b": "102", "c": "92"}
        assert sink.objects["b"].at("spec.nodeName") == "\ufffd"
        assert reflector.status().loads == 1
