"""A handler's registration: what the one who added it holds in hand.

It tells whether the handler has heard of everything that existed, and removes it: from that moment
no call begins. It holds no state of its own, so any number of holders agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, final

from pyinformer.apimachinery import V, check_seconds
from pyinformer.informer._listener import Listener
from pyinformer.tasks import DEFAULT_GRACE_SECONDS


@final
class Registration(Generic[V]):
    """Made by `add_event_handler`."""

    def __init__(
        self,
        listener: Listener[V],
        detach: Callable[[Listener[V]], None],
        *,
        owner: object,
        check_loop: Callable[[], None] = lambda: None,
    ) -> None:
        self._listener = listener
        self._detach = detach
        self._owner = owner
        self._check_loop = check_loop

    @property
    def name(self) -> str:
        """The handler's name."""
        return self._listener.name

    @property
    def has_synced(self) -> bool:
        """Whether the handler has been told of everything that existed when it was added."""
        return self._listener.has_synced

    def is_of(self, owner: object) -> bool:
        """Tell whether it was made by this owner."""
        return self._owner is owner

    async def wait_synced(self, *, timeout_seconds: float = 30.0) -> None:
        """Wait until the handler has been told of everything that existed.

        Args:
            timeout_seconds: how long to wait.

        Raises:
            CacheSyncTimeoutError: it took longer.
            LifecycleError: the handler was removed before, or the informer runs in another event
                loop.
            InvalidArgumentError: the timeout is negative or no number.

        Cancellation:
            Safe.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        self._check_loop()
        await self._listener.wait_synced(timeout_seconds=timeout_seconds)

    async def remove(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Tell the handler nothing any more, from this moment, and wait for the call in flight.

        A call that does not end is named in the log and abandoned. Called from inside the handler
        itself, this returns at once. A second call only waits.

        Args:
            grace_seconds: how long to wait.

        Raises:
            InvalidArgumentError: the grace is negative or no number; nothing was removed.
            LifecycleError: the informer runs in another event loop; nothing was removed.

        Cancellation:
            Takes effect when the wait is over; the handler is removed in any case.
        """
        check_seconds("grace_seconds", grace_seconds)
        self._check_loop()
        self._detach(self._listener)
        await self._listener.remove(grace_seconds)

    def __repr__(self) -> str:
        return f"<Registration of {self.name}>"
