"""`python -m benchmarks.stations`: time the stations; compare with a baseline or a commit.

No figure decides the exit status; it is 1 only if a station failed on the package as it is now.
Figures of two machines are compared by what the reference loop takes on each.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.harness.processes import pick_cpus, pin_to_cpu
from benchmarks.report.record import machine_now, now
from benchmarks.report.terminal import number
from benchmarks.stations.registry import STATIONS, Station
from benchmarks.stations.timing import PODS, Timing, load, time_stations

REFERENCE = "reference-loop"
BASELINE = Path(__file__).with_name("baseline.json")

_ROUNDS_AGAINST = 5


class Baseline(msgspec.Struct):
    """What `--save` writes."""

    date: str
    machine: dict[str, str | int | None]
    stations: dict[str, Timing]


def main(arguments: Sequence[str] | None = None) -> int:
    """Time what the command line asks for; return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        stations, missing = load(options.names)
    except KeyError as error:
        parser.error(str(error.args[0]))
    if options.list:
        for each in stations:
            print(f"{each.name:<18}{each.does}")
        return 0
    if options.compare is not None and not options.compare.is_file():
        parser.error(f"--compare {options.compare}: no such baseline (stations come before it)")
    if options.against is not None:
        return _against(options, parser, [each.name for each in stations])
    found = _timed(options, stations) | missing
    if options.as_json:
        print(msgspec.json.encode(found).decode())
        return 0
    before = _saved(options.compare)
    _show(found, before)
    if options.save is not None:
        _save(found, options.save)
    return int(any(timing.error for timing in found.values()))


def _timed(options: argparse.Namespace, stations: Sequence[Station]) -> dict[str, Timing]:
    names = [each.name for each in stations]
    if REFERENCE not in names and options.compare is not None:
        stations = [STATIONS[REFERENCE], *stations]
    return time_stations(
        stations, samples=options.samples, seconds=options.seconds, pods=options.pods
    )


def _against(
    options: argparse.Namespace, parser: argparse.ArgumentParser, names: Sequence[str]
) -> int:
    # Not at the top: in an earlier package the stations may run where the runs do not.
    from benchmarks.runs.against import NoSuchTreeError, trees

    try:
        with trees(options.against) as places:
            return _compare_trees(places, options, names)
    except NoSuchTreeError as error:
        parser.error(f"--against {options.against}: {error}")


def _compare_trees(
    places: Mapping[str, Path], options: argparse.Namespace, names: Sequence[str]
) -> int:
    """Time both trees in turn, each round in processes of their own, and show the ratios."""
    ours, then = places
    rounds: list[dict[str, dict[str, Timing]]] = []
    for turn in range(options.rounds):
        done: dict[str, dict[str, Timing]] = {}
        for tree in (ours, then) if turn % 2 == 0 else (then, ours):
            print(f"stations: round {turn + 1}/{options.rounds}, {tree}", file=sys.stderr)
            done[tree] = _of_tree(places[tree], options, names)
        rounds.append(done)
    print(f"{'station':<18}{ours + ', us':>10}{then + ', us':>14}{'ratio':>8}   (min to max)")
    return max(_show_ratio(name, (ours, then), rounds) for name in names)


def _of_tree(folder: Path, options: argparse.Namespace, names: Sequence[str]) -> dict[str, Timing]:
    command = [sys.executable, "-m", "benchmarks.stations", "--as-json", *names]
    command += [f"--samples={options.samples}", f"--seconds={options.seconds}"]
    command += [f"--pods={options.pods}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return dict.fromkeys(names, Timing(error=reason[0]))
    return msgspec.json.decode(done.stdout, type=dict[str, Timing])


def _show_ratio(
    name: str, sides: tuple[str, str], rounds: Sequence[Mapping[str, Mapping[str, Timing]]]
) -> int:
    """Print a station's line; return 1 if it failed on the package as it is now."""
    nothing = Timing(error="not there")
    pairs = [tuple(done[side].get(name, nothing) for side in sides) for done in rounds]
    known = [(ours.us, theirs.us) for ours, theirs in pairs if ours.us and theirs.us]
    if not known:
        told = [timing.error or f"{number(timing.us or 0)} us" for timing in pairs[0]]
        print(f"{name:<18}  " + "; ".join(map("{}: {}".format, sides, told)))
        return int(bool(pairs[0][0].error))
    ratios = [ours / theirs for ours, theirs in known]
    here, there = (statistics.median(side) for side in zip(*known, strict=True))
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    ratio = statistics.median(ratios)
    print(f"{name:<18}{number(here):>10}{number(there):>14}{ratio:>8.2f}   ({spread})")
    return 0


def _saved(path: Path | None) -> Baseline | None:
    return None if path is None else msgspec.json.decode(path.read_bytes(), type=Baseline)


def _save(found: dict[str, Timing], path: Path) -> None:
    baseline = Baseline(now(), machine_now(), found)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(baseline), indent=1) + b"\n")


def _show(found: Mapping[str, Timing], before: Baseline | None) -> None:
    """Print a table; with a baseline, print the differences, adjusted for the machines' speed."""
    scale = _scale(found, before)
    if before is not None:
        print(f"beside {before.date}, {before.machine.get('cpu')}")
        print(f"the reference loop takes {scale:.2f} of what it took there")
    header = f"{'station':<18}{'us':>9}{'min':>9}{'max':>9}"
    print(header + (f"{'before':>9}{'ratio':>8}" if before is not None else ""))
    for name, timing in found.items():
        if timing.us is None or timing.min_us is None or timing.max_us is None:
            print(f"{name:<18}  {timing.error}")
            continue
        figures = (timing.us, timing.min_us, timing.max_us)
        line = f"{name:<18}" + "".join(f"{number(figure):>9}" for figure in figures)
        known = before.stations.get(name) if before is not None else None
        if known is not None and known.us:
            line += f"{number(known.us):>9}{timing.us / known.us / scale:>8.2f}"
        does = STATIONS[name].does if before is None else ""
        print(f"{line}   {does}".rstrip())


def _scale(found: Mapping[str, Timing], before: Baseline | None) -> float:
    ours = found.get(REFERENCE, Timing()).us
    theirs = before.stations.get(REFERENCE, Timing()).us if before is not None else None
    return ours / theirs if ours and theirs else 1.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.stations",
        description="Time each station of an object's way alone: CPU per operation.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; see --list")
    parser.add_argument("--list", action="store_true", help="list the stations, and end")
    parser.add_argument("--samples", type=int, default=7, help="medians are of so many (7)")
    parser.add_argument(
        "--seconds", type=float, default=0.01, help="CPU time of a sample, at least (0.01)"
    )
    parser.add_argument("--pods", type=int, default=PODS, help=f"of one pass ({PODS})")
    parser.add_argument(
        "--save", type=Path, nargs="?", const=BASELINE, metavar="PATH", help="write a baseline"
    )
    parser.add_argument(
        "--compare",
        type=Path,
        nargs="?",
        const=BASELINE,
        metavar="PATH",
        help="show the ratio to a baseline (the saved one), less the difference of the machines",
    )
    parser.add_argument("--against", metavar="REV", help="beside a commit, or another checkout")
    parser.add_argument(
        "--rounds", type=int, default=_ROUNDS_AGAINST, help="of --against, by turns (5)"
    )
    parser.add_argument("--as-json", action="store_true", help="print figures for a program")
    return parser


if __name__ == "__main__":
    pin_to_cpu(pick_cpus()[0])
    sys.exit(main())
