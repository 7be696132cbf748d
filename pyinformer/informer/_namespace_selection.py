"""Namespaces chosen by their labels: an informer of all Namespaces, of which some match.

All Namespaces are followed and their labels compared here: a watch with the selector would report
the deletion of a Namespace and a change of its labels by the same event. While the right to watch
Namespaces is lost, the last choice stays in force and the state is `forbidden`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from pyinformer.apimachinery import Deleted
from pyinformer.informer.delivery import newest

if TYPE_CHECKING:
    from collections.abc import Collection

    from anyio.abc import TaskGroup

    from pyinformer.apimachinery import Event, JSONObject, KubeObject, LabelSelector
    from pyinformer.informer._core import InformerCore
    from pyinformer.informer._lifecycle import InformerLifecycle
    from pyinformer.informer._namespace_caches import NamespaceCaches
    from pyinformer.informer._status import NamespaceStatus
    from pyinformer.reflector import ReflectorState


@final
class NamespaceSelection:
    """Sets the namespaces of an informer; a receiver of the informer of Namespaces.

    Args:
        namespaces: the informer of all Namespaces.
        selector: chooses among them.
    """

    def __init__(self, namespaces: InformerCore[Any], selector: LabelSelector) -> None:
        self._informer = namespaces
        self._matches = selector.matches
        self._is_chosen: dict[str, bool] = {}
        """Of each Namespace that exists."""
        self._is_complete = False
        self._caches: NamespaceCaches[Any] | None = None

    def begin_nowait(
        self, group: TaskGroup, caches: NamespaceCaches[Any], lifecycle: InformerLifecycle
    ) -> None:
        """Begin to set the namespaces.

        Args:
            group: where the informer of Namespaces starts.
            caches: the caches of the chosen namespaces.
            lifecycle: ends if the informer of Namespaces crashes.
        """
        self._caches = caches
        informer = self._informer

        def crashed() -> None:
            lifecycle.break_nowait(informer.lifecycle.crash or RuntimeError("no reason is known"))

        informer.on_crash = crashed
        informer.attach_receiver(self)
        informer.start_nowait(group)

    async def aclose(self) -> None:
        """Stop following Namespaces.

        Cancellation:
            Takes effect when that has ended, which the grace bounds.
        """
        self._caches = None
        await self._informer.aclose()

    @property
    def state(self) -> ReflectorState:
        """The state of the informer of Namespaces."""
        return self._informer.introspection.state

    def age_seconds(self) -> float | None:
        """Return how long ago the choice was last proven; None if never."""
        return self._informer.introspection.age_seconds()

    def status(self) -> NamespaceStatus:
        """Return the status of the choice; callable from any thread."""
        return self._informer.caches.all[0].status()

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
