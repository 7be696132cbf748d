"""One member of a group: it holds its own Lease, follows those of the others, and keeps its share.

`BucketShares` decides; the member sends its requests, one at a time, and begins and ends the work
of the buckets. The loop that follows the share never waits for the network: a request is a task of
its own.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import re
from contextlib import closing, suppress
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Protocol, final

import anyio
import msgspec
from anyio import TASK_STATUS_IGNORED

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import error_text, run_shielded
from pyinformer.errors import (
    ConflictError,
    FencedError,
    ForbiddenError,
    InformerError,
    InvalidArgumentError,
    NotFoundError,
)
from pyinformer.leaderelection import (
    UUID,
    Finished,
    LeaderElector,
    LeaseGroup,
    LeaseRequests,
    Read,
    Wait,
    Write,
    check_lease_name,
    system_clocks,
    unique_identity,
)
from pyinformer.sharding._bucket_lease import BucketLease
from pyinformer.sharding._bucket_shares import (
    BucketShares,
    ReadMember,
    ReadMembers,
    ReadTable,
    Revoke,
    Step,
    WriteTable,
)
from pyinformer.sharding._members import Members
from pyinformer.sharding._options import by_name
from pyinformer.sharding._rivals import rivals_of_member
from pyinformer.sharding._shard import shard_named
from pyinformer.sharding._status import SharingStatus
from pyinformer.sharding._table import GROUP_LABEL, Owner
from pyinformer.telemetry.metrics import NO_METRICS, Sample, fenced, qualified

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from anyio.abc import TaskGroup, TaskStatus

    from pyinformer.client.cluster import Cluster
    from pyinformer.controller.conventions import EventRecorder
    from pyinformer.leaderelection import LeaseRecord, Term
    from pyinformer.sharding._options import Buckets
    from pyinformer.telemetry.metrics import Metrics

_log = get_logger(__name__)

_LOOK_SECONDS: Final = 0.1  # at reconciles that are about to end
_CLEAN_UP_SECONDS: Final = 600.0  # a member that returns after that creates its Lease again
_SPREAD_SECONDS: Final = 0.5  # of two writes at once, the server refuses one
_MAX_NAME: Final = 253
_ORDERLY: Final = "the bucket is given up"
_UNIQUE: Final = re.compile(f"(.+)_({UUID})")  # what unique_identity returns
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


class BucketWork(Protocol):
    """What a member does with its buckets, on the event loop."""

    @property
    def last_error(self) -> str:
        """Why some keys have no bucket; empty if all have one."""
        ...

    def begin(self, leases: Sequence[BucketLease]) -> None:
        """Begin with buckets: open each when the caches hold what earlier owners wrote."""
        ...

    def leave(self, leases: Sequence[BucketLease]) -> None:
        """End what would not end by itself: buckets are to be given up when nothing runs."""
        ...

    def resume(self, lease: BucketLease) -> None:
        """Dispatch keys again: the bucket was about to be given up, and is not."""
        ...

    def cancel(self, lease: BucketLease, reason: str) -> None:
        """Cancel the reconciles of a bucket."""
        ...

    def end(self, lease: BucketLease) -> None:
        """End with a bucket that is shut: cancel what still runs, and forget its requests."""
        ...

    def is_busy(self, number: int) -> bool:
        """Return whether something of a bucket runs that has to end before it is given up."""
        ...

    def is_costly(self, number: int) -> bool:
        """Return whether another bucket should be given up: a reconcile of this one runs.

        Or a daemon that ignores its cancellation; else a daemon costs nothing.
        """
        ...

    def is_unfinished(self, number: int) -> bool:
        """Return whether something of a bucket was cut short, or failed, that no event repeats."""
        ...


@final
class GroupMember:
    """A member, from `run` until that is cancelled.

    Args:
        cluster: where the Leases are.
        group: the operator's name, which is that of the Lease with the table.
        buckets: how the keys are shared; its namespace is set.
        work: what is done with the buckets.
        grace_seconds: how long work takes to end after it was cancelled.
        recorder: where Events are recorded: that a member joined, left, or was revoked.
        metrics: where its metrics go.
        ends_process: whether a thread ends the process if work outlives that Lease.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        *,
        buckets: Buckets,
        work: BucketWork,
        grace_seconds: float,
        recorder: EventRecorder,
        metrics: Metrics,
        ends_process: bool,
    ) -> None:
        namespace = buckets.namespace or cluster.config.namespace
        identity = buckets.identity or unique_identity()
        self.name: str = _lease_name(group, identity)
        """The name of its own Lease."""
        self._cluster, self._group, self._namespace = cluster, group, namespace
        self._table = f"{namespace}/{group}"
        self._buckets = buckets
        self._work = work
        self._recorder = recorder
        options = buckets.options
        # All that it has is given up before the Lease is released.
        end_seconds = buckets.drain_seconds + grace_seconds + options.renew_deadline_seconds
        self.end_timeout_seconds: float = max(options.end_timeout_seconds, end_seconds)
        """How long its end may take."""
        self.elector: LeaderElector = LeaderElector(
            cluster,
            self.name,
            namespace=namespace,
            identity=identity,
            options=replace(options, end_timeout_seconds=self.end_timeout_seconds),
            ends_process=ends_process if buckets.ends_process is None else buckets.ends_process,
            recorder=recorder,
            metrics=NO_METRICS,  # a Lease of each process would be a series of each process
            group=LeaseGroup(GROUP_LABEL, group, self),
        )
        """Competes for its own Lease, whose term is a life of the member."""
        self._members = Members(options.lease_duration_seconds)
        self._rivals = rivals_of_member(cluster, group, namespace, own=self.name, options=options)
        self.shares: BucketShares = BucketShares(
            group,
            namespace,
            member=self.name,
            buckets=buckets.count,
            by=by_name(buckets.by),
            members=self._members,
            options=options,
            drain_seconds=buckets.drain_seconds,
            is_costly=work.is_costly,
        )
        """Decides."""
        self._clock: Callable[[], float] = float
        self._wall: Callable[[], float] = float
        self._requests: LeaseRequests
        self._term: Term | None = None
        self._leases: dict[int, BucketLease] = {}
        self._draining: set[int] = set()
        self._wake = anyio.Event()
        self._is_requesting = self._is_aborted = self._has_lost = self._has_warned = False
        self._errors: dict[type, str] = {}  # the last of each kind of request that fails
        self._without_owner = 0
        self._without_owner_since = 0.0
        self._living = self._moves = 0
        self._seen_at = 0.0
        self._look_at = 0.0  # when to do what a new table asks for: not all members at once
        self._rng = random.Random()
        self._metrics = fenced(metrics)
        self._labels = {"name": qualified(group, cluster.name)}
        self._refused: Callable[[], None] = lambda: None

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Share until cancelled.

        Args:
            task_status: notified when it runs.

        Raises:
            InvalidArgumentError: the other members share in another way, or one of them has the
                same identity.
            LifecycleError: work did not end in time after it was cancelled.

        Cancellation:
            Gives all buckets up, each when its reconciles have ended, releases the own Lease, and
            then takes effect.
        """
        self._clock, self._wall = system_clocks(self._cluster)
        timeout_seconds = self._buckets.options.request_timeout_seconds
        self._requests = LeaseRequests(
            self._cluster, self._namespace, timeout_seconds=timeout_seconds
        )
        try:
            with closing(self._metrics.scope()) as scope:
                scope.add_source(self._samples)
                self._refused = scope.counter("sharing_fenced_writes_total", self._labels).inc
                await self.elector.run(self._live, task_status=task_status)
        finally:
            await run_shielded("the close of a member's requests", self._requests.aclose())

    def abort(self) -> None:
        """End `run()` at once: work that still runs is left behind, and nothing is given up.

        None of its writes is sent any more.
        """
        self._is_aborted = True
        self.elector.abort()

    def status(self) -> SharingStatus:
        """Return the state; from any thread."""
        buckets = [one.bucket for one in tuple(self._leases.values())]
        draining = sum(one.draining_since is not None for one in buckets)
        elector = self.elector.status()
        is_member = elector.is_leading
        since, now = self._without_owner_since, self._clock()
        without_owner = self._without_owner if is_member else 0  # else it follows no table
        return SharingStatus(
            table=self._table,
            member=self.name,
            by=by_name(self._buckets.by),
            buckets=self._buckets.count,
            members=self._living if is_member else 0,
            open=sum(one.admits for one in buckets),
            catching_up=sum(not (one.is_open or one.is_leaving) for one in buckets),
            draining=draining,
            without_owner=without_owner,
            without_owner_seconds=max(0.0, now - since) if without_owner else 0.0,
            is_member=is_member,
            is_overdue=elector.is_overdue,
            last_error=(
                elector.watch_refusal
                or next(iter(self._errors.values()), "")
                or elector.last_error
                or self._work.last_error
            ),
        )

    def _samples(self) -> Iterable[Sample]:
        """Return the figures that are state; on any thread."""
        status, labels = self.status(), self._labels
        for state in ("open", "catching_up", "draining"):
            yield Sample("sharing_buckets", {**labels, "state": state}, getattr(status, state))
        yield Sample("sharing_members", labels, status.members)
        yield Sample("sharing_buckets_without_owner", labels, status.without_owner)
        yield Sample("sharing_without_owner_seconds", labels, status.without_owner_seconds)
        yield Sample("sharing_lives_total", labels, self.elector.status().terms)
        yield Sample("sharing_moves_total", labels, self._moves)

    @property
    def waits_for(self) -> str:
        """Why it may not join: members or shards are left that share in another way."""
        refusal = self.shares.refusal
        if refusal is not None and self._members.living(self._clock()):
            return str(refusal)
        return self._rivals.waits_for

    def on_watched(self, lease: LeaseRecord) -> None:
        """Take a version of a Lease of the group."""
        now = self._clock()
        if lease.name == self._group:
            try:
                self.shares.on_table(lease, now)
            except InvalidArgumentError as error:  # next_step raises it in a life
                if str(error) != self._errors.get(type(error)) and self._term is None:
                    _log.error("%s waits to share: %s", self.name, error)
                    self._errors[type(error)] = str(error)
            if now >= self._look_at:
                self._look_at = now + self._rng.uniform(0.0, _SPREAD_SECONDS)
        elif self._is_shard(lease.name):
            self._rivals.on_watched(lease)
        else:
            self._members.on_watched(lease.name, lease, now)
        self._changed()

    def on_watched_deletion(self, name: str, uid: str) -> None:
        """Take the deletion of a Lease of the group, or of its label."""
        if name == self._group:
            self.shares.on_no_table(self._clock(), uid=uid)
        elif self._is_shard(name):
            self._rivals.on_watched_deletion(name, uid)
        else:
            self._members.on_left(name)
        self._changed()

    def _is_shard(self, name: str) -> bool:
        return name != self.name and shard_named(name, self._group) is not None

    async def _live(self, term: Term) -> None:
        """Keep a share until the term ends; give it up if the program ends."""
        loop = asyncio.get_running_loop()
        await self._rivals.settle(term)
        self._term = term
        self.shares.begin(Owner(self.name, term.uid, term.transitions))
        take_back = term.on_end(lambda: _soon(loop, self._changed))
        try:
            await self._share(term)
            await anyio.sleep_forever()  # the term is over: the elector cancels this
        except asyncio.CancelledError:
            if not term.has_ended:
                self.shares.leave()
                await run_shielded("the leave of a member", self._share(term))
            raise
        finally:
            take_back()
            await run_shielded("the end of a member's work", self._end())
            self._term = None

    async def _end(self) -> None:
        """End the life: shut what is left, and wait until its reconciles have ended.

        The next owner does not wait for them, and none of their writes is sent.
        """
        left = tuple(self._leases.values())
        self.shares.end("the member's Lease is lost")
        self._apply()
        numbers = [one.bucket.number for one in left]
        while any(map(self._work.is_busy, numbers)):
            if self._is_aborted:
                break
            await anyio.sleep(_LOOK_SECONDS)

    async def _share(self, term: Term) -> None:
        """Do what `BucketShares` says, until nothing is left or the term is over.

        Raises:
            InvalidArgumentError: the other members share in another way.
            FencedError: no watch shows the own Lease any more.
        """
        failure: InformerError | None = None
        async with anyio.create_task_group() as requests:
            requests.start_soon(self._clean_up)
            try:
                await self._follow(term, requests)
            except (FencedError, InvalidArgumentError) as error:  # not in a group
                failure = error
            requests.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _clean_up(self) -> None:
        """Delete the Leases of members that are gone, now and then.

        A member has a new Lease after each restart. One of the living does it, and without the
        right to delete nothing is done.
        """
        while True:
            await anyio.sleep(_CLEAN_UP_SECONDS)
            now, table = self._clock(), self.shares.table
            first = min((one.lease for one in self._members.living(now)), default="")
            if table is None or first != self.name:
                continue
            named = {one.lease for one in table.members}
            for lease in self._members.left_behind(now, _CLEAN_UP_SECONDS):
                if lease.name in named:
                    continue
                try:
                    await self._requests.delete(lease)
                except InformerError as error:
                    _log.debug("%s: the Lease %s is not deleted: %s", self.name, lease.name, error)
                    break

    def _check_seen(self, term: Term) -> None:
        """End the life if no watch shows its Lease: the others share without it, or should.

        Raises:
            FencedError: none has for the whole duration of a Lease.
        """
        now = self._clock()
        if self._members.sees(self.name):
            self._seen_at = now
        elif now >= self._seen_at + self._buckets.options.lease_duration_seconds:
            reason = "no watch shows it, so that this replica does not know the others"
            raise FencedError(lease=term.lease, reason=reason)

    async def _follow(self, term: Term, requests: TaskGroup) -> None:
        self._seen_at = self._clock()
        while not term.has_ended:
            self._wake = anyio.Event()
            self._check_seen(term)
            step: Step = Wait(math.inf if self._is_requesting else self._look_at)
            if not self._is_requesting and self._clock() >= self._look_at:
                self._look_for_unfinished()
                step = self.shares.next_step(
                    self._clock(), self._wall(), is_busy=self._work.is_busy
                )
            self._apply()
            match step:
                case Finished():
                    return
                case Wait(until):
                    await self._wait(until)
                case request:
                    self._is_requesting = True
                    requests.start_soon(self._send, request)

    def _look_for_unfinished(self) -> None:
        """Mark the buckets that would not be whole if they were given up now."""
        for lease in self._leases.values():
            is_cut = lease.is_writing or self._work.is_unfinished(lease.bucket.number)
            lease.bucket.is_unfinished = is_cut

    async def _wait(self, until: float) -> None:
        seconds = max(0.0, until - self._clock())
        if self._draining:
            seconds = min(seconds, _LOOK_SECONDS)
        with anyio.move_on_after(seconds):
            await self._wake.wait()

    def _changed(self) -> None:
        """Follow a change at once, also while a request is under way."""
        self._apply()
        self._wake.set()

    def _apply(self) -> None:
        """Begin and end the work of buckets, as the share is now."""
        term, held, now = self._term, self.shares.held, self._clock()
        if term is None:
            return
        ended = [
            one for one in self._leases.values() if held.get(one.bucket.number) is not one.bucket
        ]
        for lease in ended:
            del self._leases[lease.bucket.number]
            self._draining.discard(lease.bucket.number)
            lease.cut_off_writes()
            self._work.end(lease)
        begun = [
            BucketLease(bucket, term, self._table, self._refused)
            for number, bucket in held.items()
            if number not in self._leases
        ]
        self._leases.update({one.bucket.number: one for one in begun})
        if begun:
            self._work.begin(begun)
        draining = {
            number for number, one in self._leases.items() if one.bucket.draining_since is not None
        }
        if leaving := draining - self._draining:
            self._draining |= leaving
            self._work.leave([self._leases[number] for number in leaving])
        for number, lease in self._leases.items():
            if number in self._draining and number not in draining:
                self._draining.discard(number)
                self._work.resume(lease)
        for number in self.shares.to_cancel(now):
            self._work.cancel(self._leases[number], _ORDERLY)
        self._moves += len(begun) + len(ended)
        self._log(begun, ended)
        self._look_for_owners(now)

    def _log(self, begun: Sequence[BucketLease], ended: Sequence[BucketLease]) -> None:
        has = f"has {len(self._leases)} of {self._buckets.count}"
        if ended:
            reason = ended[0].bucket.shut
            if reason == _ORDERLY:
                _log.info("%s has given %d buckets up; it %s", self.name, len(ended), has)
            else:
                _log.warning(
                    "%s has lost %d buckets: %s; it %s", self.name, len(ended), reason, has
                )
                self._has_lost = True
        if begun:
            dirty = sum(one.bucket.is_dirty for one in begun)
            what = f", {dirty} of them when its caches were compared with lists" if dirty else ""
            level = logging.WARNING if self._has_lost else logging.INFO  # the end of that
            _log.log(level, "%s takes %d buckets%s; it %s", self.name, len(begun), what, has)
            self._has_lost = False

    def _look_for_owners(self, now: float) -> None:
        """Count the buckets that no living member has."""
        living, table = self._members.living(now), self.shares.table
        self._living = len(living)
        has_too_many = self._living > self._buckets.count
        if has_too_many and not self._has_warned:
            _log.warning(
                "%s: %d replicas share %d buckets of %s, so some have none: raise `count` of"
                " Buckets in all of them, or run fewer",
                self.name,
                self._living,
                self._buckets.count,
                self._table,
            )
        self._has_warned = has_too_many
        before = self._without_owner
        self._without_owner = (
            self._buckets.count
            if table is None
            else sum(owner not in living for owner in table.owners)
        )
        if not before:
            self._without_owner_since = now

    async def _send(self, request: Step) -> None:
        """Send one request, and report how it ended."""
        is_reported = False
        try:
            await self._send_one(request)
            is_reported = True
        except (InformerError, msgspec.DecodeError) as error:
            if isinstance(error, ForbiddenError):
                error = error.with_hint("grant what `pyinformer rbac` prints")
                pause_seconds = self._buckets.options.retry_period_seconds
                self._look_at = max(self._look_at, self._clock() + pause_seconds)
            text = str(error) if isinstance(error, InformerError) else error_text(error)
            if text != self._errors.get(type(request)):
                _log.warning("%s: the table %s: %s", self.name, self._table, text)
            self._errors[type(request)] = text
        else:
            for kind in (type(request), InvalidArgumentError):
                self._errors.pop(kind, None)
        finally:  # cancelled, too: whether a write was carried out is unknown
            if not is_reported:
                self.shares.on_failure(self._clock())
            self._is_requesting = False
            self._changed()

    async def _send_one(self, request: Step) -> None:
        requests, shares = self._requests, self.shares
        match request:
            case ReadTable():
                lease = await _found(requests.send(self._group, Read()))
                with suppress(InvalidArgumentError):  # next_step raises it
                    if lease is None:
                        shares.on_no_table(self._clock())
                    else:
                        shares.on_table(lease, self._clock())
            case WriteTable(body, creates):
                await self._write_table(Write(body, creates=creates))
            case ReadMembers():
                found = await requests.list(GROUP_LABEL, self._group)
                for name in found.keys() - {self._group}:
                    if not self._is_shard(name):
                        self._members.on_lease(name, found[name], self._clock())
                shares.on_members()
            case ReadMember(name):
                self._saw_member(name, await _found(requests.send(name, Read())))
            case Revoke(name, body):
                self._saw_member(name, await self._revoke(name, Write(body)))

    async def _revoke(self, name: str, write: Write) -> LeaseRecord | None:
        try:
            lease = await _found(self._requests.send(name, write))
        except ConflictError:  # it lives, or another member was faster
            return await _found(self._requests.send(name, Read()))
        if lease is not None:
            _log.warning("%s has revoked %s, which was not renewed in time", self.name, name)
            note = f"{name} was revoked by {self.elector.identity}: it was not renewed in time"
            self._recorder.event(lease.body, "Sharing", note, type="Warning", action="Revoke")
        return lease

    async def _write_table(self, write: Write) -> None:
        try:
            lease = await self._requests.send(self._group, write)
        except ConflictError:
            self.shares.on_conflict(self._clock())
        except NotFoundError as error:
            if write.creates or not error.names_object:
                raise
            self.shares.on_no_table(self._clock())
        else:
            with suppress(InvalidArgumentError):  # next_step raises it
                self.shares.on_written(lease, self._clock())

    def _saw_member(self, name: str, lease: LeaseRecord | None) -> None:
        if lease is None:
            self._members.on_absent(name)
        else:
            self._members.on_lease(name, lease, self._clock())
        self.shares.on_done()


async def _found(request: Coroutine[None, None, LeaseRecord]) -> LeaseRecord | None:
    """Return the Lease of a response; None if the server says that there is none.

    Raises:
        InformerError: the request failed in another way; a 404 of a proxy counts so.

    Cancellation:
        That of the request.
    """
    try:
        return await request
    except NotFoundError as error:
        if not error.names_object:
            raise
        return None


def _soon(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call a function on a loop, unless that has ended; from any thread."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function)


def _lease_name(group: str, identity: str) -> str:
    """Return the name of a member's Lease: another one for each identity, as readable as can be.

    The dot distinguishes it from the table of an operator whose name begins with this one's.
    """
    unique = _UNIQUE.fullmatch(identity)
    shown = "-".join(unique.groups()) if unique else identity
    name = f"{group}.{shown}"
    with suppress(InvalidArgumentError):  # then it is made from a digest
        check_lease_name("identity", name)
        return name
    digest = blake2b(identity.encode(errors="backslashreplace"), digest_size=8).hexdigest()
    kept = _NOT_IN_NAMES.sub("-", shown.lower())[: _MAX_NAME - len(group) - len(digest) - 2]
    return f"{group}.{kept.strip('-.')}-{digest}".replace(".-", ".")
