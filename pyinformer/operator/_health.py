"""Whether a program is alive, and ready: asked of its informers and controllers, with reasons.

What enters are the status records of whatever is watched over; what leaves are two verdicts, each
with its reasons, for probes of Kubernetes or for the program's own use. A verdict changes when
trouble has lasted, and changes back when it has been gone for a while: never for a reconnect.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, final

from pyinformer._clock import monotonic
from pyinformer._printable import printable
from pyinformer.apimachinery import InvalidTypeError
from pyinformer.cluster import ClusterPool
from pyinformer.operator._debounce import Debounce, Finding
from pyinformer.operator._health_checks import (
    HasStatus,
    HealthOptions,
    Status,
    live_findings,
    notes_of,
    ready_findings,
    watchdog_of,
)
from pyinformer.operator._health_server import HealthServer, Page
from pyinformer.operator._status_pages import StatusPages, overview
from pyinformer.tasks import WatchdogStatistics

_MAX_SAMPLES: Final = 256  # probes come every few seconds


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HealthVerdict:
    """The answer to one question; true if it is yes: `if health.ready(): ...`."""

    is_ok: bool
    reasons: tuple[str, ...]
    """Why not; one line each, with names and numbers, never the content of an object."""
    notes: tuple[str, ...]
    """What is wrong and does not count, or not yet."""

    def __bool__(self) -> bool:
        return self.is_ok


@final
class Health:
    """Says whether a program is alive and ready: `Health(factory, controller)`.

    It asks when it is asked, and runs nothing. Verdicts may be read from any thread. Whether the
    loop turns is known from the watchdog of a factory or of a group: give one of them.

    Args:
        watched: factories, informers, controllers and groups, started or not. An informer of a
            factory need not be given by itself.
        options: how much is tolerated.
        clock: monotonic seconds, from any thread.

    Raises:
        InvalidTypeError: something has no status to ask for, or one of something else.
    """

    def __init__(
        self,
        *watched: HasStatus,
        options: HealthOptions | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._options = options or HealthOptions()
        self._clock = clock
        self._watched: tuple[HasStatus, ...] = ()
        self._lock = threading.Lock()
        self._alive = Debounce()
        self._ready = Debounce()
        self._blocks: deque[tuple[float, int]] = deque(maxlen=_MAX_SAMPLES)
        for one in watched:
            self.add(one)

    def add(self, watched: HasStatus) -> None:
        """Watch over one more.

        Raises:
            InvalidTypeError: it has no status to ask for, or one of something else.
        """
        if not callable(getattr(watched, "status", None)):
            reason = "give factories, informers, controllers or groups"
            raise InvalidTypeError("watched", f"{type(watched).__name__} has no status(); {reason}")
        if isinstance(watched, ClusterPool):  # else a dead cluster would look healthy
            reason = "a ClusterPool has no caches: give the factories that it opens, and ask"
            raise InvalidTypeError("watched", f"{reason} pool.status() which clusters are dead")
        with self._lock:
            self._watched = (*self._watched, watched)

    def live(self) -> HealthVerdict:
        """Tell whether the process should live on: a no says that a new one would do better.

        A server that is away, forbids or answers slowly is no such reason.
        """
        statuses, now = self._statuses(), self._clock()
        options = self._options
        with self._lock:
            found = _numbered(live_findings(status, options) for status in statuses)
            found += self._block_findings(statuses, now)
            return self._judged(self._alive, found, statuses, now)

    def ready(self) -> HealthVerdict:
        """Tell whether every cache has synced and is current enough, and controllers work."""
        statuses, now = self._statuses(), self._clock()
        options = self._options
        with self._lock:
            found = _numbered(ready_findings(status, options) for status in statuses)
            if not statuses:
                found = [Finding("nothing", "nothing is watched over yet")]
            return self._judged(self._ready, found, statuses, now)

    def pages(self) -> dict[str, Page]:
        """Return what shows people how it is, by path, for a HealthServer of one's own.

        `/status` is JSON, `/status?format=text` an overview, `/status?informer=pods.v1` one
        informer with its journal; `/explain?informer=pods.v1&key=default/web-1` is text.
        """
        return StatusPages(lambda: self._watched, self._verdicts).pages()

    def overview(self) -> str:
        """Return how everything is that is watched over, one line each, and the verdicts.

        From any thread.
        """
        return overview(self._statuses(), self._verdicts())

    def _verdicts(self) -> dict[str, HealthVerdict]:
        return {"live": self.live(), "ready": self.ready()}

    def server(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        pages_for: Literal["loopback", "anybody"] = "loopback",
    ) -> HealthServer:
        """Make a server of `/healthz`, `/livez`, `/readyz`, and of pages for people.

        Use it as `async with health.server() as server`. The pages are those of `pages()`.

        Args:
            host: the address; `"0.0.0.0"` in a pod, where the kubelet asks from outside.
            port: the port; 0 for any that is free.
            pages_for: who may see the pages: who asks from the same host, or anybody.

        Raises:
            InvalidArgumentError: the port is none.
        """
        return HealthServer(
            {"/healthz": self._dead, "/livez": self._dead, "/readyz": self._unready},
            pages=self.pages(),
            pages_for=pages_for,
            host=host,
            port=port,
        )

    def _dead(self) -> tuple[str, ...]:
        return self.live().reasons

    def _unready(self) -> tuple[str, ...]:
        return self.ready().reasons

    def _statuses(self) -> list[Status]:
        return [one.status() for one in self._watched]

    def _judged(
        self, hysteresis: Debounce, found: list[Finding], statuses: list[Status], now: float
    ) -> HealthVerdict:
        reasons, pending = hysteresis.judge(found, now)
        notes = (*pending, *(note for status in statuses for note in notes_of(status)))
        return HealthVerdict(
            is_ok=not reasons,
            reasons=tuple(map(printable, reasons)),
            notes=tuple(map(printable, notes)),
        )

    def _block_findings(self, statuses: list[Status], now: float) -> list[Finding]:
        """Say whether the loop turns; several watchdogs of one loop see the same blocks."""
        known = [one for one in map(watchdog_of, statuses) if one is not None]
        if not known:
            return []
        worst = max(known, key=_how_bad)
        options, blocks = self._options, self._blocks
        blocks.append((now, worst.blocked))
        while blocks[0][0] < now - options.blocked_window_seconds:
            blocks.popleft()
        times, recovery_seconds = worst.blocked - blocks[0][1], options.recovery_seconds
        culprit = worst.last_culprit
        found = list[Finding]()
        if worst.blocked_seconds > options.blocked_seconds:
            text = f"the event loop is blocked for {worst.blocked_seconds:.0f} s by {culprit}"
            found.append(Finding("block", text, recovery_seconds=recovery_seconds))
        if times >= options.blocked_times:
            window_seconds = options.blocked_window_seconds
            text = f"the event loop was blocked {times} times in {window_seconds:g} s by {culprit}"
            found.append(Finding("blocks", text, recovery_seconds=recovery_seconds))
        return found


def _numbered(found: Iterable[Iterable[Finding]]) -> list[Finding]:
    """Tell informers of one name from each other, in different clusters for one."""
    return [
        replace(finding, id=f"{number} {finding.id}")
        for number, findings in enumerate(found)
        for finding in findings
    ]


def _how_bad(watchdog: WatchdogStatistics) -> tuple[int, float]:
    return watchdog.blocked, watchdog.blocked_seconds
