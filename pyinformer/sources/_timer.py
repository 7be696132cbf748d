"""A timer as a source: from time to time, requests for some keys, or for every primary object.

What enters are a period and keys, or a function that returns them; what leaves are requests at each
beat. Beats that were missed are skipped. Every primary object is too many for one moment: those are
spread over the whole period, at low priority.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, final

import anyio

from pyinformer.apimachinery import (
    Event,
    InvalidArgumentError,
    LifecycleError,
    View,
    check_seconds,
)
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.sources._fence import SourceFence
from pyinformer.sources._mapping import Keys, collect
from pyinformer.sources._pacing import PacedRounds, next_beat_at
from pyinformer.sources._predicates import check_plain
from pyinformer.sources._pump import pump
from pyinformer.sources._reasons import reason_of_timer
from pyinformer.sources._request import Request, request_for
from pyinformer.sources._source import SourceStatus
from pyinformer.tasks import LogExceptions
from pyinformer.workqueue import LOW_PRIORITY

if TYPE_CHECKING:
    from pyinformer.sources._informer_source import InformerSource
    from pyinformer.sources._source import Enqueue

KeysFunction: TypeAlias = Callable[[], Keys]
"""Returns what a timer requests at a beat; it may be a generator function."""

_PERIOD_MIN_SECONDS: Final = 0.001  # below, the timer would be all that the loop does


@final
class TimerSource:
    """Requests keys every so often. Constructing it starts nothing.

    Args:
        period_seconds: from beat to beat; the first beat is one period after the start.
        keys: what to request at each beat, all at once: keys, requests, or a function that
            returns them. None for every object of the primaries, spread over the period.
        primaries: the sources whose objects None means.
        name: names the source in reasons, logs and status; by default by its period.
        cluster: the cluster of requests that are only keys.
        metrics: where failures are counted.
        controller: the name of the controller, for logs and metrics of what fails.
        log_exceptions: what logs show of errors that the function raises; `full` shows their texts.

    Raises:
        InvalidArgumentError: the period is no duration or too short, a key is none, or there are
            neither keys nor primaries.
        InvalidTypeError: a key is neither text nor a request.
        InvalidTypeError: the function could not be called, or would have to be awaited.
    """

    informer: None = None
    """A timer has none."""
    has_synced: bool = True
    """It has no initial list."""

    def __init__(
        self,
        period_seconds: float,
        keys: Keys | KeysFunction = None,
        *,
        primaries: Sequence[InformerSource[View | None]] = (),
        name: str = "",
        cluster: str = "",
        metrics: Metrics = NO_METRICS,
        controller: str = "",
        log_exceptions: LogExceptions = "classes",
    ) -> None:
        check_seconds("period_seconds", period_seconds)
        if period_seconds < _PERIOD_MIN_SECONDS:
            reason = f"{period_seconds!r} is too short; {_PERIOD_MIN_SECONDS} is the least"
            raise InvalidArgumentError("period_seconds", reason)
        if keys is None and not primaries:
            reason = "is None, which means every object of the primary, and there is no primary"
            raise InvalidArgumentError("keys", reason)
        self.name: str = name or f"every {period_seconds:g} s"
        """Names it in reasons, logs and status."""
        self._period_seconds = period_seconds
        self._primaries = tuple(primaries)
        self._cluster = cluster
        self._is_spread = keys is None
        self._function = self._checked(keys)
        self._fence = SourceFence(
            self.name,
            "keys",
            keys,
            consequence="this beat requests less",
            metrics=metrics,
            controller=controller,
            log_exceptions=log_exceptions,
        )
        self._enqueue: Enqueue | None = None
        self._was_attached = False
        self._enqueued = self._beats = 0

    def _checked(self, keys: Keys | KeysFunction) -> KeysFunction:
        if callable(keys):
            check_plain(keys, "keys()", 0, may_generate=True)
            return keys
        requests: dict[Request, None] = {}
        collect(keys, self._cluster, requests)
        return requests.keys

    async def wait_synced(self) -> None:
        """Return: it has no initial list.

        Cancellation:
            It never waits.
        """

    def attach(self, enqueue: Enqueue) -> None:
        """Begin to feed, once `run` runs.

        Raises:
            LifecycleError: it is attached already, or was.
        """
        if self._was_attached:
            raise LifecycleError(f"the source {self.name} was attached before: make a new one")
        self._was_attached = True
        self._enqueue = enqueue

    def detach(self) -> None:
        """Feed nothing any more, from this moment. A second call does nothing."""
        self._enqueue = None

    async def run(self) -> None:
        """Request at each beat.

        Cancellation:
            The way to stop it; between two requests.
        """
        if self._is_spread:
            await self._spread()
        began_at = anyio.current_time()
        while True:
            beat_at = next_beat_at(
                anyio.current_time(), began_at=began_at, period_seconds=self._period_seconds
            )
            await anyio.sleep_until(beat_at)
            await self._beat()

    def requests_for(self, event: Event[View | None]) -> list[Request]:
        """Return nothing: events do not concern a timer."""
        return []

    def status(self) -> SourceStatus:
        """Return how it is doing; its beats are counted as events."""
        return SourceStatus(
            name=self.name,
            has_synced=True,
            waiting=0,
            events=self._beats,
            filtered=0,
            unchanged=0,
            enqueued=self._enqueued,
            resyncs=0,
            failures=self._fence.failures,
            last_failure=self._fence.last_failure,
        )

    async def _beat(self) -> None:
        self._beats += 1
        requests: dict[Request, None] = {}
        self._fence.call("", self._ask, requests)
        waiting = iter(requests)

        def step(_now: float) -> bool:
            request = next(waiting, None)
            if request is not None:
                self._hand_over(request, 0)
            return request is not None

        await pump(step)

    def _ask(self, into: dict[Request, None]) -> None:
        collect(self._function(), self._cluster, into)

    async def _spread(self) -> None:
        rounds = PacedRounds(
            self._period_seconds,
            first_at=anyio.current_time() + self._period_seconds,
            keys=self._primary_requests,
        )

        def step(now: float) -> bool:
            request = rounds.take(now)
            if request is not None:
                self._hand_over(request, LOW_PRIORITY)
            return request is not None

        while True:
            await anyio.sleep_until(rounds.wake_at())
            await pump(step)

    def _primary_requests(self) -> list[Request]:
        self._beats += 1
        return [
            request_for(key, source.cluster)
            for source in self._primaries
            for key in source.informer.lister.keys(allow_unsynced=True)
        ]

    def _hand_over(self, request: Request, priority: int) -> None:
        if self._enqueue is not None:
            reason = reason_of_timer(self.name, "")
            self._enqueue(request, reason, priority=priority)
            self._enqueued += 1
