"""Where in the user's program something was asked for, so that an error can name the place.

What enters is the stack of the caller; what leaves is `file:line` outside of this package. Who asks
on behalf of another thread, whose stack is not at hand any more, says so beforehand.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

_PACKAGE: Final = f"{Path(__file__).parents[1]}{os.sep}"
_asked_from: ContextVar[str] = ContextVar("pyinformer_asked_from", default="")


def call_site() -> str:
    """Return `file:line` of the innermost caller outside of this package."""
    asked_from = _asked_from.get()
    if asked_from:
        return asked_from
    frame = sys._getframe(1)  # noqa: SLF001 - its documented name; inspect.stack reads every source
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@contextmanager
def calling_from(site: str) -> Iterator[None]:
    """Let everything in a block be asked for from this place, in threads it is handed to as well.

    Args:
        site: what `call_site()` returned where it began.
    """
    token = _asked_from.set(site)
    try:
        yield
    finally:
        _asked_from.reset(token)
