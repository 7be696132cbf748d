"""Peers under several names in one run: the same program, asked for something else.

A name begins with its peer's, so that a reader, and a failure, know whose it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from benchmarks.harness.go import client_go
from benchmarks.harness.measure import ServerOptions, measure
from benchmarks.harness.phases import Measurement
from benchmarks.runs.run import Known, Replay, ReplayBench, Setting, Size, replayed


@dataclass(frozen=True, slots=True)
class Variant:
    """The peer and the settings of a name in the report."""

    peer: str
    changes: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Fields of the Workload that differ from the run's."""


@dataclass(frozen=True, slots=True)
class VariantBench:
    """A bench at which peers go by the names of their variants; other names are peers."""

    bench: ReplayBench
    variants: Mapping[str, Variant]

    @property
    def known(self) -> Known:
        """What the report says of the workload."""
        return self.bench.known

    def measure(self, peer: str) -> Measurement:
        """Run a variant once, in a process of its own."""
        variant = self.variants.get(peer, Variant(peer))
        workload = msgspec.structs.replace(self.bench.workload, **variant.changes)
        found = measure(variant.peer, workload, cpu=self.bench.cpu)
        found.peer = peer
        return found


@contextlib.contextmanager
def varied(
    replay: Replay, variants: Mapping[str, Variant], setting: Setting
) -> Iterator[VariantBench]:
    """Start the replay server for a run of variants."""
    with replayed(replay, setting) as bench:
        yield VariantBench(bench, variants)


def with_protobuf(options: ServerOptions, setting: Setting) -> ServerOptions:
    """Let a server render protobuf as well, where there is what renders it.

    That is the program of the client-go peers. The smoke goes without; and where it cannot be
    built, its peers have the reason, and all others are measured.
    """
    if setting.size is Size.SMOKE or isinstance(program := client_go(), str):
        return options
    return msgspec.structs.replace(options, protobuf=True, renderer=str(program))
