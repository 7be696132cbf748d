"""Many clusters, each opened once; one that is dead or slow delays only its own callers.

A pool opens what the program needs for a cluster's name, an informer factory for example, and
raises an error with the cause while that is not possible. Each cluster is opened and closed by a
task of its own, in the context in which the pool was started. No lock is held meanwhile.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar, final

import anyio
import anyio.lowlevel

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import Host, LoopOwner, Startable, UserTasks, run_shielded
from pyinformer.client.cluster._cluster import Cluster
from pyinformer.client.cluster._connect import connect as connect_to
from pyinformer.client.cluster._pool_entry import (
    Opened,
    PooledClusterStatus,
    PooledState,
    PoolEntry,
    ReadinessCheck,
    bare,
    drop_tracebacks,
    text_of,
)
from pyinformer.errors import InvalidArgumentError, InvalidTypeError, LifecycleError
from pyinformer.objects import ExponentialBackoff, check_seconds
from pyinformer.telemetry.metrics import NO_METRICS, Metrics, Sample, fenced

_T = TypeVar("_T")

Connect: TypeAlias = Callable[[str], AbstractAsyncContextManager[Cluster]]
"""Connects to the cluster of a name."""

_log = get_logger(__name__)

_STATES: Final[tuple[PooledState, ...]] = ("opening", "open", "closing", "failed")
_LAST_CHECK_SECONDS: Final = 0.5  # a check is quick, but may start late on a busy loop
_READY_GRACE_SECONDS: Final = 1.0  # ready() explains its timeout better than a cancellation does
_FORGET_SECONDS: Final = 600.0  # after the next attempt could have begun, failures are forgotten
_SWEEP_SECONDS: Final = 60.0  # between two searches for such failures: there may be many names
_RETRY_INITIAL_SECONDS: Final = 1.0  # on average after a first failure; doubled by each in a row
_RETRY_MAX_SECONDS: Final = 60.0  # a cluster that is back is open within a minute of a request
_CLOSE_TIMEOUT_SECONDS: Final = 30.0  # then it is cancelled: the time that Kubernetes gives a pod


@final
class ClusterPool(Startable, Generic[_T]):
    """Opens clusters by name when they are first requested, and keeps them open.

        @asynccontextmanager
        async def follow(cluster):
            async with SharedInformerFactory(cluster) as factory:
                factory.informer("v1", "pods")
                await factory.start()
                yield factory

        async def synced(factory, timeout_seconds):
            await factory.wait_for_cache_sync(timeout_seconds=timeout_seconds)

        async with ClusterPool(follow, ready=synced) as pool:
            factory = await pool.get("prod", timeout_seconds=5.0)

    However many callers wait for a cluster, it is opened once; opening continues when one of them
    times out or is cancelled. A cluster that cannot be opened is closed again, and the first call
    after its backoff tries again. Clusters do not affect each other. The pool belongs to the event
    loop that entered it.

    Args:
        open: returns a context manager of what `get` returns; entered and left in one task.
        connect: connects to the cluster of a name; None uses the name as a context of the
            kubeconfig.
        ready: waits at most the given seconds until the value of `open` can be used, and raises
            what is missing; with 0 seconds it does not wait. What it returns does not count, and
            False is refused. None: it can be used at once.
        metrics: where the states of the clusters are shown until the pool is closed; also for the
            clusters that it connects to if `connect` is None.
        rng: the source of randomness.

    Raises:
        InvalidTypeError: one of the functions cannot be called as the pool calls it.
    """

    def __init__(
        self,
        open: Callable[[Cluster], AbstractAsyncContextManager[_T]],  # noqa: A002 - what it does
        *,
        connect: Connect | None = None,
        ready: Callable[[_T, float], Awaitable[object]] | None = None,
        metrics: Metrics = NO_METRICS,
        rng: random.Random | None = None,
    ) -> None:
        _check_functions({"open": open, "connect": connect, "ready": ready})
        self._open = open
        self._connect = connect or partial(_context_of, metrics=metrics)
        self._ready = ready
        self._rng = rng or random.Random()
        self._members: dict[str, PoolEntry[_T]] = {}
        self._host = Host("the cluster pool")
        self._tasks = UserTasks()
        self._loop = LoopOwner("the cluster pool")
        self._is_closed = False
        self._swept_at = 0.0
        self._now: Callable[[], float] = float  # the loop's, once it runs
        self._metrics = fenced(metrics)
        self._metrics_scope = NO_METRICS.scope()  # until it starts

    async def start(self) -> None:
        """Start; no cluster is opened yet.

        Raises:
            LifecycleError: it was started before.

        Cancellation:
            Safe.
        """
        self._loop.claim()
        self._now = asyncio.get_running_loop().time
        await self._host.start()
        self._metrics_scope = self._metrics.scope()
        self._metrics_scope.add_source(self._samples)

    async def get(self, name: str, *, timeout_seconds: float = 30.0) -> _T:
        """Return what was opened for a cluster; open it if it is not open.

        Args:
            name: which cluster.
            timeout_seconds: how long to wait; with 0 it does not. Opening continues afterwards, for
                a minute in all or, if this call begins it, for as long as it waits. After an
                attempt that took all of its time the next one has twice as long, up to 16 minutes.

        Returns:
            The value of `open`. It belongs to the pool, which closes it.

        Raises:
            ClusterUnavailableError: it cannot be opened, or not in time: names the cause. Raised at
                once if the last attempt failed and the next one may not begin yet.
            LifecycleError: the pool was not started, or is closed.
            InvalidArgumentError: the name is empty, or the timeout is negative.
            InvalidTypeError: the name is not a text.

        Cancellation:
            Safe; opening continues for other callers.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        _check_name(name)
        started = self._now()
        while True:
            member, opened = self._look(name, started, timeout_seconds)
            if opened is not None:
                return opened.value
            left = started + timeout_seconds - self._now()
            if left <= 0:
                break
            await self._wait(member, left)
        cause = await self._last_check(member)
        now = self._now()
        raise member.unavailable(now, waited_seconds=now - started, cause=cause)

    def _look(
        self, name: str, started: float, timeout_seconds: float
    ) -> tuple[PoolEntry[_T], Opened[_T] | None]:
        """Return a cluster and what was opened for it; begin to open it if it is not open."""
        self._check_running()
        now = self._now()
        member = self._members.get(name) or self._new_member(name, now)
        if member.state == "open":
            return member, member.opened
        if member.state == "failed":
            if now < member.retry_at:
                raise member.unavailable(now, waited_seconds=now - started)
            member.begin(now, started + timeout_seconds - now)
            self._host.start_soon(self._keep, member)
        return member, None

    def _check_running(self) -> None:
        if self._is_closed:
            raise LifecycleError("the cluster pool is closed: create a new one")
        self._loop.check()
        if not self._host.is_running:
            raise LifecycleError("the cluster pool is not running: start it first, or a new one")

    def _new_member(self, name: str, now: float) -> PoolEntry[_T]:
        if now - self._swept_at > _SWEEP_SECONDS:
            self._swept_at = now
            self._forget_failures(now)
        backoff = ExponentialBackoff(
            initial_seconds=_RETRY_INITIAL_SECONDS,
            max_seconds=_RETRY_MAX_SECONDS,
            reset_after_seconds=math.inf,  # only success resets it
            rng=self._rng,
        )
        member = self._members[name] = PoolEntry(name, backoff, now)
        return member

    def _forget_failures(self, now: float) -> None:
        for member in tuple(self._members.values()):
            if member.state == "failed" and now - member.retry_at > _FORGET_SECONDS:
                del self._members[member.name]

    async def _wait(self, member: PoolEntry[_T], seconds: float) -> None:
        """Wait for a change of its state, but no longer than this."""
        member.waiters += 1
        try:
            with anyio.move_on_after(seconds):
                await member.changed.wait()
        finally:
            member.waiters -= 1

    async def _last_check(self, member: PoolEntry[_T]) -> BaseException | None:
        """Return what is missing, if `ready` raises it; concurrent callers share one check."""
        opened = member.opened
        if opened is None or self._ready is None:
            return None
        check = member.check
        if check is None:
            check = member.check = ReadinessCheck()
            self._host.start_soon(self._check_readiness, member, check, opened.value)
        with anyio.move_on_after(_LAST_CHECK_SECONDS):
            await check.done.wait()
        return check.missing

    async def _check_readiness(
        self, member: PoolEntry[_T], check: ReadinessCheck, opened: _T
    ) -> None:
        try:
            check.missing = await self._raised_by(
                f"cluster {member.name}: ready()",
                self._wait_ready(opened, 0.0),
                anyio.CancelScope(deadline=self._now() + _LAST_CHECK_SECONDS),
            )
            if check.missing is not None:
                drop_tracebacks(check.missing)
        finally:
            member.check = None
            check.done.set()

    async def _raised_by(
        self, name: str, users: Coroutine[None, None, None], scope: anyio.CancelScope
    ) -> BaseException | None:
        """Run functions of the user, and return what they raised, whatever it is.

        They have a task of their own. The end of the scope cancels it once, so that a clean-up can
        wait for what it needs, and again and again after the time to close. Extension modules
        may raise a BaseException that is not an Exception, and awaiting a task that was cancelled
        raises CancelledError; in the task group such an error would end all clusters.

        Args:
            name: names the task.
            users: calls the functions.
            scope: bounds their time; not entered yet.
        """
        raised: list[BaseException] = []

        async def run() -> None:
            """Keep the error; one that ends the program reaches the event loop as well."""
            try:
                await users
            except BaseException as error:
                raised.append(error)
                if isinstance(error, ENDS_PROGRAM):
                    raise

        task = self._tasks.spawn(name, run())
        try:
            with scope:
                await task.join()
        finally:
            await task.end(_CLOSE_TIMEOUT_SECONDS)
        error = raised[0] if raised else None
        is_ours = scope.cancel_called and isinstance(error, asyncio.CancelledError)
        return None if is_ours else error

    async def _wait_ready(self, opened: _T, timeout_seconds: float) -> None:
        if self._ready is not None and await self._ready(opened, timeout_seconds) is False:
            raise InvalidTypeError("ready", "must raise what is missing, not return False")

    async def _keep(self, member: PoolEntry[_T]) -> None:
        """Open a cluster, keep it until it is to be closed, and close it."""
        member.runs = True
        name = f"cluster {member.name}"
        try:
            error = await self._raised_by(name, self._hold(member), member.scope)
        except BaseException:  # the end of the program has cancelled all tasks
            member.gone(self._now())
            raise
        if member.end.is_set():
            self._closed(member, error)
        else:
            self._failed(member, error)

    def _closed(self, member: PoolEntry[_T], error: BaseException | None) -> None:
        if error is None and member.scope.cancel_called and not member.is_given_up:
            error = TimeoutError(f"cancelled after {_CLOSE_TIMEOUT_SECONDS:g} s")
        if error is not None:
            self._warn("cluster %(cluster)s was not closed cleanly: %(error)s", member, bare(error))
        member.gone(self._now())
        if self._members.get(member.name) is member:
            del self._members[member.name]

    def _failed(self, member: PoolEntry[_T], error: BaseException | None) -> None:
        now = self._now()
        if error is None:
            if member.scope.cancel_called and not member.has_broken:
                member.is_late()
            error = self._why_it_ended(member, now)
        error = bare(error)
        drop_tracebacks(error)
        member.failed(error, now)
        if member.has_broken:
            self._warn("cluster %(cluster)s was open and broke: %(error)s", member, error)
        elif member.failures == 1:  # the status counts further ones
            self._warn("cluster %(cluster)s cannot be opened: %(error)s", member, error)

    def _why_it_ended(self, member: PoolEntry[_T], now: float) -> Exception:
        if not member.scope.cancel_called:
            return LifecycleError("the value of open() ended by itself")
        if member.has_broken:
            seconds = _CLOSE_TIMEOUT_SECONDS
            return TimeoutError(f"it broke, and closing it was cancelled after {seconds:g} s")
        seconds = member.open_seconds
        return TimeoutError(f"not open within {seconds:g} s: {member.status(now).reason}")

    def _warn(self, text: str, member: PoolEntry[_T], error: BaseException) -> None:
        facts = {"cluster": member.name, "error": text_of(error)}
        _log.warning(text, facts, extra=facts)

    async def _hold(self, member: PoolEntry[_T]) -> None:
        deadline = self._now() + member.open_seconds
        member.scope.deadline = deadline
        async with self._connect(member.name) as cluster:
            member.connected()
            async with self._open(cluster) as value:
                member.made(value)
                member.scope.deadline = deadline + _READY_GRACE_SECONDS
                try:
                    await self._wait_ready(value, max(0.0, deadline - self._now()))
                    await self._stay_open(member)
                except BaseException as error:
                    if self._now() >= deadline - _READY_GRACE_SECONDS:
                        member.is_late()
                    self._fails(member, error)
                    raise

    async def _stay_open(self, member: PoolEntry[_T]) -> None:
        if member.scope.cancel_called:  # evicted, or too late, in the moment it became ready
            await asyncio.Event().wait()  # for the cancellation, which must not meet the clean-up
        member.scope.deadline = math.inf
        member.is_ready(self._now())
        unknown = "" if self._ready else "; without ready= its server may not have answered yet"
        _log.info("cluster %s is open%s", member.name, unknown, extra={"cluster": member.name})
        await member.end.wait()
        member.scope.deadline = self._now() + _CLOSE_TIMEOUT_SECONDS

    def _fails(self, member: PoolEntry[_T], error: BaseException) -> None:
        """Stop returning the value to callers, and bound the time of closing it."""
        if not member.scope.cancel_called:
            member.scope.deadline = self._now() + _CLOSE_TIMEOUT_SECONDS
        member.fails(error, self._now())

    async def wait_closed(self, name: str) -> None:
        """Wait until a cluster is not open any more: it broke, was evicted, or the pool is closed.

        Returns at once if it is not open. What `get` returned is then being closed, or is closed.

        Args:
            name: which cluster.

        Raises:
            InvalidArgumentError: the name is empty.
            InvalidTypeError: the name is not a text.

        Cancellation:
            Safe.
        """
        _check_name(name)
        member = self._members.get(name)
        while member is not None and member.state == "open":
            await member.changed.wait()

    async def evict(self, name: str) -> None:
        """Close a cluster and forget it, with its failures; a later `get` opens it again.

        Callers that wait for it continue to wait, and it is opened again. An unknown name is
        ignored.

        Args:
            name: which cluster.

        Raises:
            LifecycleError: the pool was not started, or is closed.
            InvalidArgumentError: the name is empty.
            InvalidTypeError: the name is not a text.

        Cancellation:
            Safe; closing the cluster continues.
        """
        _check_name(name)
        self._check_running()
        member = self._members.get(name)
        if member is None:
            return
        member.end_nowait(self._now())
        while member.state == "closing":
            await member.changed.wait()
        if self._members.get(name) is member:
            del self._members[name]

    def status(self) -> tuple[PooledClusterStatus, ...]:
        """Return the status of each cluster that was requested; from any thread."""
        now = self._now()
        return tuple(member.status(now) for member in tuple(self._members.values()))

    def _samples(self) -> Iterator[Sample]:
        states = Counter(member.state for member in tuple(self._members.values()))
        for state in _STATES:
            yield Sample("cluster_pool_clusters", {"state": state}, states[state])
        waiters = sum(member.waiters for member in tuple(self._members.values()))
        yield Sample("cluster_pool_waiters", {}, waiters)

    async def aclose(self) -> None:
        """Close all clusters concurrently; calls that wait raise LifecycleError.

        A second call only waits.

        Raises:
            InternalError: a task of the pool crashed.

        Cancellation:
            Takes effect when everything is closed, at most half a minute later.
        """
        self._loop.check(may_be_closed=True)
        self._is_closed = True
        for member in self._members.values():
            member.end_nowait(self._now())
        await run_shielded("the close of a ClusterPool", self._close())

    async def _close(self) -> None:
        seconds = _CLOSE_TIMEOUT_SECONDS + _READY_GRACE_SECONDS
        with anyio.move_on_after(seconds):
            await anyio.lowlevel.checkpoint()  # tasks of this turn take their first step
            for member in tuple(self._members.values()):
                # asyncio.run may have cancelled a task before that: it reports no end.
                while member.state == "closing" and member.runs:
                    await member.changed.wait()
        try:
            await self._host.aclose()
        finally:
            self._metrics_scope.close()
            self._members.clear()

    def __repr__(self) -> str:
        return f"<ClusterPool of {len(self._members)} clusters>"


def _context_of(name: str, metrics: Metrics) -> AbstractAsyncContextManager[Cluster]:
    """Connect to the cluster of a context of the kubeconfig."""
    return connect_to(context=name, name=name, metrics=metrics)


def _check_name(name: object) -> None:
    """Refuse a name that is not a text, or empty.

    Raises:
        InvalidArgumentError: it is empty.
        InvalidTypeError: it is not a text.
    """
    if not isinstance(name, str):
        raise InvalidTypeError("name", f"must be a text, not {type(name).__name__}")
    if not name:
        raise InvalidArgumentError("name", "must not be empty")


def _check_functions(functions: Mapping[str, object]) -> None:
    """Refuse functions that would fail at their first use, for every cluster alike.

    Raises:
        InvalidTypeError: naming the argument; only `open` must not be None.
    """
    for argument, function in functions.items():
        if function is None and argument != "open":
            continue
        if not callable(function):
            raise InvalidTypeError(argument, f"must be a function, not {type(function).__name__}")
        if inspect.isasyncgenfunction(function):
            reason = "must not be an async generator; decorate it with @asynccontextmanager"
            raise InvalidTypeError(argument, reason)
