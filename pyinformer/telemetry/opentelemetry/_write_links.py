"""The spans of recent writes by the versions they wrote: a reconcile links to its causes."""

from __future__ import annotations

from collections import OrderedDict
from threading import RLock
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.trace import SpanContext

    from pyinformer.telemetry.tracing import WrittenVersion


@final
class WriteLinks:
    """Remembers the spans of the newest writes; may be used from any thread.

    Args:
        limit: how many spans are remembered.
    """

    __slots__ = ("_limit", "_lock", "_spans", "dropped")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = RLock()
        self._spans: OrderedDict[WrittenVersion, SpanContext] = OrderedDict()
        self.dropped: int = 0
        """Writes that were forgotten because newer ones took their place."""

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, version: WrittenVersion, span: SpanContext) -> None:
        """Remember the first span that has written a version: later ones changed nothing."""
        with self._lock:
            self._spans.setdefault(version, span)
            if len(self._spans) > self._limit:
                self._spans.popitem(last=False)
                self.dropped += 1

    def of(self, versions: Iterable[WrittenVersion]) -> tuple[SpanContext, ...]:
        """Return the spans that wrote these versions, each once."""
        if not self._spans:
            return ()
        found = (self._spans.get(version) for version in versions)
        return tuple({span.span_id: span for span in found if span is not None}.values())
