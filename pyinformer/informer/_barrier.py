"""Waiting until a cache has reached a write; it always ends, and only when that is so.

A version and perhaps a key enter; whoever waits is let go by one of three proofs. The position has
reached the version. The store holds the key at that version or a newer one. Or, after a second, a
list of just this key within the informer's scope, no older than the version, shows exactly what the
store holds: then no change of this key is outstanding, as for an object that the selector does not
select, or one that was deleted before the cache ever saw it. That the server answers at a newer
version proves nothing by itself: the watch may still be on its way there.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, final

import anyio

from pyinformer.apimachinery import (
    InformerError,
    InvalidArgumentError,
    InvalidTypeError,
    KubeObject,
    StaleCacheError,
    VersionOrder,
    View,
    check_seconds,
    older,
    resource_version_is_well_formed,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pyinformer.reflector import LiveIdentity

_VERIFY_AFTER_SECONDS = 1.0  # nearly every event is there by then; then 2 s, 4 s later
_NEEDS_KEY = "versions of two of these objects do not compare: pass the key of the written object"
_V = TypeVar("_V", bound=View | None, covariant=True)


@final
@dataclass(frozen=True, slots=True)
class WriteTarget:
    """What somebody waits for."""

    version: str
    """A resource version; empty: that the object with this uid is gone."""
    key: str | None
    uid: str | None

    @classmethod
    def of(cls, resource_version: str | None, key: str | None, uid: str | None) -> WriteTarget:
        """Check what a user gave.

        Raises:
            InvalidArgumentError: it names nothing.
            InvalidTypeError: something of it is no text.
        """
        given = {"resource_version": resource_version, "key": key, "uid": uid}
        for name, value in given.items():
            if value is not None and not isinstance(value, str):
                raise InvalidTypeError(name, f"is text, not {value!r}")
        if resource_version == "":
            reason = "is empty; None waits until the object with `uid` under `key` is gone"
            raise InvalidArgumentError("resource_version", reason)
        if resource_version is None and not (key and uid):
            reason = "None waits for a deletion: name the object by `key` and `uid`"
            raise InvalidArgumentError("resource_version", reason)
        return cls(resource_version or "", key or None, uid or None)

    def is_met(
        self,
        position: str,
        stored: KubeObject[View | None] | None,
        order: VersionOrder = VersionOrder.GLOBAL,
    ) -> bool:
        """Tell whether a cache at this position, with this under the key, is new enough."""
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


class Followed(Protocol[_V]):
    """Whose cache it is."""

    @property
    def name(self) -> str:
        """What errors call it."""
        ...

    @property
    def position(self) -> str:
        """The resource version up to which the store holds every change."""
        ...

    @property
    def version_order(self) -> VersionOrder:
        """Which of the resource's versions compare."""
        ...

    def get(self, key: str) -> KubeObject[_V] | None:
        """Return what the store holds."""
        ...

    def is_elsewhere(self, key: str) -> bool:
        """Tell whether a key is in a namespace that is not followed."""
        ...

    def is_outstanding(self, key: str, uid: str) -> bool:
        """Tell whether a write by this process to this object is not in the store yet."""
        ...

    def check_running(self) -> None:
        """Raise if the cache follows nothing.

        Raises:
            LifecycleError: it was not started, or is closed.
        """
        ...

    def state(self) -> tuple[str, str | None]:
        """Return the reflector's state and its last error."""
        ...


@final
class Waiter:
    """Somebody who waits."""

    __slots__ = ("is_lost", "is_met", "let_go", "reason", "wanted")

    def __init__(self, wanted: WriteTarget) -> None:
        self.wanted = wanted
        self.let_go = anyio.Event()
        self.is_met = False
        self.is_lost = False
        self.reason = ""


@final
class Barrier(Generic[_V]):
    """Holds those who wait for one cache.

    Args:
        followed: the cache.
        look: asks the server what the informer's scope holds under a key, no older than a version.
    """

    def __init__(
        self, followed: Followed[_V], look: Callable[[str, str], Awaitable[LiveIdentity]]
    ) -> None:
        self._followed = followed
        self._look = look
        self._is_due = False
        self.waiters: dict[Waiter, None] = {}
        """Always this dict, so that whether anybody waits costs one look."""

    def is_met(self, wanted: WriteTarget) -> bool:
        """Tell whether the cache is as new."""
        followed = self._followed
        key = wanted.key
        if key is not None and followed.is_elsewhere(key):
            return True  # it cannot have changed this cache
        stored = None if key is None else followed.get(key)
        if not wanted.is_met(followed.position, stored, followed.version_order):
            return False
        if wanted.version or key is None or wanted.uid is None:
            return True
        # Gone from the store; or not yet in it, and its creation is still on the way.
        return not followed.is_outstanding(key, wanted.uid)

    def advance_nowait(self) -> None:
        """Take note that the cache changes: once this step is over, those who may go are let go."""
        if not self._is_due:  # the position moves after the store does, and events come in batches
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._advanced)

    def _advanced(self) -> None:
        self._is_due = False
        for waiter in list(self.waiters):
            if self.is_met(waiter.wanted):
                self._let_go(waiter)

    @staticmethod
    def _let_go(waiter: Waiter) -> None:
        waiter.is_met = not waiter.is_lost  # else what is reached belongs to another epoch
        waiter.let_go.set()

    def end_nowait(self, reason: str) -> None:
        """Let everybody go in vain."""
        for waiter in self.waiters:
            waiter.is_lost = True  # a version of another epoch may look reached
            waiter.reason = reason
            waiter.let_go.set()

    async def wait(self, wanted: WriteTarget, *, timeout_seconds: float) -> None:
        """Wait until the cache is as new.

        Raises:
            StaleCacheError: it is not by the deadline, or never will be, as where versions of two
                objects do not compare and no key is given.
            LifecycleError: it follows nothing, or was closed meanwhile.
            InvalidArgumentError: the timeout is negative or no number.

        Cancellation:
            Safe; nothing is left behind.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        self._followed.check_running()
        if self.is_met(wanted):
            return
        waiter = Waiter(wanted)
        if wanted.key is None and self._followed.version_order is not VersionOrder.GLOBAL:
            waiter.reason = _NEEDS_KEY
            raise self._stale(waiter, 0.0)
        began_at = anyio.current_time()
        self.waiters[waiter] = None
        try:
            with anyio.move_on_after(timeout_seconds):
                await self._let_go_or_proven(waiter)
        finally:
            del self.waiters[waiter]
        if waiter.is_met or (not waiter.is_lost and self.is_met(wanted)):
            return
        self._followed.check_running()
        raise self._stale(waiter, anyio.current_time() - began_at)

    async def _let_go_or_proven(self, waiter: Waiter) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._prove, waiter)
            await waiter.let_go.wait()
            group.cancel_scope.cancel()

    async def _prove(self, waiter: Waiter) -> None:
        key, version = waiter.wanted.key, waiter.wanted.version
        pause = _VERIFY_AFTER_SECONDS
        while not waiter.is_met:
            await anyio.sleep(pause)
            pause *= 2
            if self.is_met(waiter.wanted):  # by an event that was skipped, and told nobody
                self._let_go(waiter)
            elif key is not None:
                try:
                    fresh = await self._look(key, version)
                except InformerError as error:
                    waiter.reason = f"it could not be looked at: {error}"
                    continue
                stored, order = self._followed.get(key), self._followed.version_order
                if is_proven(waiter.wanted, fresh, stored, order):
                    self._let_go(waiter)

    def _stale(self, waiter: Waiter, waited_seconds: float) -> StaleCacheError:
        state, last_error = self._followed.state()
        return StaleCacheError(
            informer=self._followed.name,
            wanted=str(waiter.wanted),
            position=self._followed.position,
            waited_seconds=waited_seconds,
            state=state,
            reason=waiter.reason or last_error or "",
        )


def is_proven(
    wanted: WriteTarget,
    fresh: LiveIdentity,
    stored: KubeObject[View | None] | None,
    order: VersionOrder = VersionOrder.GLOBAL,
) -> bool:
    """Tell whether nothing of a key is outstanding, as far as a fresh look shows.

    Args:
        wanted: what is waited for.
        fresh: what the informer's scope held under the key, on the server.
        stored: what the store holds under the key now, which may be newer than the look.
        order: which versions compare.
    """
    at = fresh.resource_version
    if not wanted.version:
        return wanted.uid not in {fresh.uid, stored.metadata.uid if stored else None}
    if order is not VersionOrder.GLOBAL or not resource_version_is_well_formed(wanted.version):
        if stored is None:
            return not fresh.uid
        known = stored.metadata
        return known.uid == fresh.uid and order.reaches(
            known.uid, known.resource_version, fresh.uid, fresh.version
        )
    if not resource_version_is_well_formed(at) or older(at, wanted.version):
        return False  # the server did not answer what it was asked
    if stored is None:
        return not fresh.uid
    return not older(stored.metadata.resource_version, fresh.version if fresh.uid else at)
