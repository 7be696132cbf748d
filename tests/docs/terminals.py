"""Terminals for the commands of a page: each console block runs as printed, and prints the same.

A block says in the comment above it what it is: `terminal: NAME` runs its commands in that terminal
(one that does not end keeps running), `terminal: NAME, more of it` has only the program's next
output, `terminal: NAME, when the OTHER has ended` presses Ctrl-C in another one first,
`terminal: NAME, until it prints this` repeats a command, `file: NAME` is written into the folder,
and `append to: NAME` at the end of a file. `cd` and `export` hold for all that follows. What
differs each time, ports, folders and ages, is compared as one word.
"""

from __future__ import annotations

import itertools
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
from tests.waiting import poll

_WAIT_SECONDS = 100.0
_PORT = re.compile(r"127\.0\.0\.1:\d+")
_AGE = re.compile(r"\b[\d.]+s$")
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
    """The terminals of one page, in a folder of their own.

    Args:
        page: relative to the repository.
        folder: where the commands run.
        variables: what the page exports, in the words of the test: its ports are free.
    """

    def __init__(self, page: str, folder: Path, **variables: str) -> None:
        self._page = page
        self._folder = folder
        self._running: dict[str, Running] = {}
        self._stack = ExitStack()
        scripts = str(Path(sys.executable).parent)
        path = os.pathsep.join([scripts, os.environ["PATH"]])
        self._environ = {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"}
        self._variables = variables
        self._go_to(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _go_to(self, folder: Path) -> None:
        self._folder = folder
        self._environ["KUBECONFIG"] = str(folder / "kubeconfig")

    def run_page(
        self, long_running: set[str], *, before: str = ""
    ) -> list[tuple[list[str], list[str]]]:
        """Do what the page says, and return for each block what it prints there and here.

        Args:
            long_running: the terminals whose command keeps running.
            before: a terminal whose first block ends it; empty for the whole page.
        """
        blocks = pages.blocks(self._page)
        end = f"terminal: {before}"
        chosen = itertools.takewhile(lambda one: not before or one.comment != end, blocks)
        return [both for block in chosen for both in self._do(block, long_running)]

    def _do(self, block: pages.Block, long_running: set[str]) -> list[tuple[list[str], list[str]]]:
        kind, _, name = block.comment.partition(": ")
        if kind == "file":
            (self._folder / name).write_text(block.text, encoding="utf-8")
        if kind == "append to":
            with (self._folder / name).open("a", encoding="utf-8") as file:
                file.write(f"\n\n{block.text}")
        if kind != "terminal":
            return []
        name, _, more = name.partition(", ")
        lines = block.text.splitlines()
        if ended := _ENDED.match(more):
            self._running[ended[1]].close()
        elif more == "until it prints this":
            return [self._repeat(command, printed) for command, printed in _commands(lines)]
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

    def _repeat(self, command: str, printed: list[str]) -> tuple[list[str], list[str]]:
        found: list[tuple[list[str], list[str]]] = []

        def is_printed() -> bool:
            found[:] = [self._run(command, printed)]
            return found[0][0] == found[0][1]

        poll(is_printed, timeout_seconds=_WAIT_SECONDS, interval_seconds=0.5)
        return found[0]

    def _run(self, command: str, printed: list[str]) -> tuple[list[str], list[str]]:
        if command.startswith("cd "):
            self._go_to(self._folder / command.removeprefix("cd "))
            return printed, []
        if command.startswith("export "):
            self._environ.update(self._variables)
            return printed, []
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
