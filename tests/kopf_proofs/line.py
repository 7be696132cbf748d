"""The line, for the time of a block."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def installed_line() -> Iterator[None]:
    """Install `pyinformer.kopf`, and restore plain kopf at the end of the block."""
    import pyinformer.kopf

    pyinformer.kopf.install()
    try:
        yield
    finally:
        pyinformer.kopf.uninstall()
