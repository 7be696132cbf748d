"""One of client-go's queues between the reflector and the cache, for those who want its semantics.

On one event loop such a queue is a pass-through: what the reflector hands over is queued, taken
out again and applied within the same step, so the guard never judges a key that has deltas queued.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, final

from pyinformer.apimachinery import KubeObject, V
from pyinformer.deltas import DeltaFIFO, DeltaType, RealFIFO, events_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyinformer.apimachinery import Event
    from pyinformer.informer._settings import QueueKind
    from pyinformer.informer._store_sink import StoreSink
    from pyinformer.reflector import Sink


@final
class QueuedSink(Generic[V]):
    """Queues what arrives, and applies it in the queue's order.

    Args:
        queue: what it passes through.
        distribution: where it is applied.
        selective: a selector is in force: who leaves may still exist.
    """

    def __init__(
        self,
        queue: RealFIFO[V] | DeltaFIFO[V],
        distribution: StoreSink[V],
        *,
        selective: bool = False,
    ) -> None:
        self._queue = queue
        self._distribution = distribution
        self._selective = selective
        self.get = distribution.get
        self.keys = distribution.keys

    def apply_nowait(self, event: Event[V]) -> None:
        """Queue one change and apply it."""
        self._queue.apply_nowait(event)
        for _ in self._drain():
            pass

    def replace_nowait(
        self, objects: Mapping[str, KubeObject[V]], resource_version: str
    ) -> Iterator[None]:
        """Queue a complete list and apply it in short steps."""
        yield from self._queue.replace_nowait(objects, resource_version)
        yield from self._drain()
        self._distribution.complete_nowait(resource_version)

    def bookmark_nowait(self, resource_version: str) -> None:
        """Queue a bookmark and apply it."""
        self._queue.bookmark_nowait(resource_version)
        for _ in self._drain():
            pass
        self._distribution.bookmark_nowait(resource_version)

    def _drain(self) -> Iterator[None]:
        may_go_back = self._distribution.may_go_back()
        if may_go_back and isinstance(self._queue, DeltaFIFO):  # it applies a list piece by piece
            self._distribution.begin_epoch_nowait()
        for delta in self._queue.drain_nowait():
            if delta.type is DeltaType.REPLACED_ALL:
                yield from self._distribution.replace_nowait(delta.objects, delta.resource_version)
                continue
            events = events_of(
                delta,
                self._distribution,
                may_still_exist=self._selective,
                may_go_back=may_go_back,
            )
            for event in events:
                self._distribution.apply_nowait(event)
                yield


def sink_of(kind: QueueKind, distribution: StoreSink[V], *, selective: bool = False) -> Sink[V]:
    """Return what a reflector feeds."""
    if kind == "direct":
        return distribution
    queue: RealFIFO[V] | DeltaFIFO[V] = (
        RealFIFO(known_objects=distribution)
        if kind == "real_fifo"
        else DeltaFIFO(known_objects=distribution)
    )
    return QueuedSink(queue, distribution, selective=selective)
