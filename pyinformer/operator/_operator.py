"""Operators: reconcile functions that a decorator registers, and one call that runs them all.

Everything is stored in the Operator: two of them in one process share nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, final, overload

import typing_extensions

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import check_callable, check_not_imported, check_plain, checked_by
from pyinformer.blocking import BlockingCluster
from pyinformer.cache.informer import Memory, Scope, SharedInformerFactory, checked_namespaces
from pyinformer.cache.store import IndexFunction, Lister
from pyinformer.client.cluster import Cluster, check_cluster, connect, state_of, writing_as
from pyinformer.client.transport import ClusterConfig, ForeignClient
from pyinformer.controller import Controller, ControllerOptions, Result, on_stop_signal
from pyinformer.controller.conventions import EventRecorder
from pyinformer.controller.sources import PredicateFunction, Request, check_period
from pyinformer.errors import (
    InformerError,
    InternalError,
    InvalidArgumentError,
    InvalidTypeError,
)
from pyinformer.leaderelection import LeaderElection
from pyinformer.objects import (
    Access,
    GroupVersionResource,
    JSONObject,
    KubeObject,
    Selector,
    V,
    check_flag,
    check_type,
)
from pyinformer.operator._builder import ControllerBuilder
from pyinformer.operator._custom_resource import (
    CustomResource,
    declared_resource,
    definitions_of,
    label_parents,
)
from pyinformer.operator._daemons import (
    DAEMON_WORKERS,
    DEFAULT_LIMIT,
    DecodedObjects,
    Versions,
    check_daemon,
    checked_terms,
    passing_deletions,
)
from pyinformer.operator._declarations import (
    DEFAULT_MEMORY,
    Owned,
    Watched,
    check_kept,
    checked_owned,
    checked_watched,
)
from pyinformer.operator._declared_caches import Declaration, DeclaredCache
from pyinformer.operator._definition_merge import check_version
from pyinformer.operator._installed_definitions import DefinitionInstaller
from pyinformer.operator._rbac import Rights, Written, checked_writes
from pyinformer.operator._reconciler import (
    CleanupFunction,
    Reconciler,
    UnreadableFunction,
    check_cleanup,
    check_function,
    check_selectors,
    check_terms,
    check_unreadable,
    checked_model,
    takes_children,
)
from pyinformer.operator._registrations import Registrations
from pyinformer.operator._run import OperatorRun, check_no_loop, run_main
from pyinformer.operator._timers import check_every, checked_timer
from pyinformer.sharding import Buckets, Shard, check_group, uid_range_of
from pyinformer.telemetry.metrics import NO_METRICS, Metrics
from pyinformer.telemetry.tracing import FencedTracing, Tracing

if TYPE_CHECKING:  # loaded by the operators that have them
    from pyinformer.admission import HookOptions, Review, Webhooks
    from pyinformer.admission.conversion import Conversions
    from pyinformer.children import Children
    from pyinformer.operator._hooks import OperatorHooks
    from pyinformer.operator._served_hooks import ServedHooks
    from pyinformer.policies import MutatingPolicy, Policy

_log = get_logger(__name__)

M = typing_extensions.TypeVar("M", default=KubeObject)
_O = TypeVar("_O")
_A = TypeVar("_A", bound=Awaitable[Result | None])
_N = TypeVar("_N", bound=Awaitable[None])
_R = TypeVar("_R", bound=Result | None)
_S = TypeVar("_S")
_T = TypeVar("_T")

_HEALTH_PORT = 8081  # the port of probes in controller-runtime's operators


class Register(Protocol[M]):
    """What `Operator.reconcile` returns: a decorator that returns the same function."""

    @overload
    def __call__(
        self, function: Callable[[Request, M | None, Cluster], _A], /
    ) -> Callable[[Request, M | None, Cluster], _A]: ...
    @overload
    def __call__(
        self, function: Callable[[Request, M | None, BlockingCluster], _R], /
    ) -> Callable[[Request, M | None, BlockingCluster], _R]: ...
    @overload
    def __call__(
        self, function: Callable[[Request, M, Children], _A], /
    ) -> Callable[[Request, M, Children], _A]: ...


class RegisterHook(Protocol[_O, M]):
    """What `Operator.validate` and `default` return: a decorator that returns the same function."""

    @overload
    def __call__(
        self, function: Callable[[_O, Review[M]], Awaitable[None]], /
    ) -> Callable[[_O, Review[M]], Awaitable[None]]: ...
    @overload
    def __call__(
        self, function: Callable[[_O, Review[M]], None], /
    ) -> Callable[[_O, Review[M]], None]: ...


class RegisterDaemon(Protocol[M]):
    """What `Operator.daemon` returns: a decorator that returns the same function."""

    def __call__(
        self, function: Callable[[Request, Versions[M], Cluster], _N], /
    ) -> Callable[[Request, Versions[M], Cluster], _N]: ...


class RegisterTimer(Protocol):
    """What `Operator.every` returns: a decorator that returns the same function."""

    @overload
    def __call__(self, function: Callable[[Cluster], _A], /) -> Callable[[Cluster], _A]: ...
    @overload
    def __call__(
        self, function: Callable[[BlockingCluster], _R], /
    ) -> Callable[[BlockingCluster], _R]: ...


@final
class Operator:
    """A program that brings a cluster to the state that its objects describe.

        app = pyinformer.Operator("db-operator")

        @app.reconcile("acme.io/v1", "databases", model=Database)
        async def reconcile(request, database, cluster):
            ...

        app.run()

    Args:
        name: its name in logs and errors; its functions own under it the fields that they write,
            unless a write or the cluster names another `field_manager`.
        metrics: where metrics go, also those of the cluster that `run` connects to; None for those
            of the cluster that it runs on. The health endpoint shows those of PrometheusMetrics on
            `/metrics`.
        tracing: traces reconciles, and the requests that they send, on each cluster on which it
            runs and that has no `tracing` of its own; None for no traces.
        leader_election: of the replicas that have it, one reconciles at a time, and the others wait
            with full caches; None for a program of one replica, or of replicas that share.
        sharding: all replicas work, each on its share: `Buckets()` for as many as there are, or a
            `Shard` of a fixed number, which caches its share alone. Not together with
            `leader_election`.
        writes: what it writes beside the resources that it owns, for `required_rbac`:
            `("v1", "secrets")` for create, delete, patch and update; with verbs for only these, as
            in `("acme.io/v1", "databases", "patch")` or `("v1", "pods/eviction", "create")`.
        policies: admission policies that are deployed with it: `pyinformer manifests` writes them.
        webhooks: how the API server reaches its `validate`, `default` and `convert` functions; None
            for an operator without them.
        install_definitions: each replica installs the definitions of its `custom_resource` models
            when it starts, before its caches. It removes neither a version in which objects may be
            stored nor a conversion by a webhook, and leaves a definition that a newer `version`, or
            another operator, has installed.
        version: the version of the program, such as `importlib.metadata.version("db-operator")`;
            definitions are marked with it. None: it installs no definition that has such a mark.

    Raises:
        InvalidArgumentError: the name is not a string, or empty; or it cannot be the name of a
            Lease, and `leader_election` has none; or it cannot be a label, and there is `sharding`;
            or there is `sharding` with `leader_election`, or by clusters; or an entry of `writes`
            is invalid; or two policies have one name; or the version cannot be compared.
        InvalidTypeError: `tracing` is not a tracing system, or a policy or `webhooks` is none.
    """

    def __init__(
        self,
        name: str,
        *,
        metrics: Metrics | None = None,
        tracing: Tracing | None = None,
        leader_election: LeaderElection | None = None,
        sharding: Buckets | Shard | None = None,
        writes: Sequence[Written] = (),
        policies: Sequence[Policy | MutatingPolicy] = (),
        webhooks: Webhooks | None = None,
        install_definitions: bool = False,
        version: str | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError("name", f"must be a non-empty string, got {name!r}")
        if leader_election is not None:
            check_type("leader_election", leader_election, LeaderElection)
        if leader_election is not None and leader_election.name is None:
            leader_election = replace(leader_election, name=name)
        if sharding is not None:
            if not isinstance(sharding, Buckets | Shard):
                what = type(sharding).__name__
                raise InvalidTypeError("sharding", f"must be Buckets() or a Shard, not a {what}")
            if isinstance(sharding, Buckets) and sharding.by == "cluster":
                reason = (
                    'by="cluster" is for a pyinformer.Fleet: an operator runs on one cluster, whose'
                    " keys would all have one bucket"
                )
                raise InvalidArgumentError("sharding", reason)
            check_group("name", name)
        if sharding is not None and leader_election is not None:
            reason = "cannot be combined with leader_election: with sharding all replicas work"
            raise InvalidArgumentError("sharding", reason)
        check_flag("install_definitions", install_definitions)
        if version is not None:
            check_version(version)
        self.name: str = name
        self.version: str | None = version
        self._installs = install_definitions
        self.sharding: Buckets | Shard | None = sharding
        self.leader_election: LeaderElection | None = leader_election
        self.webhooks: Webhooks | None = webhooks
        self.policies: tuple[Policy | MutatingPolicy, ...] = _checked_policies(policies)
        self._writes = checked_writes(writes)
        self._metrics = metrics
        self._tracing = FencedTracing.of(tracing)
        self._uid_range = uid_range_of(sharding) if isinstance(sharding, Shard) else None
        self._registrations = Registrations(name, self._uid_range)
        self._loaded: OperatorHooks | None = None
        if webhooks is not None:
            self._loaded = self._hooks  # which checks them
        self._decoded: DecodedObjects = {}
        self._is_secrets_warning_logged = False

    def reconcile(
        self,
        api_version: str,
        plural: str,
        *,
        model: type[M] | None = None,
        owns: Sequence[Owned] = (),
        watches: Sequence[Watched] = (),
        label_selector: Selector = None,
        field_selector: Selector = None,
        predicate: PredicateFunction[None] | None = None,
        workers: int = 1,
        options: ControllerOptions | None = None,
        on_unreadable: UnreadableFunction | None = None,
        cleanup: CleanupFunction[M] | None = None,
        every_seconds: float | None = None,
        name: str | None = None,
    ) -> Register[M]:
        """Register a function of (request, object, cluster), async or plain: a decorator.

        The object is None if it is gone, or outside the selectors. What the function returns and
        raises counts as for a Controller: None or a `Result` is success, an error is retried with
        backoff, `RetryAfter` at its time, `TerminalError` not until something changes. Two calls
        for one object never run at once. A plain function is called in a thread, with a
        `BlockingCluster` in place of the Cluster: the same methods, which block. If the reconcile
        is cancelled, because of its deadline or at the end, its blocking call raises
        LifecycleError.

        An async function whose third argument is called `children` gets
        `pyinformer.children.Children` in place of the cluster, and is called only for an object
        that is there and not being deleted.

        While the operator runs, a new registration starts beside the others, and is not removed
        before the end: see `wait_started`.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name, as in its URL.
            model: a msgspec Struct, a dataclass or a pydantic model; the function gets the object
                as an instance, decoded for the call. An object that does not fit fails its
                reconcile with ModelMismatchError, until it changes. None: the cached KubeObject.
            owns: resources that the reconcile creates, with an owner reference to the object: a
                change of one of them reconciles the object. Each as `("apps/v1", "statefulsets")`,
                or as `operator.Owns` with selectors and more. The cache of owned Secrets has their
                values, unless `Owns("v1", "secrets", memory="metadata")`.
            watches: other resources on which the object depends, each with a function that returns
                the keys that one of them concerns, as `("v1", "secrets", users_of)` or as
                `operator.Watches`. A function of two arguments, `users_of(secret, listers)`, gets
                the `operator.Listers` of the caches, too. With a selector, it must not return the
                key of an object outside of it, for which the reconcile would get None.
            label_selector: only the objects with these labels.
            field_selector: only the objects with these fields.
            predicate: drops changes that do not matter, `generation_changed` for one.
            workers: how many objects are reconciled at once.
            options: deadlines, backoff, limits.
            on_unreadable: `(request, object, cluster, error)`, async or plain; called in place of
                the function, with the cached KubeObject, for an object that does not fit the
                model: to remove a finalizer, or to set a condition. It returns and raises as the
                function does.
            cleanup: `(request, object, cluster)`, async or plain, for a function with children: it
                removes what that has made outside of the cluster. It is called when the object is
                deleted, before its children are, until it has returned: after an error with
                backoff, after a Result with `requeue_after_seconds` at that time. A finalizer
                keeps the object, and is added before the first call of the function. If the
                process ends at the wrong moment, it is called again; after a Result with
                `waiting_for`, at the next event.
            every_seconds: each object is reconciled at least this often, at moments of its own
                within the period, as long as it exists: for a state outside Kubernetes. Whatever a
                call took or raised, the next one is at the next such moment, beside retries.
            name: the controller's name in logs and metrics; None for the plural name.

        Raises:
            InvalidArgumentError: an argument is invalid, or the name is taken, or `owns` or
                `watches` contradict what another reconcile or `follow` declares of that cache.
            InvalidTypeError: an object cannot be decoded into the model, or a function or mapping
                cannot be called so.
            InvalidSelectorError: a selector cannot be parsed.
            LifecycleError: the operator runs in another event loop, or is being closed.
        """
        resource = GroupVersionResource.of(api_version, plural)
        chosen = plural if name is None else name
        owned, watched = checked_owned(owns), checked_watched(watches)
        checked = checked_model(model, resource)
        check_terms(workers, predicate, options)
        check_selectors(resource, label_selector, field_selector)
        check_every(every_seconds, options)

        def register(function: Any, /) -> Any:  # noqa: ANN401 - the overloads are Register's
            check_function(function)
            check_unreadable(on_unreadable, checked)
            check_cleanup(cleanup, function)
            reconciler = Reconciler(
                name=chosen,
                resource=resource,
                function=function,
                model=checked,
                owns=owned,
                watches=watched,
                label_selector=label_selector,
                field_selector=field_selector,
                predicate=passing_deletions(predicate) if takes_children(function) else predicate,
                workers=workers,
                options=options or ControllerOptions(),
                decoded=self._decoded,
                on_unreadable=on_unreadable,
                cleanup=cleanup,
                every_seconds=every_seconds,
                uid_range=self._uid_range,
            )
            self._registrations.add(reconciler)
            if self._registrations.runs:
                self._warn_of_secrets(self._registrations.caches())
            return function

        return register

    def daemon(
        self,
        api_version: str,
        plural: str,
        *,
        model: type[M] | None = None,
        label_selector: Selector = None,
        field_selector: Selector = None,
        predicate: PredicateFunction[None] | None = None,
        finalizer: str | None = None,
        limit: int = DEFAULT_LIMIT,
        options: ControllerOptions | None = None,
        name: str | None = None,
    ) -> RegisterDaemon[M]:
        """Register a function that runs as a task for each object: a decorator.

            @app.daemon("acme.io/v1", "databases", model=Database)
            async def watch_replication(request, versions, cluster):
                async for database in versions:
                    ...

        A task starts when its object appears. It is cancelled and awaited when the object is
        deleted, or leaves the selectors; at the end of the operator; and when this replica loses
        the object to another one, which starts a task of its own afterwards. Its writes are
        refused from the moment at which another replica may have the object.

        If the function raises, that is logged and counted as of a reconcile, and it is started
        again with backoff; after a `TerminalError`, when the object changes. If it returns, it is
        started again when the object has another generation; an object without one, such as a
        ConfigMap, another resource version. Another operator process starts it, too.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name, as in its URL.
            model: as for `reconcile`. A version that does not fit it fails, and is skipped.
            label_selector: only the objects with these labels.
            field_selector: only the objects with these fields.
            predicate: drops changes that make no new version for the task, such as those of a
                status that it writes: `generation_changed`.
            finalizer: is added before a task starts, and removed when the object is deleted and
                the task has ended; None for none.
            limit: how many tasks run at once. Later objects wait until one ends, which is logged.
            options: how long a cancelled task may clean up (`grace_seconds`), the backoff, and what
                is logged of errors. A task has no deadline.
            name: the controller's name in logs and metrics; None for the function's name.

        Raises:
            InvalidArgumentError: an argument is invalid, or the name is taken.
            InvalidTypeError: an object cannot be decoded into the model, or the function is not
                asynchronous, or cannot be called so.
            InvalidSelectorError: a selector cannot be parsed.
            LifecycleError: the operator runs in another event loop, or is being closed.
        """
        resource = GroupVersionResource.of(api_version, plural)
        checked = checked_model(model, resource)
        check_terms(DAEMON_WORKERS, predicate, options)
        check_selectors(resource, label_selector, field_selector)
        terms = checked_terms(finalizer, limit)

        def register(function: Any, /) -> Any:  # noqa: ANN401 - the overload is RegisterDaemon's
            reconciler = Reconciler(
                name=check_daemon(function, name),
                resource=resource,
                function=function,
                model=checked,
                owns=(),
                watches=(),
                label_selector=label_selector,
                field_selector=field_selector,
                predicate=passing_deletions(predicate),
                workers=DAEMON_WORKERS,
                options=options or ControllerOptions(),
                decoded=self._decoded,
                uid_range=self._uid_range,
                daemon=terms,
            )
            self._registrations.add(reconciler)
            return function

        return register

    @overload
    def validate(
        self, api_version: str, plural: str, *, model: type[M], **options: Unpack[HookOptions]
    ) -> RegisterHook[M, M]: ...
    @overload
    def validate(
        self, api_version: str, plural: str, *, model: None = ..., **options: Unpack[HookOptions]
    ) -> RegisterHook[KubeObject, KubeObject]: ...
    def validate(
        self,
        api_version: str,
        plural: str,
        *,
        model: type[object] | None = None,
        **options: Unpack[HookOptions],
    ) -> object:
        """Register a function of (object, review) that refuses writes, async or plain: a decorator.

            @app.validate("acme.io/v1", "databases", model=Database)
            def check(database, review):
                if review.old and review.old.spec.engine != database.spec.engine:
                    raise Denied("spec.engine cannot be changed")

        The API server calls it by a webhook before a write is stored; for a deletion, the object is
        the one that is deleted. It may read the caches of the operator, which lag: two writes at
        once do not see each other. An object that does not fit the model is refused, with the
        field. Whatever else the function raises is logged, and the client gets an error without its
        text. It is called on the event loop, which a plain function must not block.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name; with a subresource, such as `databases/scale`.
            model: as for `reconcile`; None for KubeObject.
            **options: `operations` (`create` and `update`, which patches are, too; or `delete`),
                `when`, `timeout_seconds`, `ignores_failures` and `name`: see
                `pyinformer.admission.HookOptions`.

        Raises:
            InvalidArgumentError: an option is invalid, or the name is taken.
            InvalidTypeError: an object cannot be decoded into the model, or the function cannot be
                called so.
            LifecycleError: the operator runs.
        """
        return self._hooks.registering("validate", api_version, plural, model, options)

    @overload
    def default(
        self, api_version: str, plural: str, *, model: type[M], **options: Unpack[HookOptions]
    ) -> RegisterHook[M, M]: ...
    @overload
    def default(
        self, api_version: str, plural: str, *, model: None = ..., **options: Unpack[HookOptions]
    ) -> RegisterHook[JSONObject, KubeObject]: ...
    def default(
        self,
        api_version: str,
        plural: str,
        *,
        model: type[object] | None = None,
        **options: Unpack[HookOptions],
    ) -> object:
        """Register a function of (object, review) that completes what is written: a decorator.

            @app.default("acme.io/v1", "databases", model=Database)
            def fill(database, review):
                database.spec.image = database.spec.image or "postgres:17"

        It edits the object in place; the difference is sent, so that fields which the model does
        not know stay. It must leave a complete object as it is, since it may be called again after
        other webhooks. Without a model it edits a dict. All else is as for `validate`.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name.
            model: as for `reconcile`; None for a dict.
            **options: as for `validate`, but not for `delete`.

        Raises:
            InvalidArgumentError: an option is invalid, or the name is taken, or another default is
                asked about the same requests.
            InvalidTypeError: as for `validate`.
            LifecycleError: the operator runs.
        """
        return self._hooks.registering("default", api_version, plural, model, options)

    async def wait_started(self, name: str) -> None:
        """Wait until a reconcile function that was registered while this runs has started.

            app.reconcile("acme.io/v1", "backups")(reconcile)
            await app.wait_started("backups")

        It has started when its caches have synced and its workers run. With leader election, a
        standby is then ready to call it when it leads. A function that was registered before the
        start has started when the operator has.

        Args:
            name: the name of the registration.

        Raises:
            InvalidArgumentError: there is no such registration.
            NotFoundError: the server does not serve one of its resources. The others continue; the
                name can be registered again.
            CacheSyncTimeoutError: a cache did not sync in time; as above.
            LifecycleError: the operator does not run, or ends.

        Cancellation:
            Safe.
        """
        await self._registrations.wait_started(name)

    def every(
        self,
        period_seconds: float,
        *,
        name: str | None = None,
        options: ControllerOptions | None = None,
    ) -> RegisterTimer:
        """Register a function of the cluster that is called at an interval: a decorator.

            @app.every(3600)
            async def delete_old_backups(cluster):
                ...

        It is first called when all caches have synced, with leader election by the leader alone,
        and with sharding by one replica, at multiples of the period in Unix time. Two calls never
        run at once: a beat that passes during a call is skipped. An error is logged, counted and
        retried with backoff, at the next beat at the latest; `TerminalError` is not retried before.
        A plain function is called in a thread, with a `BlockingCluster`.

        Args:
            period_seconds: from beat to beat; the first call is the first beat.
            name: its name in logs and metrics, as that of a controller; None for the function's.
            options: the deadline of a call, backoff, limits.

        Raises:
            InvalidArgumentError: the period is invalid, or the name is taken or cannot be one.
            InvalidTypeError: the function cannot be called so.
            LifecycleError: the operator runs.
        """
        check_period("period_seconds", period_seconds)
        check_terms(1, None, options)

        def register(function: Any, /) -> Any:  # noqa: ANN401 - the overloads are RegisterTimer's
            timer = checked_timer(function, period_seconds, name=name, options=options)
            self._registrations.add_timer(timer)
            return function

        return register

    def convert(
        self, source: type[_S], target: type[_T]
    ) -> Callable[[Callable[[_S], _T]], Callable[[_S], _T]]:
        """Register a function between the models of two versions: a decorator.

            @app.convert(OldDatabase, Database)
            def upgrade(old: OldDatabase) -> Database:
                return Database(spec=DatabaseSpec(image=f"postgres:{old.spec.version}"))

        Every version of a resource must lead to every other one, directly or by way of a third;
        otherwise the operator does not start. The function is plain and reads nothing but its
        argument: the server calls it for each read and write in another version. An error fails the
        request; it is logged, and its text is not sent.

        An object keeps its metadata; a function between models that have `metadata` may change
        labels and annotations. Fields that a model does not know are lost, except a `status` that
        neither model has. `pyinformer.testing.assert_lossless` finds what else is lost.

        Args:
            source: a model that `custom_resource` declares.
            target: the model of another version of the same resource.

        Raises:
            InvalidArgumentError: they are not two versions of one resource, or a function converts
                them already.
            InvalidTypeError: a class is not such a model, or the function cannot be called so.
        """

        def register(function: Callable[[_S], _T], /) -> Callable[[_S], _T]:
            self._hooks.add_conversion(function, source, target)
            return function

        return register

    @property
    def conversions(self) -> Conversions:
        """The functions of `convert`, which answer ConversionReviews."""
        return self._hooks.conversions

    def object_of(self, model: object) -> KubeObject:
        """Return the cached object that a model was decoded from.

        A model does not have all fields of its object. Pass the object to identify or change it:

            pyinformer.controller.set_controller_reference(app.object_of(database), child)
            await cluster.status(app.object_of(database), DatabaseStatus(ready=3))
            await cluster.patch(app.object_of(database), database)  # after changing the model

        Args:
            model: the argument of the calling reconcile, the same instance.

        Raises:
            InvalidArgumentError: no running reconcile was called with it.
        """
        found, obj = self._decoded.get(id(model), (None, None))
        if obj is None or found is not model:
            reason = (
                f"no running reconcile of {self.name}, nor a daemon, was given this"
                f" {type(model).__name__}"
            )
            raise InvalidArgumentError("model", reason)
        return obj

    def follow(
        self,
        api_version: str,
        plural: str,
        *,
        label_selector: Selector = None,
        field_selector: Selector = None,
        model: type | None = None,
        memory: Memory | None = None,
    ) -> None:
        """Declare that reconciles or mappings read a resource, which reconciles nothing by itself.

        Resources that are reconciled, owned, watched or indexed are followed without this.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name.
            label_selector: only the objects with these labels.
            field_selector: only the objects with these fields.
            model: what the `view` of each object is.
            memory: what the cache keeps of each object, as for `SharedInformerFactory.informer`.

        Raises:
            InvalidArgumentError: an argument is invalid, or contradicts another declaration.
            InvalidSelectorError: a selector cannot be parsed.
            InvalidTypeError: objects cannot be decoded to the model.
            LifecycleError: the operator runs.
        """
        scope = Scope.of(api_version, plural, None, label_selector, field_selector)
        check_kept(model, memory)
        self._registrations.follow(Declaration("follow()", scope, model, memory))

    def index(self, api_version: str, plural: str, name: str, by: str | IndexFunction) -> None:
        """Declare an index of a resource, which is followed from then on.

            app.index("v1", "pods", "node", "spec.nodeName")
            ...
            pods = app.lister("v1", "pods").by_index("node", "node-1")

        Every cache of the resource has it. A resource that nothing else names is followed as a
        whole.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name.
            name: the name to read it by.
            by: a field path such as `"spec.nodeName"`, or a pure function of an object that returns
                a value, several, or None.

        Raises:
            InvalidArgumentError: the name is taken, or the path cannot be parsed.
            InvalidTypeError: it is neither a path nor a function.
            LifecycleError: the operator runs.
        """
        resource = GroupVersionResource.of(api_version, plural)
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError("name", f"must be a non-empty string, got {name!r}")
        if not isinstance(by, str):
            check_plain(by, "index(obj)", 1, may_generate=True)
        self._registrations.index(resource, name, by)

    def lister(
        self,
        api_version: str,
        plural: str,
        *,
        label_selector: Selector = None,
        field_selector: Selector = None,
        model: type[V] | None = None,
        cluster: Cluster | BlockingCluster | str | None = None,
    ) -> Lister[V]:
        """Return the lister of a resource that the operator follows, for reads without requests.

            current = app.lister("apps/v1", "statefulsets").get(request.key)
            await cluster.apply_if_changed(child, current)

        It shows own writes at once. All caches have synced before the first reconcile. Call it in
        reconciles, async or plain, in mappings, or anywhere else while the operator runs.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the plural name of a resource that is reconciled, owned, watched, indexed or
                followed here.
            label_selector: that of one of several caches of the resource. Without selectors it is
                the cache without selectors, or else the only one.
            field_selector: as `label_selector`.
            model: what the `view` of the objects is, as declared; for type checkers.
            cluster: the cluster, or its name, if the operator runs on several.

        Raises:
            InvalidArgumentError: the resource is not followed so, or the cluster is not used, or is
                missing; the error names what is followed.
            InvalidSelectorError: a selector cannot be parsed.
            LifecycleError: the operator does not run.
        """
        return self._builder_on(cluster).listers.lister(
            api_version,
            plural,
            label_selector=label_selector,
            field_selector=field_selector,
            model=model,
        )

    def event_recorder(
        self, cluster: Cluster | BlockingCluster | str | None = None
    ) -> EventRecorder:
        """Return the recorder of Events about objects, which reports as this operator.

            app.event_recorder().event(database, "BackupFailed", "the bucket is full")

        The operator starts and closes it. Call it in reconciles, async or plain, or anywhere else
        while the operator runs. A character of the operator's name that Events do not allow is
        reported as a hyphen. After `controllers`, in a test for example, the caller starts and
        closes it; Events wait until then.

        Args:
            cluster: the cluster, or its name, if the operator runs on several.

        Raises:
            InvalidArgumentError: the cluster is not used, or is missing.
            LifecycleError: the operator does not run.
        """
        return self._builder_on(cluster).event_recorder

    def _builder_on(self, cluster: Cluster | BlockingCluster | str | None) -> ControllerBuilder:
        if isinstance(cluster, BlockingCluster):
            cluster = cluster.asynchronous
        return self._registrations.builder_on(cluster)

    def custom_resource_definitions(self) -> list[JSONObject]:
        """Return the CustomResourceDefinition of each custom resource that has a model here.

        Values that `custom_resource` does not declare are taken from the registration.

        Raises:
            InvalidModelError: a definition cannot describe a field; names the field.
            InvalidArgumentError: functions convert to a version, and not to each other one.
        """
        return self._definitions(each.custom_resource for each in self._models())

    def _own_definitions(self) -> list[JSONObject]:
        """Return those of the models that `custom_resource` declares: others may be foreign."""
        return self._definitions(
            None if each.model is None else declared_resource(each.model) for each in self._models()
        )

    def _models(self) -> Iterable[Reconciler]:
        return self._registrations.reconcilers.values()

    def _definitions(self, declarations: Iterable[CustomResource | None]) -> list[JSONObject]:
        declared = [
            (each.model, declaration)
            for each, declaration in zip(self._models(), declarations, strict=True)
            if each.model is not None and declaration is not None
        ]
        found = (
            definitions_of(declared) if self._loaded is None else self._loaded.definitions(declared)
        )
        resources = [each.resource for each in self._models() if each.takes_children]
        return label_parents(found, {f"{each.resource}.{each.group}" for each in resources})

    def webhook_configurations(
        self, *, service_account: str | None = None, ca_bundle: bytes | None = None
    ) -> list[JSONObject]:
        """Return what makes the API server ask the hooks, for `kubectl apply`.

        It does not ask about writes of the operator itself, nor about its namespace, nor when a
        finalizer is removed from an object that is being deleted, so that no client is locked out
        while no replica runs.

        Args:
            service_account: of the operator, as `namespace/name`; None for a program outside the
                cluster, which is then asked about what it writes.
            ca_bundle: the PEM of the authorities to trust; None leaves that to the operator, or to
                cert-manager.

        Returns:
            A MutatingWebhookConfiguration, a ValidatingWebhookConfiguration, or both.

        Raises:
            InvalidArgumentError: the operator has no `webhooks`.
        """
        return self._hooks.configurations(service_account=service_account, ca_bundle=ca_bundle)

    def required_rbac(
        self,
        *,
        namespaces: str | Sequence[str] | None = None,
        name: str | None = None,
        service_account: str | None = None,
    ) -> str:
        """Return the least rights that the operator needs, as YAML for `kubectl apply`.

        To read what it reconciles, owns and watches; to write what it owns, the status of what it
        reconciles, Events, and the Leases of its replicas; and what `writes` declares. By a
        Role in each namespace, or by a ClusterRole for all namespaces and for resources without
        namespaces. No request is sent, so a resource is taken to be namespaced unless Kubernetes or
        the declaration of a model says otherwise.

        Args:
            namespaces: the namespaces to follow, as for `run`; None for all.
            name: the name of all roles and bindings; None for the operator's name.
            service_account: gets the rights, as `namespace/name`; None for roles without bindings.

        Returns:
            YAML documents with `---` in between.

        Raises:
            InvalidArgumentError: Kubernetes does not accept a name, or no function is registered;
                or the namespace of the Leases is neither in `leader_election` or `sharding` nor in
                `service_account`.
        """
        self._check_registered()
        rights = self._rights(checked_namespaces(namespaces))
        return rights.yaml(name=name or self.name, service_account=service_account)

    def _rights(self, namespaces: Iterable[str] | None) -> Rights:
        return Rights(
            reconcilers=self._registrations.reconcilers.values(),
            followed=[one.scope for one in self._registrations.caches()],
            writes=self._writes,
            namespaces=None if namespaces is None else frozenset(namespaces),
            election=self.leader_election,
            sharding=self.sharding,
            webhooks=self._webhook_accesses,
            definitions=[one["metadata"]["name"] for one in self._own_definitions()]
            if self._installs
            else (),
        )

    def controllers(
        self,
        cluster: Cluster,
        factory: SharedInformerFactory,
        *,
        namespaces: str | Sequence[str] | None = None,
    ) -> tuple[Controller[None], ...]:
        """Return its controllers, not started: for tests, or to run them with others.

        Those of the reconciles come first, then one of each timer; the key of its request is its
        name.

        Args:
            cluster: the cluster.
            factory: makes their informers, on the same cluster.
            namespaces: the namespaces to follow; None for all.

        Returns:
            Both in the order of their registration.

        Raises:
            InvalidArgumentError: an argument is invalid.
        """
        check_cluster(cluster)
        check_type("factory", factory, SharedInformerFactory)
        chosen = checked_namespaces(namespaces)
        self._trace(cluster)
        return self._registrations.builder(
            cluster, factory, namespaces=chosen, metrics=self._metrics_on(cluster)
        ).controllers()

    def running(
        self,
        cluster: Cluster,
        *,
        namespaces: str | Sequence[str] | None = None,
        health_host: str = "127.0.0.1",
        health_port: int | None = None,
        serves_webhooks: bool = True,
    ) -> OperatorRun:
        """Return a run on the caller's cluster: `async with app.running(cluster)`.

        Args:
            cluster: the cluster; it is not closed.
            namespaces: the namespaces to follow; None for all.
            health_host: the address of the health endpoint.
            health_port: its port; 0 for a free one, None for no endpoint.
            serves_webhooks: False for a test of what it reconciles, without its webhooks.

        Raises:
            ConfigurationError: webhooks need a package that is not installed.
            InvalidArgumentError: no function is registered, or an argument is invalid; or there are
                hooks without `webhooks`, or `webhooks` without hooks; or functions convert to a
                version, and not to each other one.
        """
        check_flag("serves_webhooks", serves_webhooks)
        return self._run_on(
            cluster,
            namespaces=namespaces,
            health_host=health_host,
            health_port=health_port,
            is_program=False,
            serves_webhooks=serves_webhooks,
        )

    def _run_on(
        self,
        cluster: Cluster,
        *,
        namespaces: str | Sequence[str] | None,
        health_host: str,
        health_port: int | None,
        is_program: bool,
        serves_webhooks: bool = True,
    ) -> OperatorRun:
        check_not_imported()
        check_cluster(cluster)
        self._check_registered()
        if self._loaded is not None:
            self._loaded.check()
        checked = checked_namespaces(namespaces)
        self._warn_of_secrets(self._registrations.caches())
        self._trace(cluster)
        return OperatorRun(
            cluster,
            name=self.name,
            registrations=self._registrations,
            rights=partial(self._rights, checked),
            namespaces=checked,
            health_host=health_host,
            health_port=health_port,
            metrics=self._metrics_on(cluster),
            leader_election=self.leader_election,
            sharding=self.sharding,
            is_program=is_program,
            serve=self._serving(cluster, lingers=is_program) if serves_webhooks else None,
            installer=DefinitionInstaller(
                self._own_definitions, operator=self.name, version=self.version
            )
            if self._installs
            else None,
        )

    def _serving(
        self, cluster: Cluster, *, lingers: bool
    ) -> Callable[[Callable[[], bool]], ServedHooks] | None:
        if self._loaded is None:
            return None
        metrics = self._metrics_on(cluster)
        return self._loaded.serving(cluster, lingers=lingers, metrics=metrics)

    def _webhook_accesses(self, namespace: str) -> Sequence[Access]:
        return () if self._loaded is None else self._loaded.accesses(namespace)

    @property
    def _hooks(self) -> OperatorHooks:
        """What is declared for webhooks; its code is loaded by the first declaration."""
        if self._loaded is None:
            from pyinformer.operator._hooks import OperatorHooks

            self._loaded = OperatorHooks(self.name, self.webhooks, self._registrations)
        return self._loaded

    def _metrics_on(self, cluster: Cluster) -> Metrics:
        return cluster.metrics if self._metrics is None else self._metrics

    def _trace(self, cluster: Cluster) -> None:
        spans = state_of(cluster).spans
        spans.tracing = spans.tracing or self._tracing

    def _check_registered(self) -> None:
        if not self._registrations.names and self._loaded is None:
            reason = f"{self.name}: no function is registered; decorate one: @app.reconcile(...)"
            raise InvalidArgumentError("operator", reason)

    def _warn_of_secrets(self, caches: Sequence[DeclaredCache]) -> None:
        """Log once that values of Secrets are kept, if nothing says that they should be."""
        by = next((one.secrets_kept_by for one in caches if one.secrets_kept_by), "")
        if by and not self._is_secrets_warning_logged:
            self._is_secrets_warning_logged = True
            _log.warning(
                "%s keeps the values of all Secrets that it follows in memory, because of %s:"
                ' memory="metadata" keeps only their metadata, e.g. Owns("v1", "secrets",'
                ' memory="metadata"), and memory="%s" keeps their values without this warning',
                self.name,
                by,
                DEFAULT_MEMORY,
            )

    @checked_by(lambda _, *args, **kwargs: check_cluster(*args, **kwargs))
    async def run_async(
        self,
        cluster: Cluster,
        *,
        namespaces: str | Sequence[str] | None = None,
        health_host: str = "127.0.0.1",
        health_port: int | None = None,
    ) -> None:
        """Run on the caller's cluster until SIGTERM or SIGINT; a second signal forces the end.

        Args:
            cluster: the cluster; it is not closed.
            namespaces: the namespaces to follow; None for all.
            health_host: the address of the health endpoint.
            health_port: its port; 0 for a free one, None for no endpoint.

        Raises:
            InvalidArgumentError: no function is registered, or an argument is invalid; or functions
                convert to a version, and not to each other one.
            CacheSyncTimeoutError: a cache did not sync in time; its text gives the reason, and its
                notes what to do about resources that the server does not serve.
            ConfigurationError: the health endpoint cannot listen.
            InternalError: something inside crashed.

        Cancellation:
            Stops it in order.
        """
        await self.running(
            cluster, namespaces=namespaces, health_host=health_host, health_port=health_port
        ).run()

    def run(
        self,
        *,
        namespaces: str | Sequence[str] | None = None,
        kubeconfig: str | PathLike[str] | None = None,
        context: str | None = None,
        server: str | None = None,
        config: ClusterConfig | ForeignClient | None = None,
        health_host: str = "127.0.0.1",
        health_port: int | None = _HEALTH_PORT,
        lifespan: Callable[[Cluster], AbstractAsyncContextManager[object]] | None = None,
    ) -> None:
        """Run as the whole program: connect, run until SIGTERM or SIGINT, and return.

        It uses uvloop if that is installed, unless the environment has `PYINFORMER_UVLOOP=off`.
        With `leader_election` or `sharding` it uses asyncio's own loop, which checks each send of a
        write.

        Args:
            namespaces: the namespaces to follow; None for all.
            kubeconfig: as for `connect`; None finds it, or the service account of the pod.
            context: the context in the kubeconfig; None for the current one.
            server: the URL of a server without authentication, instead of a kubeconfig.
            config: a configuration, or the client of another library, instead of a kubeconfig.
            health_host: the address of `/healthz` and `/readyz`; `"::"`, all of IPv6 and IPv4, in a
                pod, where the kubelet probes the pod's address.
            health_port: its port; 0 for a free one, None for no endpoint.
            lifespan: called with the cluster; returns an async context manager that is entered
                before the operator starts, and left when its last reconcile has ended. It opens
                and closes what reconciles use beside the cluster, such as an HTTP client. What it
                raises is raised.

        Raises:
            SystemExit: it could not start or continue; Python prints the reason, and the exit
                status is 1.
            LifecycleError: an event loop runs already: await `run_async` in it. Or a command such
                as `pyinformer rbac` imports the program.
            InternalError: something inside crashed.
        """
        check_not_imported()
        check_no_loop()
        if lifespan is not None:
            check_callable(lifespan, "lifespan(cluster)", 1)

        async def main() -> None:
            """Connect and run."""
            where = connect(
                kubeconfig,
                context=context,
                server=server,
                config=config,
                metrics=NO_METRICS if self._metrics is None else self._metrics,
            )
            # Before and after the run, too: what lifespan opens is closed in any case.
            with _stopping_at_signal() as stop, writing_as(self.name):
                async with where as cluster, lifespan(cluster) if lifespan else nullcontext():
                    if stop.signals:
                        return  # lifespan has ignored its cancellation
                    run = self._run_on(
                        cluster,
                        namespaces=namespaces,
                        health_host=health_host,
                        health_port=health_port,
                        is_program=True,
                    )
                    with stop.keeping_failure():
                        await run.run()

        try:
            is_alone = self.leader_election is None and self.sharding is None
            run_main(main, may_use_uvloop=is_alone)
        except InternalError:
            raise
        except InformerError as error:
            notes = getattr(error, "__notes__", ())
            raise SystemExit("\n".join((f"{self.name}: {error}", *notes))) from error

    def __repr__(self) -> str:
        names = ", ".join(self._registrations.names) or "no reconcile"
        return f"<Operator {self.name} with {names}>"


def hooks_of(app: Operator) -> OperatorHooks:
    """Return what an operator declares for its webhooks."""
    return app._hooks  # noqa: SLF001 - of this module


def _checked_policies(
    policies: Sequence[Policy | MutatingPolicy],
) -> tuple[Policy | MutatingPolicy, ...]:
    if isinstance(policies, list | tuple) and not policies:
        return ()
    from pyinformer.policies import checked_policies

    return checked_policies(policies)


@final
class _Stop:
    """What a signal does to the main task: it is cancelled, once for each signal.

    A scope of anyio would cancel each await of a clean-up.
    """

    def __init__(self) -> None:
        self.signals: int = 0
        self.cancellations: int = 0
        self.failure: Exception | None = None
        self.task: asyncio.Task[object] | None = asyncio.current_task()

    @contextmanager
    def keeping_failure(self) -> Iterator[None]:
        """Remember what the operator failed with: it ends already, and reports that."""
        try:
            yield
        except Exception as error:
            self.failure = error
            raise

    def signalled(self, name: str) -> None:
        """Cancel the task; the clean-up after a failure is cut by a second signal only."""
        self.signals += 1
        if self.failure is not None and self.signals == 1:
            _log.warning("%s: the operator has failed, and closes what it has opened", name)
        elif self.task is not None:
            self.task.cancel()
            self.cancellations += 1


@contextmanager
def _stopping_at_signal() -> Iterator[_Stop]:
    """Cancel the current task at a signal, and end the block without an error of that."""
    stop = _Stop()
    with on_stop_signal(stop.signalled):
        try:
            yield stop
        except asyncio.CancelledError:
            if not stop.signals:
                raise
            if stop.failure is not None:
                raise stop.failure from None
    if stop.task is not None:
        for _ in range(stop.cancellations):
            stop.task.uncancel()
