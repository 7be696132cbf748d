"""What the caches of one informer share: its server, settings, indexes and own writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, cast, final

from pyinformer._runtime.tasks import Turn
from pyinformer.cache.informer._own_writes import RecentWrites
from pyinformer.cache.informer._state_changes import StateCallbacks
from pyinformer.cache.store import Indexer, OverlayEntries
from pyinformer.objects import V, is_view

if TYPE_CHECKING:
    from pyinformer.cache.informer._lifecycle import InformerLifecycle
    from pyinformer.cache.informer._metrics import InformerMetrics
    from pyinformer.cache.informer._settings import InformerSettings
    from pyinformer.cache.reflector import ReflectorOptions
    from pyinformer.cache.store import IndexFunction
    from pyinformer.client.cluster import Cluster


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InformerContext(Generic[V]):
    """The settings and the state that the caches of one informer share."""

    cluster: Cluster
    settings: InformerSettings
    options: ReflectorOptions
    metrics: InformerMetrics
    lifecycle: InformerLifecycle
    indexes: dict[str, str | IndexFunction] = field(default_factory=dict)
    """The indexes by name; each new cache gets all of them."""
    entries: OverlayEntries[V] = field(default_factory=OverlayEntries)
    """The own writes that no watch has delivered yet; each cache adds its own."""
    recent_writes: RecentWrites = field(default_factory=RecentWrites)
    state_callbacks: StateCallbacks = field(default_factory=StateCallbacks)
    """Called at each change of state of any cache."""
    turn: Turn = field(default_factory=Turn)
    """The reflectors end it when they have applied all that arrived at once; it calls handlers."""

    def new_indexer(self) -> Indexer[V]:
        """Return an empty cache with all indexes."""
        model = self.settings.model  # any other than a view is decoded when it is read
        indexer: Indexer[V] = Indexer(cast("type[V]", model) if is_view(model) else None)
        for name, by in self.indexes.items():
            indexer.add_index(name, by)
        return indexer
