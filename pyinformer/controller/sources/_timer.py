"""The timer source: periodic requests for some keys, or for every primary object.

Missed beats are skipped. Requests for every primary object are spread over the whole period, at low
priority.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, final

import anyio

from pyinformer._runtime.tasks import check_plain, loop_time, spread
from pyinformer.controller.sources._guarded_call import GuardedCall
from pyinformer.controller.sources._mapping_results import Keys, collect
from pyinformer.controller.sources._periodic_schedule import PacedRounds, next_beat_at
from pyinformer.controller.sources._request import Reason, Request, request_for
from pyinformer.controller.sources._source import SourceOptions, SourceStatus, check_period
from pyinformer.errors import InvalidArgumentError, LifecycleError
from pyinformer.objects import Event, check_iterable, check_type
from pyinformer.workqueue import LOW_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyinformer.controller.sources._informer_source import InformerSource
    from pyinformer.controller.sources._request import RequestId
    from pyinformer.controller.sources._source import Enqueue

KeysFunction: TypeAlias = Callable[[], Keys]
"""Returns what a timer requests at a beat; it may be a generator function."""


@final
class TimerSource:
    """Requests keys periodically. Constructing it starts nothing.

    Args:
        period_seconds: from beat to beat; the first beat is one period after the start.
        keys: what to request at each beat, all at once: keys, requests, or a function that
            returns them. None for every object of the primaries, spread over the period.
        primaries: the sources of these objects.
        name: the source's name in reasons, logs and status; by default its period.
        options: how to log; plain keys are of its cluster.

    Raises:
        InvalidArgumentError: the period or a key is invalid, or there are neither keys nor
            primaries.
        InvalidTypeError: a key is neither text nor a request; or the function cannot be called, or
            is asynchronous.
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
        primaries: Sequence[InformerSource[object]] = (),
        name: str = "",
        options: SourceOptions | None = None,
    ) -> None:
        check_period("period_seconds", period_seconds)
        if keys is None and not primaries:
            reason = "is None, which requests every primary object, but there is no primary"
            raise InvalidArgumentError("keys", reason)
        self.name: str = name or f"every {period_seconds:g} s"
        """The source's name in reasons, logs and status."""
        self._period_seconds = period_seconds
        check_iterable("primaries", primaries, shown="sources of primary informers")
        if options is not None:
            check_type("options", options, SourceOptions)
        self._primaries = tuple(primaries)
        self._options = options or SourceOptions()
        self._is_spread = keys is None
        self._function = self._checked(keys)
        self._call = GuardedCall(
            self.name, "keys", keys, consequence="this beat requests less", options=self._options
        )
        self._enqueue: Enqueue | None = None
        self._was_attached = False
        self._enqueued = self._beats = 0

    def _checked(self, keys: Keys | KeysFunction) -> KeysFunction:
        if callable(keys):
            check_plain(keys, "keys()", 0, may_generate=True)
            return keys
        requests: dict[Request, None] = {}
        collect(keys, self._options.cluster, requests)
        return requests.keys

    async def wait_synced(self) -> None:
        """Return at once: a timer has no initial list.

        Cancellation:
            It never waits.
        """

    def attach(self, enqueue: Enqueue) -> None:
        """Begin to enqueue requests, once `run` runs.

        Raises:
            LifecycleError: it was attached before.
        """
        if self._was_attached:
            raise LifecycleError(f"the source {self.name} was attached before: make a new one")
        self._was_attached = True
        self._enqueue = enqueue

    def detach(self) -> None:
        """Enqueue no further requests. A second call does nothing."""
        self._enqueue = None

    async def run(self) -> None:
        """Enqueue requests at each beat.

        Cancellation:
            The way to stop it; between two requests.
        """
        if self._is_spread:
            await self._spread()
        began_at = loop_time()
        while True:
            beat_at = next_beat_at(
                loop_time(), began_at=began_at, period_seconds=self._period_seconds
            )
            await anyio.sleep_until(beat_at)
            await self._beat()

    def requests_for(self, event: Event[object]) -> list[Request]:
        """Return nothing: a timer reads no events."""
        return []

    def replay(self, wanted: Callable[[RequestId], bool]) -> Iterator[None]:
        """Return nothing: the next beat requests everything."""
        return iter(())

    def status(self) -> SourceStatus:
        """Return the source's state; its beats are counted as events."""
        return SourceStatus(
            name=self.name,
            has_synced=True,
            events=self._beats,
            enqueued=self._enqueued,
            failures=self._call.failures,
            last_failure=self._call.last_failure,
        )

    async def _beat(self) -> None:
        self._beats += 1
        requests: dict[Request, None] = {}
        self._call.call("", self._read_keys, requests)

        def steps() -> Iterator[None]:
            for request in requests:
                self._hand_over(request, 0)
                yield

        await spread(steps())

    def _read_keys(self, into: dict[Request, None]) -> None:
        collect(self._function(), self._options.cluster, into)

    async def _spread(self) -> None:
        rounds = PacedRounds(
            self._period_seconds,
            first_at=loop_time() + self._period_seconds,
            keys=self._primary_requests,
        )

        def steps() -> Iterator[None]:
            while (request := rounds.take(loop_time())) is not None:
                self._hand_over(request, LOW_PRIORITY)
                yield

        while True:
            await anyio.sleep_until(rounds.wake_at())
            await spread(steps())

    def _primary_requests(self) -> list[Request]:
        self._beats += 1
        return [
            request_for((key, source.cluster))
            for source in self._primaries
            for key in source.informer.lister.keys(allow_unsynced=True)
        ]

    def _hand_over(self, request: Request, priority: int) -> None:
        if self._enqueue is not None:
            self._enqueue(request, Reason(self.name, "timer"), priority=priority)
            self._enqueued += 1
