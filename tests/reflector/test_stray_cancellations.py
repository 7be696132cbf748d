"""A cancellation that is not of the reflector's task does not end the reflector.

Storms with a loop that is blocked for seconds left such ones: the task ended without an error, and
its informer was never current again.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from pyinformer.reflector import ReflectorOptions, ReflectorState
from tests.reflector.scripted import Pieces, ScriptedServer, following, silence
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.transport import Body

pytestmark = pytest.mark.virtual_time

END = (
    b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":'
    b'{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
)


@dataclass
class Straying(ScriptedServer):
    """The first request of a kind ends with a cancellation that no caller asked for."""

    strays_on: str = ""
    strayed: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def answer(self, path: str, query: dict[str, str]) -> AsyncIterator[Body]:
        """Answer, or stray."""
        kind = "watch" if "watch" in query else "list"
        kind = "watch-list" if "sendInitialEvents" in query else kind
        if kind == self.strays_on and not self.strayed:
            self.strayed.append(kind)
            raise asyncio.CancelledError
        async with super().answer(path, query) as body:
            yield body


async def loaded() -> Pieces:
    """Return an empty state, and then silence."""
    yield END
    await asyncio.Event().wait()


@pytest.mark.parametrize("kind", ["list", "watch", "watch-list"])
async def test_a_request_that_ends_with_a_stray_cancellation_is_made_again(kind: str) -> None:
    server = Straying(loaded, strays_on=kind)
    options = ReflectorOptions(use_watch_list=kind == "watch-list")
    async with following(server, options=options) as (reflector, _):
        await until(lambda: reflector.state is ReflectorState.WATCHING and server.strayed)
        assert server.strayed == [kind]
        assert "no caller asked for it" in str(reflector.journal.entries())


async def test_a_cancelled_reflector_ends() -> None:
    async with following(ScriptedServer(silence)) as (reflector, _):
        await until(lambda: reflector.state is ReflectorState.LOADING)
    assert reflector.state is ReflectorState.STOPPED
