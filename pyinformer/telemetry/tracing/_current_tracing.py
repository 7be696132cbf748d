"""The tracing system of the reconcile that runs in the current context.

Tasks copy the context in which they are started. Those that outlive a reconcile, such as an
informer's, are started outside of its span.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.telemetry.tracing._fenced_tracing import FencedTracing


@contextmanager
def outside_reconcile() -> Iterator[None]:
    """Start tasks in this block without the span of the reconcile that starts them.

    Everything else in the context stays, such as the term of leader election that guards writes.
    """
    tracing = TRACED_BY.get()
    if tracing is None:
        yield
        return
    token = TRACED_BY.set(None)
    resume = tracing.suspend()
    try:
        yield
    finally:
        resume()
        TRACED_BY.reset(token)


TRACED_BY: Final[ContextVar[FencedTracing | None]] = ContextVar(
    "pyinformer traced by", default=None
)
"""None outside of traced reconciles."""
