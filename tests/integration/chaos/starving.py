"""A program of its own process, which a fault lab can leave without descriptors.

It follows config maps by an informer with a handler, an index and a controller, and writes a
history of it, with etcd's log beside. It reads commands from its input and prints an answer to
each. What it holds is compared with what it held before: there is no server in its process.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec

import pyinformer
from pyinformer.config import ClusterConfig
from pyinformer.testing.histories import EtcdTruth, FaultRecord, History, Recorder
from pyinformer.transport import TokenFileCredentials
from tests.integration.chaos.scripted import recorded

if TYPE_CHECKING:
    from pyinformer import SharedInformer

ROOT = Path(__file__).parents[3]
OUT_OF_DESCRIPTORS = "Too many open files"
_STANDARD = 3  # input, output and errors stay open, so that no lower number is ever free


class Settings(msgspec.Struct, frozen=True):
    """How it is started."""

    server: str
    ca_file: str
    token_file: str
    etcd_url: str
    namespace: str
    history: str
    log: str
    starts_without: bool
    """Whether it has no descriptors from the time on at which its informer starts."""


def starved(settings: Settings) -> list[str]:
    """Return the command that starts it, with ROOT on its path."""
    text = msgspec.json.encode(settings).decode()
    return [sys.executable, "-m", "tests.integration.chaos.starving", text]


class Starving:
    """The faults of the program, from outside of it."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program

    def ask(self, command: str) -> str:
        """Send a command, and return the answer."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(f"{command}\n")
        self._program.stdin.flush()
        return self._program.stdout.readline().rstrip()

    def log(self, record: FaultRecord) -> None:
        """Add a fault to its history."""
        self.ask(f"fault {msgspec.json.encode(record).decode()}")

    def take_descriptors(self) -> None:
        """Let every new descriptor fail."""
        self.ask("take")

    def give_descriptors(self) -> None:
        """End that."""
        self.ask("give")

    def block(self, seconds: float) -> None:
        """Refuse, as with all that other scenes have."""
        raise NotImplementedError

    def freeze(self, seconds: float) -> None:
        """Refuse."""
        raise NotImplementedError

    def step_clock(self, seconds: float) -> None:
        """Refuse."""
        raise NotImplementedError

    def renew_token(self, token: str) -> None:
        """Refuse."""
        raise NotImplementedError

    def renew_trust(self, ca_pem: bytes) -> None:
        """Refuse."""
        raise NotImplementedError


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


async def _obey(
    recorder: Recorder, truth: EtcdTruth, informer: SharedInformer[None], limit: _Descriptors
) -> None:
    """Carry out commands until the input ends."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        command, _, argument = line.rstrip().partition(" ")
        answer = "done"
        match command:
            case "take":
                limit.take()
            case "give":
                limit.give()
            case "fault":
                recorder.history.add(msgspec.json.decode(argument, type=FaultRecord))
            case "status":
                answer = str(informer.status()).replace("\n", " ")
            case "rest":
                await recorder.rest(truth)
            case _:
                raise AssertionError(line)
        print(answer, flush=True)  # noqa: T201 - the other process reads it


async def _main(settings: Settings) -> None:
    config = ClusterConfig(
        server=settings.server,
        ca_file=settings.ca_file,
        credentials=TokenFileCredentials(settings.token_file),
    )
    limit = _Descriptors()
    with (
        History(settings.history) as history,
        EtcdTruth(history, settings.etcd_url, resources=["configmaps"]) as truth,
    ):
        await asyncio.to_thread(truth.catch_up)
        async with (
            Recorder(history) as recorder,
            pyinformer.connect(config=config) as cluster,
            pyinformer.SharedInformerFactory(cluster) as factory,
        ):
            informer, controller = recorded(factory, recorder, settings.namespace)
            controllers = pyinformer.ControllerGroup(controller, factories=[factory])
            if settings.starts_without:
                limit.take()
            async with anyio.create_task_group() as group:
                # Beside the commands: what starts may wait for descriptors.
                group.start_soon(controllers.run)
                await _obey(recorder, truth, informer, limit)
                group.cancel_scope.cancel()


if __name__ == "__main__":
    given = msgspec.json.decode(sys.argv[1], type=Settings)
    logging.basicConfig(filename=given.log, level=logging.WARNING)
    asyncio.run(_main(given))
