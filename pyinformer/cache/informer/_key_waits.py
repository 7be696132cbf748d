"""Waiting until the readers of a cache see a wanted state of one key.

The predicate is called at once and then in the step of each change, so that no state between two
turns of the event loop is missed. What it raises is raised in its caller and affects no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, final

import anyio

from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import check_plain, loop_time, refuse_awaitable
from pyinformer.errors import (
    CacheNotSyncedError,
    CacheSyncTimeoutError,
    InformerError,
    InvalidTypeError,
    LifecycleError,
    WaitTimeoutError,
)
from pyinformer.objects import KubeObject, V, check_seconds

if TYPE_CHECKING:
    from pyinformer.cache.informer._introspection import Introspection
    from pyinformer.cache.informer._namespace_caches import NamespaceCaches
    from pyinformer.cache.store import Lister
    from pyinformer.objects import Event

_P = TypeVar("_P")

Predicate: TypeAlias = Callable[[KubeObject[_P] | None], object]
"""Returns whether a state is the wanted one; None means that there is no object."""


@final
class _Waiter(Generic[V]):
    """One call of `wait_for`."""

    def __init__(self, key: str, predicate: Predicate[V]) -> None:
        self.key = key
        self.began_at = loop_time()
        self._predicate = predicate
        self.done = anyio.Event()
        self.found: KubeObject[V] | None = None
        self.error: BaseException | None = None

    @property
    def waited_seconds(self) -> float:
        """How long the caller has waited."""
        return loop_time() - self.began_at

    def check(self, lister: Lister[V], caches: NamespaceCaches[V]) -> None:
        """Call the predicate with what readers see now."""
        if self.done.is_set():
            return
        try:
            found = lister.get(self.key)
        except CacheNotSyncedError:  # an object that is missing may exist
            if why := caches.why_never_synced(self.key):
                self.end(CacheSyncTimeoutError(waited_seconds=self.waited_seconds, pending=(why,)))
            return
        except InformerError as error:
            self.end(error)
            return
        try:
            is_met = self._predicate(found)
            refuse_awaitable(is_met, "predicate")
        except ENDS_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001 - user code; it is raised where it was given
            self.end(error)
            return
        if is_met:
            self.found = found
            self.done.set()

    def end(self, error: BaseException) -> None:
        """Release the caller with an error."""
        if not self.done.is_set():
            self.error = error
            self.done.set()


@final
class KeyWaits(Generic[V]):
    """The callers that wait for a key of one informer; a receiver while there are any.

    Args:
        caches: report every change.
        introspection: returns the state of the informer, for errors.
        lister: what readers see.
    """

    def __init__(
        self, caches: NamespaceCaches[V], introspection: Introspection[V], lister: Lister[V]
    ) -> None:
        self._caches = caches
        self._introspection = introspection
        self._lister = lister
        self._waiters: dict[str, list[_Waiter[V]]] = {}

    async def wait(
        self, key: str, predicate: Predicate[V], *, timeout_seconds: float
    ) -> KubeObject[V] | None:
        """Wait until the predicate accepts what readers see of a key.

        Raises:
            WaitTimeoutError: it did not in time.
            CacheSyncTimeoutError: the first sync cannot happen without a change on the server.
            NotCachedError: the namespace is not followed.
            LifecycleError: the informer was closed.
            InternalError: the informer crashed.
            InvalidArgumentError: the timeout is not a duration.
            InvalidTypeError: the key is not a string, or the predicate is not a plain function of
                one object.

        Cancellation:
            Safe.
        """
        _check(key, predicate)
        check_seconds("timeout_seconds", timeout_seconds)
        waiter = _Waiter(key, predicate)
        waiter.check(self._lister, self._caches)
        if not waiter.done.is_set():
            self._enter(waiter)
            try:
                with anyio.move_on_after(timeout_seconds):
                    await waiter.done.wait()
            finally:
                self._leave(waiter)
        if waiter.error is not None:
            raise waiter.error
        if not waiter.done.is_set():
            raise self._timeout(key, waiter.waited_seconds)
        return waiter.found

    def _timeout(self, key: str, waited_seconds: float) -> WaitTimeoutError:
        exists, version = None, ""
        try:
            found = self._lister.get(key)
            exists = found is not None
            version = "" if found is None else found.metadata.resource_version
        except CacheNotSyncedError:
            pass
        state, last_error = self._introspection.reflector_state()
        return WaitTimeoutError(
            informer=self._caches.name,
            key=key,
            waited_seconds=waited_seconds,
            exists=exists,
            resource_version=version,
            state=state,
            last_error=last_error,
        )

    def _enter(self, waiter: _Waiter[V]) -> None:
        if not self._waiters:
            self._caches.attach(self, preload=False)
        self._waiters.setdefault(waiter.key, []).append(waiter)

    def _leave(self, waiter: _Waiter[V]) -> None:
        of_key = self._waiters[waiter.key]
        of_key.remove(waiter)
        if not of_key:
            del self._waiters[waiter.key]
        if not self._waiters:
            self._caches.detach(self)

    def recheck_nowait(self, key: str) -> None:
        """Call the predicates of a key again: readers may see another state of it."""
        for waiter in tuple(self._waiters.get(key, ())):
            waiter.check(self._lister, self._caches)

    def end_nowait(self, error: InformerError | None = None) -> None:
        """Release every caller with an error.

        Args:
            error: what went wrong; None if the informer was closed.
        """
        reason = error or LifecycleError(
            f"the informer of {self._caches.name} was closed during the wait"
        )
        for waiters in tuple(self._waiters.values()):
            for waiter in waiters:
                waiter.end(reason)

    def put_nowait(self, event: Event[V]) -> None:
        """Check a key that has changed."""
        if event.key in self._waiters:
            self.recheck_nowait(event.key)

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Do nothing yet: the lister has the objects, other receivers perhaps not."""

    def on_initial_list_complete(self) -> None:
        """Check every key, before the next event can change what readers see."""
        for key in tuple(self._waiters):
            self.recheck_nowait(key)

    def recheck_soon(self) -> None:
        """Check every key soon: readers may see more.

        Not in the middle of a step that gives a list to all receivers: a predicate may add a
        handler.
        """
        asyncio.get_running_loop().call_soon(self.on_initial_list_complete)

    def on_missed_state(self, was: KubeObject[V], now: KubeObject[V] | None) -> None:
        """Check a key of which readers see another state without an event."""
        del now
        self.recheck_nowait(was._key)


def _check(key: object, predicate: object) -> None:
    if not isinstance(key, str):
        raise InvalidTypeError("key", f"must be 'namespace/name' or 'name', got {key!r}")
    if predicate is not bool:  # which accepts any object
        check_plain(predicate, "predicate(object_or_none)", 1)
