"""The entry point of the blocking API: a runner owns the thread with the event loop.

A runner belongs to the process that made it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from os import PathLike
from types import TracebackType
from typing import ParamSpec, Self, TypeVar, final

from pyinformer.apimachinery import check_seconds
from pyinformer.blocking._cluster import BlockingCluster
from pyinformer.blocking._loop_thread import LoopThread
from pyinformer.cluster import Cluster, WriteOptions, connect
from pyinformer.reflector import RequestBudgetOptions
from pyinformer.tasks import DEFAULT_GRACE_SECONDS
from pyinformer.transport import ClusterConfig, ConnectionOptions, KubeconfigPolicy

P = ParamSpec("P")
R = TypeVar("R")


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

    def connect(
        self,
        kubeconfig: str | PathLike[str] | None = None,
        *,
        context: str | None = None,
        server: str | None = None,
        config: ClusterConfig | None = None,
        impersonate_user: str | None = None,
        impersonate_groups: Sequence[str] = (),
        kubeconfig_policy: KubeconfigPolicy = "trusted",
        name: str = "",
        options: ConnectionOptions | None = None,
        write_options: WriteOptions | None = None,
        request_budget_options: RequestBudgetOptions | None = None,
    ) -> AbstractContextManager[BlockingCluster]:
        """Connect to a cluster: `with runner.connect() as cluster`; as `pyinformer.connect`.

        Nothing is sent yet: whether the server can be reached shows when an informer starts.

        Args:
            kubeconfig: a kubeconfig file, or several joined as in KUBECONFIG. None: KUBECONFIG,
                else `~/.kube/config`, else the service account of the pod this runs in.
            context: the context in the kubeconfig; None for its current one.
            server: the URL of a server that asks for no credentials, instead of a kubeconfig.
            config: a configuration of your own, instead of a kubeconfig.
            impersonate_user: the user that every request impersonates, as kubectl's `--as`.
            impersonate_groups: the groups of that user, as kubectl's `--as-group`.
            kubeconfig_policy: `data-only` is for a kubeconfig that another party wrote, a tenant
                for example: entries in use that run a command, name a file of this host, or name
                another host than the server are refused. `trusted` allows all that kubectl does.
            name: distinguishes the cluster from others, such as `prod`; requests carry it.
            options: the bounds of the connection.
            write_options: the rate of writes, and how long they are retried.
            request_budget_options: how many requests its informers together may send at a time.

        Raises:
            ConfigurationNotFoundError: nothing was found, or a file that was named does not exist.
            ConfigurationError: what was found cannot be used.
            InvalidArgumentError: more than one of kubeconfig, server and config was given.
            LifecycleError: the runner is not started, is closed, or another process made it.
        """
        opening = connect(
            kubeconfig,
            context=context,
            server=server,
            config=config,
            impersonate_user=impersonate_user,
            impersonate_groups=impersonate_groups,
            kubeconfig_policy=kubeconfig_policy,
            name=name,
            options=options,
            write_options=write_options,
            request_budget_options=request_budget_options,
        )
        return _Connecting(self._thread, opening)

    def call(self, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an asynchronous function on the loop and wait for what it returns.

        Use it for everything without a blocking twin: `create_or_update`, a ClusterPool, a
        Controller. Pass the function the `.asynchronous` of blocking objects.

        Raises:
            LifecycleError: the runner is not started, is closed, or is another process's; or the
                call comes from the loop's own thread.
            TimeoutError: the deadline of a `timeout` block has passed.
        """
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
