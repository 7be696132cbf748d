"""A program ends with the error of one of its parts, whenever that comes."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest

import pyinformer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyinformer.testing import APIServer


class PartFailedError(Exception):
    """What a part of a program raises."""


async def follow(url: str, namespaces: Sequence[str] | None) -> None:
    """Follow pods until cancelled."""
    async with (
        pyinformer.connect(server=url) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        factory.informer("v1", "pods", namespaces=namespaces)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        await asyncio.Event().wait()


async def fail(turns: int) -> None:
    """Fail after so many turns of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
    raise PartFailedError


async def program(url: str, turns: int, namespaces: Sequence[str] | None) -> None:
    """Follow, while another part fails; what `asyncio.run` does then is the subject."""
    await asyncio.gather(follow(url, namespaces), fail(turns))


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("namespaces", [None, ["a", "b"]], ids=["all", "two"])
@pytest.mark.parametrize("turns", range(16))
def test_a_program_whose_other_part_fails_while_a_factory_starts_ends_with_that_error(
    apiserver: APIServer, turns: int, namespaces: Sequence[str] | None
) -> None:
    with pytest.raises(PartFailedError):
        asyncio.run(program(apiserver.url, turns, namespaces))
    gc.collect()  # anyio's tasks that were cancelled before their first step
