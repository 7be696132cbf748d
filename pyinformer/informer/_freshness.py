"""How fresh one informer's cache is in the eyes of its own process.

Here the overlay, the writes that feed it and the barrier are put together for one informer: what
the process writes through the cluster enters from the start to the end of the informer, changes of
the cache enter from its distribution. An epoch that ends takes everything with it that was counted
in its resource versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, final

from pyinformer.apimachinery import (
    LifecycleError,
    V,
    VersionOrder,
    check_view,
    older,
    resource_version_is_well_formed,
)
from pyinformer.informer._barrier import Barrier, WriteTarget
from pyinformer.reflector import LiveIdentity, read_live
from pyinformer.store import Overlay

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyinformer.apimachinery import KubeObject
    from pyinformer.cluster import Cluster
    from pyinformer.informer._own_writes import WrittenAt
    from pyinformer.informer._settings import InformerSettings, Scope
    from pyinformer.reflector import Reflector
    from pyinformer.store import Indexer, OverlayEntries, OverlayEntry

_NEW_EPOCH = "the server's history is not the one that was written to: a new epoch has begun"


@final
class Freshness(Generic[V]):
    """Lays own writes over a cache, and tells when it has caught up with them.

    Args:
        cluster: through which the writes go.
        scope: what the informer follows.
        settings: how it keeps that.
        indexer: its store.
        reflector: returns what fills the store; called once everything is assembled.
        on_missed_state: called with what readers saw without an event, and what they see now.
        check_running: raises if the informer is not started, or is closed.
        written_at: returns the object that this process wrote at a version, if it is remembered.
        written: has the own writes of several caches; None if they are this one's alone.

    Raises:
        InvalidTypeError: the projection could be mutated, or cannot be decoded.
    """

    def __init__(
        self,
        cluster: Cluster,
        scope: Scope,
        settings: InformerSettings,
        indexer: Indexer[V],
        *,
        reflector: Callable[[], Reflector[V]],
        on_missed_state: Callable[[KubeObject[V], KubeObject[V] | None], None],
        check_running: Callable[[], None],
        written_at: Callable[[str], WrittenAt | None] = lambda _version: None,
        written: OverlayEntries[V] | None = None,
    ) -> None:
        if settings.projection is not None:
            check_view(settings.projection)
        self._cluster = cluster
        self._scope = scope
        self._metadata_only = settings.memory == "metadata"
        self._indexer = indexer
        self._reflector = reflector
        self._check_running = check_running
        self._epoch = 0
        self._has_begun_epoch = False  # before the reflector says so: its list is being told
        self._written_at = written_at
        self._end = ""
        self.name: str = str(scope)
        self.get = indexer.get
        self.overlay: Overlay[V] = Overlay(
            indexer.get,
            self._overlay_position,
            order=lambda: self.version_order,
            was_deleted=lambda key, uid: reflector().has_tombstone(key, uid),
            on_missed_state=on_missed_state,
            selective=scope.is_selective,
            shown=written,
        )
        self.barrier: Barrier[V] = Barrier(self, self._look)

    @property
    def position(self) -> str:
        """The resource version up to which the store holds every change."""
        reflector, listed = self._reflector(), self._indexer.resource_version
        followed = reflector.position
        if self.version_order is not VersionOrder.GLOBAL:
            return followed
        # A list of another history says nothing of writes in this one, however far it is.
        is_further = older(followed, listed) and not reflector.is_resetting
        return listed if is_further else followed

    @property
    def version_order(self) -> VersionOrder:
        """Which of the resource's versions compare."""
        return self._reflector().version_order

    def _overlay_position(self) -> str:
        # Once the list of a new epoch is in the store, writes are answered by that history.
        is_new = self._has_begun_epoch and self._reflector().is_resetting
        return self._indexer.resource_version if is_new else self.position

    def close_nowait(self, reason: str = "") -> None:
        """Let go of everybody who waits, now and later.

        Args:
            reason: why; empty if the informer is closed.
        """
        self._end = reason or f"the informer of {self.name} is closed: its cache stays as it is"
        self.barrier.end_nowait(reason or "the informer is closed")

    def ended_by(
        self, objects: Mapping[str, KubeObject[V]], resource_version: str
    ) -> Mapping[str, OverlayEntry[V]]:
        """Return the own writes, by key, that readers see no more once a list is in the store."""
        if self._reflector().is_resetting:
            return dict(self.overlay.entries)
        return self.overlay.ended_by(objects, resource_version)

    def swapped_nowait(self) -> None:
        """Drop the own writes that the store holds by a list, or that another epoch had."""
        if self._reflector().is_resetting:
            self.begin_epoch_nowait()
        else:
            self.overlay.sweep()

    def begin_epoch_nowait(self) -> None:
        """Drop what belongs to the epoch before; no handler has been told of the new one yet."""
        self._has_begun_epoch = True
        self.overlay.clear()
        self.barrier.end_nowait(_NEW_EPOCH)

    def check_epoch(self) -> None:
        """Drop what belongs to an epoch that has ended, unless its list has done so already."""
        epoch = self._reflector().epoch
        if epoch != self._epoch:
            self._epoch = epoch
            if not self._has_begun_epoch:
                self.begin_epoch_nowait()
            self._has_begun_epoch = False

    def has_seen(self, wanted: WriteTarget) -> bool:
        """Tell whether the cache is as new as a write."""
        return self.barrier.is_met(self._named(wanted))

    async def wait_until(self, wanted: WriteTarget, *, timeout_seconds: float) -> None:
        """Wait until the cache is as new as a write.

        Raises:
            StaleCacheError: it is not by the deadline, or never will be.
            LifecycleError: the informer is not started, or is closed.
            InvalidArgumentError: the timeout is negative or no number.

        Cancellation:
            Safe.
        """
        await self.barrier.wait(self._named(wanted), timeout_seconds=timeout_seconds)

    def is_elsewhere(self, key: str) -> bool:
        """Tell whether a key is in a namespace that is not followed."""
        return not self._scope.covers(key.rpartition("/")[0])

    def _named(self, wanted: WriteTarget) -> WriteTarget:
        """Add the object that was written at this version: what is proven is proven of a key."""
        written = self._written_at(wanted.version)
        if written is None or wanted.key not in {None, written.key}:
            return wanted
        if self.version_order is VersionOrder.GLOBAL:
            return WriteTarget(wanted.version, written.key, wanted.uid)
        if not written.is_sole:
            return wanted
        return WriteTarget(wanted.version, written.key, wanted.uid or written.uid)

    def is_outstanding(self, key: str, uid: str) -> bool:
        """Tell whether a write by this process to this object is not in the store yet."""
        entry = self.overlay.entries.get(key)
        return entry is not None and entry.uid == uid

    def check_running(self) -> None:
        """Raise if the informer follows nothing.

        Raises:
            LifecycleError: it was not started, or is closed.
            InternalError: it has crashed.
        """
        self._check_running()
        if self._end:
            raise LifecycleError(self._end)

    def state(self) -> tuple[str, str | None]:
        """Return the reflector's state and its last error."""
        status = self._reflector().status()
        return status.state.value, status.last_error

    async def _look(self, key: str, resource_version: str) -> LiveIdentity:
        is_comparable = self.version_order is VersionOrder.GLOBAL
        is_comparable = is_comparable and resource_version_is_well_formed(resource_version)
        at_least = resource_version if is_comparable else ""
        scope = self._scope
        followed = self._cluster.list_watch(
            scope.resource,
            namespace=scope.namespace,
            label_selector=scope.label_selector,
            field_selector=scope.field_selector,
            metadata_only=self._metadata_only,
        )
        return await read_live(followed.only(key), resource_version=at_least)
