"""The order in which waiting keys leave a queue.

The queue never puts a key here twice; an ordering only decides which key is next.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Hashable
from typing import Generic, Protocol, final

from typing_extensions import TypeVar

T = TypeVar("T", bound=Hashable)


class Ordering(Protocol[T]):
    """Waiting keys in an order of their own, each of them once.

    Source:
        client-go util/workqueue/queue.go, Queue.
    """

    @abstractmethod
    def push(self, item: T, /) -> None:
        """Store a key that is not here."""
        ...

    @abstractmethod
    def pop(self) -> T:
        """Remove and return the next key; the queue calls it only if there is one."""
        ...

    @abstractmethod
    def touch(self, item: T, /) -> None:
        """Record that a key that is here was added again."""
        ...

    @abstractmethod
    def __len__(self) -> int: ...


@final
class FIFO(Generic[T]):
    """First come, first served."""

    __slots__ = ("items", "pop", "push")

    def __init__(self) -> None:
        self.items: deque[T] = deque()
        self.push = self.items.append  # the deque's own methods: no Python call in between
        self.pop = self.items.popleft

    def touch(self, item: T, /) -> None:
        """Leave the key in its place."""

    def __len__(self) -> int:
        return len(self.items)
