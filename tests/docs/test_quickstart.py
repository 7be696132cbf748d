"""The first examples run as they stand, against a server that a kubeconfig names."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pyinformer.objects import JSONObject
from pyinformer.testing import APIServer
from tests.programs import running

_EXAMPLES = Path(__file__).parents[2] / "docs/examples"
_WAIT_SECONDS = 100.0


def _pod(name: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Pending"},
    }


class _Lines:
    """The lines that a process prints, as they come."""

    def __init__(self, stream: IO[str]) -> None:
        self.seen: list[str] = []
        self.errors = ""
        self._queue: queue.Queue[str] = queue.Queue()
        self._thread = threading.Thread(target=self._read, args=(stream,))
        self._thread.start()

    def wait_for(self, *wanted: str) -> None:
        """Wait until every wanted line was printed."""
        while not set(wanted) <= set(self.seen):
            self.seen.append(self._queue.get(timeout=_WAIT_SECONDS))

    def join(self) -> None:
        """Wait for the end of the stream."""
        self._thread.join()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._queue.put(line.rstrip("\n"))


@contextlib.contextmanager
def _example(server: APIServer, name: str, folder: Path) -> Iterator[_Lines]:
    """Run an example, and end it as Ctrl-C does."""
    kubeconfig = server.write_kubeconfig(folder / "kubeconfig")
    environ = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(_EXAMPLES / name)]
    with running(command, env=environ, errors=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = _Lines(process.stdout)
        try:
            yield lines
        finally:
            process.send_signal(signal.SIGINT)
            lines.join()
            lines.errors = process.stderr.read()
            process.wait(_WAIT_SECONDS)


def test_the_quickstart_shows_pods_and_their_changes(tmp_path: Path) -> None:
    with APIServer() as server:
        server.create(_pod("web-1"))
        with _example(server, "quickstart.py", tmp_path) as lines:
            lines.wait_for("1 web pods", "Added default/web-1")
            server.patch("v1", "pods", "web-1", {"status": {"phase": "Running"}})
            lines.wait_for("Updated default/web-1")
            server.delete("v1", "pods", "web-1")
            lines.wait_for("Deleted default/web-1")
        assert lines.errors.endswith("KeyboardInterrupt\n")


def test_every_change_follows_pods_through_their_life(tmp_path: Path) -> None:
    with APIServer() as server:
        server.create(_pod("web-1"))
        with _example(server, "every_change.py", tmp_path) as lines:
            version = server.get("v1", "pods", "web-1")["metadata"]["resourceVersion"]
            lines.wait_for(
                "+ default/web-1 on node-1",
                "1 web pods in default, 1 pods on node-1",
                f"now cached: default/web-1 at {version}",
            )
            server.patch("v1", "pods", "web-1", {"status": {"phase": "Running"}})
            lines.wait_for(
                "~ default/web-1 Pending -> Running",
                "changed in default/web-1: status.phase",
            )
            server.delete("v1", "pods", "web-1")
            lines.wait_for("- default/web-1", "gone: default/web-1")
        assert lines.errors == ""
