"""Many clusters, each opened once: one that is dead, paused or slow is its own callers' affair.

What enters are names; what leaves is whatever was opened for that name, an informer factory for
example, or an error that says why there is none and when the next attempt may begin. Each cluster
is opened and closed by a task of its own, whoever waits for it; nothing is locked meanwhile.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar, final

import anyio

from pyinformer._logging import get_logger
from pyinformer.apimachinery import (
    ExponentialBackoff,
    LifecycleError,
    check_seconds,
)
from pyinformer.cluster._cluster import Cluster
from pyinformer.cluster._pool_arguments import check_functions, check_name, context_of
from pyinformer.cluster._pool_options import ClusterPoolOptions
from pyinformer.cluster._pooled import (
    Look,
    Opened,
    Pooled,
    PooledClusterStatus,
    bare,
    drop_tracebacks,
    words_of,
)
from pyinformer.tasks import Host, LoopOwner, Startable

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_T = TypeVar("_T")

Connect: TypeAlias = Callable[[str], AbstractAsyncContextManager[Cluster]]
"""Connects to the cluster of a name."""

_log = get_logger("pyinformer.cluster")

_LAST_LOOK_SECONDS: Final = 0.5  # a look takes no time; on a busy loop its turn comes late
_LAST_WORDS_SECONDS: Final = 1.0  # ready() says more about its timeout than being cut off would
_FORGET_SECONDS: Final = 600.0  # failures that nobody asked about for so long
_SWEEP_SECONDS: Final = 60.0  # the distance of two looks for them: there may be thousands of names


@final
class ClusterPool(Startable, Generic[_T]):
    """Opens clusters by name when they are first asked for, and keeps them open.

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

    However many ask for a cluster, it is opened once, and goes on being opened when one of them
    loses patience or is cancelled. A cluster that cannot be opened is closed again, and tried
    again no sooner than its backoff allows, when somebody asks. Clusters know nothing of each
    other. It belongs to the event loop that entered it.

    Args:
        open: makes of a Cluster what `get` returns; entered and left in one task.
        connect: connects to the cluster of a name; None takes the name for a context of the
            kubeconfig.
        ready: waits for at most so many seconds until what `open` made can be used, and raises
            what is missing; with 0 seconds it only looks. None: it can be used at once.
        options: how patient the pool is.
        rng: the source of chance.

    Raises:
        InvalidTypeError: something that cannot be called as it would be.
    """

    def __init__(
        self,
        open: Callable[[Cluster], AbstractAsyncContextManager[_T]],  # noqa: A002 - what it does
        *,
        connect: Connect | None = None,
        ready: Callable[[_T, float], Awaitable[object]] | None = None,
        options: ClusterPoolOptions | None = None,
        rng: random.Random | None = None,
    ) -> None:
        check_functions({"open": open, "connect": connect, "ready": ready})
        self._open = open
        self._connect = connect or context_of
        self._ready = ready
        self._options = options or ClusterPoolOptions()
        self._rng = rng or random.Random()
        self._members: dict[str, Pooled[_T]] = {}
        self._host = Host("the cluster pool")
        self._loop = LoopOwner("the cluster pool")
        self._is_closed = False
        self._swept_at = 0.0
        self._now: Callable[[], float] = float  # the loop's, once it runs

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

    async def get(self, name: str, *, timeout_seconds: float = 30.0) -> _T:
        """Return what was opened for a cluster, and open it if nobody has yet.

        Args:
            name: which cluster.
            timeout_seconds: how long to wait; 0 looks once. The cluster goes on being opened.

        Returns:
            What `open` made of it. It belongs to the pool, which closes it.

        Raises:
            ClusterUnavailableError: it cannot be opened, or not in time: names the cause. At once
                if the last attempt failed and the next one may not begin yet.
            LifecycleError: the pool was not started, or is closed.
            InvalidArgumentError: no name, or no duration.
            InvalidTypeError: the name is no text.

        Cancellation:
            Safe; the cluster goes on being opened for others.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        check_name(name)
        started = self._now()
        while True:
            member, opened = self._look(name, started)
            if opened is not None:
                return opened.value
            left = started + timeout_seconds - self._now()
            if left <= 0:
                break
            await self._wait(member, left)
        cause = await self._last_look(member)
        now = self._now()
        raise member.unavailable(now, waited_seconds=now - started, cause=cause)

    def _look(self, name: str, started: float) -> tuple[Pooled[_T], Opened[_T] | None]:
        """Return a cluster, and what was opened for it, and begin to open it if nobody has."""
        group = self._running()
        now = self._now()
        member = self._members.get(name) or self._new_member(name, now)
        if member.state == "open":
            return member, member.opened
        if member.state == "failed":
            if now < member.retry_at:
                raise member.unavailable(now, waited_seconds=now - started)
            member.begin(now)
            group.start_soon(self._keep, member)
        return member, None

    def _running(self) -> TaskGroup:
        if self._is_closed:
            raise LifecycleError("the cluster pool is closed: make a new one")
        self._loop.check()
        return self._host.task_group

    def _new_member(self, name: str, now: float) -> Pooled[_T]:
        if now - self._swept_at > _SWEEP_SECONDS:
            self._swept_at = now
            self._forget_failures(now)
        backoff = ExponentialBackoff(
            initial_seconds=self._options.retry_initial_seconds,
            max_seconds=self._options.retry_max_seconds,
            reset_after_seconds=math.inf,  # success resets it; impatience does not
            rng=self._rng,
        )
        member = self._members[name] = Pooled(name, backoff, now)
        return member

    def _forget_failures(self, now: float) -> None:
        for member in tuple(self._members.values()):
            if member.state == "failed" and now - member.retry_at > _FORGET_SECONDS:
                del self._members[member.name]

    async def _wait(self, member: Pooled[_T], seconds: float) -> None:
        """Wait for a change of its state, but no longer than this."""
        member.waiters += 1
        try:
            with anyio.move_on_after(seconds):
                await member.changed.wait()
        finally:
            member.waiters -= 1

    async def _last_look(self, member: Pooled[_T]) -> BaseException | None:
        """Return what is missing, if what was opened can say so; a hundred who ask look once."""
        opened = member.opened
        if opened is None or self._ready is None:
            return None
        look = member.look
        if look is None:
            look = member.look = Look()
            self._running().start_soon(self._look_for, member, look, opened.value)
        with anyio.move_on_after(_LAST_LOOK_SECONDS):
            await look.done.wait()
        return look.missing

    async def _look_for(self, member: Pooled[_T], look: Look, opened: _T) -> None:
        try:
            look.missing = await self._raised_by(self._glance(opened))
            if look.missing is not None:
                drop_tracebacks(look.missing)
        finally:
            member.look = None
            look.done.set()

    async def _glance(self, opened: _T) -> None:
        with anyio.move_on_after(_LAST_LOOK_SECONDS):
            await self._wait_ready(opened, 0.0)

    async def _raised_by(self, users: Coroutine[None, None, None]) -> BaseException | None:
        """Run functions of the user's, and return what they raised, whatever it is.

        Extensions in other languages panic with what is no Exception, and whoever waits for a task
        that somebody cancelled is "cancelled" by nobody. Here that is one cluster's affair; to the
        task group it would be the end of all.
        """
        try:
            await users
        except (KeyboardInterrupt, SystemExit, GeneratorExit):  # the program's, or the loop's end
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and not self._host.is_running:
                raise
            return error
        return None

    async def _wait_ready(self, opened: _T, timeout_seconds: float) -> None:
        if self._ready is not None:
            await self._ready(opened, timeout_seconds)

    async def _keep(self, member: Pooled[_T]) -> None:
        """Open a cluster, keep it until it is to be closed, and close it."""
        error = await self._raised_by(self._hold(member))
        if member.end.is_set():
            self._closed(member, error)
        else:
            self._failed(member, error)

    def _closed(self, member: Pooled[_T], error: BaseException | None) -> None:
        if error is None and member.scope.cancel_called and not member.is_given_up:
            error = TimeoutError(f"cut off after {self._options.close_timeout_seconds:g} s")
        if error is not None:
            self._warn(
                "cluster %(cluster)s was not closed in order: %(error)s", member, bare(error)
            )
        member.gone(self._now())
        if self._members.get(member.name) is member:
            del self._members[member.name]

    def _failed(self, member: Pooled[_T], error: BaseException | None) -> None:
        now = self._now()
        if error is None:
            error = self._why_it_ended(member, now)
        error = bare(error)
        drop_tracebacks(error)
        member.failed(error, now)
        if member.has_broken:
            self._warn("cluster %(cluster)s was open and broke: %(error)s", member, error)
        elif member.failures == 1:  # the rest is told by the status
            self._warn("cluster %(cluster)s cannot be opened: %(error)s", member, error)

    def _why_it_ended(self, member: Pooled[_T], now: float) -> Exception:
        if not member.scope.cancel_called:
            return LifecycleError("what open() made has ended by itself")
        if member.has_broken:
            seconds = self._options.close_timeout_seconds
            return TimeoutError(f"it broke, and closing it was cut off after {seconds:g} s")
        seconds = self._options.open_timeout_seconds
        return TimeoutError(f"not open within {seconds:g} s: {member.status(now).reason}")

    def _warn(self, text: str, member: Pooled[_T], error: BaseException) -> None:
        facts = {"cluster": member.name, "error": words_of(error)}
        _log.warning(text, facts, extra=facts)

    async def _hold(self, member: Pooled[_T]) -> None:
        deadline = self._now() + self._options.open_timeout_seconds
        member.scope.deadline = deadline
        with member.scope:
            async with self._connect(member.name) as cluster:
                member.connected()
                async with self._open(cluster) as value:
                    member.made(value)
                    member.scope.deadline = deadline + _LAST_WORDS_SECONDS
                    try:
                        await self._wait_ready(value, max(0.0, deadline - self._now()))
                        await self._stay_open(member)
                    except BaseException as error:
                        self._fails(member, error)
                        raise

    async def _stay_open(self, member: Pooled[_T]) -> None:
        if member.is_given_up:  # in the moment in which it got there: it is closing
            return
        member.scope.deadline = math.inf
        member.is_ready(self._now())
        _log.info("cluster %s is open", member.name, extra={"cluster": member.name})
        await member.end.wait()
        member.scope.deadline = self._now() + self._options.close_timeout_seconds

    def _fails(self, member: Pooled[_T], error: BaseException) -> None:
        """Give nobody what is being closed, and bound that."""
        if member.state == "open":
            member.scope.deadline = self._now() + self._options.close_timeout_seconds
        member.fails(error, self._now())

    async def evict(self, name: str) -> None:
        """Close a cluster and forget it, with its failures; a later `get` opens it anew.

        Those who wait for it go on waiting, and have it opened anew. One that is not known is no
        error.

        Args:
            name: which cluster.

        Raises:
            LifecycleError: the pool was not started, or is closed.
            InvalidArgumentError: no name.
            InvalidTypeError: the name is no text.

        Cancellation:
            Safe; the cluster is closed nevertheless.
        """
        check_name(name)
        self._running()
        member = self._members.get(name)
        if member is None:
            return
        member.end_nowait(self._now())
        while member.state == "closing":
            await member.changed.wait()
        if self._members.get(name) is member:
            del self._members[name]

    def status(self) -> tuple[PooledClusterStatus, ...]:
        """Return how each cluster is doing that was asked for; from any thread."""
        now = self._now()
        return tuple(member.status(now) for member in tuple(self._members.values()))

    async def aclose(self) -> None:
        """Close every cluster, all of them at the same time; whoever waits gets LifecycleError.

        A second call only waits.

        Raises:
            InternalError: something inside had crashed.

        Cancellation:
            Takes effect when everything is closed, for which `close_timeout_seconds` is the bound.
        """
        self._loop.check(may_be_closed=True)
        self._is_closed = True
        members = tuple(self._members.values())
        for member in members:
            member.end_nowait(self._now())
        seconds = self._options.close_timeout_seconds + _LAST_WORDS_SECONDS
        with anyio.move_on_after(seconds, shield=True):
            for member in members:
                while member.state == "closing":
                    await member.changed.wait()
        await self._host.aclose()
        self._members.clear()

    def __repr__(self) -> str:
        return f"<ClusterPool of {len(self._members)} clusters>"
