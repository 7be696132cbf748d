"""`python -m benchmarks`: run the comparison and print it.

Enters: command-line options. Leaves: tables on standard output, a JSON record if asked for.
Invariant: no figure decides the exit status; it is 1 only when a peer failed to run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data.pods import PodSizes
from benchmarks.harness.measure import PEERS, ServerOptions, measure, running_server
from benchmarks.harness.phases import Measurement
from benchmarks.harness.processes import pick_cpus
from benchmarks.report.record import Section, make_record, show, write_json
from benchmarks.report.rows import (
    Spec,
    audit_specs,
    make_rows,
    read_specs,
    sync_specs,
    update_specs,
)
from benchmarks.runs.against import PEERS as OWN_PEERS
from benchmarks.runs.against import ROOT, NoSuchTreeError, against_specs, measure_both, names, trees
from benchmarks.runs.controllers import (
    CONTROLLER_RUNTIME,
    ControllerWorkload,
    controller_rows,
    controller_runtime_program,
    measure_memory,
    memory_rows,
)
from benchmarks.runs.controllers import PEERS as CONTROLLER_PEERS
from benchmarks.runs.controllers import measure_round as measure_controllers
from benchmarks.runs.queues import (
    CLIENT_GO,
    QueueWorkload,
    client_go_program,
    measure_round,
    queue_rows,
)
from benchmarks.runs.queues import PEERS as QUEUE_PEERS

_UPDATE_PEERS = ("bare", "kubernetes_asyncio", "pyinformer", "pyinformer-dict")
_SYNC_PEERS = ("bare", "pyinformer", "pyinformer-raw")
_READ_PEERS = ("pyinformer-reads",)
_AUDIT_PEERS = ("pyinformer-audit",)
_READ_OBJECTS = 500
_ROUNDS = 5
_ROUNDS_AGAINST = 15  # a few percent are looked for, and a neighbour's noise is more than that
_SMOKE_OBJECTS = 40
_SMOKE_UPDATES = 120


@dataclass(frozen=True, slots=True)
class Plan:
    """One section of the report, still to be run."""

    title: str
    peers: Sequence[str]
    objects: int
    updates: int
    rounds: int
    specs: Callable[[PodSizes], Sequence[Spec]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    sections = [_run(plan, seed=options.seed) for plan in _plans(options)]
    if options.smoke or options.against is not None:
        try:
            sections.append(_run_against(options))
        except NoSuchTreeError as error:
            parser.error(f"--against {options.against}: {error}")
    if options.smoke or options.queue is not None:
        sections.append(_run_queue(options))
    if options.smoke or options.controllers is not None:
        sections += _run_controllers(options)
    record = make_record(sections)
    show(record)
    if options.json is not None:
        write_json(record, options.json)
    return int(
        any(
            found.error
            for section in sections
            for done in section.rounds
            for found in done.values()
        )
    )


def _plans(options: argparse.Namespace) -> list[Plan]:
    rounds = _rounds(options)
    objects = _SMOKE_OBJECTS if options.smoke else options.objects
    chosen = options.peers or (*_UPDATE_PEERS, *_SYNC_PEERS, *_READ_PEERS)
    plans: list[Plan] = []
    if (options.queue or options.controllers or options.against) and not options.smoke:
        return plans
    if options.smoke or options.sync is None:
        plans.append(
            Plan(
                "Updates into the cache",
                _without_reads(options.peers or _UPDATE_PEERS),
                objects,
                _SMOKE_UPDATES if options.smoke else options.updates,
                rounds,
                lambda _: update_specs(),
            )
        )
        plans.append(
            Plan(
                "Reads from the cache",
                [peer for peer in _READ_PEERS if peer in chosen],
                min(objects, _READ_OBJECTS),
                0,
                rounds,
                lambda _: read_specs(),
            )
        )
    if options.smoke or options.sync is not None:
        plans.append(
            Plan(
                "Large sync",
                _without_reads(options.peers or _SYNC_PEERS),
                _SMOKE_OBJECTS if options.smoke else options.sync,
                0,
                rounds,
                lambda sizes: sync_specs(sizes.mean_bytes),
            )
        )
        plans.append(
            Plan(
                "Audits of the cache",
                [peer for peer in _AUDIT_PEERS if peer in (options.peers or _AUDIT_PEERS)],
                _SMOKE_OBJECTS if options.smoke else options.sync,
                0,
                rounds,
                lambda _: audit_specs(),
            )
        )
    return [plan for plan in plans if plan.peers]


def _rounds(options: argparse.Namespace, default: int = _ROUNDS) -> int:
    return 1 if options.smoke else options.rounds or default


def _without_reads(peers: Sequence[str]) -> list[str]:
    return [peer for peer in peers if peer not in (*_READ_PEERS, *_AUDIT_PEERS)]


def _run(plan: Plan, *, seed: int) -> Section:
    client_cpu, server_cpu = pick_cpus()
    rounds: list[dict[str, Measurement]] = []
    with running_server(
        ServerOptions(objects=plan.objects, updates=plan.updates, seed=seed, cpu=server_cpu)
    ) as server:
        for number in range(plan.rounds):
            found: dict[str, Measurement] = {}
            for peer in _rotated(plan.peers, number):
                print(f"{plan.title}: round {number + 1}/{plan.rounds}, {peer}", file=sys.stderr)
                found[peer] = measure(peer, server.workload, cpu=client_cpu)
            rounds.append({peer: found[peer] for peer in plan.peers})
        sizes = server.sizes
    workload: dict[str, float | int | str] = {
        "objects": plan.objects,
        "updates": plan.updates,
        "rounds": plan.rounds,
        "seed": seed,
        "pod bytes, mean": round(sizes.mean_bytes),
        "min": sizes.min_bytes,
        "max": sizes.max_bytes,
        "managedFields share": round(sizes.managed_fields_share, 3),
        "workloads": sizes.workloads,
        "client and server CPU": f"{client_cpu}, {server_cpu}",
    }
    return Section(plan.title, workload, make_rows(plan.specs(sizes), plan.peers, rounds), rounds)


def _run_against(options: argparse.Namespace) -> Section:
    client_cpu, server_cpu = pick_cpus()
    peers = [peer for peer in options.peers or OWN_PEERS[:1] if peer in OWN_PEERS]
    objects = _SMOKE_OBJECTS if options.smoke else options.objects
    updates = _SMOKE_UPDATES if options.smoke else options.updates
    rounds: list[dict[str, Measurement]] = []
    with (
        trees(options.against or str(ROOT)) as places,
        running_server(
            ServerOptions(objects=objects, updates=updates, seed=options.seed, cpu=server_cpu)
        ) as server,
    ):
        for number in range(_rounds(options, _ROUNDS_AGAINST)):
            print(f"Against an earlier self: round {number + 1}", file=sys.stderr)
            found = measure_both(peers, server.workload, places, cpu=client_cpu, number=number)
            rounds.append(found)
    known: dict[str, float | int | str] = {
        "objects": objects,
        "updates": updates,
        "rounds": len(rounds),
        "compared": " and ".join(places),
        "client and server CPU": f"{client_cpu}, {server_cpu}",
    }
    rows = make_rows(against_specs(peers, places), names(peers, places), rounds)
    return Section("Against an earlier self", known, rows, rounds)


def _run_queue(options: argparse.Namespace) -> Section:
    cpu, _ = pick_cpus()
    peers = [peer for peer in QUEUE_PEERS if not (options.smoke and peer == CLIENT_GO)]
    workload = QueueWorkload(options.queue or 0, 1_000_000, 10_000_000)
    if options.smoke:
        workload = QueueWorkload(_SMOKE_OBJECTS, _SMOKE_OBJECTS, _SMOKE_UPDATES, repeats=1)
    rounds: list[dict[str, Measurement]] = []
    with client_go_program(wanted=CLIENT_GO in peers) as program:
        for number in range(_rounds(options)):
            print(f"Work queue: round {number + 1}", file=sys.stderr)
            found = measure_round(_rotated(peers, number), workload, program, cpu=cpu)
            rounds.append({peer: found[peer] for peer in peers})
    known: dict[str, float | int | str] = {
        "keys": workload.keys,
        "keys for memory": workload.waiting,
        "keys that pass": workload.passing,
        "rounds": len(rounds),
        "CPU": f"{cpu}",
    }
    return Section("Work queue", known, queue_rows(peers, rounds), rounds)


def _run_controllers(options: argparse.Namespace) -> list[Section]:
    cpu, server_cpu = pick_cpus()
    peers = [
        peer for peer in CONTROLLER_PEERS if not (options.smoke and peer == CONTROLLER_RUNTIME)
    ]
    workload = ControllerWorkload(options.controllers or 0, 13_000, 10_000_000)
    if options.smoke:
        sizes = (_SMOKE_OBJECTS, _SMOKE_OBJECTS, _SMOKE_UPDATES)
        workload = ControllerWorkload(*sizes, period_seconds=0.5, noops=_SMOKE_UPDATES, repeats=1)
    rounds: list[dict[str, Measurement]] = []
    with controller_runtime_program(wanted=CONTROLLER_RUNTIME in peers) as program:
        for number in range(_rounds(options)):
            print(f"Controllers: round {number + 1}", file=sys.stderr)
            order = _rotated(peers, number)
            found = measure_controllers(order, workload, program, cpu=cpu, server_cpu=server_cpu)
            rounds.append({peer: found[peer] for peer in peers})
    print("Controllers: keys that pass", file=sys.stderr)
    passed = [measure_memory(workload, cpu=cpu)]
    known: dict[str, float | int | str] = {
        "objects": workload.objects,
        "reminded of": workload.reminded,
        "period of the reminders, seconds": workload.period_seconds,
        "no-ops": workload.noops,
        "rounds": len(rounds),
        "client and server CPU": f"{cpu}, {server_cpu}",
    }
    passing: dict[str, float | int | str] = {"keys": workload.passing, "CPU": f"{cpu}"}
    return [
        Section("Controllers", known, controller_rows(peers, rounds), rounds),
        Section("Keys that passed through a controller", passing, memory_rows(passed), passed),
    ]


def _rotated(peers: Sequence[str], number: int) -> list[str]:
    """Begin each round with another peer, so that none always runs on the warmer machine."""
    first = number % len(peers)
    return [*peers[first:], *peers[:first]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compare pyinformer with a bare loop and with kubernetes_asyncio.",
        epilog="peers: " + "; ".join(f"{name}: {peer.does}" for name, peer in PEERS.items()),
    )
    parser.add_argument("--objects", type=_positive, default=5_000, help="pods in the cluster")
    parser.add_argument("--updates", type=_positive, default=20_000, help="changes after the sync")
    parser.add_argument(
        "--rounds",
        type=_positive,
        help=f"interleaved repetitions ({_ROUNDS}; against an earlier self {_ROUNDS_AGAINST})",
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other pods")
    parser.add_argument(
        "--sync", type=_positive, metavar="N", help="measure a sync of N pods instead (100000)"
    )
    parser.add_argument(
        "--queue",
        type=_positive,
        metavar="N",
        nargs="?",
        const=100_000,
        help="measure work queues of N keys beside client-go's instead; needs Go (100000)",
    )
    parser.add_argument(
        "--controllers",
        type=_positive,
        metavar="N",
        nargs="?",
        const=10_000,
        help="measure controllers of N objects beside controller-runtime instead; needs Go (10000)",
    )
    parser.add_argument(
        "--against",
        metavar="REV",
        help="measure updates beside an earlier self instead: a commit, or another checkout",
    )
    parser.add_argument(
        "--peers", nargs="+", choices=PEERS, metavar="PEER", help="only these, in this order"
    )
    parser.add_argument("--smoke", action="store_true", help="everything once, at a tiny size")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the record to PATH")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
