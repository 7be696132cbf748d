"""API servers in processes of their own, which a test pauses, resumes, and ends.

A stopped process accepts connections and answers nothing, as the cluster of a paused tenant does.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import yaml

from tests.waiting import poll

if TYPE_CHECKING:
    from pathlib import Path


class Serving:
    """One server, from its start until `end`.

    Args:
        kubeconfig: where it writes its address.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pyinformer", "serve", "--kubeconfig", str(kubeconfig)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert poll(lambda: self._config() is not None, timeout_seconds=100.0)

    def _config(self) -> Any:
        return yaml.safe_load(self.kubeconfig.read_text()) if self.kubeconfig.exists() else None

    @property
    def url(self) -> str:
        """Its address."""
        url: str = self._config()["clusters"][0]["cluster"]["server"]
        return url

    def pause(self) -> None:
        """Let it answer nothing any more."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it continue."""
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """End it; no process listens at its address any more."""
        self._process.kill()
        self._process.wait()
