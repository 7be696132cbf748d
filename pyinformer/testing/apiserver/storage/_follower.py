"""A second watch cache over the same data, which may lag behind.

What enters are the changes of a storage, in order; what leaves is a storage of its own that has
some or all of them. While it is held, changes wait, and all that is read from it is of the past: so
do the kube-apiservers of one etcd differ for a moment, each consistent in itself.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias, final

from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage._changes import Change
from pyinformer.testing.apiserver.storage._storage import SavedState, Storage

_Waiting: TypeAlias = tuple[ResourceType, Change] | int


@final
class Follower:
    """Follows a storage into one of its own.

    Args:
        leader: what is followed from now on.
        storage: an empty one, which nobody else writes.
    """

    def __init__(self, leader: Storage, storage: Storage) -> None:
        self._leader = leader
        self.storage = storage
        self._waiting: deque[_Waiting] = deque()
        self._is_held = False
        with leader.lock:
            storage.restore(leader.save())
            leader.followers = (*leader.followers, self)

    @property
    def lag(self) -> int:
        """How many changes wait."""
        return len(self._waiting)

    def hold(self) -> None:
        """Let changes wait from now on."""
        with self._leader.lock:
            self._is_held = True

    def release(self, changes: int | None = None) -> None:
        """Take some of the changes that wait; None takes all, and those to come at once."""
        with self._leader.lock:
            count = len(self._waiting) if changes is None else min(changes, len(self._waiting))
            for _ in range(count):
                self._apply(self._waiting.popleft())
            if changes is None:
                self._is_held = False

    def take(self, waiting: _Waiting) -> None:
        """Take a change, or a revision without one; for the leader, under its lock."""
        if self._is_held:
            self._waiting.append(waiting)
        else:
            self._apply(waiting)

    def restore(self, saved: SavedState, bump_revision: int) -> None:
        """Go back with the leader; for it, under its lock."""
        self._waiting.clear()
        self.storage.restore(saved, bump_revision=bump_revision)

    def forget(self) -> None:
        """Forget all history; under the lock of the leader."""
        self.storage.forget(history=True)

    def _apply(self, waiting: _Waiting) -> None:
        if isinstance(waiting, int):
            self.storage.advance(waiting - self.storage.revision)
        else:
            self.storage.follow(*waiting)
