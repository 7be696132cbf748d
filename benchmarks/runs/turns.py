"""Run benchmarks turn by turn: a round is one turn of each peer, and starts with another one.

A failure is a Measurement with its error, and each turn extends the record: an interrupt, which is
the only early end of a run, loses no earlier turn.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from benchmarks.harness.phases import Measurement
from benchmarks.report.record import OPENING, Section
from benchmarks.report.rows import Spec, make_rows
from benchmarks.runs.run import Bench, Known, Run, Setting, Size


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that is to be carried out, by whom and how often."""

    run: Run
    peers: tuple[str, ...]
    rounds: int

    @property
    def name(self) -> str:
        """Of the run."""
        return self.run.name

    def turns(self) -> list[tuple[int, str]]:
        """List the turns in their order: number of the round from 0, and peer."""
        return [
            (number, peer)
            for number in range(self.rounds)
            for peer in _rotated(self.peers, number)
            if number < self.run.fewer_rounds.get(peer, self.rounds)
        ]


class Watcher(Protocol):
    """Shows the progress of runs."""

    def opens(self, plan: Plan) -> None:
        """Note that the servers and programs of a run are being started."""
        ...

    def begins(self, plan: Plan, number: int, peer: str) -> None:
        """Note that a turn begins."""
        ...

    def ended(self, plan: Plan, peer: str, seconds: float) -> None:
        """Note that a turn has ended, or the opening, whose peer is `OPENING`."""
        ...


def make_plan(
    run: Run, size: Size, *, peers: Sequence[str] = (), rounds: int | None = None
) -> Plan | None:
    """Choose who takes part, and how often.

    Args:
        run: what to do.
        size: how much of it.
        peers: only these; empty for all.
        rounds: None for what the run itself says.

    Returns:
        None if no peer takes part.
    """
    taking_part = run.peers.get(size, ())
    chosen = tuple(peer for peer in taking_part if not peers or peer in peers)
    return Plan(run, chosen, rounds or run.rounds.get(size, 1)) if chosen else None


@dataclass(slots=True)
class _Found:
    """What a run has measured so far."""

    plan: Plan
    known: Known = field(default_factory=dict)
    rounds: list[dict[str, Measurement]] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, number: int, found: Measurement, peer: str) -> None:
        if number == len(self.rounds):
            self.rounds.append({})
        done = {**self.rounds[number], peer: found}
        self.rounds[number] = {name: done[name] for name in self.plan.peers if name in done}

    def section(self) -> Section:
        run = self.plan.run
        known = {**self.known, "rounds": len(self.rounds)}
        return Section(
            name=run.name,
            title=run.title,
            says=run.says,
            workload=known,
            rows=make_rows(self._specs(), self.plan.peers, self.rounds),
            rounds=self.rounds,
            seconds={name: statistics.mean(spent) for name, spent in self.seconds.items()},
        )

    def _specs(self) -> Sequence[Spec]:
        if self.known:
            return self.plan.run.specs(self.known)
        return (Spec(self.plan.run.title, "", lambda _: None, {}),)  # for the reason why not


def carry_out(plan: Plan, setting: Setting, watcher: Watcher) -> Iterator[Section]:
    """Do a run; yield its section after each turn, with all that was measured so far."""
    found = _Found(plan)
    with contextlib.ExitStack() as stack:
        watcher.opens(plan)
        started = time.perf_counter()
        try:
            bench = stack.enter_context(plan.run.open(replace(setting, peers=plan.peers)))
        except Exception as error:  # noqa: BLE001  (a run that cannot be opened is a row with the reason)
            for peer in plan.peers:
                found.add(0, Measurement(peer, error=f"did not begin: {_told(error)}"), peer)
            yield found.section()
            return
        found.known = dict(bench.known)
        _note(found, watcher, OPENING, started)
        for number, peer in plan.turns():
            watcher.begins(plan, number, peer)
            started = time.perf_counter()
            found.add(number, _measure(bench, peer), peer)
            found.known = dict(bench.known)  # a bench may learn more of it with each turn
            _note(found, watcher, peer, started)
            yield found.section()


def _note(found: _Found, watcher: Watcher, name: str, started: float) -> None:
    seconds = time.perf_counter() - started
    found.seconds.setdefault(name, []).append(seconds)
    watcher.ended(found.plan, name, seconds)


def _measure(bench: Bench, peer: str) -> Measurement:
    try:
        return bench.measure(peer)
    except Exception as error:  # noqa: BLE001  (one peer's turn never ends those of the others)
        return Measurement(peer, error=_told(error))


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".strip().replace("\n", " ")


def _rotated(peers: Sequence[str], number: int) -> list[str]:
    """Begin each round with another peer, so that none always runs on the warmer machine."""
    first = number % len(peers)
    return [*peers[first:], *peers[:first]]
