"""The two replicas of an operator as processes, as a cluster would run them.

A process that ends by itself is started again after a second, under its name, as a kubelet does. A
replica that the harness has killed stays away until it is started, under a new name: its machine is
lost.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.database_user.database import Database

COUNT: Final = 2
_ROOT: Final = Path(__file__).parents[2]
_RESTART_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.1
_ERROR: Final = re.compile(
    r'\bERROR\b|"level":"error"|^E\d{4} |^Traceback |^panic:|^Exception in thread', re.MULTILINE
)


class Replica:
    """One of them."""

    def __init__(self, number: int, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self.number = number
        self._command, self._environ = command, environ
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0
        self._ended_at: float | None = None
        self.exits = 0
        """How often it has ended by itself."""

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self, log: Path) -> None:
        """Start it on a new machine, unless it runs."""
        if not self.is_alive:
            self._started += 1
            self._spawn(log)

    def _spawn(self, log: Path) -> None:
        name = f"database-users-{self.number}-{self._started}"
        environ = {**os.environ, **self._environ, "POD_NAME": name, "POD_ID": name}
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environ,
                cwd=_ROOT,  # where modules are found by their names
            )
        self._ended_at = None

    def restart_if_ended(self, log: Path) -> None:
        """Start it again some time after it has ended by itself."""
        if self._process is None or self._process.poll() is None:
            return
        now = time.monotonic()
        if self._ended_at is None:
            self._ended_at = now
            self.exits += 1
        if now >= self._ended_at + _RESTART_SECONDS:
            self._spawn(log)

    def kill(self) -> None:
        """End it by SIGKILL; it is not restarted."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def stop(self) -> None:
        """End it by SIGTERM, and by SIGKILL if it does not end."""
        if self._process is not None and self.is_alive:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
        self.kill()


class Replicas:
    """Both, and their logs.

    Args:
        command: of one replica.
        environ: what is added to the environment.
        folder: for the logs.
        database: of which each gets a URL of its own.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        folder: Path,
        database: Database,
    ) -> None:
        self._folder, self._database = folder, database
        self._all = [
            Replica(number, command, {**environ, "DATABASE_URL": database.url(str(number))})
            for number in range(COUNT)
        ]
        self._read = dict.fromkeys(range(COUNT), 0)

    def start(self) -> None:
        """Start those that do not run."""
        for one in self._all:
            one.start(self._log(one.number))

    def kill_leader(self) -> None:
        """Kill the replica that has written into the database last."""
        self._all[int(self._database.last_writer)].kill()

    def wait(self, seconds: float) -> None:
        """Wait, and start again what has ended by itself meanwhile."""
        until = time.monotonic() + seconds
        while True:
            for one in self._all:
                one.restart_if_ended(self._log(one.number))
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _POLL_SECONDS))

    def exits(self) -> int:
        """Return how often processes have ended by themselves."""
        return sum(one.exits for one in self._all)

    def alive(self) -> int:
        """Return how many processes run."""
        return sum(one.is_alive for one in self._all)

    def new_errors(self) -> int:
        """Return how many lines with an error the logs have got since the last call."""
        found = 0
        for number, read in self._read.items():
            log = self._log(number)
            content = log.read_bytes() if log.exists() else b""
            self._read[number] = len(content)
            found += count_errors(content[read:].decode(errors="replace"))
        return found

    def stop(self) -> None:
        """End all."""
        for one in self._all:
            one.stop()

    def _log(self, number: int) -> Path:
        return self._folder / f"replica-{number}.log"


def count_errors(text: str) -> int:
    """Return how many lines of a log are errors, or begin a traceback."""
    return sum(_ERROR.search(line) is not None for line in text.splitlines())
