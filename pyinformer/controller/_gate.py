"""Which requests of a controller this process may handle, where replicas share them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyinformer.client.transport import WriteGuard
    from pyinformer.controller.sources import RequestId


class Gate(Protocol):
    """Admits the requests that are this process's, as long as they are."""

    def admits(self, request_id: RequestId) -> bool:
        """Return whether a request may wait in the queue; from any thread."""
        ...

    def guard_of(self, request_id: RequestId) -> WriteGuard | None:
        """Return what guards the writes of a reconcile that starts now; None if it may not start.

        On the loop's thread.
        """
        ...

    def on_started(self) -> None:
        """Record that the controller's sources have enqueued what exists, and workers run."""
        ...
