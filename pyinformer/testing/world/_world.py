"""World: a whole cluster in a test, without a server, without sockets, and without await.

Every call blocks until everything that follows from it has settled. Caches, own-write overlays,
sources and writes are those of production; only the connection is in memory.
"""

from __future__ import annotations

import asyncio
import random
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, final

from pyinformer._runtime.clock import monotonic
from pyinformer.cache.informer import SharedInformerFactory
from pyinformer.client.cluster import Cluster, WriteOptions
from pyinformer.errors import InvalidArgumentError, LifecycleError
from pyinformer.objects import (
    JSONObject,
    KubeObject,
    check_iterable,
    check_seconds,
    check_type,
    guess_plural,
)
from pyinformer.testing import _wall_clock
from pyinformer.testing.apiserver.access import Access
from pyinformer.testing.apiserver.admission import Admission
from pyinformer.testing.apiserver.handler import Backend, ObjectTestAPI, RequestHandler
from pyinformer.testing.apiserver.reads import WatchSettings
from pyinformer.testing.apiserver.requests import (
    Fault,
    FaultScript,
    Interceptor,
    Interceptors,
    RequestLog,
    RequestRecord,
    WriteParameters,
)
from pyinformer.testing.apiserver.resources import Registry
from pyinformer.testing.apiserver.storage import EventExpiry, Storage, key_of
from pyinformer.testing.apiserver.writes import Writes
from pyinformer.testing.world._memory_connection import NAME_HEADER, MemoryConnection
from pyinformer.testing.world._seen_by import decoded, requests_of, seen_by
from pyinformer.testing.world._world_thread import WorldThread
from pyinformer.testing.world._write_log import WriteLog, WriteRecord, verb_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.controller import Controller, Outcome
    from pyinformer.controller.sources import Request
    from pyinformer.objects import Event
    from pyinformer.operator import Operator
    from pyinformer.testing.apiserver.resources import ResourceType

_T = TypeVar("_T")

_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_HISTORY: Final = 10_000
_DAY_SECONDS: Final = 86_400.0
_CONFLICT: Final = 409
_FIRST_REFUSAL: Final = 400
_LAST_REFUSAL: Final = 599
_WRITES: Final = frozenset({"create", "replace", "patch", "apply", "delete"})


@final
class World(ObjectTestAPI):
    """A cluster for tests of reconciles: synchronous, and without a server.

        def test_a_database_gets_a_stateful_set() -> None:
            with World([database]) as world:
                controller = make_controller(world.cluster, world.factory)  # as in production
                outcome = world.reconcile(controller, "default/a")
                assert outcome.error is None
                assert [write.verb for write in world.writes] == ["create"]

    Every method blocks until its consequences have settled. It may be called from any thread and
    from inside a running event loop, but not from inside a reconcile. User code runs in the
    World's own loop, in a thread that ends with the `with` block, or when the World is garbage
    collected. Use `with` for a World that a reconcile refers to: it is never collected.

    Args:
        objects: the existing objects. An unknown kind is served under a guessed plural, with a
            status subresource; if the guess is wrong, call `register` before `create`. Its uid and
            its creationTimestamp are kept, or else made. One with a deletionTimestamp is being
            deleted since then, and needs a finalizer.
        name: the cluster's name, for controllers of several clusters.
        beside: another World with which this one shares loop and time, for controllers of both
            clusters.
        virtual_time: whether its loop has a virtual clock, which starts at 0, jumps in `elapse`
            and while a method waits, and stands still otherwise. Wall time, as in
            `creationTimestamp`, stays real.
        seed: the seed of uids and generated names, for this World and those `beside` it. Objects of
            other Worlds with the same seed may have the same uids, and are then equal.
        field_manager: as for `pyinformer.connect`: for functions of an Operator that a test calls
            itself, and not through a controller.

    Raises:
        APIStatusError: an API server would refuse one of the objects.
        InvalidArgumentError: virtual time is requested `beside` a World with real time;
            `field_manager` is empty or too long; or an object has a deletionTimestamp and nothing
            that holds it.
    """

    def __init__(
        self,
        objects: Iterable[JSONObject] = (),
        *,
        name: str = "",
        beside: World | None = None,
        virtual_time: bool = False,
        seed: int = 0,
        field_manager: str | None = None,
    ) -> None:
        if beside is not None:
            check_type("beside", beside, World)
        check_type("seed", seed, int, shown="an integer")
        # The only place that accesses another World.
        shared = None if beside is None else beside._loop_thread  # noqa: SLF001
        loop_thread = shared or WorldThread(virtual_time=virtual_time)
        self._loop_thread: WorldThread = loop_thread
        if virtual_time and not loop_thread.virtual_time:
            reason = "must be False beside a World with real time"
            raise InvalidArgumentError("virtual_time", reason)
        number = len(loop_thread.connections)  # no two Worlds beside each other share a uid
        self._storage = Storage(window_size=_HISTORY, history_size=_HISTORY)
        self._registry = Registry()
        self._faults = FaultScript(seed)
        self._interceptors = Interceptors(in_memory=True)
        rng = random.Random(f"{seed} {number}" if number else seed)
        self._admission = Admission(self._storage, self._registry, rng)
        self._writes = Writes(
            self._storage,
            EventExpiry(None),
            self._registry,
            rng=rng,
            monotonic=monotonic,
            timestamp=_wall_clock.timestamp,
            strict_namespaces=False,
        )
        self._create_existing(objects)
        self._log = WriteLog()
        self._connection = MemoryConnection(RequestHandler(self._backend), self._log.note)
        self._asked: weakref.WeakKeyDictionary[Controller[Any], int] = weakref.WeakKeyDictionary()
        self.cluster: Cluster = Cluster(
            self._connection.config,
            name=name,
            write_options=WriteOptions(writes_per_second=None, retry_limit=0),
            connection=self._connection,
            field_manager=field_manager,
        )
        """The cluster for the program under test, as from `pyinformer.connect()`. It does not retry
        after 429: the reconcile gets the error at once."""
        self._loop_thread.join(self._connection, self.cluster)
        self.factory: SharedInformerFactory = SharedInformerFactory(self.cluster)
        """The factory for the informers of the program; the World starts them itself."""
        closer = partial(_close, self.factory, self.cluster)
        self._finalizer = weakref.finalize(self, self._loop_thread.close, closer)

    def _create_existing(self, objects: Iterable[JSONObject]) -> None:
        for name in _NAMESPACES:
            super().create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if not isinstance(objects, str | bytes):
            check_iterable("objects", objects, shown="a list of objects")
        for obj in (objects,) if isinstance(objects, str | dict) else objects:
            if not isinstance(obj, dict) or obj is objects:
                found = type(obj).__name__
                reason = f"must be a list of objects, as in World([{{...}}]), not of {found}"
                raise InvalidArgumentError("objects", reason)
            self._register_kind_of(obj)
            super().create(_without_version(obj))
            self._begin_deletion(obj)

    def _begin_deletion(self, obj: JSONObject) -> None:
        """Mark an existing object as being deleted, if it has a deletionTimestamp."""
        resource, namespace, body = self._placed(obj, None)
        metadata = body["metadata"]
        since, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
        if not since:
            return
        record = self._storage.get(resource, key_of(namespace, str(metadata.get("name", ""))))
        is_held = resource.qualified_name == "namespaces" or bool(grace)
        if record is None or not (is_held or metadata.get("finalizers")):
            reason = (
                f"{resource.kind} {metadata.get('name')!r} has a deletionTimestamp and no"
                " finalizer: a server has removed such an object; give it a finalizer, or a pod a"
                " deletionGracePeriodSeconds"
            )
            raise InvalidArgumentError("objects", reason)
        self._writes.begin_deletion(
            resource, record, since=str(since), grace_seconds=int(grace or 0)
        )

    def create(self, obj: JSONObject, *, namespace: str | None = None) -> JSONObject:
        """Create an object, as another client would; an unknown kind is registered.

        Args:
            obj: with apiVersion, kind, and a name or generateName.
            namespace: the namespace of an object without one; None is "default".

        Returns:
            The stored object.

        Raises:
            APIStatusError: the server refuses it; ConflictError if it exists.
        """
        self._register_kind_of(obj)
        return self._settled(partial(super().create, obj, namespace=namespace))

    def install_definitions(self, *paths: str | Path) -> tuple[str, ...]:
        """Serve the custom resources that files define.

        A definition that exists already is replaced by that of the file. For objects of the
        constructor, pass definitions before them: `World([*definitions_in("crds"), database])`.

        Args:
            paths: YAML or JSON files, of several documents perhaps, and folders of such files; see
                `definitions_in`.

        Returns:
            The names of the definitions, such as `databases.acme.io`.

        Raises:
            DefinitionsNotFoundError: a path does not exist, or has no definition.
            InvalidArgumentError: a file cannot be read, or is not YAML.
            APIStatusError: the server refuses a definition.
        """
        return self._settled(partial(super().install_definitions, *paths))

    def update(self, obj: JSONObject) -> JSONObject:
        """Replace an object, status included, as another client would.

        Args:
            obj: the new object; a resourceVersion or uid in it is a precondition.

        Returns:
            The stored object.

        Raises:
            APIStatusError: the server refuses it; ConflictError if a precondition fails.
        """
        return self._settled(partial(super().update, obj))

    def patch(
        self,
        api_version: str,
        plural: str,
        name: str,
        changes: JSONObject,
        namespace: str | None = None,
    ) -> JSONObject:
        """Apply a JSON merge patch to an object, status included, as another client would.

        Returns:
            The stored object.

        Raises:
            APIStatusError: the server refuses it.
        """
        patch = partial(super().patch, api_version, plural, name, changes, namespace)
        return self._settled(patch)

    def delete(
        self,
        api_version: str,
        plural: str,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> JSONObject:
        """Delete an object, as another client would, or only mark it if it has finalizers.

        Args:
            api_version: `v1` or `apps/v1`.
            plural: `pods`.
            name: its name.
            namespace: None is "default".
            uid: a precondition.
            resource_version: a precondition.

        Returns:
            Its last state.

        Raises:
            NotFoundError: it does not exist.
            ConflictError: a precondition fails.
        """
        delete = partial(super().delete, api_version, plural, name, namespace)
        return self._settled(partial(delete, uid=uid, resource_version=resource_version))

    def collect_garbage(self) -> int:
        """Do the work of a cluster's garbage collector, and wait until the caches have applied it.

        Returns:
            The number of objects that were deleted, or marked for deletion.
        """
        return self._settled(super().collect_garbage)

    @property
    def writes(self) -> tuple[WriteRecord, ...]:
        """The writes of the program through `cluster`, in order; those of the test are not here."""
        return tuple(self._log.records)

    def clear_writes(self) -> None:
        """Forget the writes so far."""
        self._log.records.clear()

    def reconcile(self, controller: Controller[Any], request: Request | str) -> Outcome:
        """Reconcile one object as the controller would, without its queue.

        The first call starts the informers of the controller and waits until they have synced.

        Args:
            controller: a controller as in production, not started.
            request: the request, or the key of the object: `namespace/name`, or `name`.

        Returns:
            What the reconcile returned or raised, and when the next one would be due:
            `outcome.error`, `outcome.after_seconds`.

        Raises:
            LifecycleError: the controller has been started, or the World is closed.
            InvalidArgumentError: an informer is of another World that is not `beside` this one, or
                the key lacks the namespace that the objects have, or has one that they lack.
            CacheSyncTimeoutError: a cache could not sync; the error has the reason.
        """
        key = getattr(request, "key", request)
        for primary in controller.engine.primaries:
            if primary.cluster is self.cluster and isinstance(key, str):
                of = primary.scope.resource
                resource = self._registry.find(of.group, of.version, of.resource)
                if resource is not None:
                    self._check_key(resource, key, "request")

        async def reconcile() -> Outcome:
            """Reconcile with synced caches, and wait until everything has settled."""
            await self._prepare(controller)
            outcome = await controller.reconcile_once(request)
            await self._loop_thread.settle()
            return outcome

        return self._loop_thread.call(reconcile)

    def enqueued_by(
        self, controller: Controller[Any], event: Event[Any] | None = None
    ) -> list[Request]:
        """Return the requests that a controller would enqueue, each with its reasons.

            world.delete("v1", "pods", "web")
            assert world.enqueued_by(controller) == [Request("default/shop")]

        Args:
            controller: a controller as in production, not started.
            event: an event such as `Added(world.kube_object({...}))`; informers of its kind receive
                it if its namespace and labels match. None: all events since the last call for
                this controller, those of writes by its reconciles included. Objects that existed
                before an informer started are not events.

        Raises:
            InvalidArgumentError: no informer of the controller is of the event's kind, or it is
                not an event of a `kube_object`.
            CacheSyncTimeoutError: a cache could not sync; the error has the reason.
        """

        async def ask() -> list[Request]:
            """Collect the events with synced caches."""
            await self._prepare(controller)
            if event is not None:
                return requests_of(controller, await seen_by(controller, self.cluster, event))
            seen = self._loop_thread.seen
            news = seen[self._asked.get(controller, 0) :]
            self._asked[controller] = len(seen)
            return requests_of(controller, news)

        return self._loop_thread.call(ask)

    def kube_object(self, body: JSONObject) -> KubeObject:
        """Return the object that caches would hold for a body, for events; nothing is stored.

        Args:
            body: with apiVersion, kind and a name.

        Raises:
            InvalidArgumentError: its kind is not served; call `register` first.
        """
        resource, namespace, complete = self._placed(body, None)
        if namespace:
            complete["metadata"]["namespace"] = namespace
        return decoded(resource.api_version, resource.plural, complete)

    def sync(self) -> None:
        """Wait until the caches of the factory have synced, and every handler has been called.

        It starts the informers, as every other method that changes or runs something does. Those
        return when plain handlers were called; this also waits for handlers that are asynchronous
        or in threads. Add handlers and indexes before it.

        Raises:
            InvalidArgumentError: a resource is not served.
            CacheSyncTimeoutError: a cache cannot sync; the error has the reason.
            TimeoutError: a handler does not end within 30 s.
        """
        self._loop_thread.call(self._sync)

    def run(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """Run a coroutine function in the World's loop: `world.run(recorder.start)`.

        Raises:
            Exception: what the function raises.
        """

        async def run() -> _T:
            """Run it with synced caches, and wait until everything has settled."""
            await self._prepare()
            result = await function()
            await self._loop_thread.settle()
            return result

        return self._loop_thread.call(run)

    @property
    def now_seconds(self) -> float:
        """The time of the World's loop, as its `asyncio.get_running_loop().time()` returns."""
        return self._loop_thread.now

    def elapse(self, duration_seconds: float) -> None:
        """Advance the virtual time, without waiting, until everything due has settled.

            world.run(controller.start)
            world.elapse(3600)  # requeues, backoff, resyncs and deadlines happen in their order

        A timer fires at exactly its second. While a thread works for the loop (`in_thread`,
        `asyncio.to_thread`), time stands still, and this waits for it; the other calls do not.

        Raises:
            LifecycleError: the World does not have virtual time.
            InvalidArgumentError: the duration is negative or not a number.
            TimeoutError: something never settles, or a thread works for more than 30 s of real
                time, as one that waits for the test does.
        """
        check_seconds("duration_seconds", duration_seconds)
        if not self._loop_thread.virtual_time:
            raise LifecycleError("elapse() needs virtual time: World(..., virtual_time=True)")
        self._loop_thread.elapse(duration_seconds, self._prepare)

    @contextmanager
    def stale_caches(self) -> Iterator[None]:
        """Hold all changes inside the block back from the caches until it ends.

        A reconcile still reads its own writes, as in production.
        """
        self._loop_thread.call(self._prepare)
        self._loop_thread.call(partial(self._hold, held=True))
        try:
            yield
        finally:
            self._loop_thread.call(partial(self._hold, held=False))

    def conflict_on(
        self,
        plural: str | None = None,
        key: str | None = None,
        *,
        verb: str | None = None,
        times: int | None = 1,
    ) -> None:
        """Refuse the next writes with 409, as if another client had written first.

        Args:
            plural: only requests for this resource; None for any.
            key: only requests for this object: `namespace/name`, or `name`; None for any.
            verb: `create`, `replace`, `patch`, `apply` or `delete`; None for any but `create`,
                which conflicts only with an existing object.
            times: the number of writes; None for all from now on.

        Raises:
            InvalidArgumentError: there is no such verb or resource, or no object can have the key.
        """
        verbs = _WRITES - {"create"} if verb is None else frozenset({verb})
        self._fail(plural, key, verbs, Fault(status=_CONFLICT, message=_TAKEN, times=times))

    def fail_on(
        self,
        plural: str | None = None,
        key: str | None = None,
        *,
        verb: str | None = None,
        status: int = 500,
        retry_after_seconds: int | None = None,
        times: int | None = 1,
    ) -> None:
        """Refuse the next requests for single objects with any status, such as 403, 429 or 500.

        Args:
            plural: only requests for this resource; None for any.
            key: only requests for this object: `namespace/name`, or `name`; None for any.
            verb: `get`, `create`, `replace`, `patch`, `apply` or `delete`; None for every write.
            status: the HTTP status.
            retry_after_seconds: the wait that the answer asks for.
            times: the number of requests; None for all from now on.

        Raises:
            InvalidArgumentError: there is no such verb or resource, or the status is not an error.
        """
        if not _FIRST_REFUSAL <= status <= _LAST_REFUSAL:
            raise InvalidArgumentError("status", f"must be from 400 to 599, got {status}")
        verbs = _WRITES if verb is None else frozenset({verb})
        fault = Fault(status=status, retry_after_seconds=retry_after_seconds, times=times)
        self._fail(plural, key, verbs, fault)

    def stop_failing(self) -> None:
        """Cancel the remaining effects of `conflict_on` and `fail_on`."""
        self._faults.clear()

    def intercept(self, function: Interceptor) -> AbstractContextManager[None]:
        """Call a function for each request of the program: `with world.intercept(f):`.

        It sees reads, lists and watches, too, and not what the test itself changes. Of several
        functions each sees what those before it have altered.

        Args:
            function: `function(request)`, which returns a Fault to carry out, an altered request
                (`dataclasses.replace(request, body=...)`), or None. Of a Fault, `status`, `body`,
                `delay_seconds`, `refuse` and `cut_after_bytes` are carried out. The function is
                called in the World's loop; what an asynchronous one waits for holds the request.

        Raises:
            InvalidTypeError: it cannot be called so, or, at the end of the block, has returned
                something else.
            InvalidArgumentError: at the end of the block: it has returned a fault that needs a
                network.
            Exception: at the end of the block, what the function has raised first. The request was
                answered with 400, and the function not called again.
        """
        return self._interceptors.intercepting(function, None)

    def close(self) -> None:
        """Stop the informers and end the loop; a second call does nothing."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        name = f" {self.cluster.name}" if self.cluster.name else ""
        return f"<World{name} at resource version {self.resource_version}>"

    def _use_hooks(self, app: Operator, loop: asyncio.AbstractEventLoop | None) -> None:
        super()._use_hooks(app, None)  # user code runs in the World's own loop

    def _carry_out(self, write: Callable[[WriteParameters], _T]) -> _T:
        """Carry out a write of another client, of whom hooks and policies are asked, too."""
        review = self._admission.review(_OTHER)
        if review is None:
            return super()._carry_out(write)
        reviewed = WriteParameters(whole=True, reviewer=review)
        return self._loop_thread.call(partial(review.perform, partial(write, reviewed)))

    def _settled(self, change: Callable[[], _T]) -> _T:
        """Change the storage while informers watch, and wait until their caches have applied it."""
        if not (self._loop_thread.is_started or self.factory.informers):
            return change()
        self._loop_thread.call(self._prepare)
        result = change()
        self._loop_thread.call(self._loop_thread.settle)
        return result

    def _check_key(self, resource: ResourceType, key: str, argument: str) -> None:
        """Refuse a key that no object of a resource can have."""
        if resource.namespaced == ("/" in key):
            return
        needs = (
            "are in namespaces: give namespace/name. If the kind is cluster-scoped, register it"
            " with namespaced=False before its objects are created"
            if resource.namespaced
            else "are cluster-scoped: give the name alone"
        )
        raise InvalidArgumentError(argument, f"{key!r}: {resource.qualified_name} {needs}")

    def _register_kind_of(self, obj: JSONObject) -> None:
        api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
        if api_version and kind and self._registry.find_kind(api_version, kind) is None:
            self.register(api_version, kind, guess_plural(kind), has_status=True)

    @property
    def _backend(self) -> Backend:
        return Backend(
            storage=self._storage,
            registry=self._registry,
            writes=self._writes,
            admission=self._admission,
            access=Access((), now=monotonic()),
            request_log=RequestLog(),
            faults=self._faults,
            interceptors=self._interceptors,
            settings=WatchSettings(
                bookmark_interval_seconds=60.0,
                final_bookmark_lead_seconds=2.0,
                default_timeout_seconds=_DAY_SECONDS,
                expired_watch="event",
                patience_seconds=0.25,
            ),
            token_lifetime_seconds=300.0,
            watch_list=lambda: True,
            shard_selectors=lambda: False,
            now=monotonic,
        )

    async def _sync(self) -> None:
        await self._prepare()
        await self._loop_thread.wait_for_handlers()

    async def _prepare(self, controller: Controller[Any] | None = None) -> None:
        engine = None if controller is None else controller.engine
        await self._loop_thread.prepare(
            (*self.factory.informers, *(engine.informers if engine else ()))
        )
        for prepare in engine.before_attach if engine else ():
            await prepare()

    async def _hold(self, *, held: bool) -> None:
        self._connection.hold(held=held)
        await self._loop_thread.settle()

    def _fail(
        self, plural: str | None, key: str | None, verbs: frozenset[str], fault: Fault
    ) -> None:
        if not verbs <= _WRITES | {"get"}:
            known = ", ".join(sorted(_WRITES))
            raise InvalidArgumentError("verb", f"{min(verbs)!r} is not one of get, {known}")
        meant = [
            one for one in self._registry.all() if plural in (None, one.plural, one.qualified_name)
        ]
        if not meant:
            reason = f"the World does not serve {plural!r}, so no request would fail"
            raise InvalidArgumentError("plural", reason)
        if plural is not None and key is not None:
            self._check_key(meant[0], key, "key")

        def matches(record: RequestRecord) -> bool:
            is_meant = plural in (None, record.resource, record.resource.partition(".")[0])
            name = record.name or record.headers.get(NAME_HEADER, "")
            found = key_of(record.namespace, name)
            return is_meant and verb_of(record) in verbs and key in (None, found)

        self._faults.add(replace(fault, match=matches))


_OTHER: Final[JSONObject] = {"username": "test", "groups": ["system:authenticated"]}
_TAKEN: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def _without_version(obj: JSONObject) -> JSONObject:
    """Return an object without its version, which a World makes, so that all else is kept."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "resourceVersion" not in metadata:
        return obj
    kept = {name: value for name, value in metadata.items() if name != "resourceVersion"}
    return {**obj, "metadata": kept}


async def _close(factory: SharedInformerFactory, cluster: Cluster) -> None:
    await factory.aclose()
    await cluster.aclose()
