"""What one run is: the same work, done by several peers in turn, and the rows made of it.

A run decides what is done and how often; `benchmarks.runs.turns` alone decides the order, turn by
turn, so that no peer always has the warmer machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

import msgspec

from benchmarks.harness.measure import ServerOptions, measure, running_server
from benchmarks.harness.phases import Measurement, Workload
from benchmarks.report.rows import Spec

Known: TypeAlias = "dict[str, float | int | str]"
"""What the report says of a run's workload, in the order in which it says it."""


class Size(StrEnum):
    """How much is measured."""

    SMOKE = "smoke"
    """Everything once and tiny: does it run at all, and does it yield every row?"""
    BENCH = "bench"
    """About ten minutes on two cores."""
    FULL = "full"
    """Everything: 100,000 and 1,000,000 objects, all peers."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the command line and the machine give to every run."""

    size: Size
    seed: int = 0
    client_cpu: int | None = None
    server_cpu: int | None = None
    against: str = ""
    """An earlier self to compare with: a commit, or a folder with another checkout."""
    peers: tuple[str, ...] = ()
    """Who takes part, for a run that starts all of them at once; empty for all of its size."""


class Bench(Protocol):
    """Where peers are measured: servers are up, programs are built."""

    @property
    def known(self) -> Known:
        """The workload, for the report."""
        ...

    def measure(self, peer: str) -> Measurement:
        """Run a peer once, in a process of its own; a failure is a Measurement with its error."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One section of the report."""

    name: str
    """On the command line, and of the plots."""
    title: str
    says: str
    """What it shows and how, in a sentence or two, for the published page."""
    peers: Mapping[Size, Sequence[str]]
    """Who takes part; a size that is missing leaves the run out."""
    rounds: Mapping[Size, int]
    open: Callable[[Setting], AbstractContextManager[Bench]]
    specs: Callable[[Known], Sequence[Spec]]
    fewer_rounds: Mapping[str, int] = field(default_factory=dict)
    """Peers that are too slow for all rounds, and how many they take part in."""
    plots: tuple[str, ...] = ()
    """What the page draws, as the specs call it; empty draws the first spec."""
    on_request: bool = False
    """Runs in the smoke, and otherwise only when it is named."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A bench at the replay server."""

    server: ServerOptions
    """How the server is started."""
    changes: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Fields of the Workload that differ from what the server says."""


@dataclass(frozen=True, slots=True)
class ReplayBench:
    """Peers at a replay server that runs."""

    known: Known
    workload: Workload
    cpu: int | None

    def measure(self, peer: str) -> Measurement:
        """Run a peer once, in a process of its own."""
        return measure(peer, self.workload, cpu=self.cpu)


@contextlib.contextmanager
def replayed(replay: Replay, setting: Setting) -> Iterator[ReplayBench]:
    """Start the replay server for a run."""
    options = msgspec.structs.replace(replay.server, seed=setting.seed, cpu=setting.server_cpu)
    with running_server(options) as server:
        workload = msgspec.structs.replace(server.workload, **replay.changes)
        sizes = server.sizes
        known: Known = {
            "objects": options.objects,
            "updates": options.updates,
            "seed": setting.seed,
            "object bytes, mean": round(sizes.mean_bytes),
            "min": sizes.min_bytes,
            "max": sizes.max_bytes,
            "managedFields share": round(sizes.managed_fields_share, 3),
            "client and server CPU": f"{setting.client_cpu}, {setting.server_cpu}",
        }
        yield ReplayBench(known, workload, setting.client_cpu)


_FOREIGN = (
    "client-go",
    "cloudcoil",
    "controller-runtime",
    "floor-c",
    "kopf",
    "kr8s",
    "kubernetes",
    "lightkube",
)


def is_foreign(peer: str) -> bool:
    """Return whether a peer is a foreign program, whose failure does not fail the run."""
    return peer.startswith(_FOREIGN)
