"""The writes to the owner of a set: its finalizer, and the marks of where its children are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import anyio

from pyinformer.children._apply_set import OwnerMarks, cleanup_finalizer_of, finalizer_of
from pyinformer.client.cluster import Cluster, head_of
from pyinformer.controller.conventions import enter_finalizer, leave_finalizer
from pyinformer.errors import ConflictError, RetryAfter

if TYPE_CHECKING:
    from pyinformer.objects import KubeObject

CHANGED_SECONDS: Final = 1.0
"""When to come again after a change by others, or a deletion; its event comes earlier."""


@final
class OwnerWrites:
    """Writes to one owner, and keeps its newest version.

    Args:
        cluster: its cluster.
        owner: as the reconcile got it.
        name: of the sets of the function, as `set_name` returns it.
    """

    def __init__(self, cluster: Cluster, owner: KubeObject, name: str) -> None:
        self.object: KubeObject = owner
        """The newest version that is known."""
        self._cluster = cluster
        self._name = name
        self._finalizer = finalizer_of(name)
        self._cleanup = cleanup_finalizer_of(name)
        self._turn = anyio.Lock(fast_acquire=True)  # tasks of the function may write side by side

    async def hold(self, *, for_cleanup: bool = False) -> None:
        """Add the finalizer, unless the owner has it.

        Args:
            for_cleanup: the other one, of what must be cleaned up outside of the cluster.

        Raises:
            RetryAfter: the owner was deleted meanwhile.
            InformerError: as `finalizer`.

        Cancellation:
            Safe.
        """
        finalizer = self._cleanup if for_cleanup else self._finalizer
        async with self._turn:
            if finalizer in self.object.metadata.finalizers:
                return
            held = await enter_finalizer(self._cluster, self.object, finalizer)
            if held.object is None or held.phase != "active":
                raise RetryAfter(CHANGED_SECONDS, f"{self.object.key} was deleted meanwhile")
            self.object = held.object  # type: ignore[assignment]  # objects of a cluster have no view

    async def release(self) -> None:
        """Remove the finalizer, unless the owner has changed and may name other places.

        Raises:
            RetryAfter: it has changed.
            InformerError: as `finalizer`.

        Cancellation:
            Safe; the finalizer may or may not have been removed.
        """
        held = await enter_finalizer(self._cluster, self.object, self._finalizer, add=False)
        try:
            await leave_finalizer(self._cluster, held, attempts=1)
        except ConflictError as error:
            raise self._changed() from error

    async def cleaned_up(self) -> None:
        """Remove the finalizer of what has been cleaned up; others may have changed the owner.

        Raises:
            InformerError: as `finalizer`.

        Cancellation:
            Safe; the finalizer may or may not have been removed.
        """
        held = await enter_finalizer(self._cluster, self.object, self._cleanup, add=False)
        await leave_finalizer(self._cluster, held)
        self.object = held.object or self.object  # type: ignore[assignment]  # as above

    async def widen(self, marks: OwnerMarks) -> None:
        """Add to the marks what they lack.

        Raises:
            InvalidArgumentError: they are more than its annotations can have.
            RetryAfter: the owner has changed, and may have others than it is known to have.
            InformerError: as `Cluster.patch`.

        Cancellation:
            Unless it still waits for the rate limit, they may have been written or not.
        """
        async with self._turn:
            if not await self._mark(OwnerMarks.of(self.object, self._name) | marks):
                raise self._changed()

    async def narrow(self, marks: OwnerMarks) -> None:
        """Write the marks, unless the owner has them, or has changed: its event comes.

        Raises:
            InformerError: as `widen`.

        Cancellation:
            As `widen`.
        """
        await self._mark(marks)

    async def _mark(self, marks: OwnerMarks) -> bool:
        change = marks.written_on(self.object, self._name)
        if change is None:
            return True
        before, after = head_of(self.object), head_of(self.object)
        before["metadata"] |= change[0]
        after["metadata"] |= change[1]
        try:
            self.object = await self._cluster.patch(before, after, check_version=True)
        except ConflictError:
            return False
        return True

    def _changed(self) -> RetryAfter:
        return RetryAfter(CHANGED_SECONDS, f"{self.object.key} was changed meanwhile")
