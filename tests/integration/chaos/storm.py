"""A storm: writers and controllers on a real kube-apiserver, under a schedule of faults.

Then everything heals and comes to rest, and the history of the run is judged.

The witness is etcd: its log is in the same history. The writers reach the server past the proxy.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import urlsplit

import anyio

import pyinformer
from pyinformer._clock import monotonic
from pyinformer.config import ClusterConfig
from pyinformer.testing import (
    ChangingFacts,
    EtcdRelay,
    FaultLab,
    FaultProxy,
    FaultSchedule,
    ServerAddress,
)
from pyinformer.testing._polling import poll
from pyinformer.testing._tls import write_private
from pyinformer.testing.histories import (
    EtcdTruth,
    History,
    Recorder,
    Verdict,
    Version,
    check_history,
)
from pyinformer.transport import TokenFileCredentials
from tests.integration.chaos.account import token_of_account
from tests.integration.chaos.claims import held, sockets_to
from tests.integration.chaos.controllers import WIDGETS, Copies, Groups, Statuses, differences
from tests.integration.chaos.electors import Electors
from tests.integration.chaos.readers import Readers
from tests.integration.chaos.recording import Record
from tests.integration.chaos.script import Script
from tests.integration.chaos.writers import Writer, all_written, collect_garbage, remove_widgets
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyinformer.apimachinery import JSONObject
    from pyinformer.testing import KubeAPIServer

WRITERS = 3
# Without descriptors the lab itself would fail; a restore takes half a minute.
NOT_DRAWN = ("no-descriptors", "restore")
# A storm begins in a new process: what is imported and connected late is some 30 MiB, and the notes
# of the storm and its proxy grow in the same process. Smaller leaks show in the hours of the soak.
MEMORY_BYTES = 128 << 20
GOODBYE_SECONDS = 5.0  # of TLS connections that have been closed, on a busy machine
PAUSE_SECONDS = 0.01
REST_SECONDS = 180.0  # stale ages and backoff of up to half a minute, on a busy machine
RESOURCES = ("configmaps", "widgets.chaos.example.com")


class Beside(Protocol):
    """Another client that follows the config maps of a storm by the same proxy."""

    def rest(self, wanted: Mapping[str, Version], *, timeout_seconds: float = 100.0) -> bool:
        """Block until it shows what is wanted, and record what it shows, however that is then."""
        ...


StartBeside: TypeAlias = Callable[[History, FaultProxy, str], AbstractContextManager[Beside]]
"""Called with the namespace of the storm."""


class Program:
    """What a schedule does to the program under test."""

    def __init__(self, proxy: FaultProxy, path: Path) -> None:
        self.token_file: Path = write_private(path.with_suffix(".token"), proxy.token or "")
        trusted = proxy.ca_file
        self.ca_file: Path = path.with_suffix(".ca.pem")
        self.renew_trust(b"" if trusted is None else trusted.read_bytes())
        self._loop = asyncio.get_running_loop()
        self._clock = time.time

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
        write_private(self.token_file, token)

    def renew_trust(self, ca_pem: bytes) -> None:
        """Write the file that the connection reads again when a certificate is refused."""
        write_private(self.ca_file, ca_pem.decode("ascii"))

    def freeze(self, seconds: float) -> None:
        """Let another process stop this one; the lab, the proxy and the writers stand still too."""
        script = 'kill -STOP "$0"; sleep "$1"; kill -CONT "$0"'
        subprocess.run(["sh", "-c", script, str(os.getpid()), f"{seconds:.3f}"], check=True)

    def step_clock(self, seconds: float) -> None:
        """Let `time.time` of this process be ahead, for everything that runs in it."""
        clock = self._clock
        time.time = (lambda: clock() + seconds) if seconds else clock

    def end(self) -> None:
        """Remove its files."""
        self.token_file.unlink()
        self.ca_file.unlink()


@dataclass(frozen=True)
class Outcome:
    """What a storm was, and what became of it."""

    script: Script
    writes: int
    faults: int
    reconciles: int
    terms: int
    """How often a replica began to lead."""
    recovered_after_seconds: float | None
    """From the end of the last fault to the desired state; None if it was not reached."""
    wrong: tuple[str, ...]
    """What controllers and electors left wrong, and what a reconcile missed of its own writes."""
    verdict: Verdict

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return self.verdict.holds and not self.wrong

    def __str__(self) -> str:
        recovered = self.recovered_after_seconds
        shown = "never" if recovered is None else f"after {recovered:.1f} s"
        what = (
            f"seed {self.script.seed}: {self.script.flavour}; {self.script.seconds / 60:g} min, "
            f"{'lies' if self.script.lies else 'no lies'}, {self.writes} writes, "
            f"{self.faults} faults, {self.reconciles} reconciles, {self.terms} terms, "
            f"recovered {shown}"
        )
        return "\n".join([what, *(f"wrong: {one}" for one in self.wrong[:20]), str(self.verdict)])


@dataclass(frozen=True)
class Site:
    """What a storm runs on."""

    history: History
    server: KubeAPIServer
    relays: Sequence[EtcdRelay]
    truth: EtcdTruth
    proxy: FaultProxy
    facts: ChangingFacts
    beside: Beside | None = None

    def lab(self, program: Program) -> FaultLab:
        """Return the lab that strikes all of it."""
        return FaultLab(
            proxy=self.proxy,
            server=self.server,
            relays=self.relays,
            facts=self.facts,
            program=program,
            truth=self.truth,
            log=self.history.add,
        )

    def config(self, program: Program) -> ClusterConfig:
        """Return the way of the program to the server."""
        return ClusterConfig(
            server=self.proxy.url,
            ca_file=str(program.ca_file),
            credentials=TokenFileCredentials(program.token_file),
        )


class Storm:
    """One run.

    Args:
        script: what it is.
        path: the file of the history, which must not exist.
        beside: starts another client, which is judged as well; None for none.
    """

    def __init__(self, script: Script, path: Path, *, beside: StartBeside | None = None) -> None:
        self._script = script
        self._beside = beside
        self._path = path
        self._namespace = f"chaos-{script.seed}"

    def run(self, *, build: bool = True) -> Outcome:
        """Run it on a server of its own, and judge it.

        Args:
            build: whether the programs of the server may be built.
        """
        flavour = self._script.flavour
        with ExitStack() as stack:
            relays = [stack.enter_context(EtcdRelay()) for _ in range(flavour.replicas)]
            server = stack.enter_context(flavour.server(relays, build=build))
            return self.run_on(server, relays)

    def run_on(self, server: KubeAPIServer, relays: Sequence[EtcdRelay] = ()) -> Outcome:
        """Run it on a server that runs, in a namespace of its own, and judge it."""
        with ExitStack() as stack:
            history = stack.enter_context(History(self._path))
            history.add(self._script.record(self._path))
            server.register(WIDGETS, "Widget", "widgets", has_status=True)
            server.ensure_namespace(self._namespace)
            truth = EtcdTruth(history, server.etcd_url, resources=RESOURCES)
            binding = self._namespace
            token = token_of_account(server, self._namespace, binding=binding)
            address = ServerAddress(url=server.url, ca_file=server.ca_file, token=token)
            proxy = FaultProxy(
                address, ports=server.ports, reads_requests=True, seed=self._script.seed
            )
            stack.enter_context(truth)
            truth.catch_up()  # or it would be behind a cache that lists what was there before
            stack.enter_context(proxy)
            facts = ChangingFacts(server, bindings=[binding], definitions=[RESOURCES[1]])
            beside = None
            if self._beside is not None:
                beside = stack.enter_context(self._beside(history, proxy, self._namespace))
            site = Site(history, server, relays, truth, proxy, facts, beside)
            outcome = asyncio.run(self._live(site))
            remove_widgets(server, self._namespace)
            return outcome

    async def _live(self, site: Site) -> Outcome:
        program = Program(site.proxy, self._path)
        lab = site.lab(program)
        writers = [self._writer(site.server, number) for number in range(WRITERS)]
        port = urlsplit(site.proxy.url).port or 0
        site.history.add(held("baseline", port))
        async with (
            Recorder(site.history, counts_resources=False) as recorder,
            pyinformer.connect(config=site.config(program)) as cluster,
            pyinformer.SharedInformerFactory(cluster) as factory,
        ):
            record = Record(recorder)
            controllers = [
                kind(cluster, factory, self._namespace, record).controller
                for kind in (Copies, Groups, Statuses)
            ]
            electors = Electors(cluster, self._namespace)
            readers = Readers(recorder, factory, self._namespace, seed=self._script.seed)
            async with (
                pyinformer.ControllerGroup(*controllers, factories=[factory]),
                electors.running(),
            ):
                await asyncio.to_thread(_fill, writers)
                assert sockets_to(port), "the program has connections, which are to be counted"
                async with readers.running():
                    await self._rage(lab, writers)
                healed_at = monotonic()
                if self._script.lies:
                    # A lie strikes every list or watch: no reader is known to have got the truth.
                    await recorder.audit(timeout_seconds=REST_SECONDS)
                wrong = await asyncio.to_thread(self._settled, site.server)
                recovered = None if wrong else monotonic() - healed_at
                await electors.settle(REST_SECONDS)
                await recorder.rest(site.truth, timeout_seconds=REST_SECONDS)
                if site.beside is not None:
                    config_maps = site.server.list("v1", "configmaps", self._namespace)
                    await asyncio.to_thread(site.beside.rest, _versions(config_maps))
        with suppress(AssertionError):  # the checker reports what is left
            await until(lambda: not sockets_to(port), timeout_seconds=GOODBYE_SECONDS)
        site.history.add(held("rest", port))
        program.end()
        written = all_written(site.server, self._namespace)
        live = {one["metadata"]["uid"] for some in written for one in some}
        return Outcome(
            script=self._script,
            writes=sum(one.writes for one in writers),
            faults=lab.faults,
            reconciles=record.reconciles,
            terms=electors.terms,
            recovered_after_seconds=recovered,
            # A list that lies makes own writes vanish: without lies no read may miss one.
            wrong=(
                *wrong,
                *electors.wrong,
                *(() if self._script.lies else (*record.missed, *record.unseen(live))),
            ),
            verdict=check_history(site.history, memory_bytes=MEMORY_BYTES),
        )

    def _writer(self, server: KubeAPIServer, number: int) -> Writer:
        always = threading.Event()
        always.set()
        names = range(number, self._script.objects // 2, WRITERS)
        seed = self._script.seed * WRITERS + number
        return Writer(server, self._namespace, names, seed=seed, is_up=always)

    async def _rage(self, lab: FaultLab, writers: Sequence[Writer]) -> None:
        script = self._script
        names = [one for one in lab.names(lies=script.lies) if one not in NOT_DRAWN]
        schedule = script.schedule or FaultSchedule.drawn(
            names, seed=script.seed, seconds=script.seconds
        )
        stop = threading.Event()
        async with anyio.create_task_group() as group:
            for writer in writers:
                group.start_soon(asyncio.to_thread, writer.run, stop, PAUSE_SECONDS)
            try:
                await asyncio.to_thread(lab.run, schedule)
            finally:
                stop.set()

    def _settled(self, server: KubeAPIServer) -> list[str]:
        """Wait until nothing is wrong any more; return what still is."""
        wrong: list[str] = []

        def is_right() -> bool:
            collect_garbage(server, self._namespace)
            found = all_written(server, self._namespace)
            wrong[:] = differences(*found, self._namespace)
            return not wrong

        poll(is_right, timeout_seconds=REST_SECONDS)
        return wrong


def _versions(objects: Sequence[JSONObject]) -> dict[str, Version]:
    shown = (one["metadata"] for one in objects)
    return {
        f"{one['namespace']}/{one['name']}": Version(one["uid"], one["resourceVersion"])
        for one in shown
    }


def _fill(writers: Sequence[Writer]) -> None:
    for writer in writers:
        writer.fill()
