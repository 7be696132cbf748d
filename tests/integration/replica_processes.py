"""The replicas of an operator as processes of their own, each of which is one of our programs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path


class ReplicaProcesses:
    """Use it as `with`: whatever happens, they end with the block.

    Args:
        program: the module that each runs; it gets its settings as JSON.
        folder: of their logs.
    """

    def __init__(self, program: str, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        """Those that were launched and not killed, by their names."""
        self._program = program

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in tuple(self.processes):
            self.kill(name)

    def launch(self, name: str, settings: dict[str, Any]) -> None:
        """Start a replica, whose log goes to `<name>.log`."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", self._program, json.dumps(settings)], stderr=log
            )

    def kill(self, name: str) -> None:
        """Send SIGKILL to a replica, and wait until it has ended."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()
