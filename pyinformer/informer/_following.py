"""What follows one resource: the stations behind an informer, put together, and what they tell.

A scope and settings enter; a lister that any thread may read leaves, and every change, to whoever
receives it in its own step. Each station keeps its own promises; here is what one tells the others,
in the order in which they begin and end. Handlers and lifetimes are the informer's, on top of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import anyio

from pyinformer.apimachinery import (
    InformerConflictError,
    InformerError,
    InvalidArgumentError,
    Journal,
    LifecycleError,
    V,
)
from pyinformer.audit import MutationDetector
from pyinformer.informer._asking import Asking
from pyinformer.informer._key_waits import KeyWaits
from pyinformer.informer._lifecycle import InformerLifecycle
from pyinformer.informer._metadata_only import check_readable
from pyinformer.informer._mutation_guard import MutationGuard
from pyinformer.informer._namespace_cache import Common, NamespaceCache
from pyinformer.informer._namespace_caches import NamespaceCaches
from pyinformer.informer._own_writes import OwnWrites
from pyinformer.informer._readiness import CacheReadiness
from pyinformer.informer._settings import InformerSettings, Scope, checked_namespaces
from pyinformer.informer._shared_processor import SharedProcessor
from pyinformer.informer._state_changes import StateCallbacks
from pyinformer.metrics import Metrics
from pyinformer.reflector import ReflectorOptions, StaleObject
from pyinformer.store import Indexer, IndexFunction, Lister, OverlayEntries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet

    from anyio.abc import TaskGroup

    from pyinformer.cluster import Cluster
    from pyinformer.informer._namespace_selection import NamespaceSelection
    from pyinformer.informer._store_sink import Receiver
    from pyinformer.store import Overlay


class Following(Asking[V]):
    """One resource in one scope, cached.

    Args:
        cluster: the server.
        scope: what is followed.
        settings: how it is kept.
        options: how the server is talked to.
        metrics: where occurrences are counted.
        grace_seconds: how long closing waits for handlers.
        mutation_detector: watches over what is shared; one of its own if None.
        selection: chooses the namespaces; None if they are given.
    """

    def __init__(
        self,
        cluster: Cluster,
        scope: Scope,
        settings: InformerSettings,
        *,
        options: ReflectorOptions | None,
        metrics: Metrics,
        grace_seconds: float,
        mutation_detector: MutationDetector | None = None,
        selection: NamespaceSelection | None = None,
    ) -> None:
        self.scope: Scope = scope
        """What is followed, the namespaces as they are now."""
        self.settings: InformerSettings = settings
        self.cluster: Cluster = cluster
        """The server that it follows, through which own writes are read at once."""
        self._grace_seconds = grace_seconds
        self.name: str = f"{cluster.name}: {scope}" if cluster.name else str(scope)
        """What it follows, and of which cluster if that has a name: `eu: pods.v1 in shop`."""
        self.journal: Journal = Journal()
        """What happened to it lately, in words; of several namespaces, each has one of its own."""
        self.on_crash: Callable[[], None] | None = None
        """Is called when it has crashed; for the factory."""
        self.call_sites: list[str] = []
        """The places that a factory has handed it out to, each once; of a private one, none."""
        self._indexes: dict[str, str | IndexFunction] = {}
        self._written: OverlayEntries[V] = OverlayEntries()
        self._callbacks = StateCallbacks()
        self._selection = selection
        self._lifetime = InformerLifecycle(
            self.name,
            self._begin,
            self._finish,
            on_end=self._ended,
            grace_seconds=grace_seconds,
        )
        common: Common[V] = Common(
            cluster=cluster,
            settings=settings,
            options=options,
            metrics=metrics,
            lifetime=self._lifetime,
            indexes=self._indexes,
            written=self._written,
            callbacks=self._callbacks,
            lister=lambda: self.lister,
            written_at=lambda version: self._own_writes.written_at(version),  # noqa: PLW0108 - made later
            announces=lambda: self._members.is_several,
            on_synced=lambda: self._members.look_nowait(),  # noqa: PLW0108 - made later
            on_settled=lambda: self._members.look_nowait(),  # noqa: PLW0108 - made later
            on_large=self._found_large,
            on_crash=self._broken,
            check_running=self._check_running,
        )
        self._members: NamespaceCaches[V] = NamespaceCaches(
            lambda namespace: NamespaceCache(
                common, scope.only(namespace), self._journal_of(namespace)
            ),
            self._empty_cache,
            scope.namespaces if selection is None else (),
            is_known=selection is None,
            on_swap=self._swapped,
            on_synced=lambda: self._key_waits.preload_nowait(()),
            is_gone=self.namespace_is_gone,
        )
        self._own_writes: OwnWrites[V] = OwnWrites(
            scope,
            self._overlay_of,
            view=cast("type[V] | None", settings.projection),
            strip_managed_fields=settings.memory != "raw",
            transform=settings.transform,
            metadata_only=settings.memory == "metadata",
            on_shown=lambda key: self._key_waits.look_nowait(key),  # noqa: PLW0108 - made later
        )
        self._audience: SharedProcessor[V] = SharedProcessor(
            self.name,
            self._members,
            self._members.told,
            on_crash=self._broken,
            check_loop=self._lifetime.loop.check,
        )
        self._sharing: MutationGuard[V] = MutationGuard(
            self.name,
            lambda: self._members.cache,
            is_decoded=settings.sharing == "decoded",
            detector=mutation_detector,
            shown=lambda key: self.lister.get(key, allow_unsynced=True),
            handlers=lambda: self._audience.handler_names,
            metrics=metrics,
        )
        if self._sharing.decoded is not None:  # before the handlers: what they read is the newest
            self._members.attach(self._sharing.decoded)
        self.lister: Lister[V] = Lister(
            self._members.cache,
            resource=str(self.scope.resource),
            readiness=CacheReadiness(self, self._members),
            written=self._written,
            decoded=self._sharing.decoded,
        )
        """Reads the cache, and own writes that it has not heard of yet; from any thread."""
        self._key_waits: KeyWaits[V] = KeyWaits(
            self,
            attach=lambda waits: self._members.attach(waits, preload=False),
            detach=self._members.detach,
            why_never=self._why_never_synced,
        )

    def _journal_of(self, namespace: str | None) -> Journal:
        return self.journal if self.scope.only(namespace) == self.scope else Journal()

    def _found_large(self) -> None:
        self._audience.count_bytes_nowait()

    def _empty_cache(self) -> Indexer[V]:
        cache: Indexer[V] = Indexer(cast("type[V] | None", self.settings.projection))
        for name, by in self._indexes.items():
            cache.add_index(name, by)
        return cache

    def _overlay_of(self, key: str) -> Overlay[V] | None:
        member = self._members.of(key)
        return None if member is None else member.freshness.overlay

    def _swapped(self) -> None:
        """Let readers see the namespaces that are followed from now on."""
        self.scope = self.scope.within(self._members.namespaces)
        self.name = f"{self.cluster.name}: {self.scope}" if self.cluster.name else str(self.scope)
        self.lister.read_from_nowait(self._members.cache)
        self.journal.note(f"follows {self.scope}")

    @property
    def namespaces(self) -> AbstractSet[str] | None:
        """The namespaces that are followed at this moment, never changed; None for all of them."""
        return self._members.namespaces

    @property
    def settled(self) -> anyio.Event:
        """Is set when the cache has synced, or never will; another one after there is more."""
        return self._members.settled

    async def set_namespaces(self, namespaces: Iterable[str]) -> None:
        """Follow these namespaces from now on, and no others.

        What was followed before goes on undisturbed. A namespace that is new is loaded, and its
        objects are told as additions; until then a read of everything raises, one of any other
        namespace does not: `wait_for_cache_sync` waits for it. A namespace that is not among these
        is stopped; its objects leave the cache, and handlers are told of deletions of what
        `may_still_exist`. It returns when that is so: the caches of new ones may still be empty.
        Where several set them at once, the last one decides.

        Args:
            namespaces: all that are wanted; none at all is allowed, too.

        Raises:
            InvalidArgumentError: one of them is no namespace; or the informer follows all
                namespaces, or those that a selector chooses.
            InformerConflictError: a factory has handed the informer out in several places.
            LifecycleError: the informer is closed, or runs in another event loop.
            InternalError: something inside crashed.

        Cancellation:
            Only the wait ends: what was wanted comes true all the same.
        """
        self._lifetime.check_usable()
        wanted = checked_namespaces(namespaces, may_be_none=True)
        if wanted is None or self._members.is_everywhere or self._selection is not None:
            raise InvalidArgumentError("namespaces", self._why_fixed(wanted))
        if len(self.call_sites) > 1:
            raise InformerConflictError(
                informer=str(self.scope),
                option="namespaces",
                first_call_site=self.call_sites[0],
                second_call_site=self.call_sites[1],
            )
        self._members.want_nowait(wanted)
        await self._members.wait_applied()
        if self._members.is_outdated:
            self._check_running()

    def _why_fixed(self, wanted: frozenset[str] | None) -> str:
        if wanted is None:
            return "None would follow all of them: ask for another informer"
        if self._selection is not None:
            chosen = self.scope.namespace_selector
            return f"{self.name} follows those that {chosen} chooses: change their labels"
        return f"{self.name} follows all of them by a single watch: ask for another informer"

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; it cannot be started again."""
        return self._lifetime.is_closed

    @property
    def mutation_detector(self) -> MutationDetector:
        """Watches over what the readers of this informer share."""
        return self._sharing.detector

    def add_index(self, name: str, by: str | IndexFunction) -> None:
        """Add an index to the cache, at any time; what is cached is indexed at once.

        That is one step of the event loop: add indexes before the start where the cache is large.
        A hundred thousand objects take it a tenth of a second, a third if the path is in no view.

        Args:
            name: the name to read it by.
            by: a field path such as `"spec.nodeName"`, or a pure function of an object.

        Raises:
            InvalidArgumentError: the name is taken, or metadata is all that is kept and the path
                is outside of it.
            InvalidArgumentError: the path cannot be read.
            LifecycleError: the informer runs in another event loop.
        """
        self._lifetime.loop.check()
        check_readable(self.settings.memory, by)
        self._members.add_index(name, by)
        self._indexes[name] = by

    def last_good(self, key: str) -> StaleObject[V] | None:
        """Return the last state of an object that could be read, if the cached one cannot.

        Such an object is cached with a `problem`; this is its state before, marked as stale.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Returns:
            None if what is cached is good, or gone, or was never good as far as is remembered.
        """
        member = self._members.of(key)
        return None if member is None else member.reflector.last_good(key)

    def attach_receiver(self, receiver: Receiver[V]) -> None:
        """Tell a receiver of what exists and of every change, in the step of the event itself.

        This is for controllers, which decide before anything is merged. What a receiver raises
        ends the informer, and the time it takes everybody waits: others add an event handler.

        Args:
            receiver: is told on the event loop; if the cache has synced, at once of what exists.

        Raises:
            LifecycleError: the informer is closed, or runs in another event loop.
        """
        self._lifetime.check_usable()
        self._members.attach(receiver)

    def detach_receiver(self, receiver: Receiver[V]) -> None:
        """Tell a receiver nothing any more; one that was never attached is no error.

        A list that is being compared at this moment still tells it the rest of the differences.

        Raises:
            LifecycleError: the informer runs in another event loop.
        """
        self._lifetime.loop.check(may_be_closed=True)
        self._members.detach(receiver)

    def on_namespace_settled(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call a function when all that a namespace holds was told, or the namespace is gone.

        This is for controllers: of a namespace that was left, they then know what is gone.

        Args:
            callback: is called with the name of the namespace on the event loop; must not block.

        Returns:
            A function that ends it.
        """
        return self._members.on_namespace_settled(callback)

    def namespace_is_gone(self, namespace: str) -> bool:
        """Return whether a namespace is known not to exist: then none of its objects does.

        Only an informer with a `namespace_selector` follows Namespaces; others return False.
        """
        return self._selection is not None and self._selection.is_gone(namespace)

    async def _begin(self, group: TaskGroup) -> None:
        self.cluster.observe_writes(self.scope.resource, self._own_writes)
        self._audience.start_nowait(group)
        group.start_soon(self._sharing.run)
        await self._members.begin(group)
        if self._selection is not None:
            self._selection.begin_nowait(
                group,
                self._members.want_nowait,
                on_gone=self._members.namespace_gone_nowait,
                on_crash=self._broken,
            )

    async def _finish(self) -> None:
        if self._selection is not None:
            await self._selection.aclose()
        await self._audience.aclose(self._grace_seconds)

    def _broken(self, error: BaseException) -> None:
        self._lifetime.break_nowait(error)

    def _check_running(self) -> None:
        if self.crash is not None:
            raise self.crash
        if not self.is_running:
            raise LifecycleError(f"the informer of {self.name} is not running: start it first")
        self._lifetime.loop.check()

    def _ended(self, error: InformerError | None) -> None:
        self._let_go_nowait()
        self._key_waits.end_nowait(error)
        self._audience.end_streams_nowait(error)
        if error is not None and self.on_crash is not None:
            self.on_crash()

    def _let_go_nowait(self) -> None:
        """Hear of no writes any more, and let go of everybody who waits."""
        self._members.close_nowait()
        self.cluster.forget_observer(self.scope.resource, self._own_writes)
