"""A whole cluster inside of a test: no server, no socket, and no await.

What enters are objects, a user's own controllers, and calls that block until everything they cause
has come to rest; what leaves are outcomes, writes and requests to assert on. Caches, overlays,
sources and writes are the real ones: only the wire is not there.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, final

from pyinformer._clock import monotonic
from pyinformer.apimachinery import (
    InvalidArgumentError,
    JSONObject,
    KubeObject,
    LifecycleError,
    check_seconds,
)
from pyinformer.cluster import Cluster, WriteOptions
from pyinformer.informer import SharedInformerFactory
from pyinformer.testing import _clock
from pyinformer.testing.apiserver.access import Access
from pyinformer.testing.apiserver.handler import Backend, ObjectTestAPI, RequestHandler
from pyinformer.testing.apiserver.reads import WatchSettings
from pyinformer.testing.apiserver.requests import Fault, FaultScript, Journal, RequestRecord
from pyinformer.testing.apiserver.resources import Registry
from pyinformer.testing.apiserver.storage import Leases, Storage, key_of
from pyinformer.testing.apiserver.writes import Writes
from pyinformer.testing.world._loop_thread import LoopThread
from pyinformer.testing.world._memory_connection import NAME_HEADER, MemoryConnection
from pyinformer.testing.world._seen_by import decoded, requests_of, seen_by
from pyinformer.testing.world._write_log import WriteLog, WriteRecord, verb_of

if TYPE_CHECKING:
    from pyinformer.apimachinery import Event
    from pyinformer.controller import Controller, Outcome
    from pyinformer.sources import Request

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

    Every method blocks until its consequences have come to rest, may be called from any thread
    and from inside a running event loop, but not from inside a reconcile. User code runs in a
    loop of the World's own. It ends with the `with` block, or with the World itself: one that a
    reconcile refers to lives until the process ends, so let that one have a `with`.

    Args:
        objects: what exists. A kind that is not known is served under a plural that is guessed
            from it, with a status of its own; `register` others before you create them.
        name: the cluster's name, for controllers of several clusters.
        beside: another World, whose loop this one shares, and its time: for controllers of both
            clusters.
        virtual_time: whether the time of its loop passes in `elapse` and while a method waits, at
            once, and stands otherwise; it begins at 0. Wall time, as in `creationTimestamp`, is
            real nevertheless.
        seed: of uids and generated names.

    Raises:
        APIStatusError: an object that no API server would take.
        InvalidArgumentError: virtual time `beside` a World whose time is real.
    """

    def __init__(
        self,
        objects: Iterable[JSONObject] = (),
        *,
        name: str = "",
        beside: World | None = None,
        virtual_time: bool = False,
        seed: int = 0,
    ) -> None:
        self._storage = Storage(window_size=_HISTORY, history_size=_HISTORY)
        self._registry = Registry()
        self._faults = FaultScript(seed)
        self._writes = Writes(
            self._storage,
            Leases(None),
            self._registry,
            rng=random.Random(seed),
            monotonic=monotonic,
            timestamp=_clock.timestamp,
            strict_namespaces=False,
        )
        for namespace in _NAMESPACES:
            super().create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            )
        for obj in (objects,) if isinstance(objects, str | dict) else objects:
            if not isinstance(obj, dict) or obj is objects:
                reason = f"is a list of objects: World([{{...}}]), not of {type(obj).__name__}"
                raise InvalidArgumentError("objects", reason)
            self._register_kind_of(obj)
            super().create(obj)
        self._log = WriteLog()
        # The one place that looks into another World.
        stage = LoopThread(virtual_time=virtual_time) if beside is None else beside._stage  # noqa: SLF001
        self._stage: LoopThread = stage
        if virtual_time and not stage.virtual_time:
            reason = "the World that this one is beside has real time: give it virtual time"
            raise InvalidArgumentError("virtual_time", reason)
        self._wire = MemoryConnection(RequestHandler(self._backend), self._log.note)
        self._asked: weakref.WeakKeyDictionary[Controller[Any], int] = weakref.WeakKeyDictionary()
        self.cluster: Cluster = Cluster(
            self._wire.config,
            name=name,
            write_options=WriteOptions(writes_per_second=None, retry_limit=0),
            wire=self._wire,
        )
        """What programs get of `pyinformer.connect()`, but for 429: there is no waiting here, so it
        reaches the reconcile at once."""
        self._stage.join(self._wire, self.cluster)
        self.factory: SharedInformerFactory = SharedInformerFactory(self.cluster)
        """For the informers of the program; the World starts them, and needs no start of it."""
        last = partial(_close, self.factory, self.cluster)
        self._finalizer = weakref.finalize(self, self._stage.close, last)

    def create(self, obj: JSONObject, *, namespace: str | None = None) -> JSONObject:
        """Create an object, as somebody else would; an unknown kind is registered.

        Args:
            obj: with apiVersion, kind, and a name or generateName.
            namespace: if the object names none; None is "default".

        Returns:
            What is stored.

        Raises:
            APIStatusError: as a client would get it; ConflictError if it exists.
        """
        self._register_kind_of(obj)
        return self._settled(partial(super().create, obj, namespace=namespace))

    def update(self, obj: JSONObject) -> JSONObject:
        """Replace an object, status included, as somebody else would.

        Args:
            obj: the new object; a resourceVersion or uid in it is a precondition.

        Returns:
            What is stored.

        Raises:
            APIStatusError: as a client would get it; ConflictError if a precondition fails.
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
        """Apply a JSON merge patch to an object, status included, as somebody else would.

        Returns:
            What is stored.

        Raises:
            APIStatusError: as a client would get it.
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
        """Delete an object, as somebody else would; with finalizers it is only marked.

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
            NotFoundError: there is none.
            ConflictError: a precondition fails.
        """
        delete = partial(super().delete, api_version, plural, name, namespace)
        return self._settled(partial(delete, uid=uid, resource_version=resource_version))

    def collect_garbage(self) -> int:
        """Do what a cluster's garbage collector does; the caches hear of it before this returns.

        Returns:
            How many objects were deleted, or told to go.
        """
        return int(
            self._settled(lambda: {"deleted": super(World, self).collect_garbage()})["deleted"]
        )

    @property
    def writes(self) -> tuple[WriteRecord, ...]:
        """What was written through the cluster, in order; what a test does itself is not here."""
        return tuple(self._log.records)

    def clear_writes(self) -> None:
        """Forget the writes so far."""
        self._log.records.clear()

    def reconcile(self, controller: Controller[Any], request: Request | str) -> Outcome:
        """Reconcile one object, by the rules of the controller and without its queue.

        The informers that the controller needs are started the first time, and wait to be synced.

        Args:
            controller: made as in production, and not started.
            request: the request, or the object's key: `namespace/name`, or `name`.

        Returns:
            What it returned or raised, and what would follow: `outcome.error`,
            `outcome.after_seconds`.

        Raises:
            LifecycleError: the controller was started, or the World is closed.
            InvalidArgumentError: an informer is of another World that is not `beside` this one.
            CacheSyncTimeoutError: a cache could not be filled; the error says why.
        """

        async def reconcile() -> Outcome:
            """Reconcile with full caches, and wait for what follows."""
            await self._prepare(controller)
            outcome = await controller.reconcile_once(request)
            await self._stage.rest()
            return outcome

        return self._stage.call(reconcile)

    def enqueued_by(
        self, controller: Controller[Any], event: Event[Any] | None = None
    ) -> list[Request]:
        """Return what a controller would be asked to reconcile, each request with its reasons.

            world.delete("v1", "pods", "web")
            assert world.enqueued_by(controller) == [Request("default/shop")]

        Args:
            controller: made as in production, and not started.
            event: what happens: `Added(world.kube_object({...}))`, to informers of its kind whose
                namespace and labels it fits. None: what has happened since this controller was
                last asked for, writes of its own reconciles included. What existed before an
                informer was started has not happened.

        Raises:
            InvalidArgumentError: no informer of the controller is of the event's kind, or it is no
                event of a `kube_object`.
            CacheSyncTimeoutError: a cache could not be filled; the error says why.
        """

        async def ask() -> list[Request]:
            """Ask with full caches."""
            await self._prepare(controller)
            if event is not None:
                return requests_of(controller, await seen_by(controller, self.cluster, event))
            seen = self._stage.seen
            news = seen[self._asked.get(controller, 0) :]
            self._asked[controller] = len(seen)
            return requests_of(controller, news)

        return self._stage.call(ask)

    def kube_object(self, body: JSONObject) -> KubeObject:
        """Return a body as caches hold it, for events; nothing is stored.

        Args:
            body: with apiVersion, kind and a name.

        Raises:
            InvalidArgumentError: its kind is not served: `register` it first.
        """
        resource, namespace, complete = self._placed(body, None)
        if namespace:
            complete["metadata"]["namespace"] = namespace
        return decoded(resource.api_version, resource.plural, complete)

    def run(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """Run a coroutine function in the World's loop: `world.run(recorder.start)`.

        Raises:
            Exception: whatever it raised.
        """

        async def run() -> _T:
            """Run it with full caches, and wait for what follows."""
            await self._prepare()
            result = await function()
            await self._stage.rest()
            return result

        return self._stage.call(run)

    @property
    def now_seconds(self) -> float:
        """The time of the World's loop, as `asyncio.get_running_loop().time()` in it."""
        return self._stage.now

    def elapse(self, duration_seconds: float) -> None:
        """Let so much virtual time pass, at once, and wait for what follows.

            world.run(controller.start)
            world.elapse(3600)  # requeues, backoff, resyncs and deadlines come in their order

        A timer fires at exactly its second. While a thread works for the loop (`in_thread`,
        `asyncio.to_thread`), time stands.

        Raises:
            LifecycleError: the World has real time.
            InvalidArgumentError: a negative or no number.
            TimeoutError: something never comes to rest.
        """
        check_seconds("duration_seconds", duration_seconds)
        if not self._stage.virtual_time:
            raise LifecycleError("time passes by itself here: make a World(..., virtual_time=True)")

        async def elapse() -> None:
            """Let time pass for full caches."""
            await self._prepare()
            await self._stage.elapse(duration_seconds)

        self._stage.call(elapse)

    @contextmanager
    def stale_caches(self) -> Iterator[None]:
        """Keep from the caches what happens inside of the block; they hear of it at its end.

        What a reconcile writes itself, it reads all the same, as in production.
        """
        self._stage.call(self._prepare)
        self._stage.call(partial(self._hold, held=True))
        try:
            yield
        finally:
            self._stage.call(partial(self._hold, held=False))

    def conflict_on(
        self,
        plural: str | None = None,
        key: str | None = None,
        *,
        verb: str | None = None,
        times: int | None = 1,
    ) -> None:
        """Refuse the next writes with 409, as if somebody else had been faster.

        Args:
            plural: only of this resource; None for any.
            key: only of this object: `namespace/name`, or `name`; None for any.
            verb: `create`, `replace`, `patch`, `apply` or `delete`; None for any but `create`,
                which conflicts with what exists only.
            times: how many writes; None for every one from now on.

        Raises:
            InvalidArgumentError: there is no such verb or resource.
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
        """Refuse the next requests for single objects: 403, 429, 500 or whatever.

        Args:
            plural: only of this resource; None for any.
            key: only of this object: `namespace/name`, or `name`; None for any.
            verb: `get`, `create`, `replace`, `patch`, `apply` or `delete`; None for every write.
            status: the HTTP status.
            retry_after_seconds: how long the server asks to wait.
            times: how many requests; None for every one from now on.

        Raises:
            InvalidArgumentError: there is no such verb or resource, or the status refuses nothing.
        """
        if not _FIRST_REFUSAL <= status <= _LAST_REFUSAL:
            raise InvalidArgumentError("status", f"{status} refuses nothing: it is 400 to 599")
        verbs = _WRITES if verb is None else frozenset({verb})
        fault = Fault(status=status, retry_after_seconds=retry_after_seconds, times=times)
        self._fail(plural, key, verbs, fault)

    def stop_failing(self) -> None:
        """Undo what is left of `conflict_on` and `fail_on`."""
        self._faults.clear()

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

    def _settled(self, change: Callable[[], JSONObject]) -> JSONObject:
        """Change the storage while informers watch, and wait until they have heard of it."""
        if not (self._stage.is_begun or self.factory.informers):
            return change()
        self._stage.call(self._prepare)
        stored = change()
        self._stage.call(self._stage.rest)
        return stored

    def _register_kind_of(self, obj: JSONObject) -> None:
        api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
        if api_version and kind and self._registry.find_kind(api_version, kind) is None:
            self.register(api_version, kind, _plural_of(kind), has_status=True)

    @property
    def _backend(self) -> Backend:
        return Backend(
            storage=self._storage,
            registry=self._registry,
            writes=self._writes,
            access=Access((), now=monotonic()),
            journal=Journal(),
            faults=self._faults,
            settings=WatchSettings(
                bookmark_interval_seconds=60.0,
                final_bookmark_lead_seconds=2.0,
                default_timeout_seconds=_DAY_SECONDS,
                expired_watch="event",
                patience_seconds=0.25,
            ),
            token_lifetime_seconds=300.0,
            watch_list=lambda: True,
            now=monotonic,
        )

    async def _prepare(self, controller: Controller[Any] | None = None) -> None:
        engine = None if controller is None else controller.engine
        await self._stage.prepare((*self.factory.informers, *(engine.informers if engine else ())))
        for prepare in engine.before_attach if engine else ():
            await prepare()

    async def _hold(self, *, held: bool) -> None:
        self._wire.hold(held=held)
        await self._stage.rest()

    def _fail(
        self, plural: str | None, key: str | None, verbs: frozenset[str], fault: Fault
    ) -> None:
        if not verbs <= _WRITES | {"get"}:
            known = ", ".join(sorted(_WRITES))
            raise InvalidArgumentError("verb", f"{min(verbs)!r} is not one of get, {known}")
        served = self._registry.all()
        if plural is not None and not any(
            plural in (one.plural, one.qualified_name) for one in served
        ):
            reason = f"the World does not serve {plural!r}, so nothing would ever fail"
            raise InvalidArgumentError("plural", reason)

        def matches(record: RequestRecord) -> bool:
            is_meant = plural in (None, record.resource, record.resource.partition(".")[0])
            name = record.name or record.headers.get(NAME_HEADER, "")
            found = key_of(record.namespace, name)
            return is_meant and verb_of(record) in verbs and key in (None, found)

        self._faults.add(replace(fault, match=matches))


_TAKEN: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


async def _close(factory: SharedInformerFactory, cluster: Cluster) -> None:
    await factory.aclose()
    await cluster.aclose()


def _plural_of(kind: str) -> str:
    """Guess the plural of an English word."""
    word = kind.lower()
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"
