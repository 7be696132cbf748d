"""Run another client's informer in its own process, and record the events of its handlers.

The process prints its events in order, and its cache on request.
"""

from __future__ import annotations

import json
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.programs import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_SECONDS = 60.0  # client-go waits up to 30 s between two attempts


@dataclass(frozen=True)
class Told:
    """An event: `kind` is ADDED, MODIFIED, DELETED, or MISSED for a deletion that a list showed."""

    kind: str
    name: str
    version: str
    old: str | None


class Following:
    """The events of one informer so far."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program
        self._changed = threading.Condition()
        self._lines: list[dict[str, Any]] = []

    @property
    def events(self) -> list[Told]:
        """The events of the handlers."""
        with self._changed:
            lines = [line for line in self._lines if "event" in line]
        return [
            Told(line["event"], line["name"], line["version"], line.get("old")) for line in lines
        ]

    def wait_for(self, name: str, version: str) -> None:
        """Block until the handlers have received a version."""

        def is_told() -> bool:
            return any(
                line.get("name") == name and line.get("version") == version for line in self._lines
            )

        self._wait(is_told, f"{name} at {version}")

    def cache(self) -> dict[str, str]:
        """Ask for the cache: versions by names."""
        stdin = self._program.stdin
        assert stdin is not None
        before = len(self._caches())
        stdin.write("cache\n")
        stdin.flush()
        self._wait(lambda: len(self._caches()) > before, "the cache")
        return dict(self._caches()[-1])

    def read(self) -> None:
        """Read to the end, in a thread."""
        assert self._program.stdout is not None
        for line in self._program.stdout:
            with self._changed:
                self._lines.append(json.loads(line))
                self._changed.notify_all()

    def _caches(self) -> list[dict[str, str]]:
        return [line["cache"] for line in self._lines if "cache" in line]

    def _wait(self, is_there: Callable[[], bool], what: str) -> None:
        with self._changed:
            told = self._changed.wait_for(is_there, _SECONDS)
        assert told, f"no event for {what}; the last: {self._lines[-5:]}"


@contextmanager
def following(command: Sequence[str | Path]) -> Iterator[Following]:
    """Run an informer; it ends with the block."""
    words = [str(word) for word in command]
    with running(words, errors=subprocess.DEVNULL) as program:
        found = Following(program)
        reader = threading.Thread(target=found.read)
        reader.start()
        try:
            yield found
        finally:
            assert program.stdin is not None
            program.stdin.close()
            program.kill()
            reader.join()


def check_lives(events: Sequence[Told]) -> None:
    """Check that the events of each object are consistent: added, updated, deleted."""
    alive: dict[str, str] = {}
    for event in events:
        last = alive.get(event.name)
        if event.kind == "ADDED":
            assert last is None, f"{event} of what is there"
        else:
            assert last is not None, f"{event} of what is not there"
            assert event.old in (None, last), f"{event} follows {last}"
        if event.kind in ("DELETED", "MISSED"):
            del alive[event.name]
            continue
        assert last is None or int(event.version) >= int(last), f"{event} after {last}"
        alive[event.name] = event.version
