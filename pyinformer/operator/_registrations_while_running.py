"""Reconcile functions that are registered while their operator runs.

Each starts beside those that run, with informers of its own for what is not followed yet. If it
cannot start, its informers are closed, its registration is removed, and the others continue.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import LoopOwner
from pyinformer.cache.informer import Scope, SharedInformerFactory
from pyinformer.controller import ControllerGroup
from pyinformer.errors import (
    InformerError,
    InternalError,
    InvalidArgumentError,
    LifecycleError,
    NotFoundError,
)
from pyinformer.objects import did_you_mean
from pyinformer.operator._resource_scopes import FAILURES_OF_DISCOVERY, discover, learn_scopes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyinformer.client.cluster import Cluster
    from pyinformer.controller import Controller
    from pyinformer.objects import GroupVersionResource
    from pyinformer.operator._builder import ControllerBuilder
    from pyinformer.operator._declared_caches import DeclaredCache
    from pyinformer.operator._elected import ElectedControllers
    from pyinformer.operator._health import Health
    from pyinformer.operator._reconciler import Reconciler
    from pyinformer.operator._registrations import Registrations
    from pyinformer.telemetry.metrics import Metrics

_log = get_logger(__name__)

_HELP: Final = (
    "install its CustomResourceDefinition, `pyinformer crd module:app | kubectl apply -f -`, or"
    " correct the name"
)
_ENDED: Final = "the operator ended before this reconcile had started"


def hint_of(resource: GroupVersionResource, cluster: Cluster) -> str:
    """Return what to do about a resource that the server does not serve."""
    question = did_you_mean(cluster.discovery.near(resource))
    return (
        f"the server serves no {resource.resource} of {resource.api_version}: {question or _HELP}"
    )


@final
class Addition:
    """A reconcile function that was registered while its operator runs.

    Args:
        reconciler: the function.
        pending: those that were registered before it, and have not started yet.
    """

    def __init__(self, reconciler: Reconciler, pending: Iterable[Addition]) -> None:
        self.reconciler: Reconciler = reconciler
        self.scopes: frozenset[Scope] = frozenset(one.scope for one in reconciler.declarations)
        """The caches that it needs."""
        self._shares = [one for one in pending if not self.scopes.isdisjoint(one.scopes)]
        self._ended = anyio.Event()
        self._error: InformerError | None = None

    @property
    def is_pending(self) -> bool:
        """Whether it has neither started nor failed."""
        return not self._ended.is_set()

    def end(self, error: InformerError | None = None) -> None:
        """Record that it has started, or why it could not; only the first call counts."""
        if self.is_pending:
            self._error = error
            self._ended.set()

    async def wait_for_shared(self) -> None:
        """Wait until no earlier one is about to make a cache that this one needs, too.

        Cancellation:
            Safe.
        """
        for other in self._shares:
            with suppress(InformerError):  # then this one makes the cache
                await other.wait()

    async def wait(self) -> None:
        """Wait until it has started.

        Raises:
            InformerError: why it could not.

        Cancellation:
            Safe.
        """
        await self._ended.wait()
        if self._error is not None:
            raise self._error


@final
class Additions:
    """Starts what is registered during one run.

    Args:
        cluster: the cluster of the run.
        registrations: of the operator.
        health: watches the caches that were added, once they have synced.
        metrics: where metrics go.
    """

    def __init__(
        self,
        cluster: Cluster,
        registrations: Registrations,
        health: Health,
        *,
        metrics: Metrics,
    ) -> None:
        self.controllers: tuple[Controller[None], ...] = ()
        """Those that were added; without leader election."""
        self._cluster = cluster
        self._registrations = registrations
        self._health = health
        self._metrics = metrics
        self._loop = LoopOwner("the running operator")
        self._builder: ControllerBuilder | None = None
        self._host: ElectedControllers | ControllerGroup | None = None
        self._known: dict[str, Addition] = {}

    def claim_loop(self) -> None:
        """Bind it to the running event loop.

        Raises:
            LifecycleError: no loop runs here, or it is bound to another one.
        """
        self._loop.claim()

    def open(self, builder: ControllerBuilder) -> None:
        """Accept registrations from now on; they wait for `start`.

        Args:
            builder: has what was registered before.
        """
        self._builder = builder
        self._registrations.runs = (*self._registrations.runs, self)

    def start(self, host: ElectedControllers | ControllerGroup) -> None:
        """Start what was registered meanwhile, and what will be.

        Args:
            host: runs the controllers, and has started.
        """
        self._host = host
        for addition in self._known.values():
            self._start(addition, host)

    def close(self) -> None:
        """Accept no registrations any more: the run has ended."""
        runs = self._registrations.runs
        self._registrations.runs = tuple(one for one in runs if one is not self)
        self._registrations.forget_closed()
        for addition in self._known.values():
            addition.end(LifecycleError(_ENDED))

    def check(self, caches: Sequence[DeclaredCache]) -> None:
        """Refuse a registration that this run cannot start.

        Raises:
            InvalidArgumentError: a cache is kept differently by this run.
            LifecycleError: it belongs to another event loop, or is being closed.
        """
        self._loop.check()
        if self._host is not None and not _runs(self._host):
            raise LifecycleError("the operator is being closed: register reconciles before")
        if self._builder is not None:
            self._builder.check(caches)

    def add_nowait(self, reconciler: Reconciler) -> None:
        """Start a reconcile function that was registered meanwhile."""
        pending = [one for one in self._known.values() if one.is_pending]
        addition = self._known[reconciler.name] = Addition(reconciler, pending)
        if self._host is not None:
            self._start(addition, self._host)

    def has(self, reconciler: Reconciler) -> bool:
        """Return whether this run calls a function, or is about to."""
        addition = self._known.get(reconciler.name)
        is_pending = addition is not None and addition.is_pending
        started = () if self._builder is None else self._builder.reconcilers
        return is_pending or any(one is reconciler for one in started)

    async def wait_started(self, name: str) -> None:
        """Wait until a reconcile function that was registered meanwhile has started.

        Raises:
            InvalidArgumentError: there is no such registration.
            InformerError: why it could not start.

        Cancellation:
            Safe.
        """
        addition = self._known.get(name)
        if addition is not None:
            await addition.wait()
        elif name not in self._registrations.reconcilers:
            known = ", ".join(self._registrations.reconcilers)
            raise InvalidArgumentError("name", f"{name!r} is not one of {known}")

    def _start(self, addition: Addition, host: ElectedControllers | ControllerGroup) -> None:
        runner = host.lifecycle if isinstance(host, ControllerGroup) else host
        try:
            runner.start_soon(partial(self._add, addition, host))
        except LifecycleError as error:  # it ended while it started
            addition.end(error)

    async def _add(self, addition: Addition, host: ElectedControllers | ControllerGroup) -> None:
        """Start a reconcile function, and remove its registration if that fails."""
        reconciler = addition.reconciler
        try:
            await addition.wait_for_shared()
            await self._discover(reconciler)
            await self._start_one(addition, host)
        except InternalError:
            raise
        except InformerError as error:
            addition.end(error)
            self._registrations.forget(reconciler)
            reasons = "; ".join((str(error), *getattr(error, "__notes__", ())))
            _log.error("the reconcile %s was not added: %s", reconciler.name, reasons)
        finally:  # a reconcile that waits for it must not delay the end of the operator
            addition.end(LifecycleError(_ENDED))

    async def _discover(self, reconciler: Reconciler) -> None:
        """Learn which resources are namespaced.

        Raises:
            NotFoundError: the server does not serve one of them.
        """
        resources = [one.scope.resource for one in reconciler.declarations]
        for resource, error in (await discover(self._cluster, resources)).items():
            if isinstance(error, NotFoundError):
                if not self._cluster.discovery.near(resource):  # else the error has a question
                    error.add_note(_HELP)
                raise error
            if not isinstance(error, FAILURES_OF_DISCOVERY):
                raise error
            _log.warning("discovery of %s failed: %s", resource, error)
        if self._builder is not None:
            await learn_scopes(
                self._cluster,
                resources,
                namespaces=self._builder.namespaces,
                reconcilers=self._registrations.reconcilers.values(),
                timeout_seconds=reconciler.options.sync_timeout_seconds,
                unknown={},
            )

    async def _start_one(
        self, addition: Addition, host: ElectedControllers | ControllerGroup
    ) -> None:
        builder, reconciler = self._builder, addition.reconciler
        if builder is None:
            raise InternalError("additions were started before they were opened")
        # A factory of its own: until its caches have synced, health does not depend on them.
        factory = SharedInformerFactory(self._cluster, metrics=self._metrics)
        caches = [one for one in self._registrations.caches() if one.scope in addition.scopes]
        builder.check(caches)  # another addition may have made one of them meanwhile
        informers = builder.informers_for(caches, factory, self._registrations.reconcilers.values())
        if not isinstance(host, ControllerGroup):
            await host.add(reconciler, informers, factory)
            self._health.add(factory)
            addition.end()
            return
        controller = builder.controller(reconciler, {**builder.informers, **informers})

        def started() -> None:
            """Let readers, later registrations and health use its caches."""
            builder.include((*builder.reconcilers, reconciler), informers)
            self.controllers = (*self.controllers, controller)
            self._health.add(factory)
            addition.end()

        with builder.listers.reading(informers):
            await host.run_one(controller, (factory,), started)


def _runs(host: ElectedControllers | ControllerGroup) -> bool:
    return (host.lifecycle if isinstance(host, ControllerGroup) else host).is_running
