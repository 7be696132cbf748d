"""The guard of the writes for the keys of one bucket, as long as this life of the member has it."""

# Pure: it knows no event loop.

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, final

from pyinformer.errors import FencedError
from pyinformer.leaderelection import CutOffs

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.leaderelection import Term
    from pyinformer.sharding._bucket_shares import Bucket


@final
class BucketLease:
    """A bucket in one term of the member's own Lease: what it allows needs the term's consent, too.

    Args:
        bucket: the bucket.
        term: the term.
        table: the Lease that has the table, `namespace/name`.
        on_refusal: called for each write that was refused, in any thread.
    """

    def __init__(
        self, bucket: Bucket, term: Term, table: str, on_refusal: Callable[[], None]
    ) -> None:
        self.bucket: Bucket = bucket
        self._term = term
        self._table = table
        self._on_refusal = on_refusal
        self._cut_offs = CutOffs(f"bucket {bucket.number} of {table}", term)
        self._lock = threading.Lock()  # blocking clusters write in threads

    @property
    def is_writing(self) -> bool:
        """Whether a write is under way, perhaps of a task that a reconcile has left behind."""
        return len(self._cut_offs) > 0

    def check(self) -> None:
        """Return if a write may leave now; from any thread.

        Raises:
            FencedError: another member may have the bucket, or the term is over.
        """
        self._term.check()
        if self.bucket.shut:
            raise self.refusal(self.bucket.shut)

    def refusal(self, reason: str) -> FencedError:
        """Return the error of work for this bucket that must end."""
        return FencedError(lease=self._table, reason=f"bucket {self.bucket.number}: {reason}")

    def on_end(self, cut_off: Callable[[], None]) -> Callable[[], None]:
        """Call a function when the bucket is shut, or the term ends; from any thread.

        Returns:
            A function that removes it.
        """
        return self._cut_offs.add(cut_off, lambda: bool(self.bucket.shut))

    def cut_off_writes(self) -> None:
        """Cut off the writes that are under way: the bucket is shut."""
        self._cut_offs.call_all()

    def record_write(self, resource: str, resource_version: str) -> None:
        """Record a write, so that the next owner of the bucket can wait for it."""
        with self._lock:
            self.bucket.record_write(resource, resource_version)

    def record_refusal(self, lease: str) -> None:
        """Count a write that was refused, or cut off."""
        self._on_refusal()
