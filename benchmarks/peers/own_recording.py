"""What a recording costs: CPU of the event loop's thread, beside that of the process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from pyinformer import SharedInformer

LOOP: Final = "loop_us"

_MAX_BYTES: Final = 4 << 30  # no file is full: a rotation would write the cache again
_POLL_SECONDS: Final = 0.01


class LoopTime:
    """CPU time of this thread."""

    def __init__(self) -> None:
        """Begin."""
        self._began = time.thread_time()

    def figures(self, updates: int) -> dict[str, float]:
        """Return the microseconds of each update so far."""
        return {LOOP: (time.thread_time() - self._began) / updates * 1e6}


@asynccontextmanager
async def recorded(informer: SharedInformer[Any], path: Path) -> AsyncIterator[None]:
    """Record an informer; the content of its cache is written before the block begins.

    Cancellation:
        The recording is ended.
    """
    async with informer.record(path, max_bytes=_MAX_BYTES) as recording:
        while recording.status().lines < len(informer.lister.list()):  # noqa: ASYNC110 - a thread writes
            await asyncio.sleep(_POLL_SECONDS)
        yield
    status = recording.status()
    if status.error or status.dropped_bytes:
        raise RuntimeError(f"not everything was recorded: {status}")
