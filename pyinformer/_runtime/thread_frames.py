"""Where a thread is, read from another thread: for what watches an event loop."""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType

_COLLECTS_WITHIN = sys.version_info < (3, 12)
_LOCK_SECONDS = 0.1  # a child process may have got it locked, from a fork
_lock = threading.Lock()


def frame_of(thread: int) -> FrameType | None:
    """Return the innermost frame of a thread; None if it has ended, or cannot be read now.

    Before Python 3.12, a garbage collection can begin while the interpreter holds the lock of its
    threads. If a finalizer then lets another thread run that needs this lock, the process stands
    still without end (python/cpython#106883). So there is none meanwhile.
    """
    if not _COLLECTS_WITHIN:
        return sys._current_frames().get(thread)  # noqa: SLF001 - documented, despite its name
    if not _lock.acquire(timeout=_LOCK_SECONDS):
        return None
    try:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames().get(thread)  # noqa: SLF001 - as above
        finally:
            if collects:
                gc.enable()
    finally:
        _lock.release()
