"""Protobuf made of JSON, by the Go program that the client-go peers are too.

The messages are those of Kubernetes' own types; no field is known here.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from benchmarks.harness.go import go_program
from benchmarks.server.protobuf import opened

_MODULE = Path(__file__).parents[1] / "peers" / "client_go"


class Renderer:
    """Call it with bodies; it starts the program for each call."""

    def __init__(self, program: Path) -> None:
        """Use a program that was built."""
        self._command = [str(program), "render"]

    def __call__(self, bodies: Iterable[bytes]) -> Iterator[bytes]:
        """Render all bodies.

        Raises:
            RuntimeError: the program failed; it said why on standard error.
        """
        with subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            feeder = threading.Thread(target=_feed, args=(process.stdin, bodies), daemon=True)
            feeder.start()
            while length := process.stdout.read(4):
                yield opened(process.stdout.read(int.from_bytes(length, "big")))
            feeder.join()
        if process.returncode:
            raise RuntimeError(f"client_go render ended with exit status {process.returncode}")


@contextlib.contextmanager
def renderer(program: str | None) -> Iterator[Renderer | str]:
    """Find the program, or build it.

    Args:
        program: where it is; None builds it.

    Yields:
        What renders, or why nothing does.
    """
    if program is not None:
        yield Renderer(Path(program))
        return
    with go_program(_MODULE, wanted=True) as built:
        yield built if isinstance(built, str) else Renderer(built)


def _feed(stdin: IO[bytes], bodies: Iterable[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError), stdin:  # its exit status says more
        for body in bodies:
            stdin.write(body)
            stdin.write(b"\n")
