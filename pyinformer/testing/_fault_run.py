"""`FaultRun`: a program of a test under faults, recorded from its start and judged at its end."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self, final

from anyio import to_thread

from pyinformer._runtime.tasks import run_shielded
from pyinformer.errors import InvalidArgumentError
from pyinformer.testing._connector import Connector
from pyinformer.testing.faults import FaultLab, FaultSchedule
from pyinformer.testing.histories import History, Recorder, ServerTruth, check_history

if TYPE_CHECKING:
    import os

    from pyinformer.client.cluster import Cluster
    from pyinformer.testing.apiserver.server import APIServer
    from pyinformer.testing.faults import FaultProxy


@final
class FaultRun:
    """What a program needs to run under faults; the `under_faults` fixture begins one.

        async def test_my_controller_under_faults(apiserver, under_faults):
            async with under_faults() as run, SharedInformerFactory(run.cluster) as factory:
                pods = factory.informer("v1", "pods")
                run.recorder.follow(pods)
                await factory.start()
                ...
                await run.rest()

    Faults strike from the start of the block on.
    """

    def __init__(
        self,
        cluster: Cluster,
        recorder: Recorder,
        truth: ServerTruth,
        storm: Future[None],
    ) -> None:
        self.cluster = cluster
        """The connection of the program, by way of the proxy that breaks it."""

        self.recorder = recorder
        """Follows informers, and records reconciles, reads and waits."""

        self._truth = truth
        self._storm = storm

    @classmethod
    @asynccontextmanager
    async def begin(
        cls,
        server: APIServer,
        proxy: FaultProxy,
        path: str | os.PathLike[str],
        *,
        faults: FaultSchedule | None = None,
        seed: int = 1,
        seconds: float = 10.0,
    ) -> AsyncIterator[Self]:
        """Strike a program with faults, and judge what it did at the end of the block.

        Args:
            server: the embedded server, which the test writes to.
            proxy: the proxy in front of it, with `reads_requests`.
            path: where the history goes; a file that does not exist yet.
            faults: the faults; None draws all that the proxy can do, without lies.
            seed: the same seed draws the same faults.
            seconds: when the last fault that is drawn has ended.

        Raises:
            AssertionError: the program broke a promise, and the message has the shortest story of
                each; or no informer was followed until `rest`.
            InvalidArgumentError: so few seconds have no fault, which proves nothing.

        Cancellation:
            The faults end and are healed; nothing is judged.
        """
        stop = threading.Event()
        with History(path) as history, ThreadPoolExecutor(1) as thread:
            lab = FaultLab(proxy=proxy, log=history.add)
            if faults is None:
                faults = FaultSchedule.drawn(lab.names(), seed=seed, seconds=seconds)
            if not len(faults):
                raise InvalidArgumentError("seconds", f"must have a fault, got none in {seconds}")
            # The server has its sockets in this process, so that they cannot be counted.
            async with (
                Recorder(history, counts_resources=False) as recorder,
                Connector(lambda: server)(proxy) as cluster,
            ):
                with ServerTruth(history, server) as truth:
                    storm = thread.submit(lab.run, faults, stop)
                    try:
                        yield cls(cluster, recorder, truth, storm)
                    finally:
                        stop.set()
                        await run_shielded("the end of faults", to_thread.run_sync(storm.exception))
            storm.result()
            verdict = await to_thread.run_sync(check_history, history)
            if "rested" not in verdict.records:
                # The checker judges what is in the history: an empty one breaks no promise.
                message = "nothing was judged: follow an informer, and await rest() while it runs"
                raise AssertionError(message)
            if not verdict.holds:
                raise AssertionError(f"{verdict}\nthe history is in {path}")

    @property
    def has_calmed(self) -> bool:
        """Whether the last fault has ended."""
        return self._storm.done()

    async def rest(self, *, timeout_seconds: float = 100.0) -> None:
        """Wait for the last fault, then until every cache and reconcile is up to date.

        Call it when all writers have ended, and before the program does.

        Args:
            timeout_seconds: how long the program may take after the last fault.

        Raises:
            Exception: a fault could not be carried out.

        Cancellation:
            Safe.
        """
        await to_thread.run_sync(self._storm.result, abandon_on_cancel=True)
        await self.recorder.rest(self._truth, timeout_seconds=timeout_seconds)
