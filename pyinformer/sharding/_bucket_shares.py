"""The state machine of one member of a group: which buckets are its own, and what to write next.

It never waits: `next_step` returns what to do now, and the caller reports how that ended. At most
one request is under way. A bucket is worked on between the table that names this life as its owner
and the moment at which a write that gives the bucket up is about to be sent. That write may arrive
late: without an answer, the bucket stays shut until a later write of this process has succeeded,
whose precondition the late one can no longer meet.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias, final

from pyinformer.errors import InternalError, InvalidArgumentError
from pyinformer.leaderelection import (
    TABLE_HOLDER,
    Finished,
    LeaseRecord,
    Wait,
    later_written,
    new_lease,
    released,
)
from pyinformer.sharding._table import Owner, Table, freed, read_table, with_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyinformer.leaderelection import LeaderElectionOptions
    from pyinformer.objects import JSONObject
    from pyinformer.sharding._members import Members

_RETRY_SECONDS: Final = 0.3  # after a request that failed
_LOOK_SECONDS: Final = 1.0  # while something may change that no event reports
_IGNORED_SECONDS: Final = 5.0  # after the cancellation: then another bucket is given up
_REVOKE_SECONDS: Final = 5.0  # between two attempts to revoke a Lease, which the server refuses


@final
@dataclass(frozen=True, slots=True)
class ReadTable:
    """Read the Lease of the operator; report `on_table`, `on_no_table` or `on_failure`."""


@final
@dataclass(frozen=True, slots=True)
class ReadMembers:
    """List the Leases of the group; report each to `Members`, then `on_members` or `on_failure`."""


@final
@dataclass(frozen=True, slots=True)
class WriteTable:
    """Write it; report `on_written`, `on_conflict`, `on_no_table` or `on_failure`."""

    body: JSONObject
    creates: bool = False


@final
@dataclass(frozen=True, slots=True)
class ReadMember:
    """Read a member's Lease; report it to `Members`, then `on_done` or `on_failure`."""

    name: str


@final
@dataclass(frozen=True, slots=True)
class Revoke:
    """Free the Lease of a silent member; report as after `ReadMember`, read it after a conflict."""

    name: str
    body: JSONObject


Step: TypeAlias = Wait | ReadTable | ReadMembers | WriteTable | ReadMember | Revoke | Finished


@final
class Bucket:
    """One bucket that a table gives to this life, until the bucket is shut.

    Args:
        number: from 0 on.
        is_dirty: whether it is unknown what earlier owners wrote.
        awaited: the versions that earlier owners wrote, by resource.
    """

    __slots__ = (
        "awaited",
        "draining_since",
        "is_dirty",
        "is_open",
        "is_unfinished",
        "number",
        "shut",
        "wrote",
    )

    def __init__(self, number: int, *, is_dirty: bool, awaited: Mapping[str, str]) -> None:
        self.number: int = number
        self.is_dirty: bool = is_dirty
        self.awaited: Mapping[str, str] = awaited
        self.is_open: bool = False
        """Whether the caches have what earlier owners wrote: its keys may be handled."""
        self.draining_since: float | None = None
        """Since when no key is dispatched any more, so that the bucket can be given up."""
        self.is_unfinished: bool = False
        """Whether something was cut short that only the next owner can do again."""
        self.shut: str = ""
        """Why nothing may be written for it any more; empty while it is this life's."""
        self.wrote: dict[str, str] = {}
        """The highest version that was written for it, by resource; empty where it is unknown."""

    @property
    def is_leaving(self) -> bool:
        """Whether no key is dispatched any more: it is about to be given up, or is shut."""
        return self.draining_since is not None or bool(self.shut)

    @property
    def admits(self) -> bool:
        """Whether its keys are dispatched."""
        return self.is_open and not self.is_leaving

    def record_write(self, resource: str, version: str) -> None:
        """Record a write that was answered.

        Args:
            resource: the resource, such as `deployments.v1.apps`.
            version: the object's new version; empty if it is unknown.
        """
        self.wrote[resource] = later_written(self.wrote.get(resource), version)


@final
class BucketShares:
    """The share of one member.

    Args:
        group: the operator's name, which is that of the Lease with the table.
        namespace: of all Leases.
        member: the name of this member's own Lease.
        buckets: how many there are.
        by: what has one bucket, as the table names it.
        members: the Leases of the group.
        options: the durations of the Leases.
        drain_seconds: how long the work of a bucket may take to end before it is cancelled.
        is_costly: returns whether a bucket has work that should not be cut short; None for all
            work that is under way.
    """

    def __init__(
        self,
        group: str,
        namespace: str,
        *,
        member: str,
        buckets: int,
        by: str,
        members: Members,
        options: LeaderElectionOptions,
        drain_seconds: float,
        is_costly: Callable[[int], bool] | None = None,
    ) -> None:
        self.held: dict[int, Bucket] = {}
        """The buckets of this life, by number; the caller opens them, and drains their work."""
        self.lease: LeaseRecord | None = None
        """The Lease of the operator as it was seen last; None if there is none."""
        self.table: Table | None = None
        """The table in it; None if it is free, or a leader's."""
        self.refusal: InvalidArgumentError | None = None
        """Why the table in it cannot be used: it is another one than this process was given."""
        self._group, self._namespace, self._member = group, namespace, member
        self._buckets, self._by = buckets, by
        self._members = members
        self._options = options
        self._drain_seconds = drain_seconds
        self._is_costly = is_costly
        self._me: Owner | None = None
        self._is_leaving = False
        self._must_read = True
        self._knows_members = False  # all that may own a bucket by a table that is gone
        self._lease_seen_at = -math.inf
        self._free_at = -math.inf  # when the term of a leader that did not release is over
        # Given up by a write without an answer: it may still arrive, so they stay shut.
        self._offered: set[int] = set()
        # Shut in this life, and not known to be another's: what was written for them counts.
        self._shut_buckets: dict[int, Bucket] = {}
        self._last_owners: frozenset[Owner] = frozenset()  # of the last table that was seen
        self._deleted_uids: set[str] = set()  # of Leases of the operator, while a request is sent
        self._under_way: Step | None = None
        self._conflicts = 0  # in a row
        self._revoke_at: dict[str, float] = {}
        self._retry_at = -math.inf

    def begin(self, me: Owner) -> None:
        """Begin a life, now that the member's own Lease was acquired.

        Raises:
            InternalError: another life has not ended.
        """
        if self._me is not None:
            raise InternalError("a member's life begins while another one lasts")
        self._me = me
        self._must_read = True
        self._offered.clear()
        self._shut_buckets.clear()

    def end(self, reason: str) -> None:
        """End the life at once: the member's Lease is lost, or is about to be released."""
        self._me = None
        self._shut(list(self.held), reason)

    def leave(self) -> None:
        """Give all buckets up, and get none any more."""
        self._is_leaving = True

    def on_table(self, lease: LeaseRecord, now: float) -> None:
        """Record a version of the operator's Lease, from the watch or a read; maybe an older one.

        Raises:
            InvalidArgumentError: its table is another one than this process was given.
        """
        is_read = isinstance(self._under_way, ReadTable)
        if is_read:
            self._under_way = None
            self._must_read = lease.uid in self._deleted_uids
            if self._must_read:
                return
        known = self.lease
        if known is not None:
            is_newer = lease.is_newer_than(known)
            if not (is_newer or (is_newer is None and is_read)):
                return
            if known.uid != lease.uid:
                self._shut(list(self.held), "the table was deleted")
        self._take(lease, now)

    def on_no_table(self, now: float, *, uid: str | None = None) -> None:
        """Record that the operator's Lease does not exist.

        Args:
            now: the lease clock.
            uid: that of the Lease whose deletion the watch shows; None after a request.
        """
        if uid is None:
            self._under_way = None
            self._must_read = False
        else:
            if self._under_way is not None:
                self._deleted_uids.add(uid)
            if self.lease is None or self.lease.uid != uid:
                return
        self._note_leader(self.lease, now)
        self.lease = self.table = self.refusal = None
        self._knows_members = False
        self._shut(list(self.held), "the table was deleted")

    def on_written(self, lease: LeaseRecord, now: float) -> None:
        """Record that the table was written.

        Raises:
            InvalidArgumentError: as `on_table`.
        """
        self._under_way = None
        self._conflicts = 0
        # No earlier write can arrive any more: its precondition is an earlier version.
        self._offered.clear()
        if lease.uid in self._deleted_uids:
            self._must_read = True
            return
        known = self.lease
        if known is None or lease.is_newer_than(known) is not False:
            self._take(lease, now)
        elif self.table is not None:
            self._follow(self.table)  # the watch was faster

    def on_conflict(self, now: float) -> None:
        """Record that the table is not in the version that was to be written."""
        self._under_way = None
        self._must_read = True
        self._conflicts += 1
        self._retry_at = now if self._conflicts == 1 else now + _RETRY_SECONDS

    def on_failure(self, now: float) -> None:
        """Record that a request failed; whether a write was carried out is unknown."""
        if isinstance(self._under_way, WriteTable):
            self._must_read = True
        if isinstance(self._under_way, Revoke):  # others can be shared with meanwhile
            self._revoke_at[self._under_way.name] = now + _REVOKE_SECONDS
        else:
            self._retry_at = now + _RETRY_SECONDS
        self._under_way = None

    def on_members(self) -> None:
        """Record that all Leases of the group were listed."""
        self._under_way = None
        self._knows_members = True

    def on_done(self) -> None:
        """Record that a request for a member's Lease was answered."""
        self._under_way = None

    def next_step(self, now: float, wall_at: float, *, is_busy: Callable[[int], bool]) -> Step:
        """Return what to do now; a request counts as sent at `now`.

        Args:
            now: the lease clock.
            wall_at: Unix time in seconds.
            is_busy: returns whether work of a bucket is under way.

        Raises:
            InvalidArgumentError: as `on_table`, as long as that table is there.
        """
        if self._under_way is not None:
            raise InternalError("a second request for a table while one is under way")
        step = self._next(now, wall_at, is_busy)
        if not isinstance(step, Wait | Finished):
            self._under_way = step
            self._deleted_uids.clear()
        return step

    def to_cancel(self, now: float) -> list[int]:
        """Return the buckets whose work has been given enough time to end."""
        return [
            bucket.number
            for bucket in self.held.values()
            if bucket.draining_since is not None
            and now >= bucket.draining_since + self._drain_seconds
        ]

    def _next(self, now: float, wall_at: float, is_busy: Callable[[int], bool]) -> Step:
        me = self._me
        if me is None:
            return Finished() if self._is_leaving else Wait(math.inf)
        if self.refusal is not None and not self._must_read and self._members.living(now) - {me}:
            raise self.refusal  # otherwise no member is left that keeps that table
        if now < self._retry_at:
            return Wait(self._retry_at)
        if self._must_read:
            return ReadTable()
        table = self.table
        if table is None:
            return self._begin_table(now, wall_at)
        if not self._is_leaving and (revoke := self._revocation(now, wall_at)) is not None:
            return revoke
        named = {owner for owner in table.owners if owner is not None} | table.awaited
        if name := self._members.to_look_at(named - {me}, now):
            return ReadMember(name)
        if not self._members.sees(self._member) and not self._is_leaving:
            return Wait(now + _LOOK_SECONDS)  # others do not see it either, and share without it
        return self._share(table, me, now, wall_at, is_busy)

    def _revocation(self, now: float, wall_at: float) -> Revoke | None:
        for name, lease in self._members.silent(now):
            if name != self._member and now >= self._revoke_at.get(name, now):
                return Revoke(name, released(lease, at=wall_at, written=None))
        return None

    def _begin_table(self, now: float, wall_at: float) -> Step:
        if self._is_leaving:
            return Finished()
        lease = self.lease
        if now < self._free_at:
            return Wait(self._free_at)
        if lease is not None and lease.holder not in {"", TABLE_HOLDER}:
            duration = lease.duration_seconds or self._options.lease_duration_seconds
            if now < self._lease_seen_at + duration:
                return Wait(self._lease_seen_at + duration)  # a leader's
        if not self._knows_members:
            return ReadMembers()  # later than the last table, whose owners are among them
        before_this = {one for one in self._last_owners if not self._members.is_over(one, now)}
        others = {
            one for one in self._members.living(now) | before_this if one.lease != self._member
        }
        table = Table.empty(self._buckets, self._by, awaited=frozenset(others))
        before = new_lease(self._group, self._namespace) if lease is None else lease
        body = with_table(before, table, group=self._group, at=wall_at)
        return WriteTable(body, creates=lease is None)

    def _share(
        self, table: Table, me: Owner, now: float, wall_at: float, is_busy: Callable[[int], bool]
    ) -> Step:
        give, take = self._plan(table, me, now, is_busy)
        self._drain(give, now)
        # A bucket that is not held has a give-up without an answer, and is shut already.
        ready = [number for number in give if number not in self.held or not is_busy(number)]
        if any(one != me and not self._members.is_over(one, now) for one in table.awaited):
            take = []
        is_news = me in table.awaited or (self._is_leaving and me not in table.leaving)
        stuck = [number for number in self._offered if table.owners[number] == me]
        if not (ready or take or stuck or is_news):
            if self._is_leaving and not give:
                return self._free(table, me, now, wall_at)
            return Wait(self._next_look(table, me, now))
        after = self._with_claims(self._with_gifts(table, ready), take, me, now)
        self._shut(ready, "the bucket is given up")
        self._offered.update(ready)
        return self._put(after, me, now, wall_at)

    def _plan(
        self, table: Table, me: Owner, now: float, is_busy: Callable[[int], bool]
    ) -> tuple[list[int], list[int]]:
        """Return the buckets to give up, and those to claim."""
        mine = table.of(me)
        if self._is_leaving:
            return mine, []
        sharing = {one for one in self._members.living(now) if one not in table.leaving} | {me}
        quota = quotas(table, sharing)[me]
        if len(mine) > quota:
            costly = self._is_costly or is_busy
            by_cost = sorted(mine, key=lambda number: (self._cost_of(number, now, costly), -number))
            return by_cost[: len(mine) - quota], []
        free = [
            number
            for number, owner in enumerate(table.owners)
            if owner is None or (owner != me and self._members.is_over(owner, now))
        ]
        return [], free[: quota - len(mine)]

    def _cost_of(self, number: int, now: float, is_costly: Callable[[int], bool]) -> int:
        """Return how ill a bucket can be given up: what ignores its cancellation keeps it."""
        bucket = self.held.get(number)
        if bucket is None or not is_costly(number):
            return 0
        if bucket.draining_since is None:
            return 2
        is_ignored = now >= bucket.draining_since + self._drain_seconds + _IGNORED_SECONDS
        return 3 if is_ignored else 1

    def _drain(self, give: list[int], now: float) -> None:
        for number, bucket in self.held.items():
            if number not in give:
                bucket.draining_since = None  # the share has grown again meanwhile
            elif bucket.draining_since is None:
                bucket.draining_since = now

    def _with_gifts(self, table: Table, ready: list[int]) -> Table:
        """Return the table without owners of these buckets, and with what was written for them."""
        owners, dirty, written = list(table.owners), set(table.dirty), dict(table.written)
        dirty.difference_update(number for number, its in self.held.items() if its.is_open)
        for number in ready:
            owners[number] = None
            bucket = self.held.get(number) or self._shut_buckets.get(number)
            wrote = {} if bucket is None else dict(bucket.wrote)  # of one moment: threads write
            is_whole = bucket is not None and bucket.is_open and not bucket.is_unfinished
            if not is_whole or "" in wrote.values():
                dirty.add(number)
            for resource, version in wrote.items():
                if version:
                    written[resource] = later_written(written.get(resource), version)
        return replace(table, owners=tuple(owners), dirty=frozenset(dirty), written=written)

    def _with_claims(self, table: Table, take: list[int], me: Owner, now: float) -> Table:
        """Return the table with these buckets claimed, and without every life that is over."""
        if not take:
            return table
        over = {
            number
            for number, owner in enumerate(table.owners)
            if owner not in {None, me} and self._members.is_over(owner, now)
        }
        owners = tuple(
            me if number in take else None if number in over else owner
            for number, owner in enumerate(table.owners)
        )
        return replace(table, owners=owners, dirty=table.dirty | over, awaited=frozenset())

    def _free(self, table: Table, me: Owner, now: float, wall_at: float) -> Step:
        """Free the Lease if no other member shares; a plain leader may wait for it."""
        others = self._members.living(now) - table.leaving - {me}
        if others or any(table.owners) or self.lease is None:
            return Finished()
        return WriteTable(freed(self.lease, group=self._group, at=wall_at))

    def _put(self, table: Table, me: Owner, now: float, wall_at: float) -> WriteTable:
        if self.lease is None:
            raise InternalError("a table without a Lease")
        leaving = (table.leaving & self._members.living(now)) - {me}
        table = replace(
            table,
            leaving=leaving | {me} if self._is_leaving else leaving,
            awaited=table.awaited - {me},
        )
        return WriteTable(with_table(self.lease, table, group=self._group, at=wall_at))

    def _next_look(self, table: Table, me: Owner, now: float) -> float:
        """Return when something may have to be done without an event."""
        times = [math.inf]
        if not self._is_leaving:  # else others revoke
            times.append(self._members.next_silence(but=self._member))
        if table.awaited:
            times.append(now + _LOOK_SECONDS)
        if not self._members.living(now) | {me, None} >= set(table.owners):
            times.append(now + _LOOK_SECONDS)  # of an owner whose life may be over
        times.extend(
            end
            for bucket in self.held.values()
            if bucket.draining_since is not None
            and (end := bucket.draining_since + self._drain_seconds) > now
        )
        return max(now + _RETRY_SECONDS, min(times))

    def _take(self, lease: LeaseRecord, now: float) -> None:
        """Take a later version of the Lease: begin and end what its table says."""
        if not (
            lease.holder == TABLE_HOLDER or lease.was_released or _is_renewal(lease, self.lease)
        ):
            self._note_leader(self.lease, now)
        self.lease, self._lease_seen_at = lease, now
        self.table = self.refusal = None
        try:
            self.table = table = read_table(lease, buckets=self._buckets, by=self._by)
        except InvalidArgumentError as error:
            self.refusal = error
            self._shut(list(self.held), "the table is another one")
            raise
        if table is None:
            self._knows_members = False
            self._shut(list(self.held), "the table was freed")
            return
        # Awaited ones as well: of a table before the last, which they may not know is gone.
        self._last_owners = table.awaited | {one for one in table.owners if one is not None}
        self._follow(table)

    def _note_leader(self, before: LeaseRecord | None, now: float) -> None:
        """Record that a leader's Lease has ended by hand: its term may last a little longer."""
        if before is not None and before.holder not in {"", TABLE_HOLDER}:
            own = self._options.lease_duration_seconds
            self._free_at = now + max(own, before.duration_seconds or own)

    def _follow(self, table: Table) -> None:
        me = self._me
        if me is None:
            return
        others = [number for number in self.held if table.owners[number] != me]
        self._shut(others, "the table names another owner")
        for number in [n for n in self._shut_buckets if table.owners[n] != me]:
            del self._shut_buckets[number]
        for number in table.of(me):
            if number not in self.held and number not in self._offered:
                is_dirty = number in table.dirty
                bucket = Bucket(number, is_dirty=is_dirty, awaited=table.written)
                before = self._shut_buckets.pop(number, None)
                if before is not None:
                    bucket.wrote = before.wrote
                self.held[number] = bucket

    def _shut(self, numbers: Iterable[int], reason: str) -> None:
        for number in numbers:
            bucket = self.held.pop(number, None)
            if bucket is not None:
                bucket.shut = reason
                if self._me is not None:
                    self._shut_buckets[number] = bucket


def _is_renewal(lease: LeaseRecord, before: LeaseRecord | None) -> bool:
    """Return whether a version of a Lease is of the same term as the one before."""
    return before is not None and (
        (before.uid, before.holder, before.transitions)
        == (lease.uid, lease.holder, lease.transitions)
    )


def quotas(table: Table, sharing: Iterable[Owner]) -> dict[Owner, int]:
    """Return how many buckets each member should have: who has more keeps the larger share.

    So the fewest buckets move.

    Args:
        table: who has what.
        sharing: the members, at least one.
    """
    counts = dict.fromkeys(sharing, 0)
    for owner in table.owners:
        if owner in counts:
            counts[owner] += 1
    least, rest = divmod(len(table.owners), len(counts))
    order = sorted(counts, key=lambda one: (-counts[one], one))
    return {one: least + (place < rest) for place, one in enumerate(order)}
