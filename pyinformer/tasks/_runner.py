"""The event loop of a program that pyinformer runs as a whole: uvloop's if it is installed."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

UVLOOP_SWITCH: Final = "PYINFORMER_UVLOOP"


def program_runner(*, may_use_uvloop: bool = True) -> asyncio.Runner:
    """Return a runner with a new event loop for a whole program.

    Args:
        may_use_uvloop: False for asyncio's own loop, as `PYINFORMER_UVLOOP=off` in the environment
            chooses it.
    """
    if not may_use_uvloop or os.environ.get(UVLOOP_SWITCH, "").lower() == "off":
        return asyncio.Runner()
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        return asyncio.Runner()  # uvloop waits in C, where no greenlet runs, and threads are such
    try:
        import uvloop  # noqa: PLC0415 - an extra, for the few programs that have it
    except ImportError:  # it is an extra, and does not exist on Windows
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)
