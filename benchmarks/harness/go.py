"""Programs in Go that a run builds for itself, to compare with.

Enters: a folder with a Go module. Leaves: the program, or why there is none.
Invariant: nothing stays; a program is gone after its block, and that of the client-go peers with
this process; only Go's own cache keeps them.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyinformer.apimachinery import KubeAPIServerError
from pyinformer.testing._build import find_go

_CLIENT_GO = Path(__file__).parents[1] / "peers" / "client_go"


@functools.cache
def client_go() -> Path | str:
    """Build the program of the client-go peers, once in this process.

    Returns:
        The program, or why there is none.
    """
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(go_program(_CLIENT_GO, wanted=True))


@contextlib.contextmanager
def go_program(module: Path, *, wanted: bool) -> Iterator[Path | str]:
    """Build a module into a program.

    Args:
        module: the folder with its go.mod and main.go.
        wanted: false builds nothing.

    Yields:
        The program, or why there is none.
    """
    if not wanted:
        yield "not asked for"
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / module.name
        try:
            command = [str(find_go()), "build", "-o", str(program), "."]
            subprocess.run(command, cwd=module, check=True, capture_output=True, text=True)
        except KubeAPIServerError as error:
            yield error.reason
        except subprocess.CalledProcessError as error:
            yield str(error.stderr).strip()
        else:
            yield program


def pinned(command: list[str], cpu: int | None) -> list[str]:
    """Return the command that runs another one on one CPU."""
    return command if cpu is None else ["taskset", "--cpu-list", str(cpu), *command]
