"""One kubectl with one kubeconfig and one namespace.

A call returns what kubectl printed; if kubectl fails, so does the test, with its output.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.programs import running

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_SECONDS = 60.0


@dataclass(frozen=True)
class Kubectl:
    """Where it is and whom it asks.

    Attributes:
        home: a folder of the test's own: discovery is cached there.
        namespace: added to every call.
    """

    program: Path
    kubeconfig: Path
    home: Path
    namespace: str

    def __call__(self, *words: str, body: Any = None) -> str:
        """Run it and return what it printed; a body goes in as JSON."""
        done = self._run(words, body)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def fails(self, *words: str, body: Any = None) -> str:
        """Run what has to fail, and return what it said."""
        done = self._run(words, body)
        assert done.returncode != 0, f"kubectl {' '.join(words)} printed {done.stdout}"
        return done.stderr

    def succeeds(self, *words: str) -> str | None:
        """Run it and return what it printed, or None if it fails."""
        done = self._run(words, None)
        return done.stdout if done.returncode == 0 else None

    def json(self, *words: str, body: Any = None) -> Any:
        """Run it with `-o json`."""
        return json.loads(self(*words, "-o", "json", body=body))

    def rows(self, *words: str) -> list[list[str]]:
        """Run what prints a table, and return its cells."""
        return [line.split() for line in self(*words).splitlines()]

    @contextmanager
    def stream(self, *words: str) -> Iterator[Iterator[str]]:
        """Run what does not end, and read its lines."""
        with running(self._command(words), env=self._environment()) as program:
            assert program.stdout is not None
            try:
                yield iter(program.stdout)
            finally:
                program.kill()

    def _run(self, words: Sequence[str], body: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(words),
            input="" if body is None else json.dumps(body),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env=self._environment(),
        )

    def _command(self, words: Sequence[str]) -> list[str]:
        return [str(self.program), "-n", self.namespace, *words]

    def _environment(self) -> dict[str, str]:
        path = os.environ.get("PATH", "")
        found = {"PATH": path, "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)}
        return {**found, "KUBECTL_APPLYSET": "true"}  # it has --applyset only with this
