"""Peers that follow a server until they are ended, each in a process of its own.

They measure nothing themselves: what a process uses is read from outside. A peer that ends by
itself has failed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from benchmarks.harness.measure import ROOT, measurement_in

_START_SECONDS = 180.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Follower:
    """A peer that was started."""

    peer: str
    _process: subprocess.Popen[bytes]
    _printed: IO[bytes]

    @property
    def pid(self) -> int:
        """Return the number of its process."""
        return self._process.pid

    def failure(self) -> str:
        """Return why it has ended; empty while it runs."""
        status = self._process.poll()
        if status is None:
            return ""
        self._printed.seek(0)
        printed = self._printed.read().decode(errors="replace")
        return measurement_in(printed, self.peer, status=status).error or "ended too early"

    def wait(self, follows: threading.Event) -> str:
        """Wait until it follows.

        Returns:
            Why it does not; empty if it does.
        """
        for _ in range(int(_START_SECONDS / _POLL_SECONDS)):
            if follows.wait(_POLL_SECONDS) or self.failure():
                return self.failure()
        return f"does not follow after {_START_SECONDS:.0f} s"


@contextlib.contextmanager
def started(peer: str, command: list[str]) -> Iterator[Follower]:
    """Start a peer; it is killed when the block ends."""
    with (
        tempfile.TemporaryFile() as printed,
        subprocess.Popen(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=printed
        ) as process,
    ):
        try:
            yield Follower(peer, process, printed)
        finally:
            process.kill()
