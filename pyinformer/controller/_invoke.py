"""The call of a user's reconcile function.

The object is read from the cache when the call begins, so it is never older than the request. A
plain function runs in a thread. A function that returns anything but None or a Result fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextvars import copy_context
from functools import partial
from types import CoroutineType, coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import WorkerThreads, check_callable, is_asynchronous, name_of
from pyinformer.cache.informer import core_of
from pyinformer.controller._result import Reconcile, Result, invalid_result
from pyinformer.errors import TerminalError
from pyinformer.objects import KubeObject, V

if TYPE_CHECKING:
    from contextvars import Context

    from pyinformer.cache.informer import SharedInformer
    from pyinformer.cache.store import Lister
    from pyinformer.controller.sources import Request, RequestId

_log = get_logger(__name__)

_R = TypeVar("_R")

_SHAPE = "reconcile(request, obj)"


@final
class Invoker(Generic[V]):
    """Calls the reconcile function.

    Args:
        function: the user's.
        primaries: the informers of the objects; several are of one resource, in several clusters or
            namespaces.
        on_unwatched: called with a request in a namespace that no primary watches.

    Raises:
        InvalidTypeError: it cannot be called with a request and an object.
    """

    def __init__(
        self,
        function: Reconcile[V],
        primaries: Sequence[SharedInformer[V]],
        *,
        on_unwatched: Callable[[Request], None] = lambda _: None,
    ) -> None:
        check_callable(function, _SHAPE, arguments=2)
        self.name: str = name_of(function)
        self._function = function
        self._on_unwatched = on_unwatched
        self.primaries: tuple[SharedInformer[V], ...] = tuple(primaries)
        """The informers of the reconciled objects."""
        self._primaries: dict[str, list[SharedInformer[V]]] = {}
        for primary in primaries:
            self._primaries.setdefault(primary.cluster.name, []).append(primary)
        # An informer of all namespaces cannot be changed to some: no namespace has to be compared.
        is_only = len(primaries) == 1 and primaries[0].scope.is_everywhere
        self._only_lister: Lister[V] | None = primaries[0].lister if is_only else None
        self._only_cluster = primaries[0].cluster.name if is_only else ""
        self._found_key = ""  # of the last object that was found
        self._has_warned = False
        self._threads = None if is_asynchronous(function) else WorkerThreads(self.name)

    async def __call__(self, request: Request) -> Result | None:
        """Read the object and call the function once.

        Raises:
            BaseException: what the function raised.
            InvalidTypeError: it returned neither None nor a Result.
            TerminalError: no primary watches the request's cluster, or its namespace.

        Cancellation:
            Reaches the function; one that runs in a thread is waited for.
        """
        obj = self.read(request)
        context = copy_context()  # what one reconcile sets in it is not seen by the next
        if self._threads is None:
            returned: object = context.run(self._function, request, obj)
        else:
            returned = await self._threads.run(partial(self._function, request, obj))
        if isinstance(returned, Awaitable):
            returned = await _await_in(context, returned)
        if returned is None or isinstance(returned, Result):
            return returned
        raise invalid_result(self.name, returned)

    def proven_at(self, request_id: RequestId) -> float | None:
        """Return when the cache of a request's object was last proven; None if there is none."""
        key, cluster = request_id
        for informer in self._primaries.get(cluster, ()):
            cache = core_of(informer).caches.of(key)
            if cache is not None:
                return cache.reflector.last_proof_at
        return None

    def has(self, request_id: RequestId) -> bool:
        """Return whether the object of a request is in the cache, which may be closed by now.

        Requests of a controller without a primary name no objects, and are there as long as it is.
        """
        if not self._primaries:
            return True
        key, cluster = request_id
        return any(
            one.lister.get(key, allow_unsynced=True) is not None
            for one in self._primaries.get(cluster, ())
            if one.scope.covers(key.rpartition("/")[0])
        )

    def read(self, request: Request) -> KubeObject[V] | None:
        """Return the object from the cache; None if it is gone.

        Raises:
            CacheNotSyncedError: an informer's first sync is not done.
            TerminalError: no primary watches the request's cluster, or its namespace.
        """
        key, cluster = request._id
        if self._only_lister is not None and cluster == self._only_cluster:
            only = self._only_lister.get(key)
            if only is None:
                self._check_shape(key)
            else:
                self._found_key = key
            return only
        if not self._primaries:
            return None
        informers = self._primaries.get(cluster)
        if informers is None:
            raise TerminalError(f"no primary informer watches cluster {cluster!r}")
        namespace = key.rpartition("/")[0]
        is_watched = False
        for informer in informers:
            if informer.scope.covers(namespace):
                found = informer.lister.get(key)
                if found is not None:
                    self._found_key = key
                    return found
                is_watched = True
        if not is_watched and not any(core_of(one).is_gone(namespace) for one in informers):
            self._on_unwatched(request)  # None would mean that the object is gone
            raise TerminalError(f"no primary informer watches the namespace of {request}")
        self._check_shape(key)
        return None

    def _check_shape(self, key: str) -> None:
        """Warn once of a key that no object of this resource can have.

        It is not refused: a definition may have come back with another scope, and the deletions of
        its earlier objects are requests, too.
        """
        other = self._found_key
        if self._has_warned or not other or ("/" in key) == ("/" in other):
            return
        self._has_warned = True
        _log.warning(
            "%s: the key %r %s a namespace, unlike %r: no object has it, so that it is reconciled"
            " with None; a mapping, or enqueue(), has to give %s. Logged once",
            self.name,
            key,
            "has" if "/" in key else "lacks",
            other,
            "the name alone" if "/" in key else "namespace/name",
        )


@coroutine
def _await_in(context: Context, awaitable: Awaitable[_R]) -> Generator[Any, Any, _R]:
    """Await in a context: a ContextVar that is set there does not stay set in the task.

    A task of its own would do the same, and cost more. Cancellations reach the awaitable.
    """
    steps = awaitable if type(awaitable) is CoroutineType else _awaiting(awaitable)
    step, given = steps.send, None
    try:
        while True:
            waits_for = context.run(step, given)
            try:
                step, given = steps.send, (yield waits_for)
            except GeneratorExit:
                context.run(steps.close)
                raise
            except BaseException as error:  # noqa: BLE001 - the awaitable's to handle
                step, given = steps.throw, error
    except StopIteration as end:
        result: _R = end.value
        return result


async def _awaiting(awaitable: Awaitable[_R]) -> _R:
    return await awaitable
