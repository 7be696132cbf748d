"""What a lone event costs, and a lone reconcile: all peers follow one kube-apiserver at once.

One pod changes at a time. All peers get the same events at the same moments, so that a round
compares them under the same load. Between two events a process sleeps, and other programs use the
CPU's caches; in a replay, which sends as fast as a peer reads, that cost cannot be seen.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event

import msgspec

from benchmarks.harness.following import Follower, started
from benchmarks.harness.measure import FLOOR_C, command_of
from benchmarks.harness.pace import evenly
from benchmarks.harness.phases import Measurement
from benchmarks.harness.processes import ThreadUse, thread_use
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import (
    DICTS,
    JSON,
    MICRO,
    OWN,
    PROTOBUF,
    UVLOOP,
    Ratios,
    against,
    cpu_per_update,
    per,
)
from benchmarks.runs.real_server import is_real, pods_known
from benchmarks.runs.run import Bench, Known, Run, Setting, Size
from benchmarks.runs.variants import Variant
from benchmarks.server.written import WrittenPods, written_pods

_KOPF, _FLOOR, METADATA = "kopf-event", "floor-asyncio", f"{OWN}-metadata"
_HANDLERS = {f"{OWN}, {count} handlers": Variant(OWN, {"handlers": count}) for count in (4, 16)}
FOUR, SIXTEEN = _HANDLERS
_OURS = (OWN, UVLOOP, METADATA, FOUR, SIXTEEN)
_PEERS = {
    Size.SMOKE: (*_OURS, _FLOOR),
    Size.FULL: (JSON, PROTOBUF, DICTS, _KOPF, *_OURS, _FLOOR, FLOOR_C),
}
CONTROLLER, CONTROLLER_RUNTIME = f"{OWN}-controller", "controller-runtime"
_NO_COPY = f"{CONTROLLER_RUNTIME}-no-copy"
_CONTROLLERS = (CONTROLLER, f"{CONTROLLER}-uvloop", f"{CONTROLLER}-plain")
_RECONCILING_PEERS = {
    Size.SMOKE: (*_CONTROLLERS, OWN),
    Size.FULL: (CONTROLLER_RUNTIME, _NO_COPY, *_CONTROLLERS, OWN),
}
_SIZES = {Size.SMOKE: (30, 20), Size.FULL: (1_000, 300)}
_PER_SECOND = 60.0
_QUIET_SECONDS = 1.0  # after the last event of a round, until every peer has handled it
_SLEEPS, _SERVER = "sleeps", "the server"
_EVENTS_PER_SLEEP = 10  # on a busy machine one awakening may find several; more: it does not follow


class PairedRounds:
    """Rounds that measure all peers at once, though their figures are asked for one by one.

    A round is played when a peer is asked for that has none left; the figures of the others wait.
    """

    def __init__(self, play: Callable[[], Mapping[str, Measurement]]) -> None:
        """Play nothing yet; `play` measures all peers once."""
        self._play = play
        self._waiting: defaultdict[str, deque[Measurement]] = defaultdict(deque)

    def measure(self, peer: str) -> Measurement:
        """Return a peer's figures of the first round that it was not asked for yet."""
        if not self._waiting[peer]:
            for name, found in self._play().items():
                self._waiting[name].append(found)
        return self._waiting[peer].popleft()


@dataclass(slots=True)
class _LoneEvents:
    """Peers that follow, and a server in which pods change."""

    pods: WrittenPods
    events: int
    followers: Mapping[str, Follower]
    failed: dict[str, str]
    """Why a peer follows no longer, or never did."""
    server_micros: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    """Updates per second, fewer than asked for if the server takes too long."""
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def play(self) -> dict[str, Measurement]:
        """Change pods, and measure all peers meanwhile."""
        before = self._uses()
        began = time.perf_counter()
        for _ in evenly(self.events, _PER_SECOND):
            self.pods.touch(next(self.numbers))
        self.rates.append(self.events / (time.perf_counter() - began))
        time.sleep(_QUIET_SECONDS)
        used = {
            name: now.since(then)
            for name, now in self._uses().items()
            if (then := before.get(name)) is not None
        }
        if _SERVER in used:
            self.server_micros.append(used[_SERVER].cpu_seconds / self.events * MICRO)
        for peer, follower in self.followers.items():
            if peer not in self.failed and (why := follower.failure()):
                self.failed[peer] = why
        found = {peer: measured(peer, self.events, used.get(peer)) for peer in self.followers}
        return found | {peer: Measurement(peer, error=why) for peer, why in self.failed.items()}

    def _uses(self) -> dict[str, ThreadUse]:
        pids = {peer: follower.pid for peer, follower in self.followers.items()}
        found = {
            name: thread_use(Path(f"/proc/{pid}"))
            for name, pid in (pids | {_SERVER: self.pods.running.pid}).items()
        }
        return {name: use for name, use in found.items() if use is not None}


def measured(peer: str, events: int, used: ThreadUse | None) -> Measurement:
    """Make a peer's figures of what it has used during a round.

    A peer that was not woken up by the events has missed them, so it has an error, not figures.
    """
    found = Measurement(peer, updates=events)
    if used is not None:
        found.update_cpu_seconds = used.cpu_seconds
        found.extra = {_SLEEPS: used.sleeps}
        if used.sleeps * _EVENTS_PER_SLEEP < events:
            found.error = f"{events} events woke it up {used.sleeps} times: it does not follow"
    return found


@dataclass(frozen=True, slots=True)
class _Bench:
    events: _LoneEvents
    rounds: PairedRounds
    workload: Known

    @property
    def known(self) -> Known:
        medians = {
            "updates per second": self.events.rates,
            "CPU of the server per event, us": self.events.server_micros,
        }
        known = {name: round(statistics.median(found)) for name, found in medians.items() if found}
        return self.workload | known

    def measure(self, peer: str) -> Measurement:
        return self.rounds.measure(peer)


@contextlib.contextmanager
def _open(peers: Mapping[Size, Sequence[str]], setting: Setting) -> Iterator[Bench]:
    objects, events = _SIZES[setting.size]
    with (
        written_pods(objects, seed=setting.seed, is_real=is_real(setting)) as pods,
        contextlib.ExitStack() as stack,
    ):
        begun = {peer: _begun(peer, pods, stack) for peer in setting.peers or peers[setting.size]}
        lone = _LoneEvents(
            pods,
            events,
            {peer: one for peer, one in begun.items() if isinstance(one, Follower)},
            {peer: one for peer, one in begun.items() if isinstance(one, str)},
        )
        lone.play()  # what loads late loads now
        lone.server_micros.clear()
        lone.rates.clear()
        workload = pods_known(pods, events, setting)
        yield _Bench(lone, PairedRounds(lone.play), workload)


def _begun(peer: str, pods: WrittenPods, stack: contextlib.ExitStack) -> Follower | str:
    """Start a peer, and return it once it follows, or why it does not."""
    follows, variant = Event(), _HANDLERS.get(peer, Variant(peer))
    with pods.endless_workload(follows.set) as workload:
        asked = msgspec.structs.replace(workload, **variant.changes)
        command = command_of(variant.peer, asked)
        if isinstance(command, str):
            return command
        follower = stack.enter_context(started(peer, command))
        return follower.wait(follows) or follower


_RATIOS: Ratios = (
    *against(OWN, (PROTOBUF, JSON, DICTS, _KOPF, _FLOOR, FLOOR_C)),
    (UVLOOP, PROTOBUF),
    *((other, OWN) for other in (UVLOOP, METADATA, FOUR, SIXTEEN)),
)
_RECONCILING_RATIOS: Ratios = (
    *((own, other) for own in _CONTROLLERS for other in (CONTROLLER_RUNTIME, _NO_COPY)),
    (CONTROLLER, OWN),
)


def _specs(ratios: Ratios, _: Known) -> tuple[Spec, ...]:
    return (
        Spec("CPU per lone event", "us", cpu_per_update, {}, ratios),
        Spec(
            "sleeps per lone event",
            "",
            lambda found: per(found.extra.get(_SLEEPS), found.updates, 1),
            {},
        ),
    )


LONE_EVENT = Run(
    name="lone-event",
    title="A lone event at a real kube-apiserver",
    says=(
        "All clients follow the same pods of one kube-apiserver over TLS at the same time, while"
        f" {_PER_SECOND:.0f} times a second one pod is changed. CPU is what the scheduler counted"
        " for all threads of a client; a sleep is a thread that gave up its CPU to wait. The floors"
        " only receive: they count newlines."
    ),
    peers=_PEERS,
    rounds={Size.SMOKE: 1, Size.FULL: 9},
    open=partial(_open, _PEERS),
    specs=partial(_specs, _RATIOS),
)

RECONCILE = replace(
    LONE_EVENT,
    name="reconcile",
    title="A lone reconcile at a real kube-apiserver",
    says=(
        "The same with controllers: each event makes a request, and its reconcile gets the pod from"
        " the cache and looks at its phase. An informer with a handler follows beside them: what it"
        " does not cost is the controller's."
    ),
    peers=_RECONCILING_PEERS,
    open=partial(_open, _RECONCILING_PEERS),
    specs=partial(_specs, _RECONCILING_RATIOS),
)
