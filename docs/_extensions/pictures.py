"""Draw the pictures of the README from what the command prints on a terminal: `make pictures`.

Each picture is one run of `pyinformer` on a pseudo-terminal, with the embedded server behind it.
A test compares the committed pictures with a new run, so the command runs here as a reader runs it.
"""

from __future__ import annotations

import codecs
import io
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Mapping
from fcntl import ioctl
from html import unescape
from pathlib import Path
from typing import Final, final

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from pyinformer.objects import JSONObject
from pyinformer.testing import APIServer

FOLDER: Final = Path(__file__).resolve().parents[1] / "_static"
WATCH: Final = "pyinformer watch pods -n shop -l app=web"
DEMO: Final = "pyinformer demo"
_COLUMNS, _ROWS = 100, 36
# A set CI or NO_COLOR disables colors; a terminal's size is asked for only if it is not set.
_PLAIN = {"CI": "", "NO_COLOR": "", "COLUMNS": str(_COLUMNS), "LINES": str(_ROWS)}
_STOPPED_BY_CTRL_C = 130
# A forge does not load fonts for a picture, so the reader's own monospace font is used.
_FORMAT = re.sub(r"\s*@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
_OVERDRAWN = re.compile(r".*\x1b\[1A\x1b\[2K", re.DOTALL)  # earlier frames of a live table
_CURSOR = re.compile(r"\x1b\[\?25[lh]|\r")
_SHOWN = re.compile(r'clip-path="url\(#\w+-line-(\d+)\)">([^<]*)</text>')


@final
class Terminal:
    """A program on a pseudo-terminal of a fixed size.

    Args:
        command: what is typed; its first word is `pyinformer`.
        environ: the environment.
    """

    def __init__(self, command: str, environ: Mapping[str, str]) -> None:
        self._screen, device = pty.openpty()
        ioctl(device, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", *shlex.split(command)],
            stdin=subprocess.DEVNULL,
            stdout=device,
            stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm-256color", "TZ": "UTC", **_PLAIN, **environ},
        )
        os.close(device)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.text = ""

    def read_until(self, words: str) -> None:
        """Read until the program has printed these words in a line."""
        while words not in self.text.rpartition("\n")[0]:
            if not self._read():
                raise RuntimeError(f"the program ended before it printed {words!r}: {self.end()}")

    def end(self, *, interrupt: bool = False) -> int:
        """Wait for the end of the program, after Ctrl-C if wanted, and return its exit status."""
        if interrupt:
            self._process.send_signal(2)
        while self._read():
            pass
        os.close(self._screen)
        _, errors = self._process.communicate()
        if errors:
            sys.stderr.write(errors.decode())
        return self._process.returncode

    def _read(self) -> bool:
        try:
            found = os.read(self._screen, 1 << 16)
        except OSError:  # Linux reports so that no program has the terminal open any more
            return False
        self.text += self._decoder.decode(found)
        return bool(found)


def watch() -> list[str]:
    """Run `pyinformer watch` while pods come, change and go, and return the lines with colors."""
    with APIServer() as server, tempfile.TemporaryDirectory() as folder:
        server.ensure_namespace("shop")
        for number in (1, 2):
            server.create(_pod(f"web-{number}", f"node-{number}", "Running"))
        kubeconfig = server.write_kubeconfig(Path(folder) / "kubeconfig")
        terminal = Terminal(WATCH, {"KUBECONFIG": str(kubeconfig)})
        terminal.read_until("web-2")
        for expected, change in _changes(server):
            change()
            terminal.read_until(expected)
        status = terminal.end(interrupt=True)
    if status != _STOPPED_BY_CTRL_C:
        raise RuntimeError(f"pyinformer watch ended with exit status {status}")
    return _lines(terminal.text)


def demo(seconds: int = 20) -> list[str]:
    """Run `pyinformer demo`, and return its last frame and its summary as lines with colors."""
    terminal = Terminal(f"{DEMO} --seconds {seconds}", {})
    if status := terminal.end():
        raise RuntimeError(f"pyinformer demo ended with exit status {status}")
    return _lines(_OVERDRAWN.sub("", terminal.text))


def svg(name: str, command: str, lines: list[str]) -> str:
    """Draw a command and the lines that it printed."""
    console = Console(
        record=True, file=io.StringIO(), width=_COLUMNS, force_terminal=True, legacy_windows=False
    )
    console.print(Text(f"$ {command}", style="bold"))
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="ellipsis")
    return console.export_svg(title=command, unique_id=name, code_format=_FORMAT)


def lines_of(picture: str) -> list[str]:
    """Return the text of a picture, line by line."""
    found: dict[int, str] = {}
    for number, text in _SHOWN.findall(picture):
        found[int(number)] = found.get(int(number), "") + unescape(text).replace("\xa0", " ")
    return [found.get(number, "").rstrip() for number in range(max(found, default=-1) + 1)]


def _changes(server: APIServer) -> list[tuple[str, Callable[[], object]]]:
    """Return what happens in the cluster, each with the words that the command prints last."""
    running: JSONObject = {"status": {**_ready(), "podIP": "10.0.0.7"}}
    labels: JSONObject = {"metadata": {"labels": {"tier": "front"}}}
    return [
        ("web-3", lambda: server.create(_pod("web-3", "", "Pending"))),
        ("10.0.0.7", lambda: server.patch("v1", "pods", "web-3", running, "shop")),
        ("front", lambda: server.patch("v1", "pods", "web-1", labels, "shop")),
        ("DELETED", lambda: server.delete("v1", "pods", "web-2", "shop")),
    ]


def _pod(name: str, node: str, phase: str) -> JSONObject:
    spec: JSONObject = {"containers": [{"name": "main", "image": "shop:v7"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
        "spec": {**spec, "nodeName": node} if node else spec,
        "status": _ready() if phase == "Running" else {"phase": phase},
    }


def _ready() -> JSONObject:
    return {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True}]}


def _lines(text: str) -> list[str]:
    return _CURSOR.sub("", text).rstrip().split("\n")


if __name__ == "__main__":
    for file, typed, printed in (("watch", WATCH, watch()), ("demo", DEMO, demo())):
        (FOLDER / f"{file}.svg").write_text(svg(file, typed, printed) + "\n", encoding="utf-8")
