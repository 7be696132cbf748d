"""Waiting until a cache has reached a write; the wait always ends, and only by a proof or an error.

A wait ends by one of three proofs. The cache's position has reached the version. The cache holds
the key at that version or a newer one. Or, after a second, a list of this key alone in the
informer's scope shows exactly what the cache holds, so no change of the key is outstanding: the
selector does not select it, or it was deleted before the cache saw it. A newer version in an answer
of the server proves nothing, since the watch may still be behind it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, final

import anyio

from pyinformer._runtime.tasks import loop_time
from pyinformer.errors import InformerError, InvalidArgumentError, InvalidTypeError, StaleCacheError
from pyinformer.objects import (
    KubeObject,
    V,
    VersionOrder,
    check_seconds,
    older,
    resource_version_is_well_formed,
)

if TYPE_CHECKING:
    from pyinformer.cache.informer._own_write_progress import Freshness
    from pyinformer.cache.reflector import LiveIdentity

_VERIFY_AFTER_SECONDS = 1.0  # nearly every event is there by then; then 2 s, 4 s later
_NEEDS_KEY = "versions of two of these objects do not compare: pass the key of the written object"


@final
@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The write that a caller waits for."""

    version: str
    """A resource version; empty to wait until the object with this uid is gone."""
    key: str | None
    uid: str | None

    @classmethod
    def of(cls, resource_version: str | None, key: str | None, uid: str | None) -> WriteTarget:
        """Check the arguments of a user, and return the target of the wait.

        Raises:
            InvalidArgumentError: it names no write.
            InvalidTypeError: an argument is not a string.
        """
        given = {"resource_version": resource_version, "key": key, "uid": uid}
        for name, value in given.items():
            if value is not None and not isinstance(value, str):
                raise InvalidTypeError(name, f"must be a string, got {value!r}")
        if resource_version == "":
            reason = "must not be empty; None waits until the object with `uid` is gone"
            raise InvalidArgumentError("resource_version", reason)
        if resource_version is None and not (key and uid):
            reason = "None waits for a deletion, which needs `key` and `uid`"
            raise InvalidArgumentError("resource_version", reason)
        return cls(resource_version or "", key or None, uid or None)

    def is_met(
        self,
        position: str,
        stored: KubeObject[object] | None,
        order: VersionOrder = VersionOrder.GLOBAL,
    ) -> bool:
        """Return whether a cache at this position, with this object, has reached the write."""
        known = None if stored is None else stored.metadata
        if not self.version:
            return known is None or known.uid != self.uid
        if order.holds(position, self.version):
            return True
        return known is not None and order.reaches(
            known.uid, known.resource_version, self.uid or known.uid, self.version
        )

    def __str__(self) -> str:
        what = f"resource version {self.version}" if self.version else "the deletion"
        return f"{what} of {self.key}" if self.key else what


@final
class Waiter:
    """One caller that waits."""

    __slots__ = ("is_lost", "is_met", "reason", "released", "target")

    def __init__(self, target: WriteTarget) -> None:
        self.target = target
        self.released = anyio.Event()
        self.is_met = False
        self.is_lost = False
        self.reason = ""


@final
class Barrier(Generic[V]):
    """The callers that wait for one cache.

    Args:
        cache: the cache and its position.
    """

    def __init__(self, cache: Freshness[V]) -> None:
        self._cache = cache
        self._is_due = False
        self.waiters: dict[Waiter, None] = {}
        """Always the same dict, so that a truth test says whether a caller waits."""

    def is_met(self, target: WriteTarget) -> bool:
        """Return whether the cache has reached a write."""
        cache = self._cache
        key = target.key
        if key is not None and cache.is_elsewhere(key):
            return True  # the write cannot have changed this cache
        stored = None if key is None else cache.get(key)
        if not target.is_met(cache.position, stored, cache.version_order):
            return False
        if target.version or key is None or target.uid is None:
            return True
        # The object is gone, unless its creation by this process is still on the way.
        return not cache.is_outstanding(key, target.uid)

    def advance_nowait(self) -> None:
        """Release the waiters that are met, once the step that changes the cache is over."""
        if not self._is_due:  # the position moves after the cache, and events come in batches
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._advanced)

    def _advanced(self) -> None:
        self._is_due = False
        for waiter in list(self.waiters):
            if self.is_met(waiter.target):
                self._release(waiter)

    @staticmethod
    def _release(waiter: Waiter) -> None:
        waiter.is_met = not waiter.is_lost  # else what is reached belongs to another epoch
        waiter.released.set()

    def end_nowait(self, reason: str) -> None:
        """Release every waiter with an error."""
        for waiter in self.waiters:
            waiter.is_lost = True  # a version of another epoch may look reached
            waiter.reason = reason
            waiter.released.set()

    async def wait(self, target: WriteTarget, *, timeout_seconds: float) -> None:
        """Wait until the cache has reached a write.

        Raises:
            StaleCacheError: it has not by the deadline; or it never will, because versions of two
                objects do not compare and no key is given.
            LifecycleError: the informer does not run, or was closed meanwhile.
            InvalidArgumentError: the timeout is not a duration.

        Cancellation:
            Safe; nothing is left behind.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        self._cache.check_running()
        if self.is_met(target):
            return
        waiter = Waiter(target)
        if target.key is None and self._cache.version_order is not VersionOrder.GLOBAL:
            waiter.reason = _NEEDS_KEY
            raise self._stale(waiter, 0.0)
        began_at = loop_time()
        self.waiters[waiter] = None
        try:
            with anyio.move_on_after(timeout_seconds):
                await self._released_or_proven(waiter)
        finally:
            del self.waiters[waiter]
        if waiter.is_met or (not waiter.is_lost and self.is_met(target)):
            return
        self._cache.check_running()
        raise self._stale(waiter, loop_time() - began_at)

    async def _released_or_proven(self, waiter: Waiter) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._prove, waiter)
            await waiter.released.wait()
            group.cancel_scope.cancel()

    async def _prove(self, waiter: Waiter) -> None:
        key, version = waiter.target.key, waiter.target.version
        pause = _VERIFY_AFTER_SECONDS
        while not waiter.is_met:
            await anyio.sleep(pause)
            pause *= 2
            if self.is_met(waiter.target):  # by an event that the guard skipped silently
                self._release(waiter)
            elif key is not None:
                try:
                    fresh = await self._cache.read_live(key, version)
                except InformerError as error:
                    waiter.reason = f"the key could not be listed: {error}"
                    continue
                stored, order = self._cache.get(key), self._cache.version_order
                if is_proven(waiter.target, fresh, stored, order):
                    self._release(waiter)

    def _stale(self, waiter: Waiter, waited_seconds: float) -> StaleCacheError:
        state, last_error = self._cache.state()
        return StaleCacheError(
            informer=self._cache.name,
            wanted=str(waiter.target),
            position=self._cache.position,
            waited_seconds=waited_seconds,
            state=state,
            reason=waiter.reason or last_error or "",
        )


def is_proven(
    target: WriteTarget,
    fresh: LiveIdentity,
    stored: KubeObject[object] | None,
    order: VersionOrder = VersionOrder.GLOBAL,
) -> bool:
    """Return whether a fresh list of one key proves that none of its changes is outstanding.

    Args:
        target: the write.
        fresh: what the server had under the key in the informer's scope.
        stored: what the cache has under the key now, which may be newer.
        order: which versions compare.
    """
    at = fresh.resource_version
    if not target.version:
        return target.uid not in {fresh.uid, stored.metadata.uid if stored else None}
    if order is not VersionOrder.GLOBAL or not resource_version_is_well_formed(target.version):
        if stored is None:
            return not fresh.uid
        known = stored.metadata
        return known.uid == fresh.uid and order.reaches(
            known.uid, known.resource_version, fresh.uid, fresh.version
        )
    if not resource_version_is_well_formed(at) or older(at, target.version):
        return False  # the server did not answer as new as asked
    if stored is None:
        return not fresh.uid
    return not older(stored.metadata.resource_version, fresh.version if fresh.uid else at)
