"""Namespaces chosen by their labels: a receiver of an informer of all Namespaces.

All Namespaces are followed and their labels compared here: a watch with the selector would report
the deletion of a Namespace and a change of its labels by the same event. While the right to watch
Namespaces is lost, the last choice stays in force and the state is `forbidden`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from pyinformer.cache.informer.delivery import newest
from pyinformer.objects import Deleted

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyinformer.cache.informer._namespace_caches import NamespaceCaches
    from pyinformer.objects import Event, JSONObject, KubeObject, LabelSelector


@final
class NamespaceSelection:
    """Sets the namespaces of an informer; a receiver of the informer of Namespaces.

    Args:
        selector: chooses among all Namespaces.
    """

    def __init__(self, selector: LabelSelector) -> None:
        self._matches = selector.matches
        self._is_chosen: dict[str, bool] = {}
        """Of each Namespace that exists."""
        self._is_complete = False
        self._caches: NamespaceCaches[Any] | None = None

    def begin_nowait(self, caches: NamespaceCaches[Any]) -> None:
        """Set the namespaces of these caches from now on."""
        self._caches = caches

    def end_nowait(self) -> None:
        """Leave the namespaces as they are."""
        self._caches = None

    def is_gone(self, name: str) -> bool:
        """Return whether a Namespace is known not to exist."""
        return self._is_complete and name not in self._is_chosen

    def put_nowait(self, event: Event[Any]) -> None:
        """Record that a Namespace was created or deleted, or that its labels may have changed."""
        was_chosen = self._is_chosen.get(event.key, False)
        is_chosen = False
        if isinstance(event, Deleted):
            self._is_chosen.pop(event.key, None)
        else:
            is_chosen = self._is_chosen[event.key] = self._matches(newest(event).metadata.labels)
        if is_chosen != was_chosen:
            self._apply()
        if isinstance(event, Deleted) and self._caches is not None:
            self._caches.on_namespace_gone(event.key)

    def preload_nowait(self, objects: Collection[KubeObject[Any]]) -> None:
        """Record the Namespaces that exist already."""
        self._is_chosen.update((obj._key, self._matches(obj.metadata.labels)) for obj in objects)

    def on_initial_list_complete(self) -> None:
        """Record that all Namespaces are known."""
        self._is_complete = True
        self._apply()

    def on_missed_state(self, was: KubeObject[Any], now: KubeObject[Any] | None) -> None:
        """Do nothing: what this process writes comes as an event, too."""

    def _apply(self) -> None:
        if self._is_complete and self._caches is not None:
            chosen = [name for name, is_chosen in self._is_chosen.items() if is_chosen]
            self._caches.set_wanted(chosen)


def labels_only(obj: JSONObject) -> JSONObject:
    """Keep of a Namespace only what chooses it: many may not be chosen."""
    meta = obj["metadata"]
    kept = {
        name: meta[name] for name in ("name", "uid", "resourceVersion", "labels") if name in meta
    }
    return {**obj, "metadata": kept}
