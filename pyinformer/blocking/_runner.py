"""The entry point of the blocking API: a runner owns the thread with the event loop.

A runner belongs to the process that made it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Concatenate, Final, ParamSpec, Self, TypeVar, final

from pyinformer._runtime.tasks import DEFAULT_GRACE_SECONDS
from pyinformer.blocking._cluster import BlockingCluster
from pyinformer.blocking._loop_thread import LoopThread
from pyinformer.blocking._sync_proxy import with_arguments_of
from pyinformer.client.cluster import Cluster
from pyinformer.client.cluster import connect as connect_to
from pyinformer.errors import InvalidTypeError
from pyinformer.objects import check_seconds

P = ParamSpec("P")
R = TypeVar("R")


def _connecting(
    original: Callable[P, AbstractAsyncContextManager[Cluster]],
) -> Callable[Concatenate[Runner, P], AbstractContextManager[BlockingCluster]]:
    """Return the method that connects to a cluster, with the arguments of `pyinformer.connect`."""

    @with_arguments_of(original, skipped=0)
    def connect(
        self: Runner, /, *args: P.args, **kwargs: P.kwargs
    ) -> AbstractContextManager[BlockingCluster]:
        """Connect to a cluster: `with runner.connect() as cluster`; as `pyinformer.connect`.

        Nothing is sent yet: whether the server can be reached shows when an informer starts. The
        arguments are those of `pyinformer.connect`.

        Raises:
            ConfigurationNotFoundError: nothing was found, or a file that was named does not exist.
            ConfigurationError: what was found cannot be used.
            InvalidArgumentError: more than one of kubeconfig, server and config was given.
            LifecycleError: the runner is not started, is closed, or another process made it.
        """
        return _Connecting(self._thread, original(*args, **kwargs))

    return connect


@final
class Runner:
    """Runs an event loop in a thread, for a program that blocks; made by `run_in_thread()`.

    Any number of threads may use it, by a `with` block or by start() and close(). Closing it closes
    everything that was opened by it; the end of the interpreter closes it at the latest.

    Args:
        name: names the thread.
        grace_seconds: how long closing waits for what is still open.

    Raises:
        InvalidArgumentError: grace_seconds is not a valid duration.
    """

    def __init__(
        self, *, name: str = "pyinformer", grace_seconds: float = DEFAULT_GRACE_SECONDS
    ) -> None:
        check_seconds("grace_seconds", grace_seconds)
        self._thread = LoopThread(name, grace_seconds=grace_seconds)

    @property
    def is_running(self) -> bool:
        """Whether it accepts calls: it was started in this process, and not closed."""
        return self._thread.is_running

    def start(self) -> None:
        """Start the thread and wait until its loop runs.

        Raises:
            LifecycleError: the runner was started before or closed, or another process made it.
        """
        self._thread.start()

    def close(self) -> None:
        """Close everything that is still open, stop the loop, and wait for its end, with a bound.

        Calls that wait in other threads raise LifecycleError. A second call only waits. In a forked
        child it does nothing.

        Raises:
            LifecycleError: called from the loop's own thread.
        """
        self._thread.close()

    connect: Final = _connecting(connect_to)
    """Connect to a cluster: `with runner.connect() as cluster`; as `pyinformer.connect`."""

    def call(self, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an asynchronous function on the loop and wait for what it returns.

        Use it for everything without a blocking twin: a ClusterPool, a Controller, a function of
        the program. Pass the function the `.asynchronous` of blocking objects.

        Raises:
            LifecycleError: the runner is not started, is closed, or is another process's; or the
                call comes from the loop's own thread.
            TimeoutError: the deadline of a `timeout` block has passed.
            InvalidTypeError: it is not a function, but a coroutine, for example.
        """
        if not callable(function):
            if isinstance(function, Coroutine):
                function.close()
            given = type(function).__name__
            reason = f"must be a function, runner.call(function, argument), got a {given}"
            raise InvalidTypeError("function", reason)
        return self._thread.call(partial(function, *args, **kwargs))

    def __enter__(self) -> Self:
        try:
            self.start()
        except KeyboardInterrupt:  # __exit__ is not called for a block that was not entered
            self.close()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._thread.close(exc)
        except KeyboardInterrupt:  # it may come before close() has started
            self._thread.abandon_nowait()
            raise

    def __repr__(self) -> str:
        return f"<Runner, {'running' if self.is_running else 'not running'}>"


class _Connecting(AbstractContextManager[BlockingCluster]):
    """Opens a cluster. Not a generator: one that is garbage-collected would close the cluster."""

    def __init__(self, thread: LoopThread, opening: AbstractAsyncContextManager[Cluster]) -> None:
        self._thread = thread
        self._opening = opening

    def __enter__(self) -> BlockingCluster:
        return BlockingCluster(self._thread, self._thread.enter(self._opening))

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.leave(self._opening, exc_type, exc, traceback)


def run_in_thread(
    *, name: str = "pyinformer", grace_seconds: float = DEFAULT_GRACE_SECONDS
) -> Runner:
    """Return a runner of an event loop in a thread, for programs that block.

        with pyinformer.run_in_thread() as runner, runner.connect() as cluster:
            with cluster.informer_factory() as factory:
                pods = factory.informer("v1", "pods")
                factory.start()
                factory.wait_for_cache_sync(timeout_seconds=30)
                pods.lister.list()

    The names and arguments are those of the asynchronous API, except for `close()`. Ctrl-C
    interrupts every call at once. After a fork, make a new runner in the child.

    Args:
        name: names the thread.
        grace_seconds: how long closing the runner waits for what is still open.

    Raises:
        InvalidArgumentError: grace_seconds is not a valid duration.
    """
    return Runner(name=name, grace_seconds=grace_seconds)
