"""A model of replicas, a network and a server, in virtual time: who may write, and who does.

Every replica drives the real `Election` and `Tenure`. The network delays and loses requests and
responses, processes are paused and crash, clocks run at different rates, the server is away for a
while, and people delete the Lease or remove its holder. A write that leaves a replica which does
not hold the Lease is a violation. After an intervention by hand a holder may write until it
sees that, unless the next holder has seen it lead.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyinformer.errors import InvalidArgumentError
from pyinformer.leaderelection import LeaderElectionOptions, WrittenVersions, _election
from pyinformer.leaderelection._lease import LeaseRecord, read_lease
from tests.schedules import Schedule, ScheduledProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OPTIONS = LeaderElectionOptions()
_FAULTS_END_AT = 35.0
_END_AT = 75.0
_LEADER_BY = 70.0


@dataclass(frozen=True, kw_only=True)
class Bugs:
    """What a replica does wrong; nothing by default."""

    election: Any = _election
    """The module with the state machine, maybe a spoiled copy."""
    releases_without_version: bool = False
    overlaps_requests: bool = False
    releases_before_drain: bool = False
    trusts_renew_time: bool = False
    guards_only_dispatch: bool = False


@dataclass(kw_only=True)
class Outcome:
    """What happened in one schedule."""

    writes: int = 0
    refused: int = 0
    terms: int = 0
    releases: int = 0
    violations: list[str] = field(default_factory=list)
    broken: int = 0
    """How often a term was broken by hand."""
    leads_at_end: bool = False


TermId = tuple[str, int]
"""The uid and the transitions of a Lease that is held."""


def term_of(lease: LeaseRecord) -> TermId:
    """Return the term that a version of the Lease belongs to."""
    return lease.uid, lease.transitions


class Server:
    """One Lease, in versions; it may be away."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.lease: LeaseRecord | None = None
        self.version = 0
        self.broken: dict[TermId, int] = {}
        """Terms that were ended by hand, and the version that shows it."""
        self.away_until = -math.inf
        self._cut_off: dict[str, float] = {}

    def cut_off(self, replica: Replica, seconds: float) -> None:
        """Take no requests from one replica for a while; what was answered still arrives."""
        self._cut_off[replica.name] = self._model.now + seconds

    def hears(self, replica: Replica) -> bool:
        """Return whether a request of a replica is received now."""
        now = self._model.now
        return now >= self.away_until and now >= self._cut_off.get(replica.name, now)

    def answer(self, step: Any) -> tuple[str, LeaseRecord | None]:
        """Carry a request out; return the name of the callback and the Lease."""
        if not hasattr(step, "body"):
            return ("on_absent", None) if self.lease is None else ("on_lease", self.lease)
        metadata = step.body["metadata"]
        known, uid = metadata.get("resourceVersion", ""), metadata.get("uid", "")
        if self.lease is None and not step.creates:
            return "on_conflict", None  # as a kube-apiserver: the uid is a precondition
        if self.lease is not None and (
            step.creates
            or uid != self.lease.uid
            or (known and known != self.lease.resource_version)
        ):
            return "on_conflict", None
        self._put(step.body, uid or f"u{self.version + 1}")
        return "on_lease", self.lease

    def _put(self, body: Any, uid: str) -> None:
        self.version += 1
        metadata = {**body["metadata"], "uid": uid, "resourceVersion": str(self.version)}
        self.lease = read_lease({**body, "metadata": metadata})
        self._model.changed(self.lease)

    def delete(self) -> None:
        """Delete the Lease by hand."""
        lease = self._break()
        if lease is not None:
            self.lease = None
            self._model.deleted(lease.uid, self.version)

    def remove_holder(self) -> None:
        """Edit the Lease by hand."""
        lease = self._break()
        if lease is not None:
            spec = {**lease.body["spec"], "holderIdentity": ""}
            self._put({**lease.body, "spec": spec}, lease.uid)

    def _break(self) -> LeaseRecord | None:
        lease = self.lease
        if lease is not None:
            self.version += 1
            self.broken[term_of(lease)] = self.version
            self._model.outcome.broken += 1
        return lease


class Replica(ScheduledProcess):
    """One process: its clocks, its election, its work."""

    def __init__(self, model: Model, name: str) -> None:
        super().__init__(model, name)
        self.model = model
        self.pause_seconds = 0.0  # of a pause that begins with the next answer
        self.is_stopping = False
        self.election = model.bugs.election.Election(
            "l", "n", identity=name, options=_OPTIONS, rng=model.rng
        )
        self.tenure: Any = None  # of the work that runs
        self.request = 0  # the number of the one under way
        self.wake = 0
        self.watched_until = model.now
        self.known_version = 0
        """The latest version that this replica knows, deletions included."""
        self.seen: set[TermId] = set()
        """The terms of other replicas that it has seen."""
        self.seen_before: frozenset[TermId] = frozenset()
        """Those that it had seen when it sent its last acquisition."""
        self.term: TermId | None = None
        """Its last term."""

    def pause(self) -> None:
        """Stop the process for a while; sometimes it is cut off from the server after that."""
        seconds, self.pause_seconds = self.pause_seconds, 0.0
        self.paused_until = self.model.now + seconds
        if self.model.rng.random() < 0.5:
            self.model.server.cut_off(self, seconds + self.model.rng.choice((3.0, 11.0)))

    def tick(self) -> None:
        """Do what the election says, as the elector's loop does."""
        self._follow_term()
        if self.request and not self.model.bugs.overlaps_requests:
            return
        step = self.election.next_step(self.clock(), self.wall())
        self._follow_term()
        if isinstance(step, self.model.bugs.election.Wait):
            self._tick_at(step.until)
        elif isinstance(step, self.model.bugs.election.Finished):
            self.is_dead = True
            self.model.replace(self)
        else:
            self._send(step)
            if self.model.bugs.overlaps_requests:
                self._tick_at(self.clock() + _OPTIONS.retry_period_seconds)

    def _tick_at(self, until: float) -> None:
        self.wake += 1
        number = self.wake
        if until < math.inf:
            seconds = max(0.0, (until - self.clock()) / self.rate) + 1e-6
            self.at(seconds, lambda: self.tick() if number == self.wake else None)

    def _send(self, step: Any) -> None:
        model = self.model
        model.requests += 1
        self.request = number = model.requests
        body: Any = getattr(step, "body", None)
        if getattr(step, "acquires", False):
            self.seen_before = frozenset(self.seen)
        is_release = body is not None and not body["spec"]["holderIdentity"]
        if model.bugs.releases_without_version and is_release:
            metadata = {**body["metadata"], "resourceVersion": ""}
            step = replace(step, body={**body, "metadata": metadata})
        there, back = model.delay(), model.delay()

        def arrive() -> None:
            if there is None or not model.server.hears(self):
                return
            name, lease = model.server.answer(step)
            version = model.server.version if name == "on_absent" else 0
            if self.pause_seconds and model.now < _FAULTS_END_AT:
                self.pause()
            if back is not None:
                self.at(back, lambda: self._answered(number, name, lease, step, version))

        model.at(there or 0.0, arrive)
        self.at(
            _OPTIONS.request_timeout_seconds / self.rate,
            lambda: self._answered(number, "on_failure", None, step),
        )

    def _answered(
        self, number: int, name: str, lease: LeaseRecord | None, step: Any, version: int = 0
    ) -> None:
        if number != self.request:
            if self.model.bugs.overlaps_requests and lease is not None:
                self.election._under_way = step
                self._report("on_lease", lease)
            return
        self.request = 0
        self.known_version = max(self.known_version, version)
        self._report(name, lease)
        self.tick()

    def _report(self, name: str, lease: LeaseRecord | None) -> None:
        arguments = (self.clock(),) if lease is None else (lease, self.clock())
        if lease is not None:
            self._shown(lease)
        with self._no_twin():
            getattr(self.election, name)(*arguments)
        self._spoil()

    @contextmanager
    def _no_twin(self) -> Iterator[None]:
        try:
            yield
        except InvalidArgumentError as error:
            self.model.outcome.violations.append(f"{self.name} takes itself for another: {error}")

    def watched(self, lease: LeaseRecord) -> None:
        """Take an event of the watch."""
        # Of the Lease of another uid it is not known whether it is later.
        known = self.election.lease
        if known is None or known.uid == lease.uid:
            self._shown(lease)
        with self._no_twin():
            self.election.on_watched(lease, self.clock())
        self._spoil()
        if not self.request:
            self.tick()
        else:
            self._follow_term()

    def watched_deletion(self, uid: str, version: int) -> None:
        """Take the deletion that the watch shows."""
        known = self.election.lease
        if known is not None and known.uid == uid:
            self.known_version = max(self.known_version, version)
        self.election.on_watched_deletion(uid, self.clock())
        if not self.request:
            self.tick()
        else:
            self._follow_term()

    def _shown(self, lease: LeaseRecord) -> None:
        self.known_version = max(self.known_version, int(lease.resource_version))
        if lease.holder not in {"", self.name}:
            self.seen.add(term_of(lease))

    def may_not_know(self, holder: str) -> bool:
        """Return whether its term was ended by hand, and neither it nor the holder knows."""
        broken_at = self.model.server.broken.get(self.term or ("", 0))
        return (
            broken_at is not None
            and self.known_version < broken_at
            and not any(
                one.name == holder and self.term in one.seen_before for one in self.model.replicas
            )
        )

    def _spoil(self) -> None:
        lease = self.election.lease
        if self.model.bugs.trusts_renew_time and lease is not None and lease.renew_time:
            renewed_at = datetime.fromisoformat(lease.renew_time).timestamp()
            self.election._seen_at = self.clock() - (self.wall() - renewed_at)

    def set_watching(self, *, watching: bool) -> None:
        """Lose the watch, or get it back."""
        self.election.is_polling = not watching
        if watching and self.model.server.lease is not None:
            self.watched(self.model.server.lease)
        elif not self.request:
            self.tick()

    def _follow_term(self) -> None:
        """Start and end the work, as the elector does."""
        tenure = self.election.tenure
        if self.tenure is None and tenure is not None:
            self.tenure = tenure
            self.term = term_of(self.election.lease)
            self.model.begins(self)
            self.election.is_candidate = False
            self.model.outcome.terms += 1
            self._work(tenure)
        if self.tenure is not None and self.tenure.ended and not self.is_stopping:
            ended, self.tenure = self.tenure, None
            self.at(self.model.rng.uniform(0, 3), lambda: self._work_ended(ended))

    def _work_ended(self, ended: Any) -> None:
        if not self.is_stopping:
            self.election.is_candidate = True
            if not self.request:
                self.tick()

    def _work(self, tenure: Any) -> None:
        """Dispatch, wait on the way out, and write, again and again."""
        rng, bugs = self.model.rng, self.model.bugs
        waits = rng.choice((0.0, 0.0, 0.01, 0.5, rng.uniform(0, 6)))

        def dispatch() -> None:
            if tenure is not self._worked or (
                tenure.why_shut(self.clock(), self.wall()) and self.tenure is not tenure
            ):
                return
            if not tenure.why_shut(self.clock(), self.wall()):
                self.at(waits, leave)
            self._work(tenure)

        def leave() -> None:
            if not bugs.guards_only_dispatch and tenure.why_shut(self.clock(), self.wall()):
                self.model.outcome.refused += 1
                return
            self.model.wrote(self)

        self._worked = tenure
        self.at(rng.uniform(0.2, 2.5), dispatch)

    def would_write(self) -> bool:
        """Return whether a write could leave this replica now."""
        if self.is_dead or self._worked is None or self.model.now < self.paused_until:
            return False
        return not self._worked.why_shut(self.clock(), self.wall())

    def stop(self) -> None:
        """End in order: drain while renewing, and then release."""
        if self.is_stopping:
            return
        self.is_stopping = True
        self.election.is_candidate = False
        drain = self.model.rng.uniform(0, 6) if self.tenure is not None else 0.0
        if self.model.bugs.releases_before_drain:
            self._release()
            self.is_dead = False
        self.at(drain, self._drained)

    def _drained(self) -> None:
        self._worked = None
        self.tenure = None
        if not self.model.bugs.releases_before_drain:
            self._release()

    def _release(self) -> None:
        def release() -> None:
            if self.request:  # the loop finishes its request first
                self.at(0.01, release)
                return
            self.model.outcome.releases += 1
            self.election.release(self.clock(), WrittenVersions(transitions=0, versions={}))
            self.tick()

        release()

    _worked: Any = None


class Model(Schedule):
    """One schedule, drawn from a seed."""

    def __init__(self, seed: int, bugs: Bugs | None = None) -> None:
        super().__init__(seed, slowest=(0.05, 2.0, 8.0), faults_end_at=_FAULTS_END_AT)
        self.bugs = bugs or Bugs()
        self.requests = 0
        self.outcome = Outcome()
        self.server = Server(self)
        self.replicas = [Replica(self, f"r{number}") for number in range(3)]
        self._named = 3

    def changed(self, lease: LeaseRecord) -> None:
        """Judge the guards of all others, and show the Lease to those that watch, in order."""
        for replica in self.replicas:
            if replica.name == lease.holder or replica.may_not_know(lease.holder):
                continue
            if replica.would_write():
                text = f"{self.now:.3f}: {replica.name} may write, {lease.holder!r} holds the Lease"
                self.outcome.violations.append(text)
        self._show(lambda replica: replica.watched(lease))

    def begins(self, leader: Replica) -> None:
        """Judge the guards of those that the new leader has seen lead."""
        for replica in self.replicas:
            if replica is not leader and replica.term in leader.seen and replica.would_write():
                text = f"{self.now:.3f}: {leader.name} leads, {replica.name} may write"
                self.outcome.violations.append(text)

    def deleted(self, uid: str, version: int) -> None:
        """Show a deletion to the replicas that watch."""
        self._show(lambda replica: replica.watched_deletion(uid, version))

    def _show(self, event: Callable[[Replica], None]) -> None:
        for replica in self.replicas:
            if replica.election.is_polling:
                continue
            after = max(self.now + (self.delay() or 0.0), replica.watched_until + 1e-6)
            replica.watched_until = after
            replica.at(after - self.now, lambda one=replica: event(one))  # type: ignore[misc]

    def wrote(self, replica: Replica) -> None:
        """Judge a write that leaves a replica now."""
        self.outcome.writes += 1
        lease = self.server.lease
        holder = "" if lease is None else lease.holder
        if holder != replica.name and not replica.may_not_know(holder):
            text = (
                f"{self.now:.3f}: {replica.name} writes, {holder or 'no replica'} holds the Lease"
            )
            self.outcome.violations.append(text)

    def replace(self, gone: Replica) -> None:
        """Start a new process some time after one has ended."""

        def start() -> None:
            if gone not in self.replicas:
                return
            self._named += 1
            new = Replica(self, f"r{self._named}")
            self.replicas[self.replicas.index(gone)] = new
            new.tick()

        self.at(self.rng.uniform(0.1, 5.0), start)

    def run(self) -> Outcome:
        """Play the schedule."""
        for replica in self.replicas:
            self.at(self.rng.uniform(0, 3), replica.tick)
        for _ in range(self.rng.randrange(8)):
            self.at(self.rng.uniform(2, _FAULTS_END_AT), self._trouble)
        for _ in self.play(_END_AT):
            if self.outcome.violations:
                break
            if not self.outcome.leads_at_end and self.now > _LEADER_BY:
                self.outcome.leads_at_end = any(
                    one.election.tenure is not None for one in self.replicas
                )
        return self.outcome

    def _trouble(self) -> None:
        """Make something go wrong; a leader is hit more often, and sometimes again soon."""
        leaders = [one for one in self.replicas if one.tenure is not None and not one.is_dead]
        is_leader = bool(leaders) and self.rng.random() < 0.7
        self._hit(self.rng.choice(leaders if is_leader else self.replicas))

    def _hit(self, replica: Replica) -> None:
        rng = self.rng
        if replica.is_dead:
            return
        match rng.choice(
            (
                *("pause", "pause", "pause", "crash", "stop", "stop", "away", "unwatched", "step"),
                *("by hand", "by hand", "by hand"),
            )
        ):
            case "pause":
                replica.pause_seconds = rng.choice((2.0, 7.0, 7.0, 11.0, 20.0, 20.0))
                if rng.random() < 0.5:  # else when the server has answered its next request
                    replica.pause()
            case "crash":
                replica.is_dead = True
                self.replace(replica)
            case "stop":
                replica.at(0.0, replica.stop)
            case "away":
                self.server.away_until = self.now + rng.choice((3.0, 9.0, 12.0, 20.0))
            case "unwatched":
                replica.at(0.0, lambda: replica.set_watching(watching=False))
                replica.at(rng.uniform(1, 30), lambda: replica.set_watching(watching=True))
            case "by hand":
                rng.choice((self.server.delete, self.server.delete, self.server.remove_holder))()
            case _:
                replica.wall_offset += rng.choice((-20.0, -3.0, 3.0, 20.0))
        if rng.random() < 0.5 and self.now < _FAULTS_END_AT:
            self.at(rng.uniform(0, 4), lambda: self._hit(replica))
