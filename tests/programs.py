"""Programs that a test starts: whatever becomes of the test, they end with it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


@contextmanager
def running(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, errors: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start a program with pipes, and kill it if the block is left before it has ended."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=None if env is None else dict(env),
    ) as program:
        try:
            yield program
        except BaseException:
            program.kill()
            raise
