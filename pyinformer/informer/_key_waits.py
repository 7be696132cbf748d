"""Waiting until a key of the cache is as somebody wants it.

A key and a predicate enter; the first state that the lister shows and that the predicate accepts
leaves, be it that there is no object. It is looked at once and then in the very step of each
change, so that no state between two turns of the loop is missed. What a predicate raises is its
caller's, and harms nobody else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar, final

import anyio

from pyinformer.apimachinery import (
    CacheNotSyncedError,
    CacheSyncTimeoutError,
    InformerError,
    InvalidTypeError,
    KubeObject,
    LifecycleError,
    V,
    View,
    WaitTimeoutError,
    check_seconds,
    invalid_handler,
)
from pyinformer.tasks import check_callable, name_of

if TYPE_CHECKING:
    from pyinformer.apimachinery import Event
    from pyinformer.store import Lister

_P = TypeVar("_P", bound=View | None)

Predicate: TypeAlias = Callable[[KubeObject[_P] | None], object]
"""Tells whether a state is the wanted one; None is that there is no object. Runs on the loop."""


class Awaited(Protocol[_P]):
    """The informer whose cache is waited for."""

    name: str
    lister: Lister[_P]

    def reflector_state(self) -> tuple[str, str | None]:
        """Return the reflector's state and its last error."""
        ...


@final
class _Waiter(Generic[V]):
    """One call of `wait_for`."""

    def __init__(self, key: str, predicate: Predicate[V]) -> None:
        self.key = key
        self.began_at = anyio.current_time()
        self._predicate = predicate
        self.done = anyio.Event()
        self.found: KubeObject[V] | None = None
        self.error: Exception | None = None

    @property
    def waited_seconds(self) -> float:
        """How long it has taken."""
        return anyio.current_time() - self.began_at

    def look(self, lister: Lister[V], why_never: Callable[[str], str]) -> None:
        """Ask the predicate about what readers see now."""
        if self.done.is_set():
            return
        try:
            found = lister.get(self.key)
        except CacheNotSyncedError:  # what is missing by now may exist
            if why := why_never(self.key):
                self.end(CacheSyncTimeoutError(waited_seconds=self.waited_seconds, pending=(why,)))
            return
        except InformerError as error:
            self.end(error)
            return
        try:
            is_met = self._predicate(found)
        except Exception as error:  # noqa: BLE001 - user code; it is raised where it was given
            self.end(error)
            return
        if is_met:
            self.found = found
            self.done.set()

    def end(self, error: Exception) -> None:
        """Wait no longer."""
        if not self.done.is_set():
            self.error = error
            self.done.set()


@final
class KeyWaits(Generic[V]):
    """Everybody who waits for a key of one informer; a receiver while there is anybody.

    Args:
        informer: whose cache it is.
        attach: lets the informer tell this of every change.
        detach: ends that.
        why_never: returns why the first sync of what holds a key will not come by itself; nothing
            if there is hope.
    """

    def __init__(
        self,
        informer: Awaited[V],
        *,
        attach: Callable[[KeyWaits[V]], None],
        detach: Callable[[KeyWaits[V]], None],
        why_never: Callable[[str], str],
    ) -> None:
        self._informer = informer
        self._attach = attach
        self._detach = detach
        self._why_never = why_never
        self._waiters: dict[str, list[_Waiter[V]]] = {}

    async def wait(
        self, key: str, predicate: Predicate[V], *, timeout_seconds: float
    ) -> KubeObject[V] | None:
        """Wait until the predicate accepts what the lister shows of a key.

        Raises:
            WaitTimeoutError: it did not in time.
            CacheSyncTimeoutError: the first sync will not come by itself.
            NotCachedError: the namespace is not followed.
            LifecycleError: the informer was closed.
            InternalError: something inside crashed.
            InvalidArgumentError: the timeout is negative or no number.
            InvalidTypeError: the key is no text, or the predicate no plain function of an object.

        Cancellation:
            Safe.
        """
        _check(key, predicate)
        check_seconds("timeout_seconds", timeout_seconds)
        waiter = _Waiter(key, predicate)
        waiter.look(self._informer.lister, self._why_never)
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
        lister, exists, version = self._informer.lister, None, ""
        try:
            found = lister.get(key)
            exists = found is not None
            version = "" if found is None else found.metadata.resource_version
        except CacheNotSyncedError:
            pass
        state, last_error = self._informer.reflector_state()
        return WaitTimeoutError(
            informer=self._informer.name,
            key=key,
            waited_seconds=waited_seconds,
            exists=exists,
            resource_version=version,
            state=state,
            last_error=last_error,
        )

    def _enter(self, waiter: _Waiter[V]) -> None:
        if not self._waiters:
            self._attach(self)
        self._waiters.setdefault(waiter.key, []).append(waiter)

    def _leave(self, waiter: _Waiter[V]) -> None:
        of_key = self._waiters[waiter.key]
        of_key.remove(waiter)
        if not of_key:
            del self._waiters[waiter.key]
        if not self._waiters:
            self._detach(self)

    def look_nowait(self, key: str) -> None:
        """Look at a key again: readers may see something else by now."""
        for waiter in tuple(self._waiters.get(key, ())):
            waiter.look(self._informer.lister, self._why_never)

    def end_nowait(self, error: InformerError | None = None) -> None:
        """Let go of everybody.

        Args:
            error: what went wrong; None if the informer was closed.
        """
        name = self._informer.name
        reason = error or LifecycleError(f"the informer of {name} was closed during the wait")
        for waiters in tuple(self._waiters.values()):
            for waiter in waiters:
                waiter.end(reason)

    def put_nowait(self, event: Event[V]) -> None:
        """Take note of a change, which the cache holds already."""
        if event.key in self._waiters:
            self.look_nowait(event.key)

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Take note that the cache has synced."""
        del objects  # the lister has them
        for key in tuple(self._waiters):
            self.look_nowait(key)

    def on_initial_list_complete(self) -> None:
        """Do nothing: the lister knows whether it can answer."""

    def on_missed_state(self, was: KubeObject[V], now: KubeObject[V] | None) -> None:
        """Take note that readers see something else without an event."""
        del now
        self.look_nowait(was._key)


def _check(key: object, predicate: object) -> None:
    if not isinstance(key, str):
        raise InvalidTypeError("key", f"is 'namespace/name' or 'name', not {key!r}")
    if predicate is not bool:  # which asks whether there is an object
        check_callable(predicate, "predicate(object_or_none)", 1)
    if inspect.iscoroutinefunction(predicate):
        reason = "it is a coroutine function, which is never true by itself; write a plain one"
        raise invalid_handler(name_of(predicate), reason)
