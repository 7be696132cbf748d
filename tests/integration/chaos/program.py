"""The program of a storm, in a process of its own: what strikes it strikes nothing else.

Three controllers, two electors and readers follow a server. It reads commands from its input,
prints a line for each, and writes a history of its own. The server and the proxy run in other
processes, so what it holds at its end is compared with what it held at its start.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import resource
import signal
import sys
import threading
import time
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, final

import anyio
import msgspec

import pyinformer
from pyinformer.cache import ReflectorOptions
from pyinformer.client import ClusterConfig
from pyinformer.client.transport import TokenFileCredentials
from pyinformer.testing.histories import History, Recorder, read_history
from tests.integration.chaos.controllers import Copies, Groups, Statuses
from tests.integration.chaos.electors import Electors
from tests.integration.chaos.readers import Readers
from tests.integration.chaos.recording import Record
from tests.programs import running

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Collection, Iterator
    from typing import Self

ROOT = Path(__file__).parents[3]
REST_SECONDS = 180.0  # stale ages and backoff of up to half a minute, on a busy machine
_LONGEST_LINE_BYTES = 1 << 20  # the uids of all objects
_STANDARD = 3  # input, output and errors stay open, so that no lower number is ever free


def put_file(path: Path, text: str) -> Path:
    """Replace a file at once, so that its reader never sees half of it, and return its path."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    return beside.replace(path)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How it is started."""

    server: str
    ca_file: str
    token_file: str
    namespace: str
    seed: int
    history: str
    began_at_seconds: float
    """The monotonic time, which is that of the system, at which the storm's history began."""
    log: str
    page_size: int = 0
    """Of how many objects the pages are in which its informers list; 0 for watch-lists."""
    starts_without_descriptors: bool = False
    """Whether it has none from before it connects, until they are given back."""

    def options(self) -> ReflectorOptions | None:
        """Return how its informers list."""
        if not self.page_size:
            return None
        return ReflectorOptions(use_watch_list=False, page_size=self.page_size)

    def command(self) -> list[str]:
        """Return the command that starts it, with ROOT on its path."""
        text = msgspec.json.encode(self).decode()
        return [sys.executable, "-m", "tests.integration.chaos.program", text]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What it says of itself at its end."""

    reconciles: int
    terms: int
    """How often a replica began to lead."""
    missed: list[str]
    """What a reconcile missed of its own writes."""
    wrong: list[str]
    """What electors did wrong."""


class _Descriptors:
    """The limit of this process."""

    def __init__(self) -> None:
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def take(self) -> None:
        """Allow none beyond the standard ones; what is open stays open."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (_STANDARD, self._limits[1]))

    def give(self) -> None:
        """Allow as many as at first."""
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)


@final
class _Commands:
    """The commands that arrive; those of faults are obeyed at once."""

    def __init__(self, descriptors: _Descriptors) -> None:
        self._descriptors = descriptors
        self._clock = time.time
        self._send, self._receive = anyio.create_memory_object_stream[tuple[str, str]](8)

    async def obey(self) -> None:
        """Read until the input ends, which ends the program."""
        reader = asyncio.StreamReader(limit=_LONGEST_LINE_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        while line := await reader.readline():
            command, _, argument = line.decode().rstrip().partition(" ")
            match command:
                case "block":
                    answer("blocked")
                    threading.Event().wait(float(argument))
                case "clock":
                    self._step_clock(float(argument))
                    answer("stepped")
                case "take":
                    self._descriptors.take()
                    answer("taken")
                case "give":
                    self._descriptors.give()
                    answer("given")
                case _:
                    await self._send.send((command, argument))
        sys.exit("the input has ended")

    async def wait(self, expected: str) -> str:
        """Wait for a command that is not a fault; return its argument."""
        command, argument = await self._receive.receive()
        assert command == expected, command
        return argument

    def _step_clock(self, seconds: float) -> None:
        """Let `time.time` be ahead, for everything that runs in this process."""
        clock = self._clock
        time.time = (lambda: clock() + seconds) if seconds else clock


class _Truth:
    """The truth that another process has written to a file."""

    def __init__(self, history: History, path: str) -> None:
        self._history = history
        self._path = path
        self.imported = 0

    def catch_up(self) -> int:
        """Add all of its records, with the times that they have; return how many."""
        for record in read_history(self._path):
            self._history.add(record)
            self.imported += 1
        return self.imported


def answer(text: str) -> None:
    """Answer a command."""
    print(text, flush=True)  # noqa: T201 - the other process reads it


async def _main(settings: Settings) -> None:
    config = ClusterConfig(
        server=settings.server,
        ca_file=settings.ca_file,
        credentials=TokenFileCredentials(settings.token_file),
    )
    descriptors = _Descriptors()
    commands = _Commands(descriptors)
    clock = itertools.chain((settings.began_at_seconds,), iter(monotonic, None)).__next__
    async with anyio.create_task_group() as group:
        with History(settings.history, clock=clock) as history:
            group.start_soon(commands.obey)
            async with (
                Recorder(history) as recorder,
                pyinformer.connect(config=config) as cluster,
                pyinformer.SharedInformerFactory(cluster, options=settings.options()) as factory,
            ):
                record = Record(recorder)
                controllers = [
                    kind(cluster, factory, settings.namespace, record).controller
                    for kind in (Copies, Groups, Statuses)
                ]
                electors = Electors(cluster, settings.namespace)
                readers = Readers(recorder, factory, settings.namespace, seed=settings.seed)
                async with AsyncExitStack() as stack:
                    if settings.starts_without_descriptors:
                        descriptors.take()
                        answer("starting")
                    for one in (
                        pyinformer.ControllerGroup(*controllers, factories=[factory]),
                        electors.running(),
                    ):
                        await stack.enter_async_context(one)
                    if not settings.starts_without_descriptors:
                        answer("started")
                    async with readers.running():
                        await commands.wait("calm")
                    answer("calm")
                    if await commands.wait("settle") == "audit":
                        await recorder.audit(timeout_seconds=REST_SECONDS)
                    answer("settled")
                    truth = _Truth(history, await commands.wait("rest"))
                    await electors.settle(REST_SECONDS)
                    await recorder.rest(truth, timeout_seconds=REST_SECONDS)
                    answer(str(truth.imported))
                    live = msgspec.json.decode(await commands.wait("end"), type=set[str])
        answer(msgspec.json.encode(_report(record, electors, live)).decode())
        group.cancel_scope.cancel()


def _report(record: Record, electors: Electors, live: Collection[str]) -> Report:
    return Report(
        reconciles=record.reconciles,
        terms=electors.terms,
        missed=[*record.missed, *record.unseen(live)],
        wrong=electors.wrong,
    )


@final
class Program:
    """The program from outside: what a schedule does to it, and what a storm asks of it."""

    def __init__(self, settings: Settings, process: subprocess.Popen[str]) -> None:
        self._settings = settings
        self._process = process
        self._lock = threading.Lock()

    @classmethod
    @contextmanager
    def started(cls, settings: Settings) -> Iterator[Self]:
        """Start it, and wait for its first line; the files that it reads are there."""
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        with running(settings.command(), env=env) as process:
            program = cls(settings, process)
            program._read()
            yield program

    def ask(self, command: str, argument: str = "") -> str:
        """Send a command, and return the answer; from any thread."""
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{command} {argument}\n")
            self._process.stdin.flush()
            return self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the program has ended; its log is {self._settings.log}"
        return line.rstrip()

    def report(self, live: Collection[str]) -> Report:
        """End the program, and return what it says of itself.

        Args:
            live: the uids of all objects that there are.
        """
        text = self.ask("end", msgspec.json.encode(sorted(live)).decode())
        return msgspec.json.decode(text, type=Report)

    def block(self, seconds: float) -> None:
        """Keep the loop busy."""
        self.ask("block", str(seconds))

    def take_descriptors(self) -> None:
        """Let every new descriptor fail."""
        self.ask("take")

    def give_descriptors(self) -> None:
        """End that."""
        self.ask("give")

    def renew_token(self, token: str) -> None:
        """Write the file that the connection reads when a token is refused."""
        put_file(Path(self._settings.token_file), token)

    def renew_trust(self, ca_pem: bytes) -> None:
        """Write the file that the connection reads again when a certificate is refused."""
        put_file(Path(self._settings.ca_file), ca_pem.decode("ascii"))

    def freeze(self, seconds: float) -> None:
        """Stop its process, and continue it after so long."""
        os.kill(self._process.pid, signal.SIGSTOP)
        threading.Event().wait(seconds)
        os.kill(self._process.pid, signal.SIGCONT)

    def step_clock(self, seconds: float) -> None:
        """Let its wall clock be so far ahead."""
        self.ask("clock", str(seconds))


if __name__ == "__main__":
    given = msgspec.json.decode(sys.argv[1], type=Settings)
    logging.basicConfig(filename=given.log, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("pyinformer.cache.reflector").setLevel(logging.DEBUG)  # how ages were proven
    asyncio.run(_main(given))
