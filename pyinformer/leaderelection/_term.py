"""A term: the time in which this replica may write.

It guards every write of the work. It ends once and does not begin again. Work that notices the end
late is still refused, since the guard reads the clocks itself.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, final

from pyinformer.errors import FencedError
from pyinformer.leaderelection._cut_offs import CutOffs
from pyinformer.leaderelection._lease import ALL_OTHERS, WrittenVersions, later_written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyinformer.client.transport import WriteGuard
    from pyinformer.leaderelection._election import Tenure

_SAME_MOMENT_SECONDS: Final = 0.1  # far less than the clocks may diverge


@final
class Term:
    """One term of leadership; `lead` receives it.

    Args:
        lease: the Lease, `namespace/name`.
        tenure: its times.
        clock: the lease clock.
        wall_clock: Unix time in seconds.
        uid: of the Lease.
        on_refusal: called for each write that was refused, in any thread.
        outer: the guard of the context in which the elector runs, such as a term of another Lease.
            What this term allows needs its consent, too.
    """

    def __init__(
        self,
        lease: str,
        tenure: Tenure,
        *,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        uid: str = "",
        on_refusal: Callable[[], None] = lambda: None,
        outer: WriteGuard | None = None,
    ) -> None:
        self.lease: str = lease
        """The Lease, `namespace/name`."""
        self.uid: str = uid
        """The uid of the Lease: one that was deleted and created again has another."""
        self._tenure = tenure
        self._clock = clock
        self._wall_clock = wall_clock
        self._on_refusal = on_refusal
        self._outer = outer
        self._cut_offs = CutOffs(lease, outer)
        # Guards the versions: a blocking cluster writes in its own thread.
        self._lock = threading.RLock()
        before = tenure.predecessor
        unknown = {ALL_OTHERS: ""}  # not released, or by a program that names no versions
        self._versions: dict[str, str] = unknown if before is None else dict(before.versions)

    @property
    def transitions(self) -> int:
        """Its number: leaseTransitions of the Lease, which grows with each term.

        At its maximum, 2**31 - 1, it stays the same, and a warning is logged.
        """
        return self._tenure.transitions

    @property
    def predecessor(self) -> WrittenVersions | None:
        """What earlier leaders wrote; None if the last one did not release the Lease cleanly."""
        return self._tenure.predecessor

    @property
    def predecessor_seen_seconds(self) -> float | None:
        """How long ago this replica saw the last sign of life of a leader before this term.

        That is a change of the Lease by another replica, or a renewal in an earlier term of this
        one. None if it has seen none.
        """
        seen_at = self._tenure.predecessor_seen_at
        return None if seen_at is None else max(0.0, self._clock() - seen_at)

    @property
    def has_ended(self) -> bool:
        """Whether it is over: another replica may lead."""
        return bool(self._tenure.ended) or self._clock() >= self._tenure.valid_until

    def check(self) -> None:
        """Return if this replica may write now; call it before an effect outside of the cluster.

        Writes through a Cluster are checked without a call. Safe from any thread. If the elector
        runs inside of a term of another Lease, that term is checked as well.

        Raises:
            FencedError: another replica may lead; it names the Lease.
        """
        if self._outer is not None:
            self._outer.check()
        reason = self._tenure.why_shut(*self._read_clocks())
        if reason:
            raise FencedError(lease=self.lease, reason=reason, has_ended=self.has_ended)

    def _read_clocks(self) -> tuple[float, float]:
        """Return both clocks of one moment: a thread may be suspended between two reads."""
        while True:
            before, wall, now = self._clock(), self._wall_clock(), self._clock()
            if now - before < _SAME_MOMENT_SECONDS:
                return now, wall

    def on_end(self, cut_off: Callable[[], None]) -> Callable[[], None]:
        """Call a function when the term ends, or the one around it; from any thread.

        Args:
            cut_off: called once, in the thread that ends the term; at once if it has ended already.
                What it raises is logged.

        Returns:
            A function that removes it.
        """
        return self._cut_offs.add(cut_off, lambda: bool(self._tenure.ended))

    def record_write(self, resource: str, resource_version: str) -> None:
        """Record a write of this term, so that a successor can wait for it.

        Args:
            resource: the resource, such as `deployments.v1.apps`.
            resource_version: of the object after it; empty if it is unknown.
        """
        with self._lock:
            known = self._versions.get(resource, self._versions.get(ALL_OTHERS))
            self._versions[resource] = later_written(known, resource_version)
        if self._outer is not None:
            self._outer.record_write(resource, resource_version)

    def record_refusal(self, lease: str) -> None:
        """Count a write that was refused, or cut off, since a term did not allow it.

        Args:
            lease: the Lease of that term, which is this one or one around it.
        """
        if self._outer is None or lease == self.lease:
            self._on_refusal()
        else:
            self._outer.record_refusal(lease)

    def record_caught_up(self, versions: Mapping[str, str]) -> None:
        """Record that the caches have everything that earlier leaders wrote of some resources.

        The successor waits for these versions. Without the call it waits for what this term's
        predecessor named, or has to list if the predecessor has crashed.

        Args:
            versions: by resource, such as `deployments.v1.apps`, a version that such a cache has
                reached; empty if versions do not compare.
        """
        with self._lock:
            self._versions.update(versions)

    def written(self) -> WrittenVersions:
        """Return what this term and those before it wrote."""
        with self._lock:
            versions = dict(self._versions)
        return WrittenVersions(transitions=self.transitions, versions=versions)

    def cut_off_writes(self) -> None:
        """Cut off the writes that are under way: the term has ended."""
        self._cut_offs.call_all()

    def __repr__(self) -> str:
        state = f"ended: {self._tenure.ended}" if self._tenure.ended else "valid"
        return f"<Term {self.transitions} of {self.lease}, {state}>"
