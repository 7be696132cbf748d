"""Daemons: one task for each object, which is given the versions of the object as they come.

A daemon is a controller whose reconcile starts, feeds and cancels the task of its object, and never
waits for it. So a task begins and ends with the term, the bucket and the object, as reconciles do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, cast, final

import anyio
import typing_extensions

from pyinformer._runtime.tasks import (
    check_callable,
    is_asynchronous,
    is_in_thread,
    loop_time,
    name_of,
)
from pyinformer.client.cluster import Cluster, writing_as
from pyinformer.controller import UNDECIDED, ObjectTask, ObjectTasks, Result
from pyinformer.controller.conventions import check_finalizer, enter_finalizer, leave_finalizer
from pyinformer.controller.sources import PredicateFunction, Reason, Request, any_of
from pyinformer.errors import (
    InternalError,
    InvalidArgumentError,
    LifecycleError,
    invalid_handler,
)
from pyinformer.objects import KubeObject, check_integer, decode_model
from pyinformer.operator._functions_with_cluster import ClusterFunction, shown_as
from pyinformer.operator._timers import TimedReconcile
from pyinformer.telemetry.metrics import Sample

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyinformer.controller import Controller

M = typing_extensions.TypeVar("M", default=KubeObject)

DAEMON_WORKERS: Final = 4
"""How many daemons are started or ended at once: a finalizer needs a write, all else no time."""
DEFAULT_LIMIT: Final = 10_000
"""How many daemons run at once: about 100 MB, far more than one process should have."""

_HEALTHY_SECONDS: Final = 120.0  # it has run so long: the backoff begins again, as in client-go
_HEALTHY: Final = Reason(source="daemon", event="timer")

DecodedObjects: TypeAlias = dict[int, tuple[object, KubeObject]]
"""The models of running reconciles and daemons and their cached objects, by the model's id: models
may not be hashable. Reconciles in threads write to it, too, each by single dict operations."""


@final
class VersionFeed(Generic[M]):
    """The newest version of a daemon's object, and whether the daemon was given it.

    Args:
        given: the object as the function gets it.
        obj: the object.
        decoded: the models that were given, for object_of().
    """

    __slots__ = ("_decoded", "_is_new", "_newest", "_object", "_shown", "_woken", "task")

    def __init__(self, given: M, obj: KubeObject, decoded: DecodedObjects) -> None:
        self._newest = given
        self._object = obj
        self._decoded = decoded
        self._shown: int | None = None  # the id of the model that object_of() knows
        self._is_new = True
        self._woken: anyio.Event | None = None
        self.task: ObjectTask[VersionFeed[Any]] | None = None
        """Where the state is recorded that the daemon was given last."""

    def differs(self, obj: KubeObject) -> bool:
        """Return whether an object is another version than the newest."""
        return obj.metadata.resource_version != self._object.metadata.resource_version

    def put(self, given: M, obj: KubeObject) -> None:
        """Give a newer version."""
        self._newest, self._object, self._is_new = given, obj, True
        woken, self._woken = self._woken, None
        if woken is not None:
            woken.set()

    async def wait(self) -> None:
        """Wait for a version that was not taken.

        Cancellation:
            Safe.
        """
        while not self._is_new:
            if self._woken is None:
                self._woken = anyio.Event()
            await self._woken.wait()

    def take(self) -> M:
        """Return the newest version, and record that the daemon has it."""
        if self._is_new:
            self._is_new = False
            self.forget()
            if self._newest is not self._object:
                self._shown = id(self._newest)
                self._decoded[self._shown] = (self._newest, self._object)
            if self.task is not None:
                self.task.seen = _state_of(self._object)
        return self._newest

    def forget(self) -> None:
        """Let object_of() find none of its models any more."""
        if self._shown is not None:
            self._decoded.pop(self._shown, None)
            self._shown = None


@final
class Versions(Generic[M]):
    """The versions of a daemon's object: `async for database in versions`. The operator makes it.

    The first is the one with which the daemon starts, each further one the newest at that time:
    versions in between are skipped. The loop does not end: the daemon is cancelled.
    """

    __slots__ = ("_feed",)

    def __init__(self, feed: VersionFeed[M]) -> None:
        self._feed = feed

    def __aiter__(self) -> Versions[M]:
        return self

    async def __anext__(self) -> M:
        """Wait for a version that is newer than the last one.

        Cancellation:
            Safe; it takes no version.
        """
        await self._feed.wait()
        return self._feed.take()

    @property
    def newest(self) -> M:
        """The newest version, without a wait. The loop does not give it again."""
        return self._feed.take()


DaemonFunction: TypeAlias = Callable[[Request, Versions[M], Cluster], Awaitable[None]]
"""A user's daemon: it gets the request, the versions of the object, and the cluster."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonTerms:
    """How the daemons of a registration run."""

    finalizer: str | None
    """Keeps an object that is deleted until its daemon has ended; None for none."""
    limit: int
    """How many run at once."""


@final
class Daemons:
    """The reconcile that starts, feeds and cancels daemons.

    Args:
        function: the user's.
        terms: how they run.
        model: what versions are decoded into; None for the cached objects.
        decoded: the models that were given, for object_of().
        cluster: the function's argument.
        field_manager: the owner of the fields that it writes.
    """

    def __init__(
        self,
        function: DaemonFunction[Any],
        terms: DaemonTerms,
        *,
        model: type | None,
        decoded: DecodedObjects,
        cluster: Cluster,
        field_manager: str,
    ) -> None:
        self._function = function
        self._terms = terms
        self._model = model
        self._decoded = decoded
        self._cluster = cluster
        self._field_manager = field_manager
        self._calling = ClusterFunction(function, cluster, field_manager=field_manager)
        self._controller: Controller[None] | None = None
        self._tasks: ObjectTasks[VersionFeed[Any]] | None = None

    def attach(self, controller: Controller[None]) -> None:
        """Run the daemons beside this controller's reconciles, and show them in its metrics."""
        self._controller, engine = controller, controller.engine
        tasks: ObjectTasks[VersionFeed[Any]] = engine.keep_tasks(self._terms.limit)
        self._tasks = tasks

        def samples() -> Iterable[Sample]:
            """Return the present numbers."""
            status = tasks.status()
            for state, number in (
                ("running", status.running),
                ("stopping", status.stopping),
                ("ignoring_cancellation", status.ignoring_total),
                ("waiting", status.waiting),
            ):
                labels = {"controller": engine.label, "state": state}
                yield Sample("operator_daemons", labels, number)

        engine.figures.append(samples)

    def reconcile_function(self) -> TimedReconcile:
        """Return the reconcile for a Controller."""

        @shown_as(self._function)
        async def reconcile(request: Request, obj: KubeObject | None) -> Result | None:
            """Bring the task of an object to the state of the object."""
            if self._tasks is None or self._controller is None:
                raise InternalError("a daemon's reconcile was called before it was attached")
            self._tasks.arrived(request._id)
            try:
                return await self._step(self._controller, self._tasks, request, obj)
            finally:
                self._tasks.invite()

        return reconcile

    async def _step(
        self,
        controller: Controller[None],
        tasks: ObjectTasks[VersionFeed[Any]],
        request: Request,
        obj: KubeObject | None,
    ) -> Result | None:
        live = None if obj is None or obj.metadata.deletion_timestamp else obj
        task = tasks.get(request._id)
        if task is not None:
            if live is None or task.uid != live.metadata.uid:
                tasks.cancel(task)  # its end requests the object again
            elif task.cancelled_at is None:
                return self._feed(controller, task, request, live)
            return None
        ended = tasks.ended.get(request._id)
        if ended is not None and ended.error is not None:
            error, ended.error = ended.error, None
            raise error
        if live is None:
            tasks.forget(request._id)
            await self._let_go(obj)
            return None
        if ended is not None and ended.seen == _state_of(live):
            retry_at = controller.engine.retry_at(request._id) if ended.has_failed else None
            if retry_at is None:
                return None  # it has returned, or given up: until the object changes
            if loop_time() < retry_at:
                return UNDECIDED
        return await self._start(controller, tasks, request, live)

    def _feed(
        self,
        controller: Controller[None],
        task: ObjectTask[VersionFeed[Any]],
        request: Request,
        live: KubeObject,
    ) -> Result | None:
        """Give a daemon a newer version; count its earlier failures until it has run for long."""
        feed = task.inbox
        if feed is not None and feed.differs(live):
            feed.put(self._decode(live), live)
        if controller.engine.retry_at(request._id) is None:
            return None
        left_seconds = task.started_at + _HEALTHY_SECONDS - loop_time()
        if left_seconds <= 0:
            return None
        controller.engine.requests.put(request, _HEALTHY, priority=0, after_seconds=left_seconds)
        return UNDECIDED

    async def _start(
        self,
        controller: Controller[None],
        tasks: ObjectTasks[VersionFeed[Any]],
        request: Request,
        live: KubeObject,
    ) -> Result | None:
        if controller.engine.lifecycle is None:
            reason = "a daemon runs as long as its controller: `async with app.running(cluster)`"
            raise LifecycleError(f"{controller.name}: {reason}")
        given = self._decode(live)  # what does not fit the model gets no finalizer, either
        if self._terms.finalizer is not None and tasks.may_start:
            with writing_as(self._field_manager):
                held = await enter_finalizer(self._cluster, live, self._terms.finalizer)
            if held.object is None or held.phase != "active":
                return None  # it is gone, or being deleted: the event comes
            live = cast("KubeObject", held.object)
            given = self._decode(live)
        if not controller.engine.requests.admits(request._id):
            return None  # another replica gets it
        if not tasks.may_start:
            tasks.wait(request._id)
            return UNDECIDED
        feed = VersionFeed(given, live, self._decoded)
        task = feed.task = ObjectTask(request._id, live.metadata.uid, _state_of(live), feed)
        tasks.start(task, self._run(request, feed))
        return self._feed(controller, task, request, live)

    async def _run(self, request: Request, feed: VersionFeed[Any]) -> None:
        """Call the user's function."""
        versions = Versions(feed)
        try:
            await self._calling(lambda cluster: self._function(request, versions, cluster))
        finally:
            feed.forget()

    async def _let_go(self, obj: KubeObject | None) -> None:
        """Remove the finalizer: the daemon has ended."""
        finalizer = self._terms.finalizer
        if obj is not None and finalizer is not None and finalizer in obj.metadata.finalizers:
            with writing_as(self._field_manager):
                held = await enter_finalizer(self._cluster, obj, finalizer, add=False)
                await leave_finalizer(self._cluster, held)

    def _decode(self, obj: KubeObject) -> object:
        return obj if self._model is None else decode_model(obj, self._model)


def _state_of(obj: KubeObject) -> Hashable:
    """Return what changes when a daemon that has returned has to be started again.

    An object without a generation, such as a ConfigMap, has its resource version.
    """
    meta = obj.metadata
    return meta.uid, meta.generation or meta.resource_version


def check_daemon(function: object, name: str | None) -> str:
    """Refuse a function that cannot run as a daemon; return the name of its controller.

    Raises:
        InvalidArgumentError: the name cannot be one, or the function has none.
        InvalidTypeError: it cannot be called so.
    """
    shape = "daemon(request, versions, cluster)"
    check_callable(function, shape, 3)
    if not is_asynchronous(function) or is_in_thread(function):
        reason = f"must be `async def {shape}`: move what blocks into asyncio.to_thread"
        raise invalid_handler(name_of(function), reason)
    chosen = getattr(function, "__name__", "") if name is None else name
    if not isinstance(chosen, str) or not chosen:
        raise InvalidArgumentError("name", f"must be a non-empty string, got {chosen!r}")
    return chosen


def checked_terms(finalizer: str | None, limit: int) -> DaemonTerms:
    """Return how daemons run.

    Raises:
        InvalidArgumentError: the finalizer or the limit is invalid.
    """
    if finalizer is not None:
        check_finalizer("finalizer", finalizer)
    check_integer("limit", limit)
    return DaemonTerms(finalizer=finalizer, limit=limit)


def passing_deletions(
    predicate: PredicateFunction[None] | None,
) -> PredicateFunction[None] | None:
    """Return a predicate that also passes the beginning of a deletion, which ends what is there."""
    return None if predicate is None else any_of(predicate, _deletion_begins)


def _deletion_begins(old: KubeObject | None, new: KubeObject | None) -> bool:
    """Return whether an object is being deleted, and was not before."""
    began = new is not None and new.metadata.deletion_timestamp
    return bool(began) and not (old is not None and old.metadata.deletion_timestamp)
