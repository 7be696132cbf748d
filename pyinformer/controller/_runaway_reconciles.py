"""Detects reconciles that wake themselves, and storms of writes that change nothing.

The decisions are made in modules without an event loop; this one adds the log lines and the loop's
time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.controller._hot_loop_brake import HotKey, HotLoops
from pyinformer.controller._noop_storm_breaker import NoopStormBreaker
from pyinformer.controller._noop_write_storms import NoopWriteStorms, Storm
from pyinformer.controller._status import HotLoopStatus, NoopWriteStatus
from pyinformer.controller.sources import request_text

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from pyinformer.controller._options import ControllerOptions
    from pyinformer.controller.sources import Reason, RequestId

_log = get_logger(__name__)

_HOT_STARTS: Final = 200  # more within the window: no input changes so often for so long
_HOT_WINDOW_SECONDS: Final = 10.0
_HOT_DELAY_SECONDS: Final = 1.0  # a loop of a controller with itself does no harm at this rate
_PROBE_SECONDS: Final = 1.0
_TOP: Final = 10  # keys in the status: one is enough to find a bug


@final
class ReconcileWrites:
    """Counts the writes of one reconcile; the cluster reports each of them.

    Args:
        detector: of the controller.
        request_id: what is reconciled.
        may_wait: no change asks for the reconcile, so the storm breaker may hold it.
    """

    __slots__ = ("_detector", "_request_id", "changes", "may_wait", "noops")

    def __init__(self, detector: LoopDetector, request_id: RequestId, *, may_wait: bool) -> None:
        self._detector = detector
        self._request_id = request_id
        self.may_wait: bool = may_wait
        self.changes: int = 0
        self.noops: int = 0

    @property
    def name(self) -> str:
        """The controller's name."""
        return self._detector.name

    @property
    def identity(self) -> Hashable:
        """The controller and the request: those of two operators may have one name."""
        return id(self._detector), self._request_id

    def wrote(self, *, changed: bool) -> None:
        """Count a write, on the event loop."""
        if changed:
            self.changes += 1
        else:
            self.noops += 1
        now = asyncio.get_running_loop().time()
        self._detector.wrote(self._request_id, now, changed=changed)


@final
class LoopDetector:
    """Detects the hot loops and the no-op write storms of one controller, and logs them.

    Args:
        name: the controller's name in logs.
        options: limits.
    """

    def __init__(self, name: str, options: ControllerOptions) -> None:
        self.name: str = name
        self._options = options
        self._storms = self._hot_loops = 0
        self.hot_loops: HotLoops = HotLoops(
            limit=_HOT_STARTS,
            window_seconds=_HOT_WINDOW_SECONDS,
            delay_seconds=_HOT_DELAY_SECONDS,
        )
        self.noop_counts = NoopWriteStorms()
        self.breaker = NoopStormBreaker(
            is_enabled=options.noop_breaker, probe_seconds=_PROBE_SECONDS
        )
        self._is_breaker_logged = False
        self.held: Mapping[RequestId, int] = self.breaker.held
        """What the breaker holds; always the same mapping, so a caller may keep it."""

    def holds(self, request_id: RequestId, priority: int, now: float) -> bool:
        """Return whether the breaker holds a request that may wait; it is released later."""
        return self.breaker.holds(request_id, priority, now)

    def started(
        self, request_id: RequestId, now: float, reasons: Sequence[Reason], *, may_wait: bool
    ) -> ReconcileWrites:
        """Record the start of a reconcile, and return what counts its writes."""
        if may_wait or self.held:
            self.breaker.started(request_id, now, may_wait=may_wait)
        writes = ReconcileWrites(self, request_id, may_wait=may_wait)
        found = self.hot_loops.started(request_id, now, reasons)
        if found is not None:
            self._found_hot(found)
        return writes

    def wrote(self, request_id: RequestId, now: float, *, changed: bool) -> None:
        """Count a write."""
        if self.noop_counts.wrote(request_id, now, changed=changed):
            self._storm_began()

    def ended(self, writes: ReconcileWrites, now: float, *, is_failure: bool) -> None:
        """Record the end of a reconcile, during a storm or while the breaker is open."""
        is_noop = writes.noops > 0 and not writes.changes
        if writes.may_wait:
            if self.breaker.ended(is_noop=is_noop or is_failure):
                self._breaker_closed()
            if is_noop and self.noop_counts.is_storm and self.breaker.open():
                self._breaker_opened()
        storm = self.noop_counts.ended(now)
        if self.breaker.is_open and (self.noop_counts.is_quiet(now) or (storm and not self.held)):
            self.breaker.close()
            self._breaker_closed()
        if storm is not None:
            self._storm_ended(storm)

    def hot(self, now: float) -> tuple[HotLoopStatus, ...]:
        """Return the keys that are slowed; from any thread."""
        return tuple(
            HotLoopStatus(
                request=request_text(found.request_id),
                reconciles=found.starts,
                inputs=found.inputs,
                reasons=_causes(found),
            )
            for found in self.hot_loops.hot(now)
        )

    def noop_writes(self, now: float) -> NoopWriteStatus:
        """Return the state of no-op writes and of the breaker; from any thread."""
        noops = self.noop_counts
        return NoopWriteStatus(
            writes=noops.writes,
            noops=noops.noops,
            noop_ratio=noops.ratio(),
            is_storm=noops.is_storm and not noops.is_quiet(now),
            top=tuple((request_text(key), count) for key, count in noops.top(_TOP)),
            breaker=self.breaker.state,
            held=len(self.held),
            held_total=self.breaker.held_total,
        )

    def figures(self, now: float) -> dict[str, float]:
        """Return the numbers of both by metric; from any thread."""
        noops, breaker = self.noop_counts, self.breaker
        return {
            "controller_hot_keys": len(self.hot_loops.hot(now)),
            "controller_hot_loops_total": self._hot_loops,
            "controller_writes_total": noops.writes,
            "controller_noop_writes_total": noops.noops,
            "controller_noop_storm": float(noops.is_storm and not noops.is_quiet(now)),
            "controller_noop_storms_total": self._storms,
            "controller_noop_breaker_open": float(breaker.is_open),
            "controller_noop_breaker_depth": len(self.held),
            "controller_noop_breaker_held_total": breaker.held_total,
        }

    def _storm_began(self) -> None:
        self._storms += 1
        worst = ", ".join(request_text(key) for key, _ in self.noop_counts.top(3))
        _log.error(
            "controller %s: %.0f %% of its newest writes changed nothing, %d so far: the server"
            " answers with the old resource version, and does all the work of an update. Most"
            " likely the reconcile applies or updates at each call, without a comparison, or"
            " compares with a state that never becomes equal: use apply_if_changed, or"
            " create_or_update; write a status by a model, as a dict removes defaults of the"
            " server. Keys, for example: %s",
            self.name,
            self.noop_counts.ratio() * 100,
            self.noop_counts.noops,
            worst,
        )

    def _storm_ended(self, storm: Storm) -> None:
        _log.info(
            "controller %s: its storm of writes that change nothing ended after %.0f s and %d"
            " writes",
            self.name,
            storm.seconds,
            storm.noops,
        )
        self._is_breaker_logged = False

    def _breaker_opened(self) -> None:
        _log.log(
            logging.DEBUG if self._is_breaker_logged else logging.WARNING,
            "controller %s: its requests of low priority are held, and so are keys that were not"
            " changed and only make no-op writes; one per %g s probes whether the storm is over."
            " Events pass",
            self.name,
            _PROBE_SECONDS,
        )

    def _breaker_closed(self) -> None:
        _log.log(
            logging.DEBUG if self._is_breaker_logged else logging.WARNING,
            "controller %s: the %d held requests are released",
            self.name,
            len(self.held),
        )
        self._is_breaker_logged = True  # until the storm is over: it may open and close often

    def _found_hot(self, found: HotKey) -> None:
        self._hot_loops += 1
        _log.warning(
            "controller %s: %s was reconciled %d times in %g s, while its inputs changed %d times;"
            " it may wake itself, or really have so many changes, and is slowed to once in %g s;"
            " reasons: %s",
            self.name,
            request_text(found.request_id),
            found.starts,
            _HOT_WINDOW_SECONDS,
            found.inputs,
            _HOT_DELAY_SECONDS,
            "; ".join(_causes(found)) or "none",
        )


def _causes(found: HotKey) -> tuple[str, ...]:
    return tuple(f"{cause} (x{count})" for cause, count in found.causes)
