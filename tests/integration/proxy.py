"""A FaultProxy in front of a server under test, for the lifetimes of one `async with`."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pyinformer.testing import FaultProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from pyinformer.testing import APIServer, KubeAPIServer


@asynccontextmanager
async def proxying(
    api: APIServer | KubeAPIServer,
    *,
    ports: Sequence[int] = (),
    cut_after: Callable[[], int] | None = None,
) -> AsyncIterator[FaultProxy]:
    """Run a proxy in front of a server, or of several ports of it, until the block is left."""
    with FaultProxy(api, ports=ports) as proxy:
        if cut_after is not None:
            proxy.cut_after(cut_after)
        yield proxy
