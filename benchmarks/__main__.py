"""`python -m benchmarks`: run benchmarks, and print, record and publish the results.

No figure decides the exit status. It is 1 if one of our own peers or the bare loop failed to run; a
foreign peer that fails is a row with the reason. The smoke shows that every run works: a row of it
without a figure is an exit status of 1 as well.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.harness.environments import interpreter
from benchmarks.harness.measure import PEERS
from benchmarks.harness.processes import pick_cpus
from benchmarks.report.progress import Estimate, progress
from benchmarks.report.record import (
    Record,
    make_record,
    merged,
    read_json,
    write_json,
)
from benchmarks.report.terminal import show
from benchmarks.runs import RUNS
from benchmarks.runs.run import Run, Setting, Size, is_foreign
from benchmarks.runs.turns import Plan, carry_out, make_plan

_INTERRUPTED = 130
_KEPT = Path("build/benchmarks/record.json")
_PUBLISHED = Path("docs/benchmarks/results.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.list:
        _list_runs()
        return 0
    if options.records:
        return _publish_saved(options)
    size = Size.SMOKE if options.smoke else Size(options.size)
    plans = _plans(options, size)
    if not plans:
        parser.error(f"of what was named, nothing runs at size {size} with these peers")
    record = make_record(size=size)
    _install(plans)
    path = _growing(options, size)
    was_interrupted = _carry_out(plans, _setting(options, size), record, path)
    show(record)
    if was_interrupted:
        print(f"interrupted; what was measured so far is in {path}", file=sys.stderr)
        return _INTERRUPTED
    if options.publish is not None:
        _publish(record, options.publish)
    return int(_own_failed(record) or (size is Size.SMOKE and _misses_figures(record)))


def _carry_out(plans: Sequence[Plan], setting: Setting, record: Record, path: Path | None) -> bool:
    """Measure; whatever was measured is in `record` and in the file, also after an interrupt.

    Returns:
        Whether it was interrupted.
    """
    estimate = Estimate(plans, _earlier(record.size))
    try:
        with _terminated_as_interrupted(), progress(plans, estimate) as watcher:
            for plan in plans:
                for section in carry_out(plan, setting, watcher):
                    record.put(section)
                    if path is not None:
                        write_json(record, path)
                estimate.finished(plan.name)
    except KeyboardInterrupt:
        return True
    return False


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM end the measuring as Ctrl-C does: servers and peers are ended, too."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _install(plans: Iterable[Plan]) -> None:
    """Make the peers' environments now, so that no turn seems to take as long as that."""
    known = [PEERS[peer] for plan in plans for peer in plan.peers if peer in PEERS]
    for name in sorted({program.environment for program in known if program.environment}):
        interpreter(name)  # why there is none, if so, each of its peers says in its row


def _plans(options: argparse.Namespace, size: Size) -> list[Plan]:
    made = (
        make_plan(run, size, peers=options.peers or (), rounds=options.rounds)
        for run in _chosen(options, size)
    )
    return [plan for plan in made if plan is not None]


def _chosen(options: argparse.Namespace, size: Size) -> Iterable[Run]:
    named = options.runs or (["against"] if options.against else [])
    if named:
        return [run for run in RUNS if run.name in named]
    return [run for run in RUNS if size is Size.SMOKE or not run.on_request]


def _setting(options: argparse.Namespace, size: Size) -> Setting:
    client_cpu, server_cpu = pick_cpus()
    return Setting(size, options.seed, client_cpu, server_cpu, options.against or "")


def _growing(options: argparse.Namespace, size: Size) -> Path | None:
    """Name the file that the record grows in; a smoke is kept only if asked for."""
    asked: Path | None = options.json
    return asked or (None if size is Size.SMOKE else _KEPT)


def _earlier(size: str) -> Record | None:
    """Find a record of the same size, for the estimate of the time that is left."""
    for path in (_KEPT, _PUBLISHED):
        if path.exists():
            found = read_json(path)
            if found.size == size:
                return found
    return None


def _own_failed(record: Record) -> bool:
    return any(
        found.error and not is_foreign(peer)
        for section in record.sections
        for done in section.rounds
        for peer, found in done.items()
    )


def _misses_figures(record: Record) -> bool:
    """Name on standard error the rows that have no figure, and return whether there are any."""
    rows = [row for section in record.sections for row in section.rows]
    if sys.platform != "linux":
        from_proc = ("memory", "of the kube-apiserver", "per lone event")
        rows = [row for row in rows if not any(words in row.measures for words in from_proc)]
    missing = [row for row in rows if None in {row.median, row.min, row.max}]
    for row in missing:
        print(f"no figure: {row.measures}, {row.peer}: {row.note}", file=sys.stderr)
    return bool(missing)


def _publish_saved(options: argparse.Namespace) -> int:
    record = merged(read_json(path) for path in options.records)
    if options.json is not None:
        write_json(record, options.json)
    if options.publish is None:
        show(record)
    else:
        _publish(record, options.publish)
    return 0


def _publish(record: Record, folder: Path) -> None:
    from benchmarks.report.publish import publish  # needs the plotting library

    for told in publish(record, folder):
        print(told, file=sys.stderr)


def _list_runs() -> None:
    for run in RUNS:
        sizes = ", ".join(run.peers) + (", on request" if run.on_request else "")
        print(f"{run.name}: {run.title} ({sizes})\n    {run.says}")
        for size, peers in run.peers.items():
            print(f"    {size}: {run.rounds.get(size, 1)} rounds of {', '.join(peers)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure pyinformer beside client-go and the other clients in Python.",
        epilog="Without RUN, every run of that size is carried out, but those on request.",
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", type=_run_name, help="see --list")
    parser.add_argument("--list", action="store_true", help="list runs and their peers, and end")
    parser.add_argument(
        "--size", choices=list(Size), default=Size.BENCH, help="how much is measured (bench)"
    )
    parser.add_argument("--smoke", action="store_true", help="the same as --size smoke")
    parser.add_argument(
        "--rounds", type=_positive, help="interleaved repetitions (each run has its own number)"
    )
    parser.add_argument("--peers", nargs="+", metavar="PEER", help="only these")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other objects")
    parser.add_argument(
        "--against",
        metavar="REV",
        help="an earlier self for the run `against`: a commit, or another checkout (HEAD)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help=f"write the record to PATH ({_KEPT})"
    )
    parser.add_argument(
        "--publish", type=Path, metavar="FOLDER", help="write pages, plots and record to FOLDER"
    )
    parser.add_argument(
        "--from",
        dest="records",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="measure nothing: print or publish saved records, merged; later ones win",
    )
    return parser


def _run_name(text: str) -> str:
    names = [run.name for run in RUNS]
    if text not in names:
        raise argparse.ArgumentTypeError(f"there is no run {text!r}, but {', '.join(names)}")
    return text


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
