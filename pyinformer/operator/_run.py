"""One run of an operator on one cluster: informers, controllers and the health endpoint.

It starts in order (health endpoint, caches, sync with a deadline, workers) and stops in reverse.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self, final

import anyio

from pyinformer._printable import Lines
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import (
    Closable,
    cancel_for_good,
    close_on_exit,
    on_sigusr1,
    program_runner,
    run_shielded,
)
from pyinformer.cache.informer import SharedInformerFactory
from pyinformer.client.cluster import Cluster
from pyinformer.controller import FORCED_END, STOPPING, Controller, ControllerGroup, on_stop_signal
from pyinformer.controller.conventions import EventRecorder
from pyinformer.errors import (
    CacheSyncTimeoutError,
    InternalError,
    LifecycleError,
    NotFoundError,
)
from pyinformer.leaderelection import LeaderElection, LeaderElector
from pyinformer.objects import GroupVersionResource
from pyinformer.operator._builder import ControllerBuilder
from pyinformer.operator._custom_resource import declared_resource
from pyinformer.operator._elected import ElectedControllers
from pyinformer.operator._health import Health
from pyinformer.operator._health_server import HealthServer
from pyinformer.operator._installed_definitions import DefinitionInstaller
from pyinformer.operator._rbac import Rights
from pyinformer.operator._registrations import Registrations
from pyinformer.operator._registrations_while_running import Additions, hint_of
from pyinformer.operator._replica import Replica
from pyinformer.operator._resource_scopes import (
    FAILURES_OF_DISCOVERY,
    discover,
    learn_scopes,
    shown_unknown,
)
from pyinformer.operator._sharing import SharedControllers
from pyinformer.sharding import (
    Buckets,
    Shard,
    SharingStatus,
    election_of,
    rivals_of_shard,
)
from pyinformer.telemetry.metrics import Exposition, Metrics

if TYPE_CHECKING:
    from pyinformer.operator._served_hooks import ServedHooks

_log = get_logger(__name__)

_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def check_no_loop() -> None:
    """Refuse to run inside an event loop.

    Raises:
        LifecycleError: an event loop runs in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    reason = "run() starts its own event loop: inside a running one, await run_async(cluster)"
    raise LifecycleError(reason)


def run_main(
    main: Callable[[], Coroutine[None, None, None]], *, may_use_uvloop: bool = True
) -> None:
    """Run a coroutine function in a new event loop, as `asyncio.run` does, but always end.

    Tasks that ignore their cancellation are logged and left behind; `asyncio.run` would wait. As
    long as logging is not configured, the lines that Python prints have a time.

    Args:
        main: the program.
        may_use_uvloop: False for asyncio's own loop, also if uvloop is installed.

    Raises:
        Exception: what it raised.
    """
    runner = program_runner(may_use_uvloop=may_use_uvloop)
    with _times_in_unconfigured_logs():
        try:
            runner.run(main())
        finally:
            if runner.run(_others_have_ended()):
                runner.close()


@contextmanager
def _times_in_unconfigured_logs() -> Iterator[None]:
    """Format what Python prints without a handler; logging stays without a configuration.

    So the program can still call `logging.basicConfig`, which does nothing if there is a handler.
    """
    printer = logging.lastResort
    if printer is None:
        yield
        return
    before = printer.formatter
    printer.setFormatter(logging.Formatter(_LOG_FORMAT))
    try:
        yield
    finally:
        printer.setFormatter(before)


async def _others_have_ended() -> bool:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        cancel_for_good(task)
    if not others:
        return True
    _, stubborn = await asyncio.wait(others, timeout=_END_SECONDS)
    for task in stubborn:
        _log.error("%s ignores its cancellation; the program ends without it", task.get_name())
    return not stubborn


@final
class OperatorRun(Closable):
    """A running operator, made by `Operator.running`. Use it as `async with`, and once.

    Attributes:
        cluster: the cluster that it works on.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        name: str,
        registrations: Registrations,
        rights: Callable[[], Rights],
        namespaces: frozenset[str] | None,
        health_host: str,
        health_port: int | None,
        metrics: Metrics,
        leader_election: LeaderElection | None,
        sharding: Buckets | Shard | None,
        is_program: bool,
        serve: Callable[[Callable[[], bool]], ServedHooks] | None,
        installer: DefinitionInstaller | None,
    ) -> None:
        self.cluster: Cluster = cluster
        self._name = name
        self._registrations = registrations
        self._rights = rights
        self._namespaces = namespaces
        self._factory = SharedInformerFactory(cluster, metrics=metrics)
        self._controllers: tuple[Controller[None], ...] = ()
        self._group: ControllerGroup | None = None
        self._events: EventRecorder | None = None
        self._metrics = metrics
        self._leader_election = leader_election
        self._sharding = sharding
        self._is_program = is_program
        self._installer = installer
        self._replica: Replica | None = None
        self._hints: list[str] = []
        self._unknown_scopes: dict[GroupVersionResource, str] = {}
        self._report: asyncio.TimerHandle | None = None
        self._began_at = 0.0
        self._late_start = LateStart()
        self.health: Health = Health(self._factory)
        """Whether it is alive and ready, with reasons; the health endpoint answers with it."""
        self._additions = Additions(cluster, registrations, self.health, metrics=metrics)
        self._hooks: ServedHooks | None = None if serve is None else serve(self._writes_hooks)
        self._health: HealthServer | None = None
        if health_port is not None:
            self._health = HealthServer(
                {"/healthz": self._dead, "/livez": self._dead, "/readyz": self._unready},
                pages=self.health.pages(),
                metrics=metrics if isinstance(metrics, Exposition) else None,
                host=health_host,
                port=health_port,
            )

    @property
    def health_url(self) -> str | None:
        """The URL of the health endpoint; None without one."""
        return None if self._health is None else self._health.url

    @property
    def webhook_port(self) -> int | None:
        """The port on which webhooks are served; None if they are not."""
        return None if self._hooks is None else self._hooks.port

    @property
    def controllers(self) -> tuple[Controller[None], ...]:
        """Its controllers, in the order of their registration; empty before the start.

        With leader election, they are those of the current term, and empty for a standby.
        """
        if self._replica is not None:
            return self._replica.controllers
        return (*self._controllers, *self._additions.controllers)

    @property
    def elector(self) -> LeaderElector | None:
        """The elector; None before the start, and if replicas neither elect a leader nor share.

        With `sharding` it is that of the Lease which only this replica holds.
        """
        return None if self._replica is None else self._replica.elector

    @property
    def sharing(self) -> SharingStatus | None:
        """The share of this replica; None before the start, and without `Buckets()`.

        What a `Shard` does is in `elector.status()`.
        """
        replica = self._replica
        return replica.member.status() if isinstance(replica, SharedControllers) else None

    def required_rbac(self, *, name: str = "pyinformer", service_account: str | None = None) -> str:
        """Return the least rights that the operator needs, as `Operator.required_rbac` does.

        After the start the server has said which resources are namespaced.

        Args:
            name: the name of all roles and bindings.
            service_account: gets the rights, as `namespace/name`; None for roles without
                bindings.

        Raises:
            InvalidArgumentError: Kubernetes does not accept a name.
        """
        rights = self._rights()
        election, sharding = rights.election, rights.sharding
        namespace = self.cluster.config.namespace
        if election is not None and election.namespace is None:
            election = replace(election, namespace=namespace)
        if sharding is not None and sharding.namespace is None:
            sharding = replace(sharding, namespace=namespace)
        rights = replace(
            rights,
            is_namespaced=self._is_namespaced,
            election=election,
            sharding=sharding,
            pod_namespace=namespace,
        )
        return rights.yaml(name=name, service_account=service_account)

    def _is_namespaced(self, resource: GroupVersionResource) -> bool | None:
        known = self.cluster.discovery.known(resource)
        return None if known is None else known.namespaced

    async def run(self) -> None:
        """Start, and run until SIGTERM or SIGINT; a second signal forces the end.

        At SIGUSR1 it logs its status.

        Raises:
            CacheSyncTimeoutError: a cache did not sync in time.
            ConfigurationError: the health endpoint cannot listen.
            InternalError: something inside crashed.

        Cancellation:
            Stops it in order.
        """
        async with self._health or nullcontext(), self._hooks or nullcontext():
            with on_sigusr1(self._log_status):
                try:
                    await self._run()
                finally:
                    await self._release()

    async def _run(self) -> None:
        if self._is_one_of_several:
            await self._run_replica()
            return
        asking = anyio.CancelScope()

        def signalled(name: str) -> None:
            """Stop in order: no reconcile runs yet."""
            if not asking.cancel_called:
                self._log_stop(name)
            asking.cancel()

        with on_stop_signal(signalled), asking:
            group = await self._assemble()
        if not asking.cancel_called:
            with self._explained():
                await group.lifecycle.run(
                    on_started=self._started_nowait, logs_status=False, before_end=self._leave
                )

    def _log_stop(self, signal_name: str) -> None:
        _log.info(STOPPING, f"operator {self._name}", signal_name)

    @property
    def _is_one_of_several(self) -> bool:
        return self._leader_election is not None or self._sharding is not None

    async def _run_replica(self) -> None:
        """Be one of several replicas until a signal or an error, and stop in order."""
        stopping = anyio.CancelScope()

        def signalled(name: str) -> None:
            """Stop in order at the first signal; stop waiting at the second."""
            if not stopping.cancel_called:
                self._log_stop(name)
            elif self._replica is not None:
                _log.warning(FORCED_END, f"operator {self._name}", name)
                self._replica.force_nowait()
            stopping.cancel()

        with on_stop_signal(signalled):
            try:
                with stopping:
                    replica = await self._assemble_replica()
                    with self._explained():
                        await replica.start()
                        self._started_nowait()
                    await replica.wait_ended()
            finally:
                await run_shielded("the last answers of an operator", self._leave())
                if self._replica is not None:
                    await self._replica.aclose()
                    self._replica.close_abandoned()

    async def _leave(self) -> None:
        """Answer the last reviews, as long as caches can be read."""
        if self._hooks is not None:
            await self._hooks.leave()

    async def _release(self) -> None:
        """Accept no registrations any more, and write the Events that wait."""
        self._additions.close()
        if self._events is not None:
            await run_shielded("the last Events of an operator", self._events.aclose())

    def _log_status(self) -> None:
        # The signal asks for it, so it is shown also if the program has not set up logging.
        level = logging.INFO if _log.isEnabledFor(logging.INFO) else logging.WARNING
        _log.log(level, "status of the operator\n%s", Lines(self.health.overview()))

    async def start(self) -> None:
        """Start the caches, wait until they have synced, and start the workers.

        Raises:
            CacheSyncTimeoutError: a cache did not sync in time.
            ConfigurationError: the health endpoint cannot listen.

        Cancellation:
            aclose() stops what was started.
        """
        if self._health is not None:
            await self._health.start()
        if self._hooks is not None:
            await self._hooks.start()
        if self._is_one_of_several:
            replica = await self._assemble_replica()
            with self._explained():
                await replica.start()
                self._started_nowait()
            return
        group = await self._assemble()
        with self._explained():
            await group.start()
            self._started_nowait()

    async def aclose(self) -> None:
        """Stop everything in order; a second call only waits.

        Raises:
            InternalError: something inside had crashed.

        Cancellation:
            Takes effect when everything has ended, which the options bound.
        """
        try:
            await run_shielded("the last answers of an operator", self._leave())
            if self._group is not None:
                await self._group.aclose()
            if self._replica is not None:
                await self._replica.aclose()
        finally:
            try:
                await self._release()
            finally:
                for server in (self._hooks, self._health):
                    if server is not None:
                        await server.aclose()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException as error:
            await close_on_exit(self.aclose, error)
            raise
        return self

    async def _assemble(self) -> ControllerGroup:
        """Build the informers and controllers, once discovery knows which are namespaced."""
        builder = await self._prepare()
        self._controllers = builder.controllers()
        self._group = ControllerGroup(*self._controllers, factories=(self._factory,))
        self.health.add(self._group)
        return self._group

    async def _assemble_replica(self) -> Replica:
        """Build the informers, the controllers, and what competes for the Leases."""
        builder = await self._prepare()
        sharding, election, rivals = self._sharding, self._leader_election, None
        if isinstance(sharding, Buckets):
            shared = SharedControllers(
                self.cluster,
                self._name,
                sharding,
                builder,
                metrics=self._metrics,
                ends_process=self._is_program,
            )
            self._replica = shared
            self.health.add(shared)
            self.health.add(shared.member)
            return shared
        if sharding is not None:
            election = election_of(sharding, self._name)
            rivals = rivals_of_shard(self.cluster, self._name, sharding)
        if election is None:
            raise InternalError("a replica that neither elects nor shares")
        elected = ElectedControllers(
            self.cluster,
            election,
            builder,
            metrics=self._metrics,
            rivals=rivals,
            ends_process=self._is_program,
        )
        self._replica = elected
        self.health.add(elected)
        self.health.add(elected.elector)
        return elected

    async def _prepare(self) -> ControllerBuilder:
        """Learn which resources are namespaced, and build what is registered."""
        if self._group is not None or self._replica is not None:
            raise LifecycleError("this run was started before: get a new one from the operator")
        self._additions.claim_loop()
        if self._installer is not None:
            with self._explained():
                timeout_seconds = self._registrations.sync_timeout_seconds
                await self._installer.install(self.cluster, timeout_seconds=timeout_seconds)
        resources = {one.scope.resource: None for one in self._registrations.caches()}
        await self._discover([*resources, *(() if self._hooks is None else self._hooks.resources)])
        await self._check_definitions()
        with self._explained():
            await learn_scopes(
                self.cluster,
                resources,
                namespaces=self._namespaces,
                reconcilers=self._registrations.reconcilers.values(),
                timeout_seconds=self._registrations.sync_timeout_seconds,
                unknown=self._unknown_scopes,
            )
        builder = self._registrations.builder(
            self.cluster, self._factory, namespaces=self._namespaces, metrics=self._metrics
        )
        self._additions.open(builder)
        self._events = builder.event_recorder
        await self._events.start()
        if self.health_url is not None:
            _log.info(
                "health endpoint: %s/healthz and /readyz; for people /debug, /status, /explain",
                self.health_url,
            )
        return builder

    async def _discover(self, resources: Iterable[GroupVersionResource]) -> None:
        """Load resources into the cluster's discovery, and record which are not served."""
        for resource, error in (await discover(self.cluster, resources)).items():
            if isinstance(error, NotFoundError):  # it may appear while the caches wait for it
                hint = hint_of(resource, self.cluster)
                self._hints.append(hint)
                _log.warning("%s", hint)
            elif isinstance(error, FAILURES_OF_DISCOVERY):
                _log.warning("discovery of %s failed: %s", resource, error)
            else:
                raise error

    async def _check_definitions(self) -> None:
        hooked = () if self._hooks is None else self._hooks.models
        reconciled = [one.model for one in self._registrations.reconcilers.values() if one.model]
        if self._installer is not None:  # the server publishes what was installed a while later
            installed = self._installer.installed
            hooked = tuple(one for one in hooked if _definition_of(one[0]) not in installed)
            reconciled = [one for one in reconciled if _declared_name(one) not in installed]
        if any(map(declared_resource, reconciled)) or hooked:
            from pyinformer.operator._served_schemas import warn_of_dropped_fields

            await warn_of_dropped_fields(self.cluster, hooked=hooked, reconciled=reconciled)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Log now and then what a start waits for; add hints to the error if it fails."""
        loop = asyncio.get_running_loop()
        self._began_at = self._began_at or loop.time()
        self._report = loop.call_later(_CHECK_SECONDS, self._report_nowait)
        try:
            yield
        except CacheSyncTimeoutError as error:
            for hint in self._hints:
                error.add_note(hint)
            raise
        finally:
            if self._report is not None:
                self._report.cancel()

    def _report_nowait(self) -> None:
        missing = self._not_ready()
        if not missing:
            return
        loop = asyncio.get_running_loop()
        if self._late_start.is_due(self._reasons_not_ready(), loop.time() - self._began_at):
            _log.warning("still starting: %s", "; ".join(missing))
        self._report = loop.call_later(_CHECK_SECONDS, self._report_nowait)

    def _reasons_not_ready(self) -> list[tuple[str, str]]:
        """Return what the start waits for, without the numbers that grow with every attempt."""
        unknown = [(str(resource), reason) for resource, reason in self._unknown_scopes.items()]
        return unknown + [
            (each.follows, each.last_error or each.state.value)
            for informer in self._factory.status().informers
            for each in informer.namespaces
            if not each.has_synced
        ]

    def _started_nowait(self) -> None:
        """Log the start at the level of the earlier warnings, if there were any."""
        replica = self._replica
        elected = replica if isinstance(replica, ElectedControllers) else None
        shared = replica.group if isinstance(replica, SharedControllers) else None
        host = elected or shared or self._group
        if host is not None:
            self._additions.start(host)
        if self._hooks is not None:
            self._hooks.answer_reviews()
        if self._report is not None:
            self._report.cancel()
        if self._late_start.was_reported:
            seconds = asyncio.get_running_loop().time() - self._began_at
            _log.warning("started after %.0f s", seconds)

    def _dead(self) -> Sequence[str]:
        return self.health.live().reasons

    def _unready(self) -> Sequence[str]:
        unserved = () if self._hooks is None else self._hooks.problems
        return [*unserved, *self._not_ready()] or self.health.ready().reasons

    def _writes_hooks(self) -> bool:
        """Return whether this replica makes certificates: the leader does, and who starts first."""
        return self.elector is None or self.elector.is_leading

    def _not_ready(self) -> Sequence[str]:
        """Return what the start still waits for."""
        if self._replica is not None:
            return self._replica.not_ready
        idle = [one.name for one in self._controllers if not (one.has_synced and one.is_running)]
        if self._controllers and not idle:
            return ()
        found = self._factory.status().informers
        pending = [str(informer) for informer in found if not informer.has_synced]
        unknown = shown_unknown(self._unknown_scopes)
        if self._installer is not None:
            unknown += self._installer.shown_pending()
        return [f"not running: {', '.join(idle) or 'no controller yet'}", *unknown, *pending]


def _definition_of(resource: GroupVersionResource) -> str:
    return f"{resource.resource}.{resource.group}"


def _declared_name(model: type) -> str:
    declared = declared_resource(model)
    return "" if declared is None else _definition_of(declared.resource)


@final
class LateStart:
    """Decides when a late start is logged: at once for a new reason, then at growing intervals."""

    def __init__(self) -> None:
        self.was_reported: bool = False
        self._reasons: list[tuple[str, str]] = []
        self._next_at_seconds = 0.0

    def is_due(self, reasons: list[tuple[str, str]], waited_seconds: float) -> bool:
        """Return whether to log now, and record that it was logged.

        Args:
            reasons: what is missing and why, without numbers that grow with every attempt.
            waited_seconds: how long the start has taken.
        """
        is_known = self.was_reported and reasons == self._reasons
        if is_known and waited_seconds < self._next_at_seconds:
            return False
        self.was_reported = True
        self._reasons = reasons
        self._next_at_seconds = 2 * waited_seconds
        return True


_CHECK_SECONDS = 5.0  # a usual start takes less
_END_SECONDS = 2.0  # tasks of controllers have had their grace period already
