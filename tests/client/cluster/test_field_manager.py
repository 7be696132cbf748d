"""The name under which the writes of a block own fields."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.client.cluster import writing_as
from pyinformer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

_BODY: pyinformer.JSONObject = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "default"},
}


def managers(apiserver: APIServer) -> list[str]:
    return [one.query["fieldManager"] for one in apiserver.requests if one.method == "PATCH"]


async def test_the_name_ends_with_its_block_and_follows_its_tasks(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with writing_as("outer"):
            with writing_as("inner"):
                later = asyncio.ensure_future(cluster.apply(_BODY))
            await cluster.apply(_BODY)
            await later
        with pytest.raises(InvalidArgumentError, match="field_manager: must be given"):
            await cluster.apply(_BODY)
        assert sorted(managers(apiserver)) == ["inner", "outer"]


async def test_a_block_may_be_closed_from_another_context() -> None:
    """As a reconcile is that ignored its cancellation, at the end of the program."""

    async def waits() -> None:
        with writing_as("test"):
            await asyncio.sleep(0)

    waiting = waits()
    contextvars.copy_context().run(waiting.send, None)
    waiting.close()
