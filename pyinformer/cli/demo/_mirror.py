"""A copy of a resource that knows only what a handler is told.

What enters are the calls of an informer; what stays is what they add up to. A call that cannot
follow on those before it (a second add, an update of something else) is kept as a contradiction.
"""

from __future__ import annotations

from typing import Generic, final

from pyinformer.apimachinery import KubeObject, V


@final
class Mirror(Generic[V]):
    """An event handler that builds a mirror; add it with `add_event_handler(mirror)`."""

    def __init__(self) -> None:
        self.objects: dict[str, KubeObject[V]] = {}
        self.calls = 0
        self.contradictions: list[str] = []

    def on_add(self, obj: KubeObject[V]) -> None:
        """Take an object that must be unknown."""
        self.calls += 1
        known = self.objects.get(obj.key)
        if known is not None:
            self.contradictions.append(f"{obj.key} was added twice")
        self.objects[obj.key] = obj

    def on_update(self, old: KubeObject[V], new: KubeObject[V]) -> None:
        """Take a change of what was told last."""
        self.calls += 1
        if self.objects.get(new.key) != old or old.metadata.uid != new.metadata.uid:
            self.contradictions.append(f"{new.key} was updated from a state that was never told")
        self.objects[new.key] = new

    def on_delete(self, obj: KubeObject[V]) -> None:
        """Forget an object that must be known."""
        self.calls += 1
        known = self.objects.pop(obj.key, None)
        if known is None or known.metadata.uid != obj.metadata.uid:
            self.contradictions.append(f"{obj.key} was deleted and was not there")
