"""A guard of writes that a test shuts, as the end of a term of leader election does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyinformer.client.transport import CURRENT_GUARD
from pyinformer.errors import FencedError


class Guard:
    """A guard that a test shuts; requests that wait are notified, or are not."""

    def __init__(self, *, passes: int | None = None, announces: bool = True) -> None:
        self.checks = 0
        self.is_shut = False
        self.written: list[tuple[str, str]] = []
        self.refusals = 0
        self._passes = passes
        self._announces = announces
        self._cut_offs: list[Callable[[], None]] = []

    def check(self) -> None:
        """Refuse when shut, or when the checks that may pass are used up."""
        self.checks += 1
        is_used_up = self._passes is not None and self.checks > self._passes
        if self.is_shut or is_used_up:
            raise FencedError(lease="ops/db", reason="the test has shut it")

    def on_end(self, cut_off: Callable[[], None]) -> Callable[[], None]:
        """Keep a function for the end."""
        self._cut_offs.append(cut_off)
        return lambda: self._cut_offs.remove(cut_off)

    def record_write(self, resource: str, resource_version: str) -> None:
        """Keep what was written."""
        self.written.append((resource, resource_version))

    def record_refusal(self, _lease: str) -> None:
        """Count a refused write."""
        self.refusals += 1

    def shut(self) -> None:
        """End the term."""
        self.is_shut = True
        if self._announces:
            for cut_off in list(self._cut_offs):
                cut_off()


@contextmanager
def guarded(guard: Guard) -> Iterator[Guard]:
    """Guard the writes of the block."""
    token = CURRENT_GUARD.set(guard)
    try:
        yield guard
    finally:
        CURRENT_GUARD.reset(token)
