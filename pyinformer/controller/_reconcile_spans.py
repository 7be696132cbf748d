"""The span of each reconcile: why it began, how long it waited, and how it ended.

A span has no content of an object, and of an error only what a log line would show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from pyinformer._runtime.tasks import name_of, trace_text
from pyinformer.controller._failure_text import text_of
from pyinformer.controller._request_queue import DueTimes
from pyinformer.controller._requeue_policy import only_cause
from pyinformer.telemetry.tracing import TRACED_BY, AttributeValue, SpanError, WrittenVersion

if TYPE_CHECKING:
    from pyinformer._runtime.tasks import LogExceptions
    from pyinformer.controller._request_queue import RequestQueue
    from pyinformer.controller._requeue_policy import Outcome, RequeuePolicy
    from pyinformer.controller.sources import Request
    from pyinformer.telemetry.tracing import FencedSpan, FencedTracing

_CANCELLED: Final = "cancelled"


@final
class ReconcileSpan:
    """The span of one reconcile.

    Args:
        span: of the tracing system.
        tracing: the tracing system.
        shown: whether the texts of foreign errors are shown.
    """

    __slots__ = ("_shown", "_span", "outcome")

    def __init__(self, span: FencedSpan, tracing: FencedTracing, shown: LogExceptions) -> None:
        self._span = span
        TRACED_BY.set(tracing)
        self._shown = shown
        self.outcome: Outcome | None = None
        """How the reconcile ended; None if it was cancelled."""

    def end(self) -> None:
        """End the span, in the task in which it was started."""
        TRACED_BY.set(None)  # without a token: an abandoned task is closed in another context
        outcome = self.outcome
        if outcome is None:
            self._span.end({"pyinformer.reconcile.outcome": _CANCELLED}, None)
            return
        attributes: dict[str, AttributeValue] = {"pyinformer.reconcile.outcome": outcome.kind}
        if outcome.after_seconds is not None:
            attributes["pyinformer.reconcile.after_seconds"] = outcome.after_seconds
        if self._span.is_recording:
            reasons = tuple(map(str, outcome.request.reasons))
            attributes["pyinformer.reconcile.reasons"] = reasons
        self._span.end(attributes, None if outcome.error is None else self._error_of(outcome.error))

    def _error_of(self, error: BaseException) -> SpanError | None:
        if not self._span.is_recording:
            return None
        calls = str(trace_text(error)) if self._shown == "full" else ""
        return SpanError(name_of(type(only_cause(error))), text_of(error, self._shown), calls)


@final
class ReconcileSpans:
    """Starts the spans of one controller's reconciles.

    Args:
        controller: its name.
        tracing: the tracing system.
        shown: whether the texts of foreign errors are shown.
        requests: the controller's queue.
        outcomes: knows which requests have failed.
    """

    __slots__ = ("_controller", "_due", "_name", "_outcomes", "_shown", "_taken", "_tracing")

    def __init__(
        self,
        controller: str,
        tracing: FencedTracing,
        shown: LogExceptions,
        *,
        requests: RequestQueue,
        outcomes: RequeuePolicy,
    ) -> None:
        self._controller = controller
        self._name = f"reconcile {controller}"
        self._tracing = tracing
        self._shown = shown
        self._taken = requests.queue.taken
        self._due = requests.due = DueTimes()
        self._outcomes = outcomes

    def start(self, request: Request) -> ReconcileSpan | None:
        """Start the span of a reconcile, in its task; None if the tracing system failed."""
        request_id = request._id
        attributes: dict[str, AttributeValue] = {
            "pyinformer.controller": self._controller,
            "pyinformer.reconcile.key": request.key,
            "pyinformer.reconcile.attempt": self._outcomes.failures_of(request) + 1,
            "pyinformer.reconcile.priority": self._taken.get(request_id, 0),
        }
        queue_seconds = self._due.take(request_id)
        if queue_seconds is not None:
            attributes["pyinformer.reconcile.queue_seconds"] = queue_seconds
        if request.cluster:
            attributes["k8s.cluster.name"] = request.cluster
        if request.namespace:
            attributes["k8s.namespace.name"] = request.namespace
        causes = (WrittenVersion(one.key, one.resource_version) for one in request.reasons)
        span = self._tracing.start_reconcile(self._name, attributes, causes)
        return None if span is None else ReconcileSpan(span, self._tracing, self._shown)
