"""A 404 that discovery does not confirm: few requests until it is over, and a load soon after.

The times are virtual.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from msgspec import json

from pyinformer.cache.reflector import ReflectorOptions, ReflectorState, RequestBudget
from pyinformer.errors import APIStatusError, status_error_class
from pyinformer.objects import GroupVersionResource
from tests.cache.reflector.scripted import ScriptedBody, ScriptedConnection, following, silence
from tests.virtual_time import elapse
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.cache.reflector import Reflector
    from pyinformer.client.transport import Body
    from tests.cache.reflector.samples import DictSink
    from tests.cache.reflector.scripted import Pieces

pytestmark = pytest.mark.virtual_time

GROUP = "example.com"
VERSION = f"/apis/{GROUP}/v1"
WIDGETS = GroupVersionResource.of(f"{GROUP}/v1", "widgets")
INFORMERS = 40
LONGEST_SECONDS = 30.0  # as client-go's


def refusal(status: int, retry_after_seconds: float | None = None) -> APIStatusError:
    """Return the error of a status."""
    return status_error_class(status)(status=status, retry_after_seconds=retry_after_seconds)


class Gateway(ScriptedConnection):
    """Answers lists and watches with 404, and discovery with errors."""

    def __init__(self, **by_path: APIStatusError) -> None:
        self.is_served = False
        self.answer_seconds = 0.0
        self.discovery: APIStatusError = by_path.get("discovery", refusal(404))
        self.groups: APIStatusError = by_path.get("groups", self.discovery)
        self.asked: list[tuple[float, str]] = []

    def since(self, at: float) -> list[str]:
        """Return the paths that were requested from an instant on."""
        return [path for asked_at, path in self.asked if asked_at >= at]

    @asynccontextmanager
    async def answer(self, path: str, query: dict[str, str]) -> AsyncIterator[Body]:
        """Refuse all but what is served."""
        loop = asyncio.get_running_loop()
        self.asked.append((loop.time(), path))
        if path in {"/apis", VERSION}:
            if self.answer_seconds:
                await elapse(self.answer_seconds)
            raise self.groups if path == "/apis" else self.discovery
        if not self.is_served:
            raise refusal(404)
        pieces = silence() if "watch" in query else self._list()
        try:
            yield ScriptedBody(pieces)
        finally:
            await pieces.aclose()

    async def _list(self) -> Pieces:
        meta = {"name": "a", "namespace": "default", "resourceVersion": "5"}
        item = {"kind": "Widget", "apiVersion": f"{GROUP}/v1", "metadata": meta}
        body = {"kind": "WidgetList", "apiVersion": f"{GROUP}/v1", "items": [item]}
        yield json.encode({**body, "metadata": {"resourceVersion": "9"}})


GATEWAYS = [
    pytest.param(Gateway, id="404-for-every-path"),
    pytest.param(lambda: Gateway(discovery=refusal(403)), id="discovery-is-forbidden"),
    pytest.param(lambda: Gateway(discovery=refusal(503)), id="discovery-is-unavailable"),
    pytest.param(lambda: Gateway(groups=refusal(403)), id="groups-are-forbidden"),
]
BY_PAGES = ReflectorOptions(use_watch_list=False)


@asynccontextmanager
async def informers(
    gateway: Gateway, count: int = INFORMERS
) -> AsyncIterator[list[tuple[Reflector[None], DictSink]]]:
    """Run reflectors of one connection."""
    budget = RequestBudget()
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                following(gateway, resource=WIDGETS, budget=budget, options=BY_PAGES)
            )
            for _ in range(count)
        ]


@pytest.mark.parametrize("gateway_of", GATEWAYS)
async def test_requests_become_rare_while_no_answer_confirms_a_404(
    gateway_of: type[Gateway],
) -> None:
    gateway = gateway_of()
    async with informers(gateway):
        await elapse(120.0)
        before = asyncio.get_running_loop().time()
        await elapse(300.0)
    # The delays are between 0.2 s and 30 s: each informer loads once in 15 s on average.
    assert len(gateway.since(before)) < 2 * INFORMERS * 300 / 15


@pytest.mark.parametrize("gateway_of", GATEWAYS)
async def test_informers_of_a_connection_share_an_answer_that_confirms_nothing(
    gateway_of: type[Gateway],
) -> None:
    gateway = gateway_of()
    async with informers(gateway):
        await elapse(0.1)  # less than the first delay
        assert gateway.since(0).count(VERSION) == 1
        await elapse(300.0)
        assert gateway.since(0).count(VERSION) <= 300 / 5 + 20


@pytest.mark.parametrize("gateway_of", GATEWAYS)
async def test_informers_that_ask_at_once_send_one_question(gateway_of: type[Gateway]) -> None:
    gateway = gateway_of()
    gateway.answer_seconds = 3.0
    async with informers(gateway):
        await elapse(2.0)
        assert gateway.since(0).count(VERSION) == 1


@pytest.mark.parametrize("gateway_of", GATEWAYS)
@pytest.mark.parametrize("after_seconds", [1.0, 10.0, 1000.0])
async def test_a_resource_that_is_served_after_an_unconfirmed_404_is_loaded(
    gateway_of: type[Gateway], after_seconds: float
) -> None:
    gateway, now = gateway_of(), asyncio.get_running_loop().time
    async with informers(gateway, 3) as running:
        await elapse(after_seconds)
        assert {one.state for one, _ in running} == {ReflectorState.ABSENT}
        gateway.is_served = True
        served_at = now()
        await until(lambda: all(sink.versions() for _, sink in running))
        assert now() - served_at <= LONGEST_SECONDS + 1


async def test_the_question_of_an_informer_that_ends_is_asked_by_another() -> None:
    gateway = Gateway()
    gateway.answer_seconds = 3.0
    budget = RequestBudget()
    async with AsyncExitStack() as stack:
        following_it = following(gateway, resource=WIDGETS, budget=budget, options=BY_PAGES)
        async with following_it:
            await elapse(1.0)
            for _ in range(2):
                await stack.enter_async_context(
                    following(gateway, resource=WIDGETS, budget=budget, options=BY_PAGES)
                )
            await elapse(1.0)
            assert gateway.since(0).count(VERSION) == 1
        await elapse(1.0)
        assert gateway.since(0).count(VERSION) > 1


async def test_a_discovery_that_asks_to_wait_is_obeyed() -> None:
    gateway = Gateway(discovery=refusal(503, 50.0))
    async with informers(gateway, 1):
        await elapse(49.0)
        assert gateway.since(0).count(VERSION) == 1
        await elapse(2.0)
        assert gateway.since(0).count(VERSION) == 2
