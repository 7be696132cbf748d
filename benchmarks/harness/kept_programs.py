"""Programs that are built on first use, and kept whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path


def kept_program(target: Path, build: Callable[[Path], object]) -> Path:
    """Return a program, which is built if it is not there.

    Args:
        target: where it stays.
        build: builds it at another path beside that; its errors are raised.
    """
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        fresh = Path(folder) / target.name
        build(fresh)
        fresh.replace(target)  # in one step: others may be building the same
    return target
