"""A pool in a storm: functions that fail, hang, panic and break, and users who give up at random.

Whatever happens: no cluster is opened twice at a time, no call outlasts its timeout, the status
is correct, and in the end nothing is left and the pool still works.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import pytest

import pyinformer
from pyinformer import ClusterPool
from pyinformer.errors import ClusterUnavailableError
from tests.virtual_time import elapse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import Cluster

pytestmark = pytest.mark.virtual_time

NAMES = "abc"
USERS = 30
A_LOOK_SECONDS = 0.6  # a timeout may be exceeded by a last look


class Panic(BaseException):
    """What extensions in other languages raise."""


class Storm:
    """Functions of a pool which do anything."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.open: dict[str, int] = dict.fromkeys(NAMES, 0)
        self.most = 0

    async def _anything(self) -> None:
        if self.rng.random() < 0.25:
            await elapse(self.rng.choice((0.0, 0.5, 3.0, 200.0)))
        match self.rng.randrange(50):
            case 0 | 1:
                raise ValueError("an error")
            case 2:
                raise Panic("a panic")
            case 3:
                raise BaseExceptionGroup("some", [Panic("a panic")])
            case 4:
                task = asyncio.create_task(asyncio.Event().wait())
                task.cancel()
                await task

    @asynccontextmanager
    async def connect(self, name: str) -> AsyncIterator[Cluster]:
        """Connect to a server that is never asked anything."""
        await self._anything()
        async with pyinformer.connect(server="http://127.0.0.1:9", name=name) as cluster:
            yield cluster
            await self._anything()

    @asynccontextmanager
    async def follow(self, cluster: Cluster) -> AsyncIterator[str]:
        """Open something that breaks after a while, or ends without a word."""
        await self._anything()
        name = cluster.name
        self.open[name] = self.open.get(name, 0) + 1
        self.most = max(self.most, self.open[name])
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._break, group.cancel_scope)
                yield name
                group.cancel_scope.cancel()
        finally:
            try:
                await self._anything()
            finally:
                self.open[name] -= 1

    async def _break(self, scope: anyio.CancelScope) -> None:
        await elapse(self.rng.choice((1.0, 10.0, 1000.0)))
        if self.rng.random() < 0.5:
            raise OSError("it broke")
        scope.cancel()

    async def ready(self, _: str, __: float) -> None:
        """Be ready sometime."""
        await self._anything()

    async def use(self, pool: ClusterPool[str]) -> None:
        """Be one of those who ask for clusters."""
        for _ in range(self.rng.randrange(1, 8)):
            name = self.rng.choice(NAMES)
            match self.rng.randrange(5):
                case 0:
                    await pool.evict(name)
                case 1:
                    await elapse(self.rng.uniform(0.0, 3.0))
                case _:
                    await self._get(pool, name, self.rng.choice((0.0, 0.3, 2.0, 30.0)))

    async def _get(self, pool: ClusterPool[str], name: str, seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            assert await pool.get(name, timeout_seconds=seconds) == name
        except ClusterUnavailableError:
            pass
        finally:
            assert clock() - began <= seconds + A_LOOK_SECONDS

    def check(self, pool: ClusterPool[str]) -> None:
        """Check that the status is correct."""
        for one in pool.status():
            assert (one.retry_after_seconds is not None) == (one.state == "failed")
            assert bool(one.reason) == (one.state != "open")
            if one.state == "open":
                assert self.open[one.name] == 1
                assert one.last_error is None


@pytest.mark.parametrize("seed", range(12))
async def test_after_random_operations_a_pool_works_and_its_status_is_right(seed: int) -> None:
    rng = random.Random(seed)
    storm = Storm(rng)
    pool = ClusterPool(storm.follow, connect=storm.connect, ready=storm.ready, rng=rng)
    before = len(asyncio.all_tasks())
    async with pool:
        users = [asyncio.create_task(storm.use(pool)) for _ in range(USERS)]
        for _ in range(25):
            await elapse(rng.random())
            rng.choice(users).cancel()
            storm.check(pool)
        await asyncio.wait(users)
        for user in users:
            if not user.cancelled():
                user.result()
        assert not any(one.waiters for one in pool.status())
        assert await works(pool)
    assert storm.most == 1
    assert not any(storm.open.values())
    assert len(asyncio.all_tasks()) == before


async def works(pool: ClusterPool[str]) -> bool:
    """Ask for new clusters until one was opened."""
    for number in range(60):
        try:
            await pool.get(f"new-{number}", timeout_seconds=30.0)
        except ClusterUnavailableError:
            continue
        return True
    return False
