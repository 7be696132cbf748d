"""An informer without a server, and a queue that only records, for tests of sources.

Objects and events of the test go through the real cache and the real store sink, so a source gets
what a server would send it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyinformer.cache.informer import StoreSink
from pyinformer.cache.store import Indexer, Lister
from pyinformer.objects import (
    Added,
    Deleted,
    Event,
    GroupVersionResource,
    KubeObject,
    ObjectCodec,
    Updated,
)
from tests.sinks import SinkOwner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyinformer.cache.informer import Receiver
    from pyinformer.cache.store import IndexFunction
    from pyinformer.controller.sources import Reason, Request

_CODEC: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("v1", "configmaps"))


def made(
    name: str,
    *,
    namespace: str = "default",
    version: int = 1,
    uid: str = "",
    owners: Iterable[dict[str, object]] = (),
    labels: dict[str, str] | None = None,
    fields: dict[str, object] | None = None,
    **meta: object,
) -> KubeObject:
    """Return a config map.

    Args:
        name: its name.
        namespace: empty for none.
        version: its resource version; 0 for none.
        uid: made of its name if empty.
        owners: its owner references.
        labels: its labels.
        fields: what it has beside its metadata.
        meta: further fields of its metadata.
    """
    metadata = {
        "name": name,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version) if version else "",
        "ownerReferences": list(owners),
        "labels": labels or {},
        **({"namespace": namespace} if namespace else {}),
        **meta,
    }
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **(fields or {})}
    text = json.dumps(body).encode()
    return _CODEC.decode(text, 0, len(text))


def owner(
    name: str, *, api_version: str = "apps/v1", kind: str = "Deployment", controller: bool = True
) -> dict[str, object]:
    """Return an owner reference."""
    reference: dict[str, object] = {"name": name, "uid": f"uid-{name}"}
    return {**reference, "apiVersion": api_version, "kind": kind, "controller": controller}


class FedInformer:
    """A cache and its sink, filled by the test."""

    def __init__(self, scope: str = "configmaps.v1") -> None:
        self.scope = scope
        self.is_chosen_by_labels = False
        self.settled: list[Callable[[str], None]] = []
        """Called with the name of a namespace that is complete, or gone."""
        self._indexer: Indexer[None] = Indexer()
        owner = SinkOwner()
        self.crashes: list[Exception] = owner.crashes
        """What a receiver let escape; a source lets nothing escape."""
        self._store_sink: StoreSink[None] = StoreSink(self._indexer, owner)
        self.lister: Lister[None] = Lister(self._indexer, resource=scope)

    @property
    def _core(self) -> FedInformer:
        return self

    def attach_receiver(self, receiver: Receiver[None]) -> None:
        """Attach, as an informer does."""
        self._store_sink.attach(receiver)

    def detach_receiver(self, receiver: Receiver[None]) -> None:
        """Detach, as an informer does."""
        self._store_sink.detach(receiver)

    def on_namespace_settled(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Keep what an informer would call."""
        self.settled.append(callback)
        return lambda: self.settled.remove(callback)

    def is_gone(self, namespace: str) -> bool:
        """Know of no namespace that is gone."""
        return False

    def add_index(self, name: str, by: IndexFunction) -> None:
        """Add an index, as an informer does."""
        self._indexer.add_index(name, by)

    def load(self, *objects: KubeObject) -> None:
        """Take a complete list."""
        for _ in self._store_sink.replace_nowait({obj.key: obj for obj in objects}, "1"):
            pass

    def apply(self, event: Event[None]) -> None:
        """Take one event."""
        self._store_sink.apply_nowait(event)

    def add(self, obj: KubeObject) -> None:
        """Take an object that appeared."""
        self.apply(Added(obj))

    def update(self, new: KubeObject) -> None:
        """Take an object's new state."""
        self.apply(Updated(self.lister[new.key], new))

    def delete(self, key: str) -> None:
        """Take a deletion."""
        self.apply(Deleted(self.lister[key]))


@dataclass
class Noted:
    """A queue that merges nothing."""

    lines: list[str] = field(default_factory=list)
    """Such as `default/a updated 0`: the request, why, and the priority."""
    reasons: list[Reason] = field(default_factory=list)

    def __call__(self, request: Request, reason: Reason, *, priority: int) -> None:
        """Note one request."""
        self.lines.append(f"{request} {reason.event} {priority}")
        self.reasons.append(reason)

    def take(self) -> list[str]:
        """Return what was noted since the last call."""
        lines, self.lines = self.lines, []
        return lines
