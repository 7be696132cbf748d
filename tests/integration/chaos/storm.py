"""A storm: writers and controllers on a real kube-apiserver, under a schedule of faults.

Then everything heals and comes to rest, and the history of the run is judged.

The witness is etcd: its log is in the same history. The writers reach the server past the proxy.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

import pyinformer
from pyinformer._clock import monotonic
from pyinformer.config import ClusterConfig
from pyinformer.testing import EtcdRelay, FaultLab, FaultProxy, FaultSchedule
from pyinformer.testing._polling import poll
from pyinformer.testing._tls import write_private
from pyinformer.testing.histories import (
    EtcdTruth,
    History,
    Recorder,
    ResourcesRecord,
    RunRecord,
    Verdict,
    check_history,
)
from pyinformer.transport import TokenFileCredentials
from tests.integration.chaos.controllers import WIDGETS, Copies, Groups, Statuses, differences
from tests.integration.chaos.flavours import flavour_of
from tests.integration.chaos.readers import Readers
from tests.integration.chaos.recording import Record
from tests.integration.chaos.writers import Writer, all_written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyinformer.testing import KubeAPIServer

WRITERS = 3
OBJECTS = 240
PAUSE_SECONDS = 0.01
REST_SECONDS = 180.0  # stale ages and backoff of up to half a minute, on a busy machine
RESOURCES = ("configmaps", "widgets.chaos.example.com")


class Program:
    """What a schedule does to the program under test."""

    def __init__(self, loop: asyncio.AbstractEventLoop, token_file: Path) -> None:
        self._loop = loop
        self._token_file = token_file

    def block(self, seconds: float) -> None:
        """Keep the loop busy."""
        self._loop.call_soon_threadsafe(threading.Event().wait, seconds)

    def take_descriptors(self) -> None:
        """Refuse: the lab would lose its own."""
        raise NotImplementedError

    def give_descriptors(self) -> None:
        """Refuse: the lab would lose its own."""
        raise NotImplementedError

    def renew_token(self, token: str) -> None:
        """Write the file that the connection reads when a token is refused."""
        write_private(self._token_file, token)


@dataclass(frozen=True)
class Outcome:
    """What a storm was, and what became of it."""

    seed: int
    seconds: float
    flavour: str
    writes: int
    faults: int
    reconciles: int
    recovered_after_seconds: float | None
    """From the end of the last fault to the desired state; None if it was not reached."""
    wrong: tuple[str, ...]
    """What the controllers left wrong, and what a reconcile missed of its own writes."""
    verdict: Verdict

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return self.verdict.holds and not self.wrong

    def __str__(self) -> str:
        recovered = self.recovered_after_seconds
        shown = "never" if recovered is None else f"after {recovered:.1f} s"
        what = (
            f"seed {self.seed}: {self.flavour}; {self.seconds / 60:g} min, {self.writes} writes, "
            f"{self.faults} faults, {self.reconciles} reconciles, recovered {shown}"
        )
        return "\n".join([what, *(f"wrong: {one}" for one in self.wrong[:20]), str(self.verdict)])


class Storm:
    """One run.

    Args:
        seed: of the server's flavour, the writers and the faults.
        seconds: how long the faults last.
        path: the file of the history, which must not exist.
        lies: whether the server lies, too, after which caches are audited.
        schedule: the faults; None draws them.
        build: whether the programs of the server may be built.
    """

    def __init__(
        self,
        seed: int,
        seconds: float,
        path: Path,
        *,
        lies: bool = True,
        schedule: FaultSchedule | None = None,
        build: bool = True,
    ) -> None:
        self._seed = seed
        self._seconds = seconds
        self._path = path
        self._lies = lies
        self._schedule = schedule
        self._build = build

    def run(self) -> Outcome:
        """Run it, and judge it."""
        flavour = flavour_of(self._seed)
        with ExitStack() as stack:
            history = stack.enter_context(History(self._path))
            history.add(
                RunRecord(
                    command=f"make chaos SEED={self._seed} REPLAY={self._path}",
                    seed=str(self._seed),
                    versions={"server": str(flavour)},
                )
            )
            relays = [stack.enter_context(EtcdRelay()) for _ in range(flavour.replicas)]
            server = stack.enter_context(flavour.server(relays, build=self._build))
            server.register(WIDGETS, "Widget", "widgets", has_status=True)
            server.ensure_namespace("chaos")
            truth = EtcdTruth(history, server.etcd_url, resources=RESOURCES)
            stack.enter_context(truth)
            proxy = stack.enter_context(
                FaultProxy(server, ports=server.ports, reads_requests=True, seed=self._seed)
            )
            return asyncio.run(self._live(history, server, relays, truth, proxy))

    async def _live(
        self,
        history: History,
        server: KubeAPIServer,
        relays: Sequence[EtcdRelay],
        truth: EtcdTruth,
        proxy: FaultProxy,
    ) -> Outcome:
        token_file = self._path.with_suffix(".token")
        write_private(token_file, proxy.token or "")
        program = Program(asyncio.get_running_loop(), token_file)
        lab = FaultLab(proxy=proxy, server=server, relays=relays, program=program, log=history.add)
        config = ClusterConfig(
            server=proxy.url,
            ca_file=str(proxy.ca_file),
            credentials=TokenFileCredentials(token_file),
        )
        writers = [self._writer(server, number) for number in range(WRITERS)]
        history.add(ResourcesRecord(when="baseline", tasks=_tasks()))
        async with (
            Recorder(history, counts_resources=False) as recorder,
            pyinformer.connect(config=config) as cluster,
            pyinformer.SharedInformerFactory(cluster) as factory,
        ):
            record = Record(recorder)
            controllers = [
                kind(cluster, factory, "chaos", record).controller
                for kind in (Copies, Groups, Statuses)
            ]
            readers = Readers(recorder, factory, seed=self._seed)
            async with pyinformer.ControllerGroup(*controllers, factories=[factory]):
                await asyncio.to_thread(_fill, writers)
                async with readers.running():
                    await self._rage(lab, writers)
                healed_at = monotonic()
                if self._lies:
                    await recorder.audit(timeout_seconds=REST_SECONDS)
                wrong = await asyncio.to_thread(_settled, server)
                recovered = None if wrong else monotonic() - healed_at
                await recorder.rest(truth, timeout_seconds=REST_SECONDS)
        history.add(ResourcesRecord(when="rest", tasks=_tasks()))
        token_file.unlink()
        live = {one["metadata"]["uid"] for some in all_written(server, "chaos") for one in some}
        wrong += [*record.missed, *record.unseen(live)]
        return Outcome(
            seed=self._seed,
            seconds=self._seconds,
            flavour=str(flavour_of(self._seed)),
            writes=sum(one.writes for one in writers),
            faults=lab.faults,
            reconciles=record.reconciles,
            recovered_after_seconds=recovered,
            wrong=tuple(wrong),
            verdict=check_history(history),
        )

    def _writer(self, server: KubeAPIServer, number: int) -> Writer:
        always = threading.Event()
        always.set()
        names = range(number, OBJECTS // 2, WRITERS)
        return Writer(server, "chaos", names, seed=self._seed * WRITERS + number, is_up=always)

    async def _rage(self, lab: FaultLab, writers: Sequence[Writer]) -> None:
        names = [one for one in lab.names(lies=self._lies) if one != "no-descriptors"]
        schedule = self._schedule or FaultSchedule.drawn(
            names, seed=self._seed, seconds=self._seconds
        )
        stop = threading.Event()
        async with anyio.create_task_group() as group:
            for writer in writers:
                group.start_soon(asyncio.to_thread, writer.run, stop, PAUSE_SECONDS)
            try:
                await asyncio.to_thread(lab.run, schedule)
            finally:
                stop.set()


def _fill(writers: Sequence[Writer]) -> None:
    for writer in writers:
        writer.fill()


def _tasks() -> list[str]:
    current = asyncio.current_task()
    return sorted(
        getattr(task.get_coro(), "__qualname__", "")
        for task in asyncio.all_tasks()
        if task is not current
    )


def _settled(server: KubeAPIServer) -> list[str]:
    """Wait until nothing is wrong any more; return what still is."""
    wrong: list[str] = []

    def is_right() -> bool:
        wrong[:] = differences(*all_written(server, "chaos"), "chaos")
        return not wrong

    poll(is_right, timeout_seconds=REST_SECONDS)
    return wrong
