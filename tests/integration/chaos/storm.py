"""A storm: writers and controllers on a real kube-apiserver, under a schedule of faults.

Then everything heals and comes to rest, and the history of the run is judged.

The witness is etcd: its log is in the same history. The writers reach the server past the proxy.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pyinformer.errors import APIStatusError
from pyinformer.testing import (
    ChangingFacts,
    EtcdRelay,
    FaultLab,
    FaultProxy,
    FaultSchedule,
    ServerAddress,
)
from pyinformer.testing.histories import (
    EtcdTruth,
    FaultRecord,
    History,
    Record,
    Verdict,
    Version,
    check_history,
    read_history,
)
from tests.integration.chaos.account import token_of_account
from tests.integration.chaos.controllers import WIDGETS, differences
from tests.integration.chaos.program import REST_SECONDS, Program, Settings, put_file
from tests.integration.chaos.script import Script
from tests.integration.chaos.writers import (
    Definitions,
    Writer,
    all_written,
    collect_garbage,
    remove_widgets,
)
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyinformer.objects import JSONObject
    from pyinformer.testing import KubeAPIServer

WRITERS = 4
NOT_DRAWN = ("restore",)  # it takes half a minute
NOT_DRAWN_BESIDE = ("expired-token", "new-certificate")  # only our program gets the new ones
PAUSE_SECONDS = 0.01
RESOURCES = ("configmaps", "widgets.chaos.example.com")


class Beside(Protocol):
    """Another client that follows the config maps of a storm by the same proxy."""

    def rest(self, wanted: Mapping[str, Version], *, timeout_seconds: float = 100.0) -> bool:
        """Block until it shows what is wanted, and record what it shows, however that is then."""
        ...


StartBeside: TypeAlias = Callable[[History, FaultProxy, str], AbstractContextManager[Beside]]
"""Called with the namespace of the storm."""


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
    idle: tuple[str, ...]
    """The faults that met no request."""
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
        wrong = [f"wrong: {one}" for one in self.wrong[:20]]
        idle = [f"met no request: {', '.join(self.idle)}"] if self.idle else []
        return "\n".join([what, *idle, *wrong, str(self.verdict)])


@dataclass(frozen=True)
class Site:
    """What a storm runs on."""

    history: History
    server: KubeAPIServer
    relays: Sequence[EtcdRelay]
    truth: EtcdTruth
    proxy: FaultProxy
    definitions: Definitions
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
            history = stack.enter_context(History(self._part(".server.jsonl")))
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
            definitions = Definitions(server)
            facts = ChangingFacts(definitions, bindings=[binding], definitions=[RESOURCES[1]])
            beside = None
            if self._beside is not None:
                beside = stack.enter_context(self._beside(history, proxy, self._namespace))
            site = Site(history, server, relays, truth, proxy, definitions, facts, beside)
            outcome = self._live(site)
            remove_widgets(server, self._namespace)
            return outcome

    def _live(self, site: Site) -> Outcome:
        settings = self._settings(site)
        with Program.started(settings) as program:
            lab = site.lab(program)
            writers = [self._writer(site, number) for number in range(WRITERS)]
            for writer in writers:
                writer.fill()
            self._rage(lab, writers)
            program.ask("calm")
            healed_at = monotonic()
            # A lie strikes every list or watch: no reader is known to have got the truth.
            program.ask("settle", "audit" if self._script.lies else "")
            wrong = self._settled(site.server)
            recovered = None if wrong else monotonic() - healed_at
            site.truth.catch_up()
            iter(site.history)  # writes what is buffered, so that the program can read it
            imported = int(program.ask("rest", str(site.history.path)))
            if site.beside is not None:
                config_maps = site.server.list("v1", "configmaps", self._namespace)
                site.beside.rest(_versions(config_maps))
            written = all_written(site.server, self._namespace)
            report = program.report({one["metadata"]["uid"] for some in written for one in some})
        with History(self._path) as whole:
            rest = itertools.islice(site.history, imported, None)
            for record in sorted((*read_history(settings.history), *rest), key=_time):
                whole.add(record)
        return Outcome(
            script=self._script,
            writes=sum(one.writes for one in writers),
            faults=lab.faults,
            reconciles=report.reconciles,
            terms=report.terms,
            recovered_after_seconds=recovered,
            idle=tuple(idle_faults(whole)),
            wrong=(
                *wrong,
                *report.wrong,
                # A list that lies makes own writes vanish: without lies no read may miss one.
                *(() if self._script.lies else report.missed),
                *_reports_of_bugs(Path(settings.log)),
            ),
            verdict=check_history(whole),
        )

    def _part(self, suffix: str) -> Path:
        """Return the path of a file beside the history."""
        return self._path.with_suffix(suffix)

    def _settings(self, site: Site) -> Settings:
        """Write what the program trusts and knows, and return how it is started."""
        ca = b"" if site.proxy.ca_file is None else site.proxy.ca_file.read_bytes()
        return Settings(
            server=site.proxy.url,
            ca_file=str(put_file(self._part(".ca.pem"), ca.decode("ascii"))),
            token_file=str(put_file(self._part(".token"), site.proxy.token or "")),
            namespace=self._namespace,
            seed=self._script.seed,
            history=str(self._part(".program.jsonl")),
            began_at_seconds=monotonic() - site.history.now(),
            log=str(self._part(".log")),
            page_size=self._script.page_size,
            starts_without_descriptors=self._script.starts_without_descriptors,
        )

    def _writer(self, site: Site, number: int) -> Writer:
        always = threading.Event()
        always.set()
        return Writer(
            site.server,
            self._namespace,
            range(number, self._script.objects // 2, WRITERS),
            seed=self._script.seed * WRITERS + number,
            is_up=always,
            definitions=site.definitions,
        )

    def _rage(self, lab: FaultLab, writers: Sequence[Writer]) -> None:
        script = self._script
        left_out = NOT_DRAWN if self._beside is None else (*NOT_DRAWN, *NOT_DRAWN_BESIDE)
        names = [one for one in lab.names(lies=script.lies) if one not in left_out]
        schedule = script.schedule or FaultSchedule.drawn(
            names, seed=script.seed, seconds=script.seconds
        )
        stop = threading.Event()
        with ThreadPoolExecutor(len(writers)) as pool:
            running = [pool.submit(writer.run, stop, PAUSE_SECONDS) for writer in writers]
            try:
                lab.run(schedule)
            finally:
                stop.set()
        for one in running:
            one.result()

    def _settled(self, server: KubeAPIServer) -> list[str]:
        """Wait until nothing is wrong any more; return what still is."""
        wrong: list[str] = []

        def is_right() -> bool:
            try:
                collect_garbage(server, self._namespace)
                found = all_written(server, self._namespace)
            except APIStatusError as error:  # as while the storage of a definition begins again
                wrong[:] = [f"the server answers {error}"]
            else:
                wrong[:] = differences(*found, self._namespace)
            return not wrong

        poll(is_right, timeout_seconds=REST_SECONDS)
        return wrong


def idle_faults(history: Iterable[Record]) -> list[str]:
    """Name the faults of a history that no request has met."""
    records = (one for one in history if isinstance(one, FaultRecord))
    return [one.name for one in records if one.requests == 0]


def _versions(objects: Sequence[JSONObject]) -> dict[str, Version]:
    shown = (one["metadata"] for one in objects)
    return {
        f"{one['namespace']}/{one['name']}": Version(one["uid"], one["resourceVersion"])
        for one in shown
    }


def _time(record: Record) -> float:
    return record.at_seconds


def _reports_of_bugs(log: Path) -> list[str]:
    return [line for line in log.read_text().splitlines() if "This is a bug in pyinformer" in line]
