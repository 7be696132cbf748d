"""How far one cache has caught up with the writes of its own process.

Until the cache has a write, the overlay shows it to readers, and the barrier lets callers wait for
it. Both are cleared when an epoch of the server's history ends, because resource versions of
two epochs do not compare.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, final

from pyinformer.cache.informer._barrier import Barrier, WriteTarget
from pyinformer.cache.reflector import LiveIdentity, read_live
from pyinformer.cache.store import Overlay
from pyinformer.errors import LifecycleError
from pyinformer.objects import (
    V,
    VersionOrder,
    check_view_or_model,
    older,
    resource_version_is_well_formed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyinformer.cache.informer._context import InformerContext
    from pyinformer.cache.informer._settings import Scope
    from pyinformer.cache.reflector import Reflector
    from pyinformer.cache.store import Indexer, OverlayEntry
    from pyinformer.objects import KubeObject

_NEW_EPOCH = "the server's history is not the one that was written to: a new epoch has begun"


@final
class Freshness(Generic[V]):
    """The own writes over one cache, and the callers that wait for it; call `follow` first.

    Args:
        context: what all caches of the informer share.
        scope: what the cache holds.
        indexer: the cache.

    Raises:
        InvalidTypeError: objects cannot be decoded to the model, or readers could change a view.
    """

    _reflector: Reflector[V]
    _report_missed_state: Callable[[KubeObject[V], KubeObject[V] | None], None]

    def __init__(self, context: InformerContext[V], scope: Scope, indexer: Indexer[V]) -> None:
        if context.settings.model is not None:
            check_view_or_model(context.settings.model)
        self._context = context
        self._scope = scope
        self._indexer = indexer
        self._epoch = 0
        self._has_begun_epoch = False  # set before the reflector reports the new epoch
        self._end = ""
        self.name: str = str(scope)
        self.get: Callable[[str], KubeObject[V] | None] = indexer.get
        self.overlay: Overlay[V] = Overlay(
            indexer.get,
            lambda: self.shown_position,
            order=self._order,
            now=lambda: context.lifecycle.now(),  # noqa: PLW0108 - it is replaced at the start
            later=self._later,
            is_polled=lambda: self._reflector.is_polled,
            was_deleted=self._was_deleted,
            on_missed_state=self._on_missed_state,
            selective=scope.is_selective,
            shown=context.entries,
        )
        self.barrier: Barrier[V] = Barrier(self)

    def follow(
        self,
        reflector: Reflector[V],
        *,
        on_missed_state: Callable[[KubeObject[V], KubeObject[V] | None], None],
    ) -> None:
        """Set the parts that are made later; called before anything else.

        Args:
            reflector: fills the cache.
            on_missed_state: reports a state that readers saw and that no event reports.
        """
        self._reflector = reflector
        self._report_missed_state = on_missed_state

    def _order(self) -> VersionOrder:
        return self._reflector.version_order

    def _later(self, seconds: float, function: Callable[[], None]) -> None:
        def call() -> None:
            """Change nothing of a closed cache, which stays as it is."""
            if not self._end:
                function()

        asyncio.get_running_loop().call_later(seconds, call)

    def _was_deleted(self, key: str, uid: str) -> bool:
        return self._reflector.has_tombstone(key, uid)

    def _on_missed_state(self, was: KubeObject[V], now: KubeObject[V] | None) -> None:
        self._report_missed_state(was, now)

    @property
    def _is_ahead(self) -> bool:
        """Whether the list of a new epoch is in the cache, and the reflector yet to report it."""
        return self._has_begun_epoch and self._reflector.is_resetting

    @property
    def epoch(self) -> int:
        """How often the cache turned from one history of the server to another."""
        return self._reflector.epoch + self._is_ahead

    @property
    def position(self) -> str:
        """The resource version up to which the cache holds every change."""
        reflector, listed = self._reflector, self._indexer.resource_version
        followed = reflector.position
        if self.version_order is not VersionOrder.GLOBAL:
            return followed
        # A list of another history says nothing about writes in this one, however far it is.
        is_further = older(followed, listed) and not reflector.is_resetting
        return listed if is_further else followed

    @property
    def shown_position(self) -> str:
        """The position in the history that readers see; it belongs to `epoch`."""
        return self._indexer.resource_version if self._is_ahead else self.position

    @property
    def version_order(self) -> VersionOrder:
        """Which of the resource's versions compare."""
        return self._reflector.version_order

    def close_nowait(self, reason: str = "") -> None:
        """Wake all waiters with an error, now and later.

        Args:
            reason: why; empty if the informer is closed.
        """
        self._end = reason or f"the informer of {self.name} is closed: its cache stays as it is"
        self.barrier.end_nowait(reason or "the informer is closed")

    def ended_by(
        self, objects: Mapping[str, KubeObject[V]], resource_version: str
    ) -> Mapping[str, OverlayEntry[V]]:
        """Return the own writes, by key, that readers no longer see once a list is in the cache."""
        if self._reflector.is_resetting:
            return dict(self.overlay.entries)
        return self.overlay.ended_by(objects, resource_version)

    def swapped_nowait(self) -> None:
        """Drop the own writes that a list has brought, or that belong to the last epoch."""
        if self._reflector.is_resetting:
            self.begin_epoch_nowait()
        else:
            self.overlay.sweep()

    def begin_epoch_nowait(self) -> None:
        """Drop what belongs to the last epoch, before any handler sees the new one."""
        self._has_begun_epoch = True
        self.overlay.clear()
        self.barrier.end_nowait(_NEW_EPOCH)

    def check_epoch(self) -> None:
        """Drop what belongs to an epoch that has ended, unless its list has done so already."""
        epoch = self._reflector.epoch
        if epoch != self._epoch:
            self._epoch = epoch
            if not self._has_begun_epoch:
                self.begin_epoch_nowait()
            self._has_begun_epoch = False

    def has_seen(self, target: WriteTarget) -> bool:
        """Return whether the cache has reached a write."""
        return self.barrier.is_met(self._with_key(target))

    async def wait_until(self, target: WriteTarget, *, timeout_seconds: float) -> None:
        """Wait until the cache has reached a write.

        Raises:
            StaleCacheError: it has not by the deadline, or never will.
            LifecycleError: the informer was not started, or is closed.
            InvalidArgumentError: the timeout is not a duration.

        Cancellation:
            Safe.
        """
        await self.barrier.wait(self._with_key(target), timeout_seconds=timeout_seconds)

    def is_elsewhere(self, key: str) -> bool:
        """Return whether a key is in a namespace that is not followed."""
        return not self._scope.covers(key.rpartition("/")[0])

    def _with_key(self, target: WriteTarget) -> WriteTarget:
        """Add the object that this process wrote at the version: proofs are about one key."""
        written = self._context.recent_writes.at(target.version)
        if written is None or target.key not in {None, written.key}:
            return target
        if self.version_order is VersionOrder.GLOBAL:
            return WriteTarget(target.version, written.key, target.uid)
        if not written.is_sole:
            return target
        return WriteTarget(target.version, written.key, target.uid or written.uid)

    def is_outstanding(self, key: str, uid: str) -> bool:
        """Return whether a write of this process to this object is not in the cache yet."""
        entry = self.overlay.entries.get(key)
        return entry is not None and entry.uid == uid

    def check_running(self) -> None:
        """Raise unless the cache is followed.

        Raises:
            LifecycleError: the informer was not started, or is closed.
            InternalError: it has crashed.
        """
        self._context.lifecycle.check_running()
        if self._end:
            raise LifecycleError(self._end)

    def state(self) -> tuple[str, str | None]:
        """Return the reflector's state and its last error."""
        status = self._reflector.status()
        return status.state.value, status.last_error

    async def read_live(self, key: str, resource_version: str) -> LiveIdentity:
        """List one key in the cache's scope, no older than a resource version if versions compare.

        Raises:
            InformerError: the server refused, or could not be reached.

        Cancellation:
            Safe.
        """
        is_comparable = self.version_order is VersionOrder.GLOBAL
        is_comparable = is_comparable and resource_version_is_well_formed(resource_version)
        at_least = resource_version if is_comparable else ""
        return await read_live(self._reflector.list_watch.only(key), resource_version=at_least)
