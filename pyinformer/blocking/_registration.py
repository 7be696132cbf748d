"""The blocking twin of Registration."""

from __future__ import annotations

from typing import Final, final

from pyinformer.apimachinery import V
from pyinformer.blocking._proxy import SyncProxy, synchronous
from pyinformer.informer import Registration


@final
class BlockingRegistration(SyncProxy[Registration[V]]):
    """A handler of an informer, to wait for or to remove; made by `add_event_handler`.

    Args:
        thread: runs its event loop.
        asynchronous: the registration on that loop.
    """

    @property
    def name(self) -> str:
        """The handler's name."""
        return self.asynchronous.name

    @property
    def has_synced(self) -> bool:
        """Whether the handler was called for every object that existed when it was added."""
        return self.asynchronous.has_synced

    wait_synced: Final = synchronous(Registration.wait_synced)
    """Wait until the handler was called for every object that existed when it was added."""

    remove: Final = synchronous(Registration.remove)
    """Stop calling the handler at once, and wait for the call in flight."""

    def __repr__(self) -> str:
        return f"<BlockingRegistration of {self.name}>"
