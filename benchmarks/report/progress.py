"""Show how far the benchmarks are: what runs, how long it has taken, how long it may take still.

Showing costs nothing while a peer is measured: between turns alone anything is computed, and the
bar's own clock ticks once a second.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from benchmarks.report.record import OPENING, Record

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_UNKNOWN_SECONDS = 10.0  # the estimate for a turn that was never measured


class Planned(Protocol):
    """The part of a plan that is shown."""

    @property
    def name(self) -> str: ...

    @property
    def rounds(self) -> int: ...

    def turns(self) -> list[tuple[int, str]]: ...


class Estimate:
    """What the rest will take, by what was measured so far and in an earlier record."""

    def __init__(self, plans: Sequence[Planned], earlier: Record | None = None) -> None:
        self._left = {plan.name: [OPENING, *(peer for _, peer in plan.turns())] for plan in plans}
        self._spent: dict[tuple[str, str], list[float]] = {}
        for section in earlier.sections if earlier else ():
            for peer, seconds in section.seconds.items():
                self._spent[section.name, peer] = [seconds]

    def ended(self, run: str, peer: str, seconds: float) -> None:
        """Take one turn from what is left."""
        self._spent.setdefault((run, peer), []).append(seconds)
        if peer in self._left[run]:
            self._left[run].remove(peer)

    def finished(self, run: str) -> None:
        """Take a whole run from what is left, however it ended."""
        self._left[run] = []

    def left_seconds(self) -> float:
        """Add up what is left."""
        return sum(self._expected(run, peer) for run, left in self._left.items() for peer in left)

    def _expected(self, run: str, peer: str) -> float:
        known = self._spent.get((run, peer))
        if not known:  # of the same run, if another peer had its turn; else of all
            spent = [(name, of, times) for (name, of), times in self._spent.items()]
            same = [times for name, of, times in spent if name == run and of != OPENING]
            known = [seconds for times in same or [t for *_, t in spent] for seconds in times]
        return statistics.mean(known) if known else _UNKNOWN_SECONDS


class Lines:
    """A line for each turn, where no terminal shows a bar."""

    def __init__(self, plans: Sequence[Planned], estimate: Estimate) -> None:
        self._estimate = estimate
        self._started = time.monotonic()
        self._total = sum(len(plan.turns()) for plan in plans)
        self._begun = 0

    def opens(self, plan: Planned) -> None:
        """Say that servers and programs are being started."""
        self._say(f"{plan.name}: starting servers, building programs")

    def begins(self, plan: Planned, number: int, peer: str) -> None:
        """Say whose turn it is."""
        self._begun += 1
        self._say(f"{plan.name}: round {number + 1}/{plan.rounds}, {peer}")

    def ended(self, plan: Planned, peer: str, seconds: float) -> None:
        """Note what the turn took."""
        self._estimate.ended(plan.name, peer, seconds)

    def _say(self, what: str) -> None:
        spent, left = time.monotonic() - self._started, self._estimate.left_seconds()
        when = f"{_clock(spent)} so far, about {_clock(left)} left"
        print(f"[{self._begun}/{self._total}] {what} ({when})", file=sys.stderr, flush=True)


class Bar:
    """A bar at a terminal."""

    def __init__(self, bar: Progress, plans: Sequence[Planned], estimate: Estimate) -> None:
        self._bar = bar
        self._estimate = estimate
        total = sum(len(plan.turns()) for plan in plans)
        self._task: TaskID = bar.add_task("", total=total, left=_clock(estimate.left_seconds()))

    def opens(self, plan: Planned) -> None:
        """Say that servers and programs are being started."""
        self._say(f"{plan.name}: starting")

    def begins(self, plan: Planned, number: int, peer: str) -> None:
        """Say whose turn it is."""
        self._say(f"{plan.name} {number + 1}/{plan.rounds}: {peer}")

    def ended(self, plan: Planned, peer: str, seconds: float) -> None:
        """Move on."""
        self._estimate.ended(plan.name, peer, seconds)
        if peer != OPENING:
            self._bar.advance(self._task)

    def _say(self, what: str) -> None:
        left = _clock(self._estimate.left_seconds())
        self._bar.update(self._task, description=what, left=left)


@contextlib.contextmanager
def progress(plans: Sequence[Planned], estimate: Estimate) -> Iterator[Bar | Lines]:
    """Show a bar if standard error is a terminal and rich is installed, else lines."""
    if not sys.stderr.isatty():
        yield Lines(plans, estimate)
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
    except ImportError:
        yield Lines(plans, estimate)
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        "about {task.fields[left]} left ",
        "{task.description}",
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=1) as bar:
        yield Bar(bar, plans, estimate)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
        if minutes >= 60
        else f"{minutes}:{rest:02d}"
    )
