"""Run child programs that cannot outlive this process.

They share a process group with a guard: a shell that reads from a pipe whose other end only this
process holds. When this process ends, for any reason, the guard removes the folder and kills the
group. The group's number cannot be reused while the guard is in it, so no other process is killed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

from pyinformer.errors import KubeAPIServerError

_GUARD_SCRIPT: Final = 'read -r _; rm -rf -- "$1"; kill -9 0'
_STOP_TIMEOUT_SECONDS: Final = 10.0  # SIGKILL takes milliseconds, or longer during disk I/O
_LOG_TAIL_BYTES: Final = 8192


@final
class ServerProgram:
    """One running program and its log file."""

    def __init__(self, name: str, command: Sequence[str], *, folder: Path, group: int) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                process_group=group,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the program has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL and wait for the end; does nothing if it has ended."""
        self._process.kill()
        self._process.wait(timeout=_STOP_TIMEOUT_SECONDS)

    def pause(self) -> None:
        """Send SIGSTOP: it keeps its connections, and does nothing until `resume`.

        Raises:
            KubeAPIServerError: it has ended.
        """
        os.kill(self.pid, signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)  # until all its threads have stopped
        if not os.WIFSTOPPED(status):
            raise KubeAPIServerError(f"{self.name} cannot be paused", self.last_lines())

    def resume(self) -> None:
        """Send SIGCONT; does nothing if it runs, or has ended."""
        if self.is_running:
            os.kill(self.pid, signal.SIGCONT)

    def last_lines(self, count: int = 15) -> str:
        """Return the last lines of the log."""
        text = self._log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
        return "\n".join(text.splitlines()[-count:])


@final
class ProcessGroup:
    """A temporary folder and the programs that use it; both end with this process.

    Construction starts the guard.
    """

    def __init__(self, *, prefix: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=prefix))
        self._programs: list[ServerProgram] = []
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD_SCRIPT, "guard", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    def spawn(self, name: str, command: Sequence[str]) -> ServerProgram:
        """Start a program; its output goes to `<name>.log` in the folder."""
        program = ServerProgram(name, command, folder=self.folder, group=self._guard.pid)
        self._programs.append(program)
        return program

    def close(self) -> None:
        """Kill every program; then the guard removes the folder and ends. Idempotent."""
        for program in self._programs:
            program.kill()
        self._programs.clear()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard.wait(timeout=_STOP_TIMEOUT_SECONDS)


def check_free(port: int) -> None:
    """Raise if a program listens on a port of the loopback address; 0 is any free one.

    Raises:
        KubeAPIServerError: one does.
    """
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Go binds
        try:
            tried.bind(("127.0.0.1", port))
        except OSError as error:
            reason = f"port {port} of 127.0.0.1 cannot be used: {error.strerror}"
            raise KubeAPIServerError("kube-apiserver did not start", reason) from None


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback address on which no program listens now.

    Another process may take one before it is used; the caller must expect that.
    """
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
