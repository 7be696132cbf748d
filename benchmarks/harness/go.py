"""Programs in Go that a run builds for itself, to compare with.

Enters: a folder with a Go module. Leaves: the program, or why there is none.
Invariant: nothing stays; the program is gone after the block, and only Go's own cache keeps it.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyinformer.apimachinery import KubeAPIServerError
from pyinformer.testing._build import find_go


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
