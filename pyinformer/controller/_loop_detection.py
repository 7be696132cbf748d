"""What a controller notices of itself: keys in a loop, writes in vain; and what it does about it.

What enters are starts and ends of reconciles, and the answers of their writes; what leaves are
which request has to wait, one log line for each thing found, and figures. The decisions are made in
pure modules; here they meet the log, the metrics and the loop's time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, final

from pyinformer._logging import get_logger
from pyinformer.controller._hot_loop import HotKey, HotLoops
from pyinformer.controller._noop_writes import NoopWrites, Storm
from pyinformer.controller._status import HotLoopStatus, NoopWriteStatus
from pyinformer.controller._storm_breaker import StormBreaker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.controller._options import ControllerOptions
    from pyinformer.controller._storm_breaker import Probe
    from pyinformer.metrics import Metrics
    from pyinformer.sources._request import Request

_log = get_logger("pyinformer.controller")

_TOP: Final = 10  # keys that are named: who looks for a bug needs one
_RELEASED: Final = 64  # at each step: what was held comes back without holding up the loop


@final
class ReconcileWrites:
    """The writes of one reconcile; the cluster tells it of each.

    Args:
        alarms: of the controller.
        request: what is reconciled.
        is_storm: nothing that happened asks for it, so that it may wait.
    """

    __slots__ = ("_alarms", "changes", "is_storm", "noops", "request")

    def __init__(self, alarms: LoopDetector, request: Request, *, is_storm: bool) -> None:
        self._alarms = alarms
        self.request: Request = request
        self.is_storm: bool = is_storm
        self.changes: int = 0
        self.noops: int = 0

    @property
    def name(self) -> str:
        """The controller's name."""
        return self._alarms.name

    def wrote(self, *, changed: bool) -> None:
        """Count a write, on the event loop."""
        if changed:
            self.changes += 1
        else:
            self.noops += 1
        self._alarms.wrote(self.request, asyncio.get_running_loop().time(), changed=changed)


@final
class LoopDetector:
    """The alarms of one controller.

    Args:
        name: names it in logs and metrics.
        options: limits.
        metrics: where occurrences are counted.
    """

    def __init__(self, name: str, options: ControllerOptions, metrics: Metrics) -> None:
        self.name: str = name
        self._options = options
        self._metrics = metrics
        self._labels = {"controller": name}
        self.hot_loops: HotLoops = HotLoops(
            limit=options.hot_loop_limit,
            window_seconds=options.hot_loop_window_seconds,
            delay_seconds=options.hot_loop_delay_seconds,
        )
        self._noops = NoopWrites(
            ratio=options.noop_write_ratio, per_second=options.noop_writes_per_second
        )
        self._breaker = StormBreaker(
            is_enabled=options.noop_breaker, probe_seconds=options.noop_breaker_probe_seconds
        )
        self._is_breaker_told = False
        self.held: Mapping[Request, int] = self._breaker.held
        """What the breaker holds; always the same mapping, so that a look at it costs nothing."""

    @property
    def aside(self) -> int:
        """How many of these are not in the queue."""
        return self._breaker.aside

    def writes_in_vain(self, request: Request) -> bool:
        """Return whether a key that nothing has happened to had better wait."""
        return self._noops.only_noops(request)

    def holds(self, request: Request, priority: int, now: float) -> bool:
        """Return whether a request that may wait has to; it is kept until it is given back."""
        holds = self._breaker.holds(request, priority, now)
        if holds:
            self._metrics.increment("controller_noop_breaker_held_total", self._labels)
        return holds

    def started(self, request: Request, now: float, *, is_storm: bool) -> ReconcileWrites:
        """Take note of a start; the request has its reasons."""
        if is_storm or self.held:
            self._breaker.started(request, now, is_storm=is_storm)
        found = self.hot_loops.started(request, now, request.reasons)
        if found is not None:
            self._found_hot(found)
        return ReconcileWrites(self, request, is_storm=is_storm)

    def wrote(self, request: Request, now: float, *, changed: bool) -> None:
        """Count a write."""
        if self._noops.wrote(request, now, changed=changed):
            self._storm_began()
        if not changed:
            self._metrics.increment("informer_noop_writes_total", self._labels)

    def ended(self, writes: ReconcileWrites, now: float, *, is_failure: bool) -> None:
        """Take note of the end of a reconcile."""
        if not (self._noops.is_storm or self._breaker.is_open):
            return
        is_vain = writes.noops > 0 and not writes.changes
        if writes.is_storm:
            self._storm_lane_ended(is_vain=is_vain, is_failure=is_failure)
        storm = self._noops.ended(now)
        if self._breaker.is_open and (self._noops.is_quiet(now) or (storm and not self.held)):
            self._breaker.close()
            self._breaker_closed()
        if storm is not None:
            self._storm_ended(storm)

    def postponed(self, request: Request) -> None:
        """Take note that a request waits in the queue for a reason of its own."""
        self._breaker.postponed(request)

    def next_probe(self, now: float) -> Probe | None:
        """Return a held request that has to be put into the queue, if there is one."""
        return self._breaker.next_probe(now) if self.held else None

    def release(self) -> list[tuple[Request, int]]:
        """Return some of the requests that need not wait any more."""
        return self._breaker.release(_RELEASED) if self.held else []

    def hot(self, now: float) -> tuple[HotLoopStatus, ...]:
        """Return the keys that are slowed; from any thread."""
        return tuple(
            HotLoopStatus(
                request=str(found.request),
                reconciles=found.starts,
                inputs=found.inputs,
                reasons=_causes(found),
            )
            for found in self.hot_loops.hot(now)
        )

    def noop_writes(self, now: float) -> NoopWriteStatus:
        """Return what came of the writes; from any thread."""
        noops = self._noops
        return NoopWriteStatus(
            writes=noops.writes,
            noops=noops.noops,
            noop_ratio=noops.ratio(),
            is_storm=noops.is_storm and not noops.is_quiet(now),
            top=tuple((str(request), count) for request, count in noops.top(_TOP)),
            breaker=self._breaker.state,
            held=len(self.held),
            held_total=self._breaker.held_total,
        )

    def _storm_lane_ended(self, *, is_vain: bool, is_failure: bool) -> None:
        if self._breaker.ended(is_noop=is_vain or is_failure):
            self._breaker_closed()
        if is_vain and self._noops.is_storm and self._breaker.open():
            self._breaker_opened()

    def _storm_began(self) -> None:
        worst = ", ".join(str(request) for request, _ in self._noops.top(3))
        _log.error(
            "controller %s: %.0f %% of its newest writes changed nothing, %d so far: the server"
            " answers with the old resource version, and does all the work of an update. Most"
            " likely it compares what it wants with something that never becomes equal; see"
            " apply_if_changed. Keys, for example: %s",
            self.name,
            self._noops.ratio() * 100,
            self._noops.noops,
            worst,
        )
        self._metrics.increment("controller_noop_storms_total", self._labels)

    def _storm_ended(self, storm: Storm) -> None:
        _log.info(
            "controller %s: its storm of writes that change nothing is over after %.0f s; there"
            " were %d",
            self.name,
            storm.seconds,
            storm.noops,
        )
        self._is_breaker_told = False

    def _breaker_opened(self) -> None:
        self._metrics.set("controller_noop_breaker_open", 1.0, self._labels)
        _log.log(
            logging.DEBUG if self._is_breaker_told else logging.WARNING,
            "controller %s: holds its requests of low priority, and keys that write in vain without"
            " a new event; one per %g s tries whether that is over. Events pass",
            self.name,
            self._options.noop_breaker_probe_seconds,
        )

    def _breaker_closed(self) -> None:
        self._metrics.set("controller_noop_breaker_open", 0.0, self._labels)
        _log.log(
            logging.DEBUG if self._is_breaker_told else logging.WARNING,
            "controller %s: lets go of the %d requests that it held",
            self.name,
            len(self.held),
        )
        self._is_breaker_told = True  # until the storm is over: else a mixture would flood the log

    def _found_hot(self, found: HotKey) -> None:
        _log.warning(
            "controller %s: %s was reconciled %d times in %g s, while its inputs changed %d times;"
            " it may wake itself, and is slowed to once in %g s; reasons: %s",
            self.name,
            found.request,
            found.starts,
            self._options.hot_loop_window_seconds,
            found.inputs,
            self._options.hot_loop_delay_seconds,
            "; ".join(_causes(found)) or "none",
        )
        self._metrics.increment("controller_hot_loops_total", self._labels)


def _causes(found: HotKey) -> tuple[str, ...]:
    return tuple(f"{cause} (x{count})" for cause, count in found.causes)
