"""One cluster of a pool: in which state it is, what went wrong, and when it may be tried again.

What enters is what its task does, and the time; what leaves are the answers for those who wait.
Nothing here waits. A change of state replaces the event that announces it, so nobody misses one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar, final

import anyio

from pyinformer.apimachinery import CacheSyncTimeoutError, ClusterUnavailableError, InformerError

if TYPE_CHECKING:
    from pyinformer.apimachinery import ExponentialBackoff

_T = TypeVar("_T")

PooledState: TypeAlias = Literal["opening", "open", "closing", "failed", "gone"]
"""What a cluster of a pool is doing; `failed` rests until its next attempt may begin."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PooledClusterStatus:
    """How one cluster of a pool is doing."""

    name: str
    """The name it was asked for by."""

    state: PooledState

    state_seconds: float
    """For how long it has been in this state."""

    reason: str
    """What it waits for, or why it failed; empty while it is open."""

    waiters: int
    """How many wait for it at present."""

    failed_attempts: int
    """How many attempts to open it failed in a row."""

    last_error: str | None
    """Why the last one failed; None since it was opened."""

    retry_after_seconds: float | None
    """When the next attempt may begin; None unless it failed."""


@final
class Opened(Generic[_T]):
    """What was opened for a cluster; None may be it as well."""

    __slots__ = ("value",)

    def __init__(self, value: _T) -> None:
        self.value = value


@final
class Look:
    """A look at what an opening still misses, for all who lose patience at the same time."""

    __slots__ = ("done", "missing")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.missing: BaseException | None = None


@final
class Pooled(Generic[_T]):
    """One cluster of a pool.

    Args:
        name: by which it is asked for.
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
        """Bounds opening and closing."""
        self.is_given_up: bool = False
        """Whether it was to be closed before it was open."""
        self.has_broken: bool = False
        """Whether it was open, and broke."""
        self.opened: Opened[_T] | None = None
        """What open() made; it is ready only in state `open`."""
        self.look: Look | None = None
        """The one that is being taken."""
        self.waiters: int = 0
        self.retry_at: float = now
        self.error: BaseException | None = None
        """Why the last attempt failed; None since it was open."""
        self.failures: int = 0
        """How many attempts failed in a row."""
        self._backoff = backoff
        self._reason = ""
        self._since = now

    def begin(self, now: float) -> None:
        """Take note that an attempt to open it begins."""
        self.end, self.scope = anyio.Event(), anyio.CancelScope()
        self.is_given_up = self.has_broken = False
        self._change("opening", now, "connect() has not finished yet")

    def connected(self) -> None:
        """Take note that there is a Cluster."""
        self._reason = "open() has not finished yet"

    def made(self, value: _T) -> None:
        """Take note of what open() made."""
        self.opened = Opened(value)
        self._reason = "ready() has not finished yet"

    def is_ready(self, now: float) -> None:
        """Take note that it can be used."""
        self.failures, self.error = 0, None
        self._backoff.reset()
        self._change("open", now, "")

    def end_nowait(self, now: float) -> None:
        """Have it closed, for good; an attempt to open it is given up."""
        if self.state == "failed":
            self.gone(now)
        elif self.state in {"opening", "open"}:
            if self.state == "opening":
                self.is_given_up = True
                self.scope.cancel()
            self.end.set()
            self._change("closing", now, "it is being closed")

    def fails(self, error: BaseException, now: float) -> None:
        """Take note that it goes wrong, and what was opened begins to be closed."""
        self.opened = None
        if self.state == "open":
            self.has_broken = True
            self._change("closing", now, "it broke, and is being closed")
        elif self.state == "opening" and not self.scope.cancel_called:  # else it was too slow
            self._reason = f"what was opened is being closed: {words_of(bare(error))}"

    def failed(self, error: BaseException, now: float) -> None:
        """Take note that it could not be opened, or broke; everything of it is closed."""
        self.failures += 1
        self.error, self.opened = error, None
        self.retry_at = now + self._backoff.next(now)
        self._change("failed", now, words_of(error))

    def gone(self, now: float) -> None:
        """Take note that everything of it is closed, as somebody wanted."""
        self.opened = None
        self._change("gone", now, "it was closed")

    def _change(self, state: PooledState, now: float, reason: str) -> None:
        self.state, self._since, self._reason = state, now, reason
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    def unavailable(
        self, now: float, *, waited_seconds: float, cause: BaseException | None = None
    ) -> ClusterUnavailableError:
        """Return the error for somebody who does not get it.

        Args:
            now: the loop's time.
            waited_seconds: how long they waited.
            cause: what is missing, if that is known better than here.
        """
        reason = self._reason
        if cause is not None:
            reason = missing_in(cause)
        elif self.error is not None and self.state != "failed":
            reason = f"{reason}, and the last attempt failed: {words_of(self.error)}"
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
        """Return how it is doing."""
        return PooledClusterStatus(
            name=self.name,
            state=self.state,
            state_seconds=max(0.0, now - self._since),
            reason=self._reason,
            waiters=self.waiters,
            failed_attempts=self.failures,
            last_error=None if self.error is None else words_of(self.error),
            retry_after_seconds=self._retry_after(now),
        )


def bare(error: BaseException) -> BaseException:
    """Return an error out of the groups in which it is the only one, or the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def words_of(error: BaseException | None) -> str:
    """Return an error in words: ours speak for themselves."""
    name = type(error).__name__
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - the user's; it must not hide that there was an error
        return name
    if isinstance(error, InformerError):
        return words
    return f"{name}: {words}" if words else name


def missing_in(error: BaseException) -> str:
    """Return what the last look misses, without the time of that look, which is none."""
    error = bare(error)
    if isinstance(error, CacheSyncTimeoutError):
        return f"not synced: {'; '.join(error.pending)}"
    return words_of(error)


def drop_tracebacks(error: BaseException) -> None:
    """Let go of what an error's tracebacks hold: the caches of a cluster that failed, say.

    The frames themselves are left alone: one of them may belong to a loop that goes on.
    """
    left, seen = [error], set[int]()
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            left += [linked for linked in (one.__cause__, one.__context__) if linked is not None]
            left += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
