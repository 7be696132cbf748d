"""Terminals for the commands of a page: each console block runs as printed, and prints the same.

A block says in the comment above it what it is: `terminal: NAME` runs its commands in that terminal
(one that does not end keeps running), `terminal: NAME, more of it` has only the program's next
output, `terminal: NAME, when the OTHER has ended` presses Ctrl-C in another one first, and
`file: NAME` is written into the folder. What differs each time, ports, folders and ages, is
compared as one word.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Self

from tests.docs import pages

_WAIT_SECONDS = 100.0
_PORT = re.compile(r"127\.0\.0\.1:\d+")
_AGE = re.compile(r"\b\d+s$")
_ENDED = re.compile(r"when the (\w+) has ended$")
_FOLDER = re.compile(r"/\S*/(?=kubeconfig)")


def alike(line: str) -> str:
    """Return a line without what differs each time."""
    line = _AGE.sub("0s", line.rstrip())
    return _FOLDER.sub("/folder/", _PORT.sub("127.0.0.1:port", line))


class Running:
    """A program that keeps running while others run."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self._thread = threading.Thread(target=self._read, args=(process.stdout,))
        self._thread.start()

    def next_lines(self, number: int) -> list[str]:
        """Return so many lines more."""
        return [alike(self._lines.get(timeout=_WAIT_SECONDS)) for _ in range(number)]

    def close(self) -> None:
        """Press Ctrl-C, and wait."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(_WAIT_SECONDS)
        self._thread.join(_WAIT_SECONDS)

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.put(line)


class Terminals:
    """The terminals of one page, in a folder of their own."""

    def __init__(self, page: str, folder: Path) -> None:
        self._page = page
        self._folder = folder
        self._running: dict[str, Running] = {}
        self._stack = ExitStack()
        scripts = str(Path(sys.executable).parent)
        path = os.pathsep.join([scripts, os.environ["PATH"]])
        kubeconfig = str(folder / "kubeconfig")
        self._environ = {**os.environ, "PATH": path, "KUBECONFIG": kubeconfig}
        self._environ["PYTHONUNBUFFERED"] = "1"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run_page(self, long_running: set[str]) -> list[tuple[list[str], list[str]]]:
        """Do what the page says, and return for each block what it prints there and here."""
        return [
            both for block in pages.blocks(self._page) for both in self._do(block, long_running)
        ]

    def _do(self, block: pages.Block, long_running: set[str]) -> list[tuple[list[str], list[str]]]:
        kind, _, name = block.comment.partition(": ")
        if kind == "file":
            (self._folder / name).write_text(block.text, encoding="utf-8")
        if kind != "terminal":
            return []
        name, _, more = name.partition(", ")
        lines = block.text.splitlines()
        if ended := _ENDED.match(more):
            self._running[ended[1]].close()
        elif more:
            return [([alike(line) for line in lines], self._running[name].next_lines(len(lines)))]
        if name in long_running:
            return [self._start(name, lines[0], lines[1:])]
        return [self._run(command, printed) for command, printed in _commands(lines)]

    def _start(self, name: str, line: str, printed: list[str]) -> tuple[list[str], list[str]]:
        command = line.removeprefix("$ ").split()
        process = subprocess.Popen(
            command, cwd=self._folder, env=self._environ, text=True, stdout=subprocess.PIPE
        )
        self._running[name] = Running(process)
        self._stack.enter_context(process)
        self._stack.callback(self._running[name].close)
        return [alike(one) for one in printed], self._running[name].next_lines(len(printed))

    def _run(self, command: str, printed: list[str]) -> tuple[list[str], list[str]]:
        done = subprocess.run(
            ["bash", "-c", command],
            check=False,
            cwd=self._folder,
            env=self._environ,
            text=True,
            capture_output=True,
            timeout=_WAIT_SECONDS,
        )
        said = (done.stdout + done.stderr).splitlines()
        return [alike(one) for one in printed], [alike(one) for one in said]


def _commands(lines: list[str]) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found
