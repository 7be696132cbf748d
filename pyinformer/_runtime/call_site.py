"""The place in the user's program that called this package, so that an error can name it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

_PACKAGE: Final = f"{Path(__file__).parents[1]}{os.sep}"
_given_site: ContextVar[str] = ContextVar("pyinformer_call_site", default="")


def call_site() -> str:
    """Return `file:line` of the innermost caller outside of this package."""
    given = _given_site.get()
    if given:
        return given
    frame = sys._getframe(1)  # noqa: SLF001 - its documented name; inspect.stack reads every source
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@contextmanager
def calling_from(site: str) -> Iterator[None]:
    """Name this place as the caller in a block that another thread runs.

    Args:
        site: what `call_site()` returned in the caller's thread.
    """
    token = _given_site.set(site)
    try:
        yield
    finally:
        _given_site.reset(token)
