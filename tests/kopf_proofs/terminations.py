"""SIGTERM to `kopf run` in a process of its own: idle, paused by peering, and busy with objects."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from pyinformer.testing import APIServer
from tests.kopf_proofs.outages import (
    PEERINGS,
    Outage,
    make_maps,
    names,
    pause,
    serve_peering,
)
from tests.kopf_proofs.outcomes import Fact, Outcome
from tests.kopf_proofs.stages import open_watches
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kopf_proofs.stages import Stage

_PROGRAMS = Path(__file__).parent / "programs"
_MODULE = "tests.kopf_proofs.programs.handlers"
_ROOT = Path(__file__).parents[2]
_SECONDS = 100.0
_NOISE = re.compile(r"Traceback|\[ERROR|was never retrieved|was destroyed|never awaited")


class Program:
    """A running `kopf run`, and what it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for(self, text: str) -> None:
        """Wait until a line contains a text."""
        assert poll(lambda: self.has_printed(text), timeout_seconds=_SECONDS), self.lines

    def has_printed(self, text: str) -> bool:
        """Return whether a line contains a text."""
        return any(text in line for line in list(self.lines))

    def terminate(self) -> Outcome:
        """Send SIGTERM, wait for the end, and return how it was."""
        began = monotonic()
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(_SECONDS)
        seconds = monotonic() - began
        self._reader.join()
        noise = sum(bool(_NOISE.search(line)) for line in self.lines)
        facts = (Fact("exit code", code, 0), Fact("lines about errors", noise, 0))
        return Outcome(facts, seconds=seconds)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip())


@contextmanager
def kopf_run(
    api: APIServer, stage: Stage, *options: str, as_module: bool = False
) -> Iterator[Program]:
    """Start `kopf run` with these options.

    Args:
        api: the server.
        stage: whether the handlers install the line.
        options: of `kopf run`.
        as_module: name the handlers with `-m`, not by their file.
    """
    handlers = ("-m", _MODULE) if as_module else (str(_PROGRAMS / "handlers.py"),)
    variables = {"SERVER": api.url, "PYINFORMER_LINE": "yes" if stage.with_line else "no"}
    with running_program("-m", "kopf", "run", *options, *handlers, **variables) as program:
        yield program


@contextmanager
def running_program(*arguments: str, **variables: str) -> Iterator[Program]:
    """Start a Python process, and kill it at the end of the block if it still runs."""
    command = [sys.executable, *arguments]
    environment = os.environ | {"PYTHONPATH": str(_ROOT)} | variables
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        program = Program(process)
        try:
            yield program
        finally:
            process.kill()


def idle(stage: Stage) -> Outcome:
    """Nothing happens."""
    with APIServer() as api, kopf_run(api, stage, "-A", "--standalone") as program:
        make_maps(api, names("seen", 1))
        program.wait_for("seen seen-0")
        return program.terminate()


def busy(stage: Stage) -> Outcome:
    """Thirty handlers do not return, and ten daemons run."""
    with APIServer() as api, kopf_run(api, stage, "-A", "--standalone") as program:
        make_maps(api, names("busy", 30))
        make_maps(api, names("accompanied", 10), labels={"daemon": "yes"})
        for name in (*(f"seen {one}" for one in names("busy", 30)), "accompanied accompanied-9"):
            program.wait_for(name)
        return program.terminate()


def paused(stage: Stage) -> Outcome:
    """Another operator has a higher priority."""
    with APIServer() as api:
        serve_peering(api)
        make_maps(api, names("seen", 1))
        with kopf_run(api, stage, "-A", "--peering", "default") as program:
            program.wait_for("seen seen-0")
            pause(api)
            assert poll(lambda: not open_watches(api, "configmaps"), timeout_seconds=_SECONDS)
            outcome = program.terminate()
            assert api.get(*PEERINGS, "default")["status"].keys() == {"a-rival"}
            return outcome


TERMINATIONS: dict[str, Outage] = {
    "SIGTERM, idle": idle,
    "SIGTERM, paused": paused,
    "SIGTERM, 30 handlers and 10 daemons busy": busy,
}
"""The rows of the table, by their titles."""
