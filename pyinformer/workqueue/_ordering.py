"""In which order waiting keys leave: what a queue asks of an ordering, and the usual one.

What enters is a key that has begun to wait; what leaves is the one whose turn it is. The queue
sees to it that no key stands here twice; an ordering only decides who comes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, Protocol, final

from typing_extensions import TypeVar

T = TypeVar("T", bound=Hashable)


class Ordering(Protocol[T]):
    """Keys that wait, each of them once.

    Source:
        client-go util/workqueue/queue.go, Queue.
    """

    def push(self, item: T, /) -> None:
        """Take a key that is not here."""
        ...

    def pop(self) -> T:
        """Give the key whose turn it is; there is one."""
        ...

    def touch(self, item: T, /) -> None:
        """Take note that a key that is here was added again."""
        ...

    def __len__(self) -> int: ...


@final
class FIFO(Generic[T]):
    """First come, first served: a deque behind the three words of an ordering."""

    __slots__ = ("items", "pop", "push")

    def __init__(self) -> None:
        self.items: deque[T] = deque()
        self.push = self.items.append  # the deque's own methods: no Python call in between
        self.pop = self.items.popleft

    def touch(self, item: T, /) -> None:
        """Leave the key where it stands."""

    def __len__(self) -> int:
        return len(self.items)
