"""A copy of a resource, built only from handler calls.

A call that contradicts the earlier ones, such as a second add, is recorded.
"""

from __future__ import annotations

from typing import Generic, final

from pyinformer.objects import KubeObject, V


@final
class HandlerMirror(Generic[V]):
    """An event handler that builds a copy of the objects; use `add_event_handler(mirror)`."""

    def __init__(self) -> None:
        self.objects: dict[str, KubeObject[V]] = {}
        self.calls = 0
        self.contradictions: list[str] = []

    def on_add(self, obj: KubeObject[V]) -> None:
        """Store an object, which must be new."""
        self.calls += 1
        known = self.objects.get(obj.key)
        if known is not None:
            self.contradictions.append(f"{obj.key} was added twice")
        self.objects[obj.key] = obj

    def on_update(self, old: KubeObject[V], new: KubeObject[V]) -> None:
        """Replace an object, whose old state must be the stored one."""
        self.calls += 1
        if self.objects.get(new.key) != old or old.metadata.uid != new.metadata.uid:
            self.contradictions.append(
                f"{new.key} was updated from a state that was never delivered"
            )
        self.objects[new.key] = new

    def on_delete(self, obj: KubeObject[V]) -> None:
        """Remove an object, which must be stored."""
        self.calls += 1
        known = self.objects.pop(obj.key, None)
        if known is None or known.metadata.uid != obj.metadata.uid:
            self.contradictions.append(f"{obj.key} was deleted but did not exist")
