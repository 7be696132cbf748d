"""The state machine of one candidate for one Lease: what to send, and whether its term is valid.

It never waits: `next_step` returns what to do now, and the caller reports how that ended. At
most one request is under way. Times are those of one clock that suspends do not stop.

A term is valid for the renew deadline, counted from when its last successful renewal was sent. The
Lease of another replica expires when this process has not seen it change for the duration that it
names.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, final

from pyinformer.errors import InternalError, InvalidArgumentError
from pyinformer.leaderelection._lease import (
    TABLE_HOLDER,
    LeaseRecord,
    Marker,
    WrittenVersions,
    acquired,
    new_lease,
    next_transitions,
    read_lease,
    released,
    renewed,
    with_labels,
    written_in,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from pyinformer.leaderelection._options import LeaderElectionOptions
    from pyinformer.objects import JSONObject

_POLL_JITTER: Final = 1.2  # as client-go: from one retry period to 2.2 of them
# How far the two clocks may diverge; corrections of a synchronized wall clock are smaller.
_CLOCK_DRIFT_SECONDS: Final = 1.0
_LAST_WRITES: Final = 2  # of an ended process: the one that was seen, and one that was late
_LEAST_RETRY_SECONDS: Final = 0.3  # where the server asks for less, which would be a hot loop
_RETRY_JITTER_SECONDS: Final = 0.2  # candidates that were refused together do not return together
_REMEMBERED: Final = 256  # own writes: a restore of the server may bring one back


@final
@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until a time, or until something happens."""

    until: float


@final
@dataclass(frozen=True, slots=True)
class Read:
    """Read the Lease; report `on_lease`, `on_absent` or `on_failure`."""


@final
@dataclass(frozen=True, slots=True)
class Write:
    """Write the Lease; report `on_lease`, `on_conflict`, `on_absent` or `on_failure`."""

    body: JSONObject
    creates: bool = False
    acquires: bool = False


@final
@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to do: the Lease is released, or is not ours."""


Step: TypeAlias = Wait | Read | Write | Finished


@final
class Tenure:
    """The times of one term, which decide whether it is valid; the guard reads them in any thread.

    Args:
        transitions: the number of the term.
        predecessor: what the last leader wrote, if it released the Lease cleanly.
        predecessor_seen_at: when a leader before it was last seen alive; None if never.
    """

    def __init__(
        self,
        transitions: int,
        predecessor: WrittenVersions | None,
        *,
        predecessor_seen_at: float | None = None,
    ) -> None:
        self.transitions: int = transitions
        self.predecessor: WrittenVersions | None = predecessor
        self.predecessor_seen_at: float | None = predecessor_seen_at
        self.renewed_at: float = -math.inf
        """When the last good renewal was sent."""
        self.valid_until: float = -math.inf
        self.ended: str = ""
        """Why it has ended; empty while it lasts."""
        self._wall_offset: float | None = None

    def renew(self, *, sent_at: float, wall_offset_seconds: float, until: float) -> None:
        """Record a good renewal.

        Args:
            sent_at: when it was sent.
            wall_offset_seconds: the wall clock's lead over the lease clock when it was sent.
            until: when the term ends without another renewal.
        """
        self.renewed_at, self.valid_until = sent_at, until
        self._wall_offset = wall_offset_seconds

    def why_shut(self, now: float, wall_at: float) -> str:
        """Return why nothing may be written now; empty if it may.

        Args:
            now: the lease clock.
            wall_at: the wall clock.
        """
        if self.ended:
            return self.ended
        if now >= self.valid_until:
            return f"it was last renewed {now - self.renewed_at:.1f} s ago"
        offset = self._wall_offset
        if offset is None or abs(wall_at - now - offset) > _CLOCK_DRIFT_SECONDS:
            return "the clocks have drifted apart, so the process may have been suspended"
        return ""


@final
class Election:
    """One candidate for one Lease.

    Args:
        name: the name of the Lease.
        namespace: its namespace.
        identity: the candidate's.
        options: the durations.
        rng: spreads the requests of candidates that cannot watch, and those of refused candidates.
        labels: what the Lease is labelled with whenever this candidate takes or renews it.

    Attributes:
        lease: the Lease as it was seen last; None if it does not exist or was not seen yet.
        is_candidate: whether it may take the Lease; the caller sets it.
        is_polling: whether the Lease is read periodically, since it is not watched.
        slow_renewals: how often a renewal needed a read.
    """

    def __init__(
        self,
        name: str,
        namespace: str,
        *,
        identity: str,
        options: LeaderElectionOptions,
        rng: random.Random,
        labels: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.lease: LeaseRecord | None = None
        self.is_candidate: bool = True
        self.is_polling: bool = False
        self.slow_renewals: int = 0
        self._name, self._namespace, self._labels = name, namespace, labels
        self._identity = identity
        self._options = options
        self._rng = rng
        self._seen_at = -math.inf
        self._leader_seen_at: float | None = None  # the last sign of life of any leader
        self._free_at = -math.inf  # when the term of a holder that did not release is over
        self._must_read = True
        self._is_unsure = False  # whether a failed write was carried out
        self._conflicts = 0  # in a row
        self._foreign_writes: set[Marker] = set()  # of another process with this identity
        self._tenure: Tenure | None = None
        self._under_way: Read | Write | None = None
        self._sent_at = -math.inf
        self._sent_upon: LeaseRecord | None = None  # the Lease as known when it was sent
        # Of the Leases whose deletion was seen since the request was sent.
        self._deleted_uids: set[str] = set()
        self._last_seen: LeaseRecord | None = None  # also of a Lease that does not exist any more
        self._sent_wall_offset = 0.0
        self._retry_at = -math.inf
        self._poll_at: float | None = None
        self._markers: set[Marker] = set()  # of own writes that may be what the server has
        self._own: deque[Marker] = deque(maxlen=_REMEMBERED)  # of all own writes
        self._is_coarse = False  # whether the server cuts the fractions of times off
        self._release: tuple[WrittenVersions | None, float] | None = None

    @property
    def tenure(self) -> Tenure | None:
        """The current term; None for a standby, and once a term has ended."""
        return self._tenure

    @property
    def is_refused(self) -> bool:
        """Whether writes conflict again and again, and no other replica is the cause."""
        return self._conflicts > 1

    @property
    def is_releasing(self) -> bool:
        """Whether `release` was called."""
        return self._release is not None

    @property
    def expires_at(self) -> float:
        """When the Lease may be taken, if nothing changes; the past if it is free."""
        lease = self.lease
        if lease is None or not lease.holder or self._is_ours(lease):
            return self._free_at
        return max(self._free_at, self._seen_at + self._duration_of(lease))

    def next_step(self, now: float, wall_at: float) -> Step:
        """Return what to do now; a request counts as sent at `now`.

        Args:
            now: the lease clock.
            wall_at: Unix time in seconds.
        """
        if self._under_way is not None:
            raise InternalError("a second request for a Lease while one is under way")
        self._check_expiry(now)
        written_at = math.floor(wall_at) if self._is_coarse else wall_at
        if self._release is not None:
            step = self._next_release(self._release, now, written_at)
        elif self._tenure is not None:
            step = self._next_renewal(self._tenure, now, written_at)
        else:
            step = self._next_try(now, written_at)
        if isinstance(step, Read | Write):
            self._under_way = step
            self._sent_at, self._sent_wall_offset = now, wall_at - now
            self._sent_upon = self.lease
            self._deleted_uids.clear()
            if isinstance(step, Write):
                marker = read_lease(step.body).marker
                self._markers.add(marker)
                self._own.append(marker)
        return step

    def release(self, now: float, written: WrittenVersions | None) -> None:
        """Release the Lease if it is ours; call it when all work of the term has ended.

        Args:
            now: the lease clock.
            written: what was written in the term.
        """
        self._release = (written, now + self._options.renew_deadline_seconds)
        self._retry_at = now
        self._end("the Lease is being released")

    def on_lease(self, lease: LeaseRecord, now: float) -> None:
        """Record the Lease that the server returned to the request.

        Raises:
            InvalidArgumentError: another replica has the same identity.
        """
        step, self._under_way = self._under_way, None
        self._check_expiry(now)
        self._is_unsure = False
        if isinstance(step, Write):
            # A renewal that was under way when the work ended does not delay the release.
            self._retry_at = now if self.is_releasing else self._next_period()
            self._on_written(step, lease, now)
        else:
            self._retry_at = now
            self._must_read = False
            self._see(lease, now)

    def on_conflict(self, now: float) -> None:
        """Record that the Lease is not in the version that was to be written."""
        self._under_way = None
        self._check_expiry(now)
        if self._tenure is not None:
            self.slow_renewals += 1
        self._must_read = True
        self._conflicts += 1
        self._retry_at = max(now, self._next_period()) if self.is_refused else now

    def on_absent(self, now: float) -> None:
        """Record that the Lease does not exist."""
        self._under_way = None
        self._check_expiry(now)
        self._must_read = self._is_unsure = False
        self._retry_at = now
        self._on_deletion(now)

    def on_failure(self, now: float, *, retry_after_seconds: float | None = None) -> None:
        """Record that a request failed; whether a write was carried out is unknown.

        Args:
            now: the lease clock.
            retry_after_seconds: after how long the server asks for the next attempt; None if it
                does not. The next one comes after a retry period at the latest.
        """
        step, self._under_way = self._under_way, None
        self._check_expiry(now)
        self._is_unsure = self._is_unsure or isinstance(step, Write)
        self._retry_at = max(now, self._next_period())
        if retry_after_seconds is not None:
            # An overloaded server refuses a share of all requests: a term has time for few periods.
            least_seconds = max(retry_after_seconds, _LEAST_RETRY_SECONDS)
            jitter_seconds = _RETRY_JITTER_SECONDS * self._rng.random()
            self._retry_at = min(self._retry_at, now + least_seconds + jitter_seconds)

    def on_watched(self, lease: LeaseRecord, now: float) -> None:
        """Record a version of the Lease that a watch shows; it may be an older one.

        Raises:
            InvalidArgumentError: another replica has the same identity.
        """
        self._check_expiry(now)
        if self._is_ours(lease):
            return  # the response to a write of this replica shows when it was sent
        last = self._last_seen
        is_newer = None if last is None else lease.is_newer_than(last)
        if is_newer is False:
            return
        if self._tenure is not None and is_newer is None:
            self._retry_at = now  # a renewal finds out: its version is the precondition
            return
        self._must_read = False
        self._see(lease, now)

    def on_watched_deletion(self, uid: str, now: float) -> None:
        """Record that a watch shows the deletion of a Lease.

        Args:
            uid: that of the deleted Lease; its successor may exist already.
            now: the lease clock.
        """
        self._check_expiry(now)
        if self._under_way is not None:
            self._deleted_uids.add(uid)
        if self.lease is not None and self.lease.uid == uid:
            self._on_deletion(now)

    def end_term(self, reason: str) -> None:
        """End the term without a release: the Lease may be taken again, by this replica too."""
        self._end(reason)

    def check_expiry(self, now: float) -> None:
        """End the term if its time is over."""
        self._check_expiry(now)

    def _check_expiry(self, now: float) -> None:
        tenure = self._tenure
        if tenure is not None and now >= tenure.valid_until:
            self._end(f"it was last renewed {now - tenure.renewed_at:.1f} s ago")

    def _next_renewal(self, tenure: Tenure, now: float, wall_at: float) -> Step:
        if now < self._retry_at:
            return Wait(min(self._retry_at, tenure.valid_until))
        return Read() if self._must_read else self._renewal(wall_at)

    def _next_try(self, now: float, wall_at: float) -> Step:
        if now < self._retry_at:
            return Wait(self._retry_at)
        if self._must_read:
            return Read()
        if self.is_candidate and now >= self.expires_at:
            return self._acquisition(wall_at)
        if self.is_polling:
            return self._next_poll(now)
        self._poll_at = None
        return Wait(self.expires_at if self.is_candidate else math.inf)

    def _next_poll(self, now: float) -> Step:
        if self._poll_at is None:
            spread = 1 + _POLL_JITTER * self._rng.random()
            self._poll_at = now + spread * self._options.retry_period_seconds
        if now < self._poll_at:
            return Wait(min(self._poll_at, self.expires_at if self.is_candidate else math.inf))
        self._poll_at = None
        return Read()

    def _next_release(
        self, release: tuple[WrittenVersions | None, float], now: float, wall_at: float
    ) -> Step:
        written, give_up_at = release
        if now >= give_up_at:
            return Finished()
        ours = self.lease if self.lease is not None and self._is_ours(self.lease) else None
        must_read = self._must_read or (self._is_unsure and ours is None)
        if ours is None and not (self._markers and must_read):
            return Finished()
        if now < self._retry_at:
            return Wait(min(self._retry_at, give_up_at))
        if ours is None or self._must_read:
            return Read()
        return Write(released(ours, at=wall_at, written=written))

    def _renewal(self, wall_at: float) -> Write:
        lease = self.lease
        if lease is None:
            raise InternalError("a term without a Lease")
        duration = self._options.lease_duration_seconds
        return self._labelled(renewed(lease, duration_seconds=duration, at=wall_at))

    def _acquisition(self, wall_at: float) -> Write:
        lease = self.lease
        before = new_lease(self._name, self._namespace) if lease is None else lease
        body = acquired(
            before,
            holder=self._identity,
            duration_seconds=self._options.lease_duration_seconds,
            at=wall_at,
            transitions=0 if lease is None else next_transitions(lease),
        )
        return self._labelled(body, creates=lease is None, acquires=True)

    def _labelled(
        self, body: JSONObject, *, creates: bool = False, acquires: bool = False
    ) -> Write:
        if self._labels:
            body = with_labels(body, self._labels)
        return Write(body, creates=creates, acquires=acquires)

    def _on_written(self, write: Write, lease: LeaseRecord, now: float) -> None:
        before, stored = self.lease, lease.marker
        written = read_lease(write.body).marker
        is_cut = stored != written and stored.is_cut_of(written)
        self._is_coarse = self._is_coarse or is_cut
        if not (is_cut or stored == written) or self._is_overtaken(lease):
            self._must_read = True
            return
        if before is not None and before.uid != lease.uid:
            # While the creation was under way, another replica's Lease was seen; by now it is
            # deleted, which its holder may not know.
            self._free_at = self._longest_term_from(now)
        self.lease = self._last_seen = lease
        self._seen_at = now
        self._markers = {stored}
        self._must_read = False
        self._conflicts = 0
        valid_until = self._sent_at + self._options.renew_deadline_seconds
        if now >= valid_until:
            return  # the response came too late to lead by it
        if self._tenure is None:
            if not (write.acquires and self.is_candidate):
                return  # a renewal whose term has ended meanwhile, or a release
            if now < self._free_at:
                return  # while the request was under way, a holder was seen that did not release
            predecessor = None if before is None else written_in(before)
            self._tenure = Tenure(
                lease.transitions, predecessor, predecessor_seen_at=self._leader_seen_at
            )
        self._leader_seen_at = now
        self._tenure.renew(
            sent_at=self._sent_at, wall_offset_seconds=self._sent_wall_offset, until=valid_until
        )

    def _is_overtaken(self, lease: LeaseRecord) -> bool:
        """Return whether a watch has shown a later state than the response to a write."""
        if lease.uid in self._deleted_uids:
            return True
        known = self.lease
        return known is not self._sent_upon and not (
            known is not None and lease.is_newer_than(known)
        )

    def _see(self, lease: LeaseRecord, now: float) -> None:
        """Record a Lease that may be another replica's."""
        before = self.lease
        is_same = before is not None and (before.uid, before.resource_version) == (
            lease.uid,
            lease.resource_version,
        )
        if not is_same:
            if not _is_handed_over(before, lease):
                self._free_at = self._longest_term_from(now)
            self.lease = self._last_seen = lease
            self._seen_at = now
        if self._is_ours(lease):
            return
        if not is_same:
            self._leader_seen_at = now
            self._markers.clear()  # no write that is under way fits this version
            if lease.holder:
                self._conflicts = 0  # that replica was faster
        if self._tenure is not None:
            self._end(self._why_lost(lease))
        self._check_identity(lease)

    def _why_lost(self, lease: LeaseRecord) -> str:
        if not lease.holder:
            return "the Lease was released"
        if lease.holder == self._identity:
            return "another client has changed the Lease"
        return f"{lease.holder} has taken the Lease"

    def _check_identity(self, lease: LeaseRecord) -> None:
        """Refuse to compete with a living replica of the same identity."""
        if lease.holder != self._identity:
            self._foreign_writes.clear()
            return
        if any(lease.marker.is_cut_of(own) for own in self._own):
            return  # of this process: a deletion was reported that was none, or it was restored
        self._foreign_writes.add(lease.marker)
        # An earlier process with this identity no longer renews, but its last request may be late.
        if len(self._foreign_writes) > _LAST_WRITES:
            reason = (
                f"another living replica uses {self._identity!r}, too: each replica needs an"
                " identity of its own; None makes a unique one"
            )
            raise InvalidArgumentError("identity", reason)

    def _on_deletion(self, now: float) -> None:
        if self._tenure is not None:
            self._end("the Lease was deleted, so that another replica may lead")
        if self.lease is not None:
            self._free_at = self._longest_term_from(now)
        self.lease = None
        self._markers.clear()

    def _longest_term_from(self, now: float) -> float:
        """Return when the term of a holder that may have renewed the Lease just now is over.

        The replicas that share keys by a table have terms of their own Leases.
        """
        lease, own = self.lease, self._options.lease_duration_seconds
        if lease is None or lease.holder == TABLE_HOLDER:
            return now + own
        return now + max(own, self._duration_of(lease))

    def _duration_of(self, lease: LeaseRecord) -> float:
        return lease.duration_seconds or self._options.lease_duration_seconds

    def _next_period(self) -> float:
        return self._sent_at + self._options.retry_period_seconds

    def _end(self, reason: str) -> None:
        tenure, self._tenure = self._tenure, None
        if tenure is not None:
            tenure.ended = reason

    def _is_ours(self, lease: LeaseRecord) -> bool:
        return lease.holder == self._identity and lease.marker in self._markers


def _is_handed_over(before: LeaseRecord | None, lease: LeaseRecord) -> bool:
    """Return whether a Lease has changed as electors change it, and not by hand."""
    is_orderly = bool(lease.holder) or lease.was_released
    if before is None:
        return is_orderly
    return before.uid == lease.uid and (not before.holder or is_orderly)
