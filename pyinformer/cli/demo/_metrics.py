"""The metrics of the demo's informers, from their public API, as frozen records."""

from __future__ import annotations

import os
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from pyinformer.cache.informer import SharedInformer
from pyinformer.cli.demo._demo_messages import EventLog
from pyinformer.cli.demo._handler_mirror import HandlerMirror

_RATE_WINDOW_SECONDS = 2.0
_KIB = 1024
_MEGABYTE = 1_000_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRow:
    """The metrics of one informer."""

    resource: str
    objects: int
    events: int
    """Handler calls so far, including those of the initial list."""
    events_per_second: float
    position: str
    state: str
    queued: int
    """Events that wait for a handler."""
    body_bytes: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The metrics of the demo at one moment."""

    elapsed_seconds: float
    total_seconds: float
    server: str
    rss_bytes: int
    """The resident memory of this process, which includes the API server."""
    rows: tuple[ResourceRow, ...]
    event_log: EventLog


@final
@dataclass(eq=False)
class WatchedResource:
    """An informer of the demo, and the mirror that its handler calls build."""

    api_version: str
    plural: str
    informer: SharedInformer[Any]
    mirror: HandlerMirror[Any]
    _calls: deque[tuple[float, int]] = field(default_factory=deque)

    def row(self, now: float) -> ResourceRow:
        """Return the metrics of this moment."""
        status = self.informer.status()
        return ResourceRow(
            resource=self.plural,
            objects=status.objects,
            events=self.mirror.calls,
            events_per_second=self._rate(now),
            position=status.position or "-",
            state=status.reflector.state.value,
            queued=sum(handler.depth for handler in status.handlers),
            body_bytes=sum(len(obj.raw) for obj in self.informer.lister.list(allow_unsynced=True)),
        )

    def _rate(self, now: float) -> float:
        """Return the handler calls per second over the last two seconds."""
        calls = self._calls
        calls.append((now, self.mirror.calls))
        while len(calls) > 2 and now - calls[1][0] >= _RATE_WINDOW_SECONDS:  # noqa: PLR2004
            calls.popleft()
        since, before = calls[0]
        return (self.mirror.calls - before) / (now - since) if now > since else 0.0


def rss_bytes() -> int:
    """Return the resident memory of this process, its peak without /proc, and 0 on Windows."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return _peak_bytes()
    return pages * os.sysconf("SC_PAGE_SIZE")


def _peak_bytes() -> int:
    try:
        import resource  # Windows does not have it
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * _KIB


def format_size(size_bytes: int) -> str:
    """Return a size as text: `9.4 kB`, `0.42 MB`, `81.0 MB`."""
    if size_bytes < _MEGABYTE / 10:
        return f"{size_bytes / 1e3:.1f} kB"
    return f"{size_bytes / _MEGABYTE:.{1 if size_bytes >= _MEGABYTE else 2}f} MB"
