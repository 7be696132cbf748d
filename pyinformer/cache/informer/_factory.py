"""`SharedInformerFactory`: the informers of one program on one cluster, made once and shared.

Every caller who asks for the same resource, scope and selectors gets the same informer. Settings
that contradict an earlier request are an error that names both places. All informers end within one
grace when the factory is closed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack, final

import anyio

from pyinformer._printable import Lines
from pyinformer._runtime.call_site import call_site
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import (
    DEFAULT_GRACE_SECONDS,
    Closable,
    Host,
    LoopOwner,
    SignalListener,
    run_shielded,
)
from pyinformer.cache.audit import MutationDetector
from pyinformer.cache.informer._cache_sync import wait_for_cache_sync
from pyinformer.cache.informer._informer_parts import InformerCore, core_of
from pyinformer.cache.informer._rbac import ResourceAccess, rbac_yaml
from pyinformer.cache.informer._settings import (
    InformerOptions,
    InformerSettings,
    Scope,
    check_audit_period,
    check_safeguards,
    check_same_settings,
    requested,
)
from pyinformer.cache.informer._shared_informer import SharedInformer, informer_of
from pyinformer.cache.informer._status import FactoryStatus, InformerStatus, counted
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.client.cluster import check_cluster, claim_loop
from pyinformer.errors import InformerError, InvalidArgumentError, LifecycleError
from pyinformer.objects import UidRange, V, check_seconds, check_text, check_type
from pyinformer.telemetry import Watchdog
from pyinformer.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

    from pyinformer.client.cluster import Cluster

_log = get_logger(__name__)


@final
class SharedInformerFactory(Closable):
    """Makes informers and shares them: one for each resource, scope and set of selectors.

    Use it as `async with SharedInformerFactory(cluster) as factory`, or by start() and aclose(),
    or as `await task_group.start(factory.run)`.

    Args:
        cluster: the server.
        options: how the reflectors talk to the server.
        metrics: where their figures go while they run; None for the cluster's metrics.
        grace_seconds: how long closing waits for handlers.
        audit_period_seconds: the mean time between periodic audits of each informer, which compare
            its cache with the server; 0 for none. It bounds how long a lost event stays unnoticed;
            half an hour is usual.
        mutation_detector: checks what informers share: of all informers if one is given, otherwise
            of those with `sharing="decoded"`.

    Source:
        client-go informers/factory.go.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        options: ReflectorOptions | None = None,
        metrics: Metrics | None = None,
        grace_seconds: float = DEFAULT_GRACE_SECONDS,
        audit_period_seconds: float = 0.0,
        mutation_detector: MutationDetector | None = None,
    ) -> None:
        check_seconds("grace_seconds", grace_seconds)
        check_audit_period(audit_period_seconds)
        check_safeguards(options, mutation_detector)
        check_cluster(cluster)
        self._cluster = cluster
        self._options = options or ReflectorOptions()
        self._metrics = cluster.metrics if metrics is None else metrics
        self._given_detector = mutation_detector
        self.mutation_detector: MutationDetector = mutation_detector or MutationDetector()
        """Checks what the informers share."""
        self._grace_seconds = grace_seconds
        self._audit_period = audit_period_seconds
        self._shared: dict[Scope, tuple[SharedInformer[Any], str]] = {}
        self._informers: list[SharedInformer[Any]] = []
        self._removed: list[SharedInformer[Any]] = []  # with abandoned handlers that still run
        self._watchdog = Watchdog(metrics=self._metrics)
        self._listeners: list[SignalListener] = []
        self._ended = anyio.Event()
        self._host = Host(
            "informer factory",
            self._main,
            grace_seconds=grace_seconds + _HOST_GRACE_SECONDS,
            on_crash=lambda _: self._ended.set(),
        )
        self._loop = LoopOwner("the factory")
        self._is_started = False
        self._is_closed = False

    def informer(
        self,
        api_version: str,
        plural: str,
        *,
        model: type[V] | None = None,
        private: bool = False,
        **options: Unpack[InformerOptions],
    ) -> SharedInformer[V]:
        """Return the informer of a resource in a scope, and make it if there is none yet.

        If the factory has been started, a new informer is started at once.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name, as in its URL: `pods`; any custom resource too.
            model: what the `view` of each object is: a View is decoded when the object arrives, any
                other class when it is read: a msgspec Struct, a dataclass, a pydantic model, or a
                model of a Kubernetes client.
            private: make an informer that is not shared.
            **options: what it follows, and how it keeps that: see InformerOptions.

        Raises:
            InformerConflictError: the informer exists with other settings; the error names both
                places.
            InvalidArgumentError: an argument that cannot work, or two of them swapped; or
                `memory="compact"` without the package that it needs.
            InvalidSelectorError: a selector cannot be parsed.
            InvalidTypeError: objects cannot be decoded to the model, readers could change a view,
                or an option does not exist.
            LifecycleError: the factory is closed, or was started in another event loop.
        """
        scope, settings = requested(
            (api_version, plural),
            options,
            model=model,
            audit_period_seconds=self._audit_period,
            beside=("private",),
        )
        return self._informer(scope, settings, call_site(), private=private)

    def _informer(
        self, scope: Scope, settings: InformerSettings, site: str, *, private: bool = False
    ) -> SharedInformer[Any]:
        self._refuse_if_closed()
        self._loop.check()
        known, first_site = self._shared.get(scope, (None, ""))
        if not private and known is not None and _is_as_asked(known, scope):
            check_same_settings(scope, (known.settings, first_site), (settings, site))
            sites = core_of(known).call_sites
            if site not in sites:
                sites.append(site)
            return known
        self._forget_closed()
        informer = self._make(scope, settings)
        if not private:
            self._shared[scope] = (informer, site)
            core_of(informer).call_sites.append(site)
        return informer

    @property
    def informers(self) -> tuple[SharedInformer[Any], ...]:
        """The informers that are not closed."""
        return tuple(self._open_informers())

    @property
    def is_closed(self) -> bool:
        """Whether it is closed, or is being closed."""
        return self._is_closed

    def _make(self, scope: Scope, settings: InformerSettings) -> SharedInformer[Any]:
        informer: SharedInformer[Any] = informer_of(
            InformerCore(
                self._cluster,
                scope,
                settings,
                options=self._options,
                metrics=self._metrics,
                grace_seconds=self._grace_seconds,
                mutation_detector=self._detector_for(settings),
            )
        )
        core_of(informer).crash_observers[self._ended.set] = None
        self._informers.append(informer)
        if self._host.is_running:
            core_of(informer).start_nowait(self._host.task_group)
        return informer

    def _detector_for(self, settings: InformerSettings) -> MutationDetector | None:
        """Return the detector that all informers share, where there is something to check."""
        return self.mutation_detector if settings.sharing == "decoded" else self._given_detector

    async def start(self) -> None:
        """Start every informer; those that are requested later start at once.

        A second call does nothing.

        Raises:
            LifecycleError: the factory was closed, or was started, or its cluster opened, in
                another event loop.

        Cancellation:
            What was started is stopped when the factory is closed.
        """
        self._refuse_if_closed()
        claim_loop(self._cluster)
        self._loop.claim()
        if self._is_started:
            await self._host.wait_ready()  # another task may be in the middle of starting it
        else:
            self._is_started = True
            await self._host.start()
            self._refuse_if_closed()  # it may have been closed meanwhile
            self._watchdog.start_nowait()
            for informer in self._open_informers():
                core_of(informer).start_nowait(self._host.task_group)

    def _open_informers(self) -> list[SharedInformer[Any]]:
        return [informer for informer in self._informers if not informer.is_closed]

    async def wait_for_cache_sync(
        self, *, timeout_seconds: float = 30.0, fail_fast: bool = False
    ) -> None:
        """Wait until every cache has held everything at least once.

        Args:
            timeout_seconds: how long to wait at most.
            fail_fast: end the wait as soon as the server refuses for missing rights (403). By
                default it continues: rights are often granted a moment after the start.

        Raises:
            CacheSyncTimeoutError: some did not in time, or one gave up or was refused, which ends
                the wait at once; the error says why for each of them.
            LifecycleError: the factory was not started, or is closed.
            InternalError: an informer crashed.
            InvalidArgumentError: the timeout is not a duration, or `fail_fast` not a bool.

        Cancellation:
            Safe; the informers continue.
        """
        if not self._is_started:
            raise LifecycleError("the factory is not started: await factory.start() first")
        self._refuse_if_closed()
        self._loop.check()
        await wait_for_cache_sync(
            *self._open_informers(), timeout_seconds=timeout_seconds, fail_fast=fail_fast
        )

    async def remove_informer(self, informer: SharedInformer[Any]) -> None:
        """Stop one informer and forget it; the next request makes a new one.

        A second call only waits.

        Raises:
            InvalidArgumentError: the informer is not one of this factory.
            InvalidTypeError: it is not an informer.
            InternalError: it had crashed.
            LifecycleError: the factory runs in another event loop; nothing was stopped.

        Cancellation:
            Takes effect when it has ended, which the grace bounds.
        """
        check_type("informer", informer, SharedInformer)
        self._loop.check(may_be_closed=True)
        if informer in self._informers:
            self._informers.remove(informer)
        elif not informer.is_closed:
            raise InvalidArgumentError("informer", f"{informer!r} is not one of this factory")
        for scope, (known, _) in tuple(self._shared.items()):
            if known is informer:
                del self._shared[scope]
        try:
            await informer.aclose()
        finally:
            self._keep_if_abandoned(informer)

    def _forget_closed(self) -> None:
        """Drop informers that their users closed: the status is of those that run."""
        for informer in tuple(self._informers):
            if informer.is_closed and informer.crash is None:
                self._informers.remove(informer)
                self._keep_if_abandoned(informer)

    def _keep_if_abandoned(self, informer: SharedInformer[Any]) -> None:
        """Keep an informer only while the status must name its handlers: it holds its cache."""
        known = {*self._removed, informer}
        self._removed = [one for one in known if one.abandoned_handlers]

    def status(self) -> FactoryStatus:
        """Return the status of all informers: a frozen record without object content.

        Callable from any thread, such as that of a health endpoint.
        """
        return self._status_of(one.status() for one in tuple(self._informers))

    def _status_of(self, informers: Iterable[InformerStatus]) -> FactoryStatus:
        statuses = tuple(informers)
        all_of_them = (*self._informers, *self._removed)
        return FactoryStatus(
            informers=statuses,
            watchdog=self._watchdog.statistics(),
            abandoned_handlers=tuple(
                name for one in all_of_them for name in one.abandoned_handlers
            ),
        )

    def required_rbac(self, *, name: str = "pyinformer", service_account: str | None = None) -> str:
        """Return the least rights that the informers so far need, as YAML for `kubectl apply`.

        Each resource needs list and watch: by a Role in each namespace that is followed; by a
        ClusterRole where all are, where a selector chooses them, or for a resource without
        namespaces. For an object that a field selector names, only that one. The server is not
        asked. What handlers and reconciles do themselves needs rights of its own.

        Args:
            name: the name of all roles and bindings.
            service_account: gets the rights, as `namespace/name`; None for roles without
                bindings.

        Returns:
            YAML documents with `---` in between; empty before the first informer.

        Raises:
            InvalidArgumentError: Kubernetes does not accept a name.
        """
        needs = [
            ResourceAccess(
                one.scope.resource,
                one.scope.namespaces,
                chooses_namespaces=one.scope.namespace_selector is not None,
                object_name=one.scope.field_selector.name,
            )
            for one in self._open_informers()
        ]
        return rbac_yaml(needs, name=name, service_account=service_account)

    def log_status_on_signal(self, signal_name: str = "SIGUSR1") -> Callable[[], None]:
        """Log `status()` as one block of text whenever the process gets a signal: `kill -USR1`.

        A thread answers, so it works while the event loop is blocked. Call it in the main thread.
        An earlier handler of the signal is still called.

        Args:
            signal_name: the signal's name.

        Returns:
            A function that ends it; closing the factory does, too.

        Raises:
            LifecycleError: this system has no such signal, this is not the main thread, or the
                factory is closed.
        """
        self._refuse_if_closed()
        check_text("signal_name", signal_name)
        listener = SignalListener(signal_name, self._tell)
        self._listeners.append(listener)
        return listener.close

    def _tell(self) -> None:
        # The signal asks for it, so log it even without any setup of logging.
        level = logging.INFO if _log.isEnabledFor(logging.INFO) else logging.WARNING
        informers = counted(len(self._informers), "informer")
        _log.log(level, "status: %s\n%s", informers, Lines(str(self.status())))

    async def aclose(self) -> None:
        """Stop every informer: watches first, then handlers, all of them at the same time.

        The caches stay readable as they were. A second call only waits.

        Raises:
            InternalError: an informer had crashed.
            LifecycleError: it runs in another event loop; nothing was stopped.

        Cancellation:
            Takes effect when everything has ended, which the grace bounds.
        """
        self._loop.check(may_be_closed=True)
        self._is_closed = True
        self._ended.set()
        while self._listeners:
            self._listeners.pop().close()
        self._watchdog.stop_nowait()
        for informer in self._informers:
            # In this task: otherwise the host would wait for the handler that this runs in.
            await core_of(informer).processor.detach_current_task()
        await self._host.aclose()
        for informer in self._informers:  # those of a factory that was never started
            await informer.aclose()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start, report that, and run until it is closed: `await task_group.start(factory.run)`.

        Raises:
            InternalError: an informer crashed; everything is closed then.

        Cancellation:
            Stops it as aclose() does.
        """
        async with self:
            try:
                await self.start()
            except LifecycleError:
                if not self._is_closed:
                    raise
                return  # closed while it started
            task_status.started()
            await self._ended.wait()

    async def __aenter__(self) -> Self:
        self._refuse_if_closed()
        return self

    async def _main(self, group: TaskGroup, ready: Callable[[], None]) -> None:
        del group  # later informers start in it
        ready()
        try:
            await anyio.sleep_forever()
        finally:
            await run_shielded("the close of a factory", self._close_informers())

    async def _close_informers(self) -> None:
        crashes: list[InformerError] = []

        async def close(informer: SharedInformer[Any]) -> None:
            try:
                await informer.aclose()
            except InformerError as error:
                crashes.append(error)

        async with anyio.create_task_group() as closing:
            for informer in self._informers:
                closing.start_soon(close, informer)
        if crashes:
            raise crashes[0]

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise LifecycleError("the factory is closed: make a new one")

    def __repr__(self) -> str:
        return f"<SharedInformerFactory with {counted(len(self._informers), 'informer')}>"


def _is_as_asked(informer: SharedInformer[Any], scope: Scope) -> bool:
    """Return whether an informer still follows what it was made for."""
    is_same = scope.namespace_selector is not None or informer.scope == scope
    return is_same and not informer.is_closed


_HOST_GRACE_SECONDS = 5.0  # beyond the informers' own: they are awaited inside of the host


def status_in_steps(factory: SharedInformerFactory) -> Generator[None, None, FactoryStatus]:
    """Return what `factory.status()` returns, one informer per step, for an event loop to share.

    Args:
        factory: the factory; informers that are added meanwhile are left out.
    """
    statuses: list[InformerStatus] = []
    for informer in tuple(factory._informers):  # noqa: SLF001 - a status() of the same module
        statuses.append(informer.status())
        yield
    return factory._status_of(statuses)  # noqa: SLF001


def informer_in_range(
    factory: SharedInformerFactory,
    api_version: str,
    plural: str,
    *,
    uid_range: UidRange | None,
    model: type[V] | None = None,
    **options: Unpack[InformerOptions],
) -> SharedInformer[V]:
    """Return what `factory.informer` returns, of a share of the objects.

    Args:
        factory: the factory.
        api_version: `v1`, or `group/version`.
        plural: the resource's plural name.
        uid_range: which share; None for all objects.
        model: what the `view` of each object is.
        **options: as for `factory.informer`.

    Raises:
        InformerError: as `factory.informer` does.
    """
    scope, settings = requested(
        (api_version, plural),
        options,
        model=model,
        audit_period_seconds=factory._audit_period,  # noqa: SLF001
    )
    return factory._informer(replace(scope, uid_range=uid_range), settings, call_site())  # noqa: SLF001
