"""The quickstart runs as it stands, against a server that a kubeconfig names."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from pyinformer.apimachinery import JSONObject
from pyinformer.testing import APIServer
from tests.programs import running

_SCRIPT = Path(__file__).parents[2] / "docs/examples/quickstart.py"
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


def test_the_quickstart_follows_pods_through_their_life(tmp_path: Path) -> None:
    with APIServer() as server:
        server.create(_pod("web-1"))
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
        environ = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, str(_SCRIPT)]
        with running(command, env=environ, errors=subprocess.PIPE) as process:
            assert process.stdout is not None
            lines = _Lines(process.stdout)
            try:
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
            finally:
                process.send_signal(signal.SIGINT)
                lines.join()
            assert process.stderr is not None
            assert process.stderr.read() == ""
            assert process.wait(_WAIT_SECONDS) == 0
