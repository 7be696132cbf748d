"""Readers beside the controllers: further informers, slow handlers, bounded and cancelled reads."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio

from pyinformer import CacheNotSyncedError, StaleCacheError
from tests.integration.chaos.claims import ready_claims
from tests.integration.chaos.controllers import WIDGETS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import Event, SharedInformer, SharedInformerFactory
    from pyinformer.testing.histories import Recorder

READERS = 3
MAX_AGES = (None, 0.5, 2.0, 10.0, 60.0)
SLOW_SECONDS = 0.005
LONGEST_WAIT_SECONDS = 0.5


class Readers:
    """Informers of all namespaces and of a selection, and tasks that read and wait at random."""

    def __init__(
        self, recorder: Recorder, factory: SharedInformerFactory, namespace: str, *, seed: int
    ) -> None:
        self._recorder = recorder
        self._namespace = namespace
        self._rng = random.Random(f"{seed} readers")
        self._informers: list[SharedInformer[Any]] = [
            factory.informer("v1", "configmaps"),
            factory.informer("v1", "configmaps", namespaces=namespace, label_selector="role=copy"),
            factory.informer(WIDGETS, "widgets"),
        ]
        for informer in self._informers:
            recorder.follow(informer, claims=ready_claims(informer))
        self._informers[0].add_event_handler(_slow)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read until the block is left."""
        async with anyio.create_task_group() as group:
            for _ in range(READERS):
                group.start_soon(self._read_again_and_again)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def _read_again_and_again(self) -> None:
        while True:
            informer = self._rng.choice(self._informers)
            role = self._rng.choice(("source", "copy-of-source", "widget"))
            key = f"{self._namespace}/{role}-{self._rng.randrange(60)}"
            with suppress(StaleCacheError, CacheNotSyncedError):
                self._recorder.read(informer, key, max_age_seconds=self._rng.choice(MAX_AGES))
            with suppress(TimeoutError), self._recorder.waiting(key):
                async with asyncio.timeout(self._rng.uniform(0.0, LONGEST_WAIT_SECONDS)):
                    await informer.wait_for(key, lambda _: False, timeout_seconds=100)


async def _slow(_event: Event[Any]) -> None:
    """Take its time with each event."""
    with anyio.move_on_after(SLOW_SECONDS):
        await anyio.sleep_forever()
