"""One cluster of a pool: its state, its last error, and when it may be retried.

Nothing here waits. Each change of state sets an event and replaces it, so no waiter misses one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeAlias, TypeVar, final

import anyio

from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer.errors import CacheSyncTimeoutError, ClusterUnavailableError, InformerError

if TYPE_CHECKING:
    from pyinformer.objects import ExponentialBackoff

_T = TypeVar("_T")

# Opening includes the first load of caches. After this time the attempt has failed and is closed:
# what hangs for so long may need a new connection. What only loads for so long has twice the time
# at the next attempt, so that no cluster is too large to be opened.
_OPEN_SECONDS: Final = 60.0
_LONGEST_OPEN_SECONDS: Final = 960.0

PooledState: TypeAlias = Literal["opening", "open", "closing", "failed", "gone"]
"""The state of a cluster; a `failed` one is not retried before its backoff ends."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PooledClusterStatus:
    """The status of one cluster of a pool."""

    name: str
    """The name under which it was requested."""

    state: PooledState

    state_seconds: float
    """For how long it has been in this state."""

    reason: str
    """What it waits for, or why it failed; empty while it is open."""

    waiters: int
    """How many callers currently wait for it."""

    failed_attempts: int
    """How many attempts to open it failed in a row."""

    last_error: str | None
    """The error of the last attempt; None after it was opened."""

    retry_after_seconds: float | None
    """Seconds until the next attempt may begin; None unless it failed."""


@final
class Opened(Generic[_T]):
    """The value of `open` for a cluster, which may be None."""

    __slots__ = ("value",)

    def __init__(self, value: _T) -> None:
        self.value = value


@final
class ReadinessCheck:
    """A check of what an open cluster still misses, shared by callers that time out together."""

    __slots__ = ("done", "missing")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.missing: BaseException | None = None


@final
class PoolEntry(Generic[_T]):
    """One cluster of a pool.

    Args:
        name: under which it is requested.
        backoff: the delays between failed attempts.
        now: the loop's time.
    """

    def __init__(self, name: str, backoff: ExponentialBackoff, now: float) -> None:
        self.name = name
        self.state: PooledState = "failed"
        self.changed = anyio.Event()
        """Set with the next change of state."""
        self.end = anyio.Event()
        """Set when it is to be closed."""
        self.scope = anyio.CancelScope()
        """Bounds the time of opening and closing it."""
        self.runs: bool = False
        """Its task has taken its first step, and reports its end."""
        self.is_given_up: bool = False
        """Whether it was evicted before it was open."""
        self.has_failed: bool = False
        """Whether `ready` raised, and what was opened is being closed."""
        self.has_broken: bool = False
        """Whether it failed while it was open."""
        self.open_seconds: float = _OPEN_SECONDS
        """How long the attempt to open it may take."""
        self.opened: Opened[_T] | None = None
        """The value of `open`; ready only in the state `open`."""
        self.check: ReadinessCheck | None = None
        """The readiness check under way, if any."""
        self.waiters: int = 0
        self.retry_at: float = now
        self.error: BaseException | None = None
        """Why the last attempt failed; None after it was open."""
        self.failures: int = 0
        """How many attempts failed in a row."""
        self._backoff = backoff
        self._enough_seconds = _OPEN_SECONDS  # as far as the attempts up to now show
        self._reason = ""
        self._since = now

    def begin(self, now: float, wanted_seconds: float) -> None:
        """Record that an attempt to open it begins.

        Args:
            now: the loop's time.
            wanted_seconds: how long the caller that begins it waits; the attempt may take as long.
        """
        self.open_seconds = max(self._enough_seconds, wanted_seconds)
        self.end, self.scope = anyio.Event(), anyio.CancelScope()
        self.is_given_up = self.has_failed = self.has_broken = self.runs = False
        self._change("opening", now, "connect() has not finished yet")

    def connected(self) -> None:
        """Record that the connection is there."""
        self._reason = "open() has not finished yet"

    def made(self, value: _T) -> None:
        """Record the value of `open`."""
        self.opened = Opened(value)
        self._reason = "ready() has not finished yet"

    def is_ready(self, now: float) -> None:
        """Record that it can be used."""
        self.failures, self.error = 0, None
        self._backoff.reset()
        self._change("open", now, "")

    def end_nowait(self, now: float) -> None:
        """Have it closed; an attempt to open it is cancelled."""
        if self.state == "failed":
            self.gone(now)
        elif self.state in {"opening", "open"}:
            if self.state == "opening" and not self.has_failed:  # what failed is closed already
                self.is_given_up = True
                self.scope.cancel()
            self.end.set()
            self._change("closing", now, "it is being closed")

    def is_late(self) -> None:
        """Record that the attempt has taken all of its time."""
        self._enough_seconds = min(2.0 * self.open_seconds, _LONGEST_OPEN_SECONDS)

    def fails(self, error: BaseException, now: float) -> None:
        """Record an error after which it is being closed."""
        self.opened = None
        if self.state == "open":
            self.has_broken = True
            self._change("closing", now, "it broke, and is being closed")
        elif self.state == "opening" and not self.scope.cancel_called:  # else it was too slow
            self.has_failed = True
            self._reason = f"what was opened is being closed: {text_of(bare(error))}"

    def failed(self, error: BaseException, now: float) -> None:
        """Record that it could not be opened, or broke, and is closed."""
        self.failures += 1
        self.error, self.opened = error, None
        self.retry_at = now + self._backoff.next(now)
        self._change("failed", now, text_of(error))

    def gone(self, now: float) -> None:
        """Record that it is closed, as requested."""
        self.opened = None
        self._change("gone", now, "it was closed")

    def _change(self, state: PooledState, now: float, reason: str) -> None:
        self.state, self._since, self._reason = state, now, reason
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    def unavailable(
        self, now: float, *, waited_seconds: float, cause: BaseException | None = None
    ) -> ClusterUnavailableError:
        """Return the error for a caller that does not get it.

        Args:
            now: the loop's time.
            waited_seconds: how long the caller waited.
            cause: what is missing, according to the last check.
        """
        reason = self._reason
        if cause is not None:
            reason = missing_in(cause)
        elif self.error is not None and self.state != "failed":
            reason = f"{reason}, and the last attempt failed: {text_of(self.error)}"
        error = ClusterUnavailableError(
            cluster=self.name,
            reason=reason,
            waited_seconds=waited_seconds,
            attempts=self.failures,
            retry_after_seconds=self._retry_after(now),
        )
        error.__cause__ = cause or self.error
        return error

    def _retry_after(self, now: float) -> float | None:
        return max(0.0, self.retry_at - now) if self.state == "failed" else None

    def status(self, now: float) -> PooledClusterStatus:
        """Return its status."""
        return PooledClusterStatus(
            name=self.name,
            state=self.state,
            state_seconds=max(0.0, now - self._since),
            reason=self._reason,
            waiters=self.waiters,
            failed_attempts=self.failures,
            last_error=None if self.error is None else text_of(self.error),
            retry_after_seconds=self._retry_after(now),
        )


def bare(error: BaseException) -> BaseException:
    """Return the first error in nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def text_of(error: BaseException | None) -> str:
    """Return an error as text, with the class name of errors that are not this library's."""
    if isinstance(error, CacheSyncTimeoutError):  # its advice is of informers, closed meanwhile
        return f"not synced after {error.waited_seconds:.1f} s: {'; '.join(error.pending)}"
    name = type(error).__name__
    try:
        words = str(error)
    except ENDS_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001 - the user's; it must not hide that there was an error
        return name
    if isinstance(error, InformerError):
        return words
    return f"{name}: {words}" if words else name


def missing_in(error: BaseException) -> str:
    """Return what the last check misses, without its waiting time, which is 0."""
    error = bare(error)
    if isinstance(error, CacheSyncTimeoutError):
        return f"not synced: {'; '.join(error.pending)}"
    return text_of(error)


def drop_tracebacks(error: BaseException) -> None:
    """Drop an error's tracebacks, which would keep the caches of a failed cluster alive.

    The frames are not cleared: one of them may belong to a loop that still runs.
    """
    left, seen = [error], set[int]()
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            left += [linked for linked in (one.__cause__, one.__context__) if linked is not None]
            left += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
