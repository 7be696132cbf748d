"""What a reconcile may return.

Nothing, which is success; or a Result, which is success and a wish. Failure is raised, so that it
always wins over a wish: any error is retried with backoff, `RetryAfter` at the time that it names,
`TerminalError` not at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, final

from pyinformer.apimachinery import InvalidTypeError, KubeObject, V, check_seconds
from pyinformer.sources._request import Request


@final
@dataclass(frozen=True, slots=True)
class Result:
    """Success, and when to come back.

    Raises:
        InvalidArgumentError: a negative or endless time.
        InvalidTypeError: the priority is no whole number.
    """

    requeue_after_seconds: float | None = None
    """When to reconcile again; None for whenever something happens. The backoff is forgotten in
    either case, and whatever happens before makes it come sooner."""
    priority: int | None = None
    """The priority of coming back; None keeps the one that the request had."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.requeue_after_seconds is not None:
            check_seconds("requeue_after_seconds", self.requeue_after_seconds)
        if self.priority is not None and not isinstance(self.priority, int):
            reason = f"must be a whole number, not {type(self.priority).__name__}"
            raise InvalidTypeError("priority", reason)


Returned: TypeAlias = Result | None
Reconcile: TypeAlias = Callable[
    [Request, KubeObject[V] | None], Awaitable[Result | None] | Result | None
]
"""Makes the world as the object wishes it; None stands for an object that is gone.

An object that a selector of the primary leaves out cannot be told from one that is gone: a mapping
or a timer must not name such, and owners of that sort are not requested. What it raises is a
failure, whatever it is, but for SystemExit and KeyboardInterrupt, which end the program.

A plain function runs in a thread. It is never called twice at once for one key."""
