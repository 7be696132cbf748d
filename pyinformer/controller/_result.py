"""What a reconcile function may return: None, or a Result that asks to be called again.

Both are successes. A failure is raised: any error is retried with backoff, `RetryAfter` at its
time, `TerminalError` not at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from pyinformer.controller.sources import Request
from pyinformer.errors import InvalidTypeError
from pyinformer.objects import KubeObject, V, check_seconds


@final
@dataclass(frozen=True, slots=True)
class Result:
    """A success, and when to reconcile again.

    Raises:
        InvalidArgumentError: the time is negative or not finite.
        InvalidTypeError: the priority is not an integer, or `waiting_for` is not text.
    """

    requeue_after_seconds: float | None = None
    """When to reconcile again; None for the next event. An earlier event reconciles the object
    earlier. The backoff ends in either case."""
    priority: int | None = None
    """The priority of that reconcile; None keeps the priority of the request."""
    waiting_for: str = ""
    """What the object waits for, as one sentence, such as `StatefulSet shop/orders: 1 of 3 replicas
    are available`; the status shows it, and for how long. Empty if nothing is awaited. It is for
    people, so it must not contain secrets."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.requeue_after_seconds is not None:
            check_seconds("requeue_after_seconds", self.requeue_after_seconds)
        if self.priority is not None and not isinstance(self.priority, int):
            reason = f"must be an integer, not {type(self.priority).__name__}"
            raise InvalidTypeError("priority", reason)
        if not isinstance(self.waiting_for, str):
            reason = f"must be text, not {type(self.waiting_for).__name__}"
            raise InvalidTypeError("waiting_for", reason)


UNDECIDED: Final = Result()
"""Returned by a reconcile of which nothing is known yet: the task that it has started may still
fail. Failures stay counted, and a pending retry stays pending."""

Reconcile: TypeAlias = Callable[
    [Request, KubeObject[V] | None], Awaitable[Result | None] | Result | None
]
"""Brings the cluster to the object's desired state; None stands for an object that is gone.

An object outside the selectors of the primary looks as if it were gone: mappings and timers must
not request such objects, and such owners are not requested. Every exception is a failure, except
SystemExit and KeyboardInterrupt, which end the program.

A plain function runs in a thread. Two calls for one key never run at once."""


def invalid_result(name: str, returned: object) -> InvalidTypeError:
    """Return the error about what a function has returned in place of None or a Result.

    Args:
        name: of the function.
        returned: what it has returned.
    """
    cure = "it must be None or a Result"
    if isinstance(returned, BaseException):
        cure = "an error must be raised"
    return InvalidTypeError("result", f"{name} returned {type(returned).__name__}; {cure}")
