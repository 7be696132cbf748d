"""A list on the server as a plain iterator, for threads that may block."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, Self, TypeVar, final

if TYPE_CHECKING:
    from pyinformer.blocking._sync_proxy import LoopCalls
    from pyinformer.client.cluster import ObjectList

T = TypeVar("T")


@final
class BlockingObjectList(Generic[T]):
    """Iterates over a list on the server: `for pod in cluster.list("v1", "pods")`.

    Made by `cluster.list()`. It can be read once. A page is requested when the objects of the one
    before are used up, and all pages show the same state.

    Args:
        thread: runs the event loop of the cluster.
        asynchronous: the list on that loop.
    """

    def __init__(self, thread: LoopCalls, asynchronous: ObjectList[T]) -> None:
        self._thread = thread
        self.asynchronous: ObjectList[T] = asynchronous
        """The list, for use on the event loop."""
        self._waiting: deque[T] = deque()

    @property
    def resource_version(self) -> str:
        """The version of the list; empty until its first page has arrived."""
        return self.asynchronous.resource_version

    @property
    def remaining_item_count(self) -> int | None:
        """How many objects follow the last page, if the server named it."""
        return self.asynchronous.remaining_item_count

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        while True:
            try:
                return self._waiting.popleft()  # one step: several threads may share a list
            except IndexError:
                if not self._thread.call(self._fill):
                    raise StopIteration from None

    def next_page(self) -> list[T]:
        """Request the next page; the list is empty if there is none.

        Raises:
            ResourceExpiredError: the server no longer has the list's version.
            NotFoundError: the server does not serve the resource; the message has similar names.
            InvalidObjectError: an object has no name, or does not fit the model.
            APIStatusError: the server refused.
            ProtocolError: the server answered with something else.
            TransportError: the server was not reached, or its response did not arrive.
        """
        if not self._waiting:
            self._thread.call(self._fill)
        page: list[T] = []
        with suppress(IndexError):
            while True:
                page.append(self._waiting.popleft())
        return page

    async def _fill(self) -> bool:
        """Read a page, and return whether there was one; no interrupted call loses it."""
        page = await self.asynchronous.next_page()
        self._waiting.extend(page)
        return bool(page)
