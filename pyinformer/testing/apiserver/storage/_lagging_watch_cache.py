"""A second watch cache over the same data, which may lag.

While it is held, changes wait, and reads from it are of the past. The kube-apiservers of one etcd
differ in the same way for a moment, each consistent in itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias, final

from pyinformer.objects import JSONObject
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage._changes import StoredChange
from pyinformer.testing.apiserver.storage._storage import SavedState, Storage

_Waiting: TypeAlias = tuple[ResourceType, StoredChange] | int


@final
class LaggingWatchCache:
    """Applies the changes of one storage to another one, at once or after a hold.

    Args:
        leader: the storage that is followed.
        storage: an empty storage; the follower is its only writer.
    """

    def __init__(self, leader: Storage, storage: Storage) -> None:
        self._leader = leader
        self.storage = storage
        self._waiting: deque[_Waiting] = deque()
        self._is_held = False
        leader.add_receiver(self)

    @property
    def lag(self) -> int:
        """The number of changes that wait."""
        return len(self._waiting)

    def hold(self) -> None:
        """Keep changes back from now on."""
        with self._leader.lock:
            self._is_held = True

    def release(self, changes: int | None = None) -> None:
        """Apply waiting changes; None applies all, and later ones at once."""
        with self._leader.lock:
            count = len(self._waiting) if changes is None else min(changes, len(self._waiting))
            for _ in range(count):
                self._apply(self._waiting.popleft())
            if changes is None:
                self._is_held = False

    def take(self, waiting: _Waiting) -> None:
        """Receive a change, or a revision without one; called by the leader under its lock."""
        if self._is_held:
            self._waiting.append(waiting)
        else:
            self._apply(waiting)

    def restore(self, saved: SavedState, bump_revision: int) -> None:
        """Restore a state together with the leader, which calls this under its lock."""
        self._waiting.clear()
        self.storage.restore(saved, bump_revision=bump_revision)

    def read_again(
        self, resource: ResourceType, convert: Callable[[JSONObject], JSONObject]
    ) -> None:
        """Show objects as a changed definition does; called under the lock of the leader."""
        self.storage.read_again(resource, convert)

    def forget(self) -> None:
        """Forget all history; called under the lock of the leader."""
        self.storage.forget(history=True)

    def _apply(self, waiting: _Waiting) -> None:
        if isinstance(waiting, int):
            self.storage.advance(waiting - self.storage.revision)
        else:
            self.storage.follow(*waiting)
