"""What this process holds at a moment: tasks, sockets, threads and memory."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from pathlib import Path
from typing import Final, Literal

from pyinformer.testing.histories._records import ResourcesRecord

_DESCRIPTORS: Final = Path("/proc/self/fd")
_MEMORY: Final = Path("/proc/self/statm")


def held_now(when: Literal["baseline", "rest"]) -> ResourcesRecord:
    """Return what the process holds; descriptors and memory are 0 where there is no /proc."""
    gc.collect()
    current = asyncio.current_task()
    targets = [_target(one) for one in _DESCRIPTORS.iterdir()] if _DESCRIPTORS.exists() else []
    pages = int(_MEMORY.read_text().split()[1]) if _MEMORY.exists() else 0
    return ResourcesRecord(
        when=when,
        tasks=sorted(_name(task) for task in asyncio.all_tasks() if task is not current),
        sockets=sum(target.startswith("socket:") for target in targets),
        descriptors=len(targets),
        threads=threading.active_count(),
        rss_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
    )


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # closed meanwhile, such as that of the folder itself
        return ""


def _name(task: asyncio.Task[object]) -> str:
    return getattr(task.get_coro(), "__qualname__", task.get_name())
