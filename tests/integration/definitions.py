"""CustomResourceDefinitions that tests share a server for: each removes its own at the end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pyinformer
from pyinformer.errors import InvalidArgumentError
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

DEFINITIONS = ("apiextensions.k8s.io/v1", "customresourcedefinitions")


@asynccontextmanager
async def served(server: Server, definition: JSONObject) -> AsyncIterator[None]:
    """Serve a resource in the block."""
    name = definition["metadata"]["name"]
    await until(lambda: is_created(server, definition), timeout_seconds=100)
    try:
        yield
    finally:
        await asyncio.to_thread(server.api.delete, *DEFINITIONS, name)
        await until(lambda: is_gone(server, *DEFINITIONS, name), timeout_seconds=100)


def is_created(server: Server, body: JSONObject) -> bool:
    """Create an object; return False if this is not possible yet."""
    try:
        server.api.create(body)
    except (pyinformer.ConflictError, pyinformer.NotFoundError, InvalidArgumentError):
        return False  # an earlier one is being deleted, or the resource is served soon
    return True


def is_gone(server: Server, *of: str) -> bool:
    """Return whether there is no such object."""
    try:
        server.api.get(*of)
    except pyinformer.NotFoundError:
        return True
    return False
