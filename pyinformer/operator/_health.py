"""Whether a program is alive, and whether it is ready: two verdicts with reasons, for probes.

A verdict changes when a problem has lasted, and changes back when it has been gone for a while;
it never changes for a reconnect.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, final

from pyinformer._printable import printable
from pyinformer._runtime.clock import monotonic
from pyinformer.client.cluster import ClusterPool, PooledClusterStatus
from pyinformer.errors import InvalidTypeError
from pyinformer.operator._health_debounce import Finding, HealthDebounce
from pyinformer.operator._health_server import HealthServer, Page
from pyinformer.operator._health_verdicts import (
    RECOVERY_SECONDS,
    HasStatus,
    HealthOptions,
    HealthVerdict,
    Status,
    live_findings,
    notes_of,
    ready_findings,
    watchdog_of,
)
from pyinformer.operator._status_pages import Judge, StatusPages, overview_lines
from pyinformer.telemetry import WatchdogStatistics
from pyinformer.telemetry.metrics import Exposition

_BLOCKED_SECONDS: Final = 30.0
"""Not alive while the event loop has been blocked for this long, which only callers in other
threads can see: three periods of the kubelet's probes, whose number of failures is three."""
_BLOCKED_TIMES: Final = 10
"""Not alive if the loop was blocked so often, for a second or more, within the window."""
_BLOCKED_WINDOW_SECONDS: Final = 60.0
_MAX_SAMPLES: Final = 256  # probes come every few seconds


@final
class Health:
    """Decides whether a program is alive and ready: `Health(factory, controller)`.

    It reads the status of everything when it is called, and runs no task. Verdicts may be read from
    any thread. The watchdog of a factory or a group detects a blocked event loop: pass one of them.

    Args:
        watched: factories, informers, controllers and groups, started or not. The informers of a
            factory are included. A ClusterPool is shown on the status pages; clusters that are
            down are notes, and change no verdict: the factories that a pool opens are watched only
            if they are passed, too.
        options: how old a cache may be.
        clock: monotonic seconds, from any thread.

    Raises:
        InvalidTypeError: an argument has no status() of these kinds.
    """

    def __init__(
        self,
        *watched: HasStatus | ClusterPool[Any],
        options: HealthOptions | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._options = options or HealthOptions()
        self._clock = clock
        self._watched: tuple[HasStatus, ...] = ()
        self._pools: tuple[ClusterPool[Any], ...] = ()
        self._lock = threading.RLock()  # a signal handler may read in the middle
        self._alive = HealthDebounce()
        self._ready = HealthDebounce()
        self._blocks: deque[tuple[float, int]] = deque(maxlen=_MAX_SAMPLES)
        self._judges: dict[str, Judge] = {"live": self._liveness, "ready": self._readiness}
        self._pages = StatusPages(lambda: self._watched, self._judges, self._pooled)
        for one in watched:
            self.add(one)

    def add(self, watched: HasStatus | ClusterPool[Any]) -> None:
        """Watch one more.

        Raises:
            InvalidTypeError: it has no status() of these kinds.
        """
        if not callable(getattr(watched, "status", None)):
            reason = "pass factories, informers, controllers or groups"
            raise InvalidTypeError("watched", f"{type(watched).__name__} has no status(); {reason}")
        with self._lock:
            if isinstance(watched, ClusterPool):
                self._pools = (*self._pools, watched)
            else:
                self._watched = (*self._watched, watched)

    def live(self) -> HealthVerdict:
        """Return whether the process is alive: if not, it should be restarted.

        A server that is unreachable, forbids or answers slowly is not a reason to restart.
        """
        return self._liveness(self._statuses())

    def _liveness(self, statuses: Sequence[Status]) -> HealthVerdict:
        options, now = self._options, self._clock()
        with self._lock:
            found = _numbered(live_findings(status, options) for status in statuses)
            found += self._block_findings(statuses, now)
            return self._judged(self._alive, found, statuses, now)

    def ready(self) -> HealthVerdict:
        """Return whether every cache has synced and is current enough, and controllers run."""
        return self._readiness(self._statuses())

    def _readiness(self, statuses: Sequence[Status]) -> HealthVerdict:
        options, now = self._options, self._clock()
        with self._lock:
            found = _numbered(ready_findings(status, options) for status in statuses)
            if not statuses:
                found = [Finding("nothing", "nothing is watched yet")]
            return self._judged(self._ready, found, statuses, now)

    def pages(self) -> dict[str, Page]:
        """Return the status pages for people, by path, for a separate HealthServer.

        `/debug` shows all of them in a browser. `/status` is JSON, `/status?format=text` an
        overview, `/status?informer=pods.v1` one informer with its journal;
        `/explain?informer=pods.v1&key=default/web-1` is text.
        """
        return self._pages.pages()

    def overview(self) -> str:
        """Return the state of everything that is watched, a line for each, and the verdicts.

        From any thread.
        """
        statuses = self._statuses()
        verdicts = {question: judge(statuses) for question, judge in self._judges.items()}
        return "\n".join(overview_lines(statuses, verdicts))

    def _pooled(self) -> list[PooledClusterStatus]:
        return [status for pool in self._pools for status in pool.status()]

    def server(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        pages_for: Literal["loopback", "all"] = "loopback",
        metrics: Exposition | None = None,
    ) -> HealthServer:
        """Return a server of `/healthz`, `/livez`, `/readyz`, and of status pages for people.

        Use it as `async with health.server() as server`. The pages are those of `pages()`.

        Args:
            host: the address; `"::"` in a pod, where the kubelet probes from outside: all
                addresses, of IPv6 and of IPv4. `"0.0.0.0"` are those of IPv4 only.
            port: the port; 0 for a free one.
            pages_for: whether the pages, and the text of problems, are served to the same host
                only, or to all.
            metrics: what `/metrics` shows, to all who may ask probes: such as the PrometheusMetrics
                that factories and controllers were given; None for no such path.

        Raises:
            InvalidArgumentError: the port is invalid.
            InvalidTypeError: the metrics cannot be shown, as those of a plain MetricsRegistry.
        """
        return HealthServer(
            {"/healthz": self._dead, "/livez": self._dead, "/readyz": self._unready},
            pages=self.pages(),
            pages_for=pages_for,
            metrics=metrics,
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
        self,
        hysteresis: HealthDebounce,
        found: list[Finding],
        statuses: Sequence[Status],
        now: float,
    ) -> HealthVerdict:
        reasons, pending = hysteresis.judge(found, now)
        notes = (*pending, *self._notes(statuses))
        return HealthVerdict(
            is_ok=not reasons,
            reasons=tuple(map(printable, reasons)),
            notes=tuple(map(printable, notes)),
        )

    def _notes(self, statuses: Sequence[Status]) -> Iterator[str]:
        for status in statuses:
            yield from notes_of(status)
        for cluster in self._pooled():
            if cluster.last_error is not None:
                yield f"cluster {cluster.name}: {cluster.state}: {cluster.last_error}"

    def _block_findings(self, statuses: Sequence[Status], now: float) -> list[Finding]:
        """Return whether the loop is blocked; several watchdogs of one loop see the same blocks."""
        known = [one for one in map(watchdog_of, statuses) if one is not None]
        if not known:
            return []
        worst = max(known, key=_how_bad)
        blocks = self._blocks
        blocks.append((now, worst.blocked))
        while blocks[0][0] < now - _BLOCKED_WINDOW_SECONDS:
            blocks.popleft()
        times = worst.blocked - blocks[0][1]
        culprit = worst.last_culprit
        found = list[Finding]()
        if worst.blocked_seconds > _BLOCKED_SECONDS:
            text = f"the event loop has been blocked for {worst.blocked_seconds:.0f} s by {culprit}"
            found.append(Finding("block", text, recovery_seconds=RECOVERY_SECONDS))
        if times >= _BLOCKED_TIMES:
            window = f"{_BLOCKED_WINDOW_SECONDS:g} s"
            text = f"the event loop was blocked {times} times in {window} by {culprit}"
            found.append(Finding("blocks", text, recovery_seconds=RECOVERY_SECONDS))
        return found


def _numbered(found: Iterable[Iterable[Finding]]) -> list[Finding]:
    """Make ids unique: informers of different clusters may have one name."""
    return [
        replace(finding, id=f"{number} {finding.id}")
        for number, findings in enumerate(found)
        for finding in findings
    ]


def _how_bad(watchdog: WatchdogStatistics) -> tuple[int, float]:
    return watchdog.blocked, watchdog.blocked_seconds
