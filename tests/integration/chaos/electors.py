"""Two replicas that compete for one Lease, and a note of each moment in which both lead."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from pyinformer import LeaderElector
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import Cluster
    from pyinformer.leaderelection import Term

LEASE = "chaos"


class Electors:
    """The replicas of one program; they share its connection."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._electors = [
            LeaderElector(cluster, LEASE, namespace=namespace, identity=name) for name in ("a", "b")
        ]
        self._leading = 0
        self.terms = 0
        """How often one of them began to lead."""
        self.wrong: list[str] = []
        """What must not be."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Compete until the block is left."""
        async with anyio.create_task_group() as group:
            for elector in self._electors:
                await group.start(elector.run, self._lead)
            yield
            group.cancel_scope.cancel()

    async def _lead(self, term: Term) -> None:
        self.terms += 1
        if self._leading:
            self.wrong.append(f"two replicas lead at once, one by {term}")
        self._leading += 1
        try:
            await anyio.sleep_forever()
        finally:
            self._leading -= 1

    async def settle(self, timeout_seconds: float) -> None:
        """Wait until one of them leads."""
        try:
            await until(lambda: self._leading, timeout_seconds=timeout_seconds)
        except AssertionError:
            self.wrong.append("no replica leads")
