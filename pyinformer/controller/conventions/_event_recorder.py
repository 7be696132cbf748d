"""Kubernetes Events: what a controller did, for people, without slowing down the reconcile.

Recording neither waits nor raises, in any thread. A task writes the events one after the other; an
event that the server fails to store, for example since a webhook is down, is tried again later, and
delays no other. The backlog is bounded, and events that were not written are counted. Closing
writes the backlog, for a limited time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import platform
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, final

import anyio
from anyio.abc import TaskGroup

from pyinformer._runtime.clock import monotonic, wall_time
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import FailureLog, Host, Startable, error_text, repeats_text
from pyinformer.client.cluster import Cluster, check_cluster, writing_as
from pyinformer.controller.conventions._event_body import API_VERSION, EventBodies, series_body
from pyinformer.controller.conventions._event_correlator import (
    EventBook,
    EventOutcome,
    Occurrence,
    Series,
)
from pyinformer.controller.conventions._references import AnyObject
from pyinformer.errors import (
    ConflictError,
    ForbiddenError,
    InformerError,
    InvalidArgumentError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)
from pyinformer.objects import (
    ExponentialBackoff,
    KubeObject,
    check_integer,
    check_seconds,
    check_text,
    object_key,
    plain_text,
)

_log = get_logger(__name__)

_SWEEP_SECONDS: Final = 60.0  # series end after six minutes of silence; one more is harmless
_ATTEMPTS: Final = 12  # upstream's; with these delays about five minutes
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_CONTROLLER: Final = re.compile(
    rf"({_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
)
_TRANSIENT: Final = (TransportError, ServerError, TooManyRequestsError)
_INTERNAL_SERVER_ERROR: Final = 500  # about one event; others are about the server


@final
@dataclass(slots=True)
class _Attempts:
    """How often a series was tried, and when it is tried again."""

    backoff: ExponentialBackoff
    made: int = 0
    due_at: float = 0.0
    """Monotonic seconds."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecorderStatistics:
    """The results of the calls of one recorder."""

    recorded: int
    """All calls of `event`."""
    written: int
    """Writes that succeeded: new events, and new counts of earlier ones."""
    aggregated: int
    """Calls that only raised the count of a series."""
    rate_limited: int
    """Dropped: too many new events about one object."""
    overflowed: int
    """Dropped: too many events waited to be written."""
    invalid: int
    """Dropped: every API server would refuse them."""
    failed: int
    """Dropped: the server refused, or could not be reached for too long."""
    after_close: int
    """Dropped: the recorder was closed."""
    undelivered: int
    """Dropped: still waiting when the time to close was over."""
    waiting: int
    """Events that wait to be written."""
    open_series: int
    """Series that may still grow."""


@final
class EventRecorder(Startable):
    """Records events about objects: `async with EventRecorder(cluster, "db-operator") as events`.

        events.event(database, "BackupFailed", "the bucket is full", type="Warning")

    Equal events (object, type, reason and action; the note may differ) become one with a count. It
    is written at the first two occurrences, and again after six minutes without one. New events
    about one object are limited to 25 at once and one in five minutes.

    Args:
        cluster: where the events are written; it must be open as long as the recorder. Without a
            `field_manager` of the cluster, the events' fields belong to the reporter's name.
        controller: the reporter's name: `db-operator` or `acme.io/db-operator`.
        instance: the name of this process; None for `<controller>-<host name>`.
        max_waiting: how many events may wait to be written; more are dropped, as upstream does.
        drain_timeout_seconds: how long closing continues to write.
        wall_clock: Unix time in seconds, for the events.
        rng: spreads the retries.

    Raises:
        InvalidArgumentError: the reporter's name or a number is invalid.
    """

    def __init__(
        self,
        cluster: Cluster,
        controller: str,
        *,
        instance: str | None = None,
        max_waiting: int = 1000,
        drain_timeout_seconds: float = 5.0,
        wall_clock: Callable[[], float] = wall_time,
        rng: random.Random | None = None,
    ) -> None:
        check_cluster(cluster)
        check_text("controller", controller)
        if instance is not None:
            check_text("instance", instance)
        if not _CONTROLLER.fullmatch(controller):
            reason = f"must be like 'db-operator' or 'acme.io/db-operator', got {controller!r}"
            raise InvalidArgumentError("controller", reason)
        check_integer("max_waiting", max_waiting)
        check_seconds("drain_timeout_seconds", drain_timeout_seconds)
        self.controller: str = plain_text(controller)
        self._cluster = cluster
        self._book = EventBook(max_waiting)
        self._bodies = EventBodies(
            self.controller, instance or f"{self.controller}-{platform.node()}"
        )
        self._drain_timeout_seconds = drain_timeout_seconds
        self._wall_clock = wall_clock
        self._rng = rng
        self._host = Host(f"event recorder of {controller}", self._run)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken: anyio.Event | None = None
        self._drained: anyio.Event | None = None
        self._in_hand: Series | None = None
        self._postponed: dict[Series, _Attempts] = {}
        self._logged: set[str] = set()
        self._failures = FailureLog()
        self._written = self._failed = self._undelivered = 0

    def event(
        self,
        regarding: AnyObject,
        reason: str,
        note: str = "",
        *,
        type: Literal["Normal", "Warning"] = "Normal",
        action: str = "",
        related: AnyObject | None = None,
    ) -> None:
        """Record an event about an object. Never waits, never raises.

        An invalid event is dropped, counted and logged. May be called from any thread, and before
        the recorder is started.

        Args:
            regarding: the object: a cached one, or a body with a name.
            reason: one word in camel case, for programs: `BackupFailed`.
            note: a sentence for people; cut at 1,024 bytes.
            type: `Warning` for what needs attention.
            action: what was tried: `Backup`. Empty takes the reason.
            related: another object that is involved.
        """
        try:
            occurrence = Occurrence.of(
                regarding,
                reason=reason,
                note=note,
                event_type=type,
                action=action,
                related=related,
                happened_at=self._wall_clock(),
            )
        except Exception as error:  # noqa: BLE001 - a guard: an event never stops a reconcile
            self._book.count_invalid()
            unlogged = self._failures.due(error, monotonic())
            if unlogged is not None:
                _log.error(
                    "an event of %s is dropped: %s%s",
                    self.controller,
                    error_text(error),
                    repeats_text(unlogged),
                )
            return
        loop = self._loop
        outcome = self._book.observe(occurrence, 0.0 if loop is None else loop.time())
        if outcome is EventOutcome.QUEUED and loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and so is the recorder
                loop.call_soon_threadsafe(self._wake)

    def statistics(self) -> EventRecorderStatistics:
        """Return the results so far; from any thread."""
        counts = self._book.counts
        return EventRecorderStatistics(
            recorded=sum(counts.values()),
            written=self._written,
            aggregated=counts[EventOutcome.AGGREGATED],
            rate_limited=counts[EventOutcome.RATE_LIMITED],
            overflowed=counts[EventOutcome.OVERFLOWED],
            invalid=counts[EventOutcome.INVALID],
            failed=self._failed,
            after_close=counts[EventOutcome.CLOSED],
            undelivered=self._undelivered,
            waiting=self._book.waiting,
            open_series=self._book.open,
        )

    async def start(self) -> None:
        """Start to write events.

        Raises:
            LifecycleError: it was started before; a recorder runs once.

        Cancellation:
            Stops what was started, then continues.
        """
        self._loop = asyncio.get_running_loop()
        self._drained = anyio.Event()
        await self._host.start()

    async def aclose(self) -> None:
        """Refuse new events, write waiting ones, and stop; a second call does nothing.

        Events that are not written within `drain_timeout_seconds` are dropped and counted.

        Cancellation:
            Takes effect at once; waiting events are dropped and counted.
        """
        self._book.close()
        self._wake()
        try:
            if self._host.is_running and self._drained is not None:
                with anyio.move_on_after(self._drain_timeout_seconds):
                    await self._drained.wait()
        finally:
            try:
                await self._host.aclose()
            finally:
                self._drop_rest()

    async def _run(self, _group: TaskGroup, ready: Callable[[], None]) -> None:
        ready()
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._woken = anyio.Event()
                while (series := self._take(loop.time())) is not None:
                    self._in_hand = series
                    with writing_as(self.controller):  # the recorder may be started anywhere
                        await self._write(series)
                    self._in_hand = None
                if self._book.is_closed and not self._book.waiting and not self._postponed:
                    return
                due_at = min((one.due_at for one in self._postponed.values()), default=math.inf)
                with anyio.move_on_after(min(_SWEEP_SECONDS, max(0.0, due_at - loop.time()))):
                    await self._woken.wait()
                self._book.sweep(loop.time())
        finally:
            if self._drained is not None:
                self._drained.set()

    def _wake(self) -> None:
        if self._woken is not None:
            self._woken.set()

    def _take(self, now: float) -> Series | None:
        """Return the next series to write: a postponed one that is due, or the oldest."""
        for series, attempts in self._postponed.items():
            if attempts.due_at <= now:
                return series
        while (waiting := self._book.take()) is not None:
            if waiting not in self._postponed:  # which is written with the new count when it is due
                return waiting
        return None

    async def _write(self, series: Series) -> None:
        """Write a series, or postpone it if the server fails to store its event alone."""
        attempts = self._postponed.pop(series, None) or _Attempts(ExponentialBackoff(rng=self._rng))
        loop = asyncio.get_running_loop()
        while True:
            attempts.made += 1
            try:
                await self._send(series)
            except _TRANSIENT as error:
                if attempts.made == _ATTEMPTS:
                    self._give_up(series, error)
                    return
                asked = getattr(error, "retry_after_seconds", None) or 0.0
                delay = max(attempts.backoff.next(loop.time()), asked)
                if self._is_about_one(error):
                    attempts.due_at = loop.time() + delay
                    self._postponed[series] = attempts
                    return
                await anyio.sleep(delay)
            except InformerError as error:
                self._give_up(series, error)
                return
            else:
                return

    def _is_about_one(self, error: InformerError) -> bool:
        """Return whether other events may be stored meanwhile, and this one can be kept."""
        is_one = isinstance(error, ServerError) and error.status == _INTERNAL_SERVER_ERROR
        return is_one and len(self._postponed) < self._book.max_waiting

    async def _send(self, series: Series) -> None:
        """Write the part of a series that the server does not have yet."""
        count = series.count
        if series.written_count == count:
            return
        if series.stored is None:
            series.stored = await self._create(series)
        else:
            try:
                series.stored = await self._grow(series.stored, series)
            except NotFoundError:  # it has expired: write a new event with the whole count
                series.stored, series.name = None, ""
                series.stored = await self._create(series)
        series.written_count = count
        series.written_at = asyncio.get_running_loop().time()
        self._written += 1

    async def _create(self, series: Series) -> KubeObject[None]:
        body = self._bodies.body(series)
        try:
            return await self._cluster.create(body)
        except ConflictError:  # an earlier attempt whose answer was lost: names are unique
            key = object_key(body["metadata"]["namespace"], body["metadata"]["name"])
            stored = await self._cluster.get(API_VERSION, "events", key)
        # It holds the count of that attempt.
        return stored if series.count == 1 else await self._grow(stored, series)

    async def _grow(self, stored: KubeObject[None], series: Series) -> KubeObject[None]:
        grown = {**stored.to_dict(), "series": series_body(series)}
        return await self._cluster.patch(stored, grown)

    def _give_up(self, series: Series, error: InformerError) -> None:
        self._failed += 1
        self._book.forget(series)
        kind = type(error).__name__
        is_terminating = isinstance(error, ForbiddenError) and error.is_terminating
        level = logging.DEBUG if kind in self._logged or is_terminating else logging.WARNING
        if not is_terminating:
            self._logged.add(kind)  # a missing permission concerns every event
        _log.log(
            level,
            "an event of %s about %s %s is dropped: %s",
            self.controller,
            series.first.regarding.kind,
            series.first.regarding.key,
            error,
        )

    def _drop_rest(self) -> None:
        left = ({self._in_hand} - {None}) | self._postponed.keys()
        self._in_hand = None
        self._postponed.clear()
        while (series := self._book.take()) is not None:
            left.add(series)
        if left:
            self._undelivered += len(left)
            _log.warning(
                "%d %s of %s dropped: the recorder is closed",
                len(left),
                "event" if len(left) == 1 else "events",
                self.controller,
            )
