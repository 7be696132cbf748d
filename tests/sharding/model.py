"""A model of a group, a network and a server, in virtual time: who may write for which bucket.

Every process drives the real `Election`, `Members` and `BucketShares`. The network delays and loses
requests and responses, and a request may arrive long after its sender has stopped waiting for it.
Processes are paused, crash and leave, clocks run at different rates, the server is away for a
while, and people delete Leases, the table and labels. A write for a bucket that leaves a process
while the table names another owner is a violation, and so is a bucket that is claimed while the
guard of another process is open for it.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pyinformer.leaderelection import (
    Election,
    LeaderElectionOptions,
    LeaseRecord,
    read_lease,
)
from pyinformer.sharding import GROUP_LABEL, BucketShares, Members, Owner, read_table
from tests.schedules import Schedule, ScheduledProcess

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = "db"
BUCKETS = 8
_ELECTION, _SHARES, _MEMBERS = map(inspect.getmodule, (Election, BucketShares, Members))
_OPTIONS = LeaderElectionOptions()
_DRAIN_SECONDS = 4.0
_FAULTS_END_AT = 40.0
_END_AT = 120.0
_LET_GO = {"", "the bucket is given up"}
_MOST_PROCESSES = 5
_TERM_SECONDS = 30.0  # the longest term, and the longest lag of a watch
_LATE_SECONDS = 25.0  # how long after its sender gave up a request may still arrive


@dataclass(frozen=True, kw_only=True)
class Bugs:
    """What a process does wrong; nothing by default."""

    election: Any = _ELECTION
    shares: Any = _SHARES
    members: Any = _MEMBERS
    skips_drain: bool = False
    forgets_uids: bool = False


@dataclass(kw_only=True)
class Outcome:
    """What happened in one schedule."""

    writes: int = 0
    refused: int = 0
    claims: int = 0
    lives: int = 0
    revoked: int = 0
    late: int = 0
    violations: list[str] = field(default_factory=list)
    shares: list[int] = field(default_factory=list)
    """At the end: how many open buckets each living process has."""


class Server:
    """The Leases of a group, in versions; it may be away."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.leases: dict[str, LeaseRecord] = {}
        self.version = 0
        self.away_until = -math.inf

    def owners(self) -> tuple[Owner | None, ...]:
        """Return the owner of each bucket."""
        lease = self.leases.get(GROUP)
        table = None if lease is None else read_table(lease, buckets=BUCKETS, by="key")
        return (None,) * BUCKETS if table is None else table.owners

    def write(self, name: str, body: Any, *, creates: bool) -> tuple[str, LeaseRecord | None]:
        """Carry a write out; return what the callback is and the Lease."""
        metadata, known = body["metadata"], self.leases.get(name)
        if creates:
            if known is not None:
                return "conflict", None
            self.version += 1
            return "lease", self._put(name, body, f"u{self.version}")
        if known is None:
            return "conflict", None  # as a kube-apiserver: the uid is a precondition
        if (metadata["uid"], metadata["resourceVersion"]) != (known.uid, known.resource_version):
            return "conflict", None
        return "lease", self._put(name, body, known.uid)

    def _put(self, name: str, body: Any, uid: str) -> LeaseRecord:
        before = self.owners()
        self.version += 1
        metadata = {**body["metadata"], "uid": uid, "resourceVersion": str(self.version)}
        lease = self.leases[name] = read_lease({**body, "metadata": metadata})
        if name == GROUP:
            self._model.table_changed(before, self.owners())
        self._model.show(name, lease)
        return lease

    def delete(self, name: str) -> None:
        """Delete a Lease by hand."""
        lease = self.leases.pop(name, None)
        if lease is not None:
            self.version += 1
            self._model.show(name, lease, is_gone=True)

    def unlabel(self, name: str) -> None:
        """Remove the label of a Lease by hand."""
        lease = self.leases.get(name)
        if lease is not None:
            self.version += 1
            metadata: Any = lease.body["metadata"]
            metadata = {**metadata, "labels": {}, "resourceVersion": str(self.version)}
            self.leases[name] = read_lease({**lease.body, "metadata": metadata})
            self._model.show(name, lease, is_gone=True)

    def labelled(self) -> dict[str, LeaseRecord]:
        """Return the Leases that a list by label has."""
        return {name: lease for name, lease in self.leases.items() if is_labelled(lease)}


def is_labelled(lease: LeaseRecord) -> bool:
    """Return whether a Lease has the label of the group."""
    metadata: Any = lease.body["metadata"]
    return bool((metadata.get("labels") or {}).get(GROUP_LABEL) == GROUP)


class Process(ScheduledProcess):
    """One replica: its clocks, its Lease, its share, its work."""

    def __init__(self, model: Model, number: int) -> None:
        bugs = model.bugs
        super().__init__(model, f"db-r{number}")
        self.model = model
        self.is_leaving = False
        self.election = bugs.election.Election(
            self.name,
            "n",
            identity=self.name,
            options=_OPTIONS,
            rng=model.rng,
            labels={GROUP_LABEL: GROUP},
        )
        self.members = bugs.members.Members(_OPTIONS.lease_duration_seconds)
        self.shares = bugs.shares.BucketShares(
            GROUP,
            "n",
            member=self.name,
            buckets=BUCKETS,
            by="key",
            members=self.members,
            options=_OPTIONS,
            drain_seconds=_DRAIN_SECONDS,
        )
        self.tenure: Any = None
        self.me: Owner | None = None
        self.watched_until = model.now
        self.busy: dict[int, int] = dict.fromkeys(range(BUCKETS), 0)
        self.worked: dict[int, Any] = {}
        """By number: the bucket of the last dispatch."""
        self.opening: set[int] = set()
        self._requests = {"election": 0, "shares": 0}  # the numbers of those under way
        self._wakes = {"election": 0, "shares": 0}

    def tick(self) -> None:
        """Do what both state machines say."""
        self._tick_election()
        self._tick_shares()

    def _tick_election(self) -> None:
        self._follow_term()
        if self._requests["election"]:
            return
        step = self.election.next_step(self.clock(), self.wall())
        self._follow_term()
        module = self.model.bugs.election
        if isinstance(step, module.Wait):
            self._tick_at("election", step.until, self._tick_election)
        elif isinstance(step, module.Finished):
            self.is_dead = True
            self.model.replace(self)
        else:
            is_write = isinstance(step, module.Write)

            def carry_out() -> tuple[str, LeaseRecord | None]:
                server = self.model.server
                if is_write:
                    return server.write(self.name, step.body, creates=step.creates)
                lease = server.leases.get(self.name)
                return ("absent" if lease is None else "lease"), lease

            self._send("election", step, carry_out, self._elected)

    def _elected(self, answer: str, lease: LeaseRecord | None) -> None:
        if lease is not None:
            self.election.on_lease(lease, self.clock())
            self.members.on_lease(self.name, lease, self.clock())
        else:
            getattr(self.election, f"on_{answer}")(self.clock())
        self.tick()

    def _tick_shares(self) -> None:
        if self._requests["shares"]:
            return
        shares, module = self.shares, self.model.bugs.shares
        self._open_later()
        step = shares.next_step(self.clock(), self.wall(), is_busy=self._is_busy)
        self._open_later()
        for number in shares.to_cancel(self.clock()):
            self.at(0.1, lambda number=number: self._cancel(number))  # type: ignore[misc]
        match type(step).__name__:
            case "Wait":
                self._tick_at("shares", step.until, self._tick_shares)
            case "Finished":
                if self.is_leaving and not any(self.busy.values()):
                    self._release()
            case _:
                carry_out = partial(self._carry_out, module, step)
                self._send("shares", step, carry_out, self._shared(step))

    def _carry_out(self, module: Any, step: Any) -> tuple[str, Any]:
        server = self.model.server
        if isinstance(step, module.ReadTable):
            lease = server.leases.get(GROUP)
            return ("absent" if lease is None else "lease"), lease
        if isinstance(step, module.ReadMembers):
            return "members", server.labelled()
        if isinstance(step, module.ReadMember):
            lease = server.leases.get(step.name)
            return ("absent" if lease is None else "lease"), lease
        if isinstance(step, module.Revoke):
            answer, lease = server.write(step.name, step.body, creates=False)
            if answer == "lease":
                self.model.outcome.revoked += 1
                return answer, lease
            lease = server.leases.get(step.name)  # as the shell: a conflict is read again
            return ("absent" if lease is None else "lease"), lease
        return server.write(GROUP, step.body, creates=step.creates)

    def _shared(self, step: Any) -> Callable[[str, Any], None]:
        module, shares = self.model.bugs.shares, self.shares

        def answered(answer: str, found: Any) -> None:
            now = self.clock()
            if answer == "failure":
                shares.on_failure(now)
            elif isinstance(step, module.ReadMembers | module.ReadMember | module.Revoke):
                self._saw_members(step, found, now)
            elif answer == "conflict":
                shares.on_conflict(now)
            elif found is None:
                shares.on_no_table(now)
            elif isinstance(step, module.WriteTable):
                shares.on_written(found, now)
            else:
                shares.on_table(found, now)
            self.tick()

        return answered

    def _saw_members(self, step: Any, found: Any, now: float) -> None:
        if isinstance(step, self.model.bugs.shares.ReadMembers):
            for name, lease in found.items():
                if name != GROUP:
                    self.members.on_lease(name, lease, now)
            self.shares.on_members()
            return
        if found is None:
            self.members.on_absent(step.name)
        else:
            self.members.on_lease(step.name, found, now)
        self.shares.on_done()

    def _tick_at(self, which: str, until: float, call: Callable[[], None]) -> None:
        self._wakes[which] += 1
        number = self._wakes[which]
        if until < math.inf:
            seconds = max(0.0, (until - self.clock()) / self.rate) + 1e-6
            self.at(seconds, lambda: call() if number == self._wakes[which] else None)

    def _send(
        self,
        which: str,
        step: Any,
        carry_out: Callable[[], tuple[str, Any]],
        answered: Callable[[str, Any], None],
    ) -> None:
        model = self.model
        model.requests += 1
        self._requests[which] = number = model.requests
        there, back = model.way_of(self, step)

        def once(answer: str, found: Any) -> None:
            if self._requests[which] == number:
                self._requests[which] = 0
                answered(answer, found)

        def arrive() -> None:
            if there is None or model.now < model.server.away_until:
                return
            answer, found = carry_out()
            if self._requests[which] != number:
                model.outcome.late += 1
            elif back is not None:
                self.at(back, lambda: once(answer, found))

        model.at(there or 0.0, arrive)
        timeout = _OPTIONS.request_timeout_seconds / self.rate
        self.at(timeout, lambda: once("failure", None))

    def watched(self, name: str, lease: LeaseRecord, *, is_gone: bool) -> None:
        """Take an event of the watch by label."""
        now = self.clock()
        if name == GROUP:
            if is_gone:
                self.shares.on_no_table(now, uid=lease.uid)
            else:
                self.shares.on_table(lease, now)
        elif is_gone:
            self.members.on_left(name)
        else:
            self.members.on_watched(name, lease, now)
        if name == self.name:
            if is_gone:
                self.election.on_watched_deletion(lease.uid, now)
            else:
                self.election.on_watched(lease, now)
        self.tick()

    def _follow_term(self) -> None:
        """Begin and end lives, as the member's elector does."""
        tenure = self.election.tenure
        if self.tenure is None and tenure is not None:
            self.tenure = tenure
            self.election.is_candidate = False
            lease = self.election.lease
            uid = "" if self.model.bugs.forgets_uids else lease.uid
            self.me = Owner(self.name, uid, lease.transitions)
            self.shares.begin(self.me)
            self.model.outcome.lives += 1
        elif self.tenure is not None and self.tenure.ended:
            self.tenure = self.me = None
            self.shares.end("the member's Lease is lost")
            self.opening.clear()
            self.at(self.model.rng.uniform(0, 2), self._candidate_again)

    def _candidate_again(self) -> None:
        self.busy = dict.fromkeys(range(BUCKETS), 0)  # cancelled, and awaited
        if not self.is_leaving:
            self.election.is_candidate = True
            self._tick_election()

    def _open_later(self) -> None:
        """Begin the barrier of each new bucket."""
        for number, bucket in self.shares.held.items():
            if not bucket.is_open and number not in self.opening:
                self.opening.add(number)
                seconds = self.model.rng.choice((0.0, 0.05, 1.0))
                tenure = self.tenure
                self.at(seconds, lambda b=bucket, t=tenure: self._open(b, t))  # type: ignore[misc]

    def _open(self, bucket: Any, tenure: Any) -> None:
        self.opening.discard(bucket.number)
        if bucket.shut or self.shares.held.get(bucket.number) is not bucket:
            return
        bucket.is_open = True
        self._work(bucket, tenure)

    def may_write(self, bucket: Any, tenure: Any) -> bool:
        """Return whether the guard of a bucket is open."""
        return not (bucket.shut or tenure.why_shut(self.clock(), self.wall()))

    def _work(self, bucket: Any, tenure: Any) -> None:
        """Dispatch, wait on the way out, and write, again and again."""
        rng = self.model.rng

        def dispatch() -> None:
            if bucket.shut:
                return
            if bucket.admits and self.may_write(bucket, tenure):
                self.model.dispatched(self, bucket.number)
                self.worked[bucket.number] = bucket
                self.busy[bucket.number] += 1
                self.at(rng.choice((0.0, 0.01, 0.5, rng.uniform(0, 9))), leave)
            self._work(bucket, tenure)

        def leave() -> None:
            if self.may_write(bucket, tenure):
                bucket.record_write("pods.v1", str(self.model.server.version))
                self.model.wrote(self, bucket.number)
            else:
                self.model.outcome.refused += 1
            if self.busy[bucket.number]:
                self.busy[bucket.number] -= 1
            self._tick_shares()

        self.at(rng.uniform(0.2, 2.5), dispatch)

    def _is_busy(self, number: int) -> bool:
        return bool(self.busy[number]) and not self.model.bugs.skips_drain

    def _cancel(self, number: int) -> None:
        if self.busy[number]:
            self.busy[number] = 0
            self._tick_shares()

    def leave(self) -> None:
        """End in order: give all buckets up, then release the Lease."""
        if not self.is_leaving:
            self.is_leaving = True
            self.election.is_candidate = False
            self.shares.leave()
            self.tick()

    def _release(self) -> None:
        if not self.election.is_releasing:
            self.shares.end("the member leaves")
            self.me = self.tenure = None
            self.election.release(self.clock(), None)
            self._tick_election()

    @property
    def is_working(self) -> bool:
        """Whether it is neither dead, leaving nor paused."""
        return not (self.is_dead or self.is_leaving or self.model.now < self.paused_until)

    def open_buckets(self) -> list[int]:
        """Return the buckets for which a write could leave this process now."""
        if self.is_dead or self.tenure is None:
            return []
        return [
            number
            for number, bucket in self.shares.held.items()
            if bucket.is_open and self.may_write(bucket, self.tenure)
        ]


class Model(Schedule):
    """One schedule, drawn from a seed."""

    def __init__(self, seed: int, bugs: Bugs | None = None) -> None:
        slowest = (0.05, 2.0, 8.0, _LATE_SECONDS)
        super().__init__(seed, slowest=slowest, faults_end_at=_FAULTS_END_AT)
        self.bugs = bugs or Bugs()
        self.requests = 0
        self.outcome = Outcome()
        self.server = Server(self)
        self._erased_at: dict[str, float] = {}
        self._named = self.rng.randint(1, 4)
        self.processes = [Process(self, number) for number in range(self._named)]

    def way_of(self, _process: Process, _step: Any) -> tuple[float | None, float | None]:
        """Return how long a request takes, and its response; None if that is lost."""
        return self.delay(), self.delay()

    def show(self, name: str, lease: LeaseRecord, *, is_gone: bool = False) -> None:
        """Show an event to all that watch, in order."""
        if not (is_gone or is_labelled(lease)):
            return
        for process in self.processes:
            after = max(self.now + (self.delay() or 0.0), process.watched_until + 1e-6)
            process.watched_until = after
            process.at(
                after - self.now,
                lambda one=process: one.watched(name, lease, is_gone=is_gone),  # type: ignore[misc]
            )

    def table_changed(
        self, before: tuple[Owner | None, ...], after: tuple[Owner | None, ...]
    ) -> None:
        """Judge the guards of all others for each bucket that is claimed."""
        for number, (was, owner) in enumerate(zip(before, after, strict=True)):
            if owner in {None, was}:
                continue
            self.outcome.claims += 1
            for process in self.processes:
                if process.me != owner and number in process.open_buckets():
                    text = f"{self.now:.3f}: {owner} claims {number}, {process.name} may write"
                    self.outcome.violations.append(text)

    def wrote(self, process: Process, number: int) -> None:
        """Judge a write that leaves a process now."""
        self.outcome.writes += 1
        owner = self.server.owners()[number]
        if owner not in {None, process.me}:
            text = f"{self.now:.3f}: {process.name} writes for {number}, which {owner} owns"
            self.outcome.violations.append(text)

    def dispatched(self, process: Process, number: int) -> None:
        """Judge a dispatch: no other living member may be at work for that bucket."""
        for other in self.processes:
            if other is process or other.is_dead or other.tenure is None:
                continue
            # A table that is deleted by hand shuts buckets at work: that is cancelled, and fenced.
            is_let_go = number in other.worked and other.worked[number].shut in _LET_GO
            is_valid = not other.tenure.why_shut(other.clock(), other.wall())
            if other.busy[number] and is_let_go and is_valid:
                text = f"{self.now:.3f}: {process.name} and {other.name} both work for {number}"
                self.outcome.violations.append(text)

    def replace(self, gone: Process) -> None:
        """Start a new process some time after one has ended."""
        self.at(self.rng.uniform(0.1, 5.0), lambda: self._replace(gone))

    def _replace(self, gone: Process) -> None:
        if gone in self.processes:
            self.processes.remove(gone)
            self.start()

    def start(self) -> Process:
        """Start a new process, which is shown what exists."""
        new = Process(self, self._named)
        self._named += 1
        self.processes.append(new)
        for name, lease in self.server.labelled().items():
            new.watched(name, lease, is_gone=False)
        new.tick()
        return new

    def run(self) -> Outcome:
        """Play the schedule."""
        for process in self.processes:
            self.at(self.rng.uniform(0, 3), process.tick)
        for _ in range(self.rng.randrange(8)):
            self.at(self.rng.uniform(2, _FAULTS_END_AT), self._trouble)
        for _ in self.play(_END_AT):
            if self.outcome.violations:
                break
        self.outcome.shares = [len(one.open_buckets()) for one in self.processes if one.is_working]
        return self.outcome

    def _trouble(self) -> None:
        self._hit(self.rng.choice(self.processes))

    def _hit(self, process: Process) -> None:
        if process.is_dead:
            return
        choices = (
            *(self._pause, self._pause, self._crash, self._leave, self._join, self._go_away),
            *(self._step_clock, self._lag, self._lag, self._delete, self._delete),
            *(self._unlabel, self._delete_table, self._come_and_go),
        )
        self.rng.choice(choices)(process)
        if self.rng.random() < 0.5 and self.now < _FAULTS_END_AT:
            self.at(self.rng.uniform(0, 4), lambda: self._hit(process))

    def _pause(self, process: Process) -> None:
        process.paused_until = self.now + self.rng.choice((2.0, 7.0, 11.0, 20.0))

    def _crash(self, process: Process) -> None:
        process.is_dead = True
        self.replace(process)

    def _leave(self, process: Process) -> None:
        process.at(0.0, process.leave)

    def _join(self, _process: Process) -> None:
        if len(self.processes) < _MOST_PROCESSES:
            self.start()

    def _come_and_go(self, _process: Process) -> None:
        """Start a process that leaves as it comes, maybe before its Lease is created."""
        if len(self.processes) < _MOST_PROCESSES:
            new = self.start()
            new.at(self.rng.uniform(0, 3), new.leave)

    def _go_away(self, _process: Process) -> None:
        self.server.away_until = self.now + self.rng.choice((3.0, 9.0, 20.0))

    def _step_clock(self, process: Process) -> None:
        process.wall_offset += self.rng.choice((-20.0, -3.0, 3.0, 20.0))

    def _lag(self, process: Process) -> None:
        """Delay the events of a watch."""
        late = max(process.watched_until, self.now) + self.rng.uniform(3, 15)
        process.watched_until = late

    def _delete(self, process: Process) -> None:
        if self._may_erase("lease"):
            self.server.delete(process.name)

    def _unlabel(self, process: Process) -> None:
        if self._may_erase("lease"):
            self.server.unlabel(process.name)

    def _delete_table(self, _process: Process) -> None:
        if self._may_erase("table"):
            self.server.delete(GROUP)

    def _may_erase(self, what: str) -> bool:
        """Return whether a trace of a life may be deleted: the other one must be there.

        A member is named by its Lease and by the table. If both are deleted within the time of a
        term, a newcomer cannot know that it works: the documentation names this limit.
        """
        other = "table" if what == "lease" else "lease"
        if self.now < self._erased_at.get(other, -math.inf) + _TERM_SECONDS:
            return False
        self._erased_at[what] = self.now
        return True
