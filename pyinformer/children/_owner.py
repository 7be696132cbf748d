"""The writes to the owner of a set: its finalizer, and the marks of where its children are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from pyinformer.client.cluster import Cluster, head_of
from pyinformer.controller.conventions import enter_finalizer
from pyinformer.errors import RetryAfter

if TYPE_CHECKING:
    from pyinformer.children._apply_set import OwnerMarks
    from pyinformer.objects import KubeObject

_DELETED_SECONDS: Final = 1.0  # its event comes earlier


@final
class OwnerWrites:
    """Writes to one owner, and keeps its newest version.

    Args:
        cluster: its cluster.
        owner: as the reconcile got it.
        finalizer: of the function that owns the set.
    """

    def __init__(self, cluster: Cluster, owner: KubeObject, finalizer: str) -> None:
        self.object: KubeObject = owner
        """The newest version that is known."""
        self._cluster = cluster
        self._finalizer = finalizer

    async def hold(self) -> None:
        """Add the finalizer, unless the owner has it.

        Raises:
            RetryAfter: the owner was deleted meanwhile.
            InformerError: as `finalizer`.

        Cancellation:
            Safe.
        """
        if self._finalizer in self.object.metadata.finalizers:
            return
        held = await enter_finalizer(self._cluster, self.object, self._finalizer)
        if held.object is None or held.phase != "active":
            raise RetryAfter(_DELETED_SECONDS, f"{self.object.key} was deleted meanwhile")
        self.object = held.object  # type: ignore[assignment]  # objects of a cluster have no view

    async def mark(self, marks: OwnerMarks) -> None:
        """Write the marks, unless the owner has them.

        Raises:
            InvalidArgumentError: they are more than its annotations can have.
            InformerError: as `Cluster.patch`.

        Cancellation:
            Unless it still waits for the rate limit, they may have been written or not.
        """
        change = marks.written_on(self.object)
        if change is None:
            return
        before, after = head_of(self.object), head_of(self.object)
        before["metadata"] |= change[0]
        after["metadata"] |= change[1]
        self.object = await self._cluster.patch(before, after)
