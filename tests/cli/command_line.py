"""The real program in its own process, and what it prints."""

from __future__ import annotations

import io
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final
from unittest.mock import patch

import pytest

from pyinformer.cli import main
from tests.programs import running

COMMAND = (sys.executable, "-m", "pyinformer")
SOON_SECONDS = 60.0  # one second is documented; a busy machine is slow, and a hang never ends
PATIENCE_SECONDS = 100.0
_NOT_SET = ("KUBECONFIG", "CI", "NO_COLOR", "FORCE_COLOR", "PY_COLORS")


def environment(**more: str) -> dict[str, str]:
    """Return the environment of the program: that of a terminal, without a kubeconfig."""
    env = {**os.environ, "TERM": "xterm-256color", "TZ": "UTC", **more}
    for name in ("KUBECONFIG", "CI", "NO_COLOR"):
        if name not in more:
            env.pop(name, None)
    env["HOME"] = "/nonexistent"
    return env


def run(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=env or environment(),
        timeout=PATIENCE_SECONDS * 2,
    )


@final
@dataclass(frozen=True)
class Result:
    """What the program did in this process."""

    exit_code: int
    stdout: str
    stderr: str
    output: str
    """Both, as a terminal shows them."""


class _Copied(io.BytesIO):
    """The bytes of one stream, and a copy in those of all streams."""

    def __init__(self, copy: io.BytesIO) -> None:
        super().__init__()
        self._copy = copy

    def write(self, data: Any, /) -> int:
        """Take some bytes."""
        self._copy.write(data)
        return super().write(data)


def here(*arguments: str, **environ: str) -> Result:
    """Run the program in this process, which takes a tenth of the time."""
    output = io.BytesIO()
    stdout, stderr = _Copied(output), _Copied(output)
    with pytest.MonkeyPatch.context() as patched, patch.dict(os.environ):
        for name in _NOT_SET:
            os.environ.pop(name, None)
        os.environ |= {"HOME": "/nonexistent", "COLUMNS": "80", **environ}
        patched.setattr(sys, "argv", ["pyinformer", *arguments])
        patched.setattr(sys, "stdin", _text(io.BytesIO()))
        patched.setattr(sys, "stdout", _text(stdout))
        patched.setattr(sys, "stderr", _text(stderr))
        # Else its messages name the program after the module that pytest was started by.
        patched.setitem(sys.modules, "__main__", ModuleType("__main__"))
        with pytest.raises(SystemExit) as ended:
            sys.exit(main())
        # Before the streams are closed, with the wrappers that go now.
        texts = [one.getvalue().decode() for one in (stdout, stderr, output)]
    assert isinstance(ended.value.code, int)
    return Result(ended.value.code, *texts)


def _text(stream: io.BytesIO) -> io.TextIOWrapper:
    return io.TextIOWrapper(stream, "utf-8", errors="backslashreplace", write_through=True)


def complaints(errors: str) -> list[str]:
    """Return the lines of stderr, without those that only a busy machine causes."""
    slow = ("has not arrived yet", "no answer after", "the event loop ")
    return [line for line in errors.splitlines() if not any(words in line for words in slow)]


@final
class Program:
    """The program while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        if self.process.stdout is not None:
            for line in self.process.stdout:
                self._lines.put(line)

    def line(self) -> str:
        """Wait for the next line."""
        return self._lines.get(timeout=PATIENCE_SECONDS).rstrip("\n")

    def line_with(self, words: str) -> str:
        """Wait for a line that holds these words."""
        while words not in (line := self.line()):
            pass
        return line

    def end(self, number: int) -> tuple[int, float, list[str]]:
        """Send a signal; return the exit status, the seconds it took, and its complaints."""
        began_at = time.monotonic()
        self.process.send_signal(number)
        status = self.process.wait(timeout=PATIENCE_SECONDS)
        seconds = time.monotonic() - began_at
        self._reader.join()
        errors = "" if self.process.stderr is None else self.process.stderr.read()
        return status, seconds, complaints(errors)


@contextmanager
def program(*arguments: str, env: Mapping[str, str] | None = None) -> Iterator[Program]:
    """Start the program; it is killed if the block is left before it has ended."""
    command = [*COMMAND, *arguments]
    with running(command, env=env or environment(), errors=subprocess.PIPE) as process:
        found = Program(process)
        try:
            yield found
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            found._reader.join()
