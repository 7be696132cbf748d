"""pyinformer compared with an earlier commit: the same updates and program, two packages.

Both trees are copies, so that edits during the run do not count. Each has the harness as it is now,
and its own programs that use the package (peers and stations), since names may have changed. Each
process proves which of the two packages it has imported.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.harness.measure import ServerOptions, measure, running_server
from benchmarks.harness.phases import Measurement, Workload
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import (
    MICRO,
    MILLI,
    cpu_per_update,
    peak_megabytes,
    per,
    rss_per_object,
    scaled,
)
from benchmarks.runs.run import Bench, Known, Run, Setting, Size

ROOT = Path(__file__).parents[2]
NOW = "now"
THEN = "then"
PEERS = ("pyinformer", "pyinformer-raw", "pyinformer-dict")

_PACKAGE = "pyinformer"
_PROGRAMS = ("benchmarks/peers", "benchmarks/stations")  # written for the package beside them
# What a process is charged for itself, and what to reach; wall times would compare neighbours.
_COMPARED = {
    "CPU per update": "<= 1.05",
    "updates seen one by one (the rest was coalesced)": "",
    "sync: CPU per object": "",
    "memory (RSS) per object": "<= 1.02",
    "peak memory of the process": "",
}
_WHERE = "import pyinformer; print(pyinformer.__file__)"


class NoSuchTreeError(Exception):
    """What was to be compared with is neither a commit nor a folder with the package."""


@contextlib.contextmanager
def trees(against: str, root: Path = ROOT) -> Iterator[dict[str, Path]]:
    """Copy the package as it is and as it was; both are gone after the block.

    Args:
        against: a commit of the repository in `root`, or a folder that holds the package.
        root: where the package and the benchmarks stand as they are now.

    Yields:
        A folder by name: `now`, and what was asked for.

    Raises:
        NoSuchTreeError: there is nothing to compare with.
    """
    with tempfile.TemporaryDirectory(prefix="pyinformer-benchmark-") as folder:
        now, then = Path(folder) / "now", Path(folder) / "then"
        name, earlier = THEN, Path(against)
        if not (earlier / _PACKAGE).is_dir():
            earlier = Path(folder) / "commit"
            name = export(against, root, earlier, _PROGRAMS)
        for tree, source in ((now, root), (then, earlier)):
            _assemble(tree, source, harness=root / "benchmarks")
            _check_is_imported(tree)
        yield {NOW: now, name: then}


def _assemble(tree: Path, source: Path, *, harness: Path) -> None:
    """Copy a package, its own programs where it has any, and the harness around them."""
    _copy(harness, tree / "benchmarks")
    _copy(source / _PACKAGE, tree / _PACKAGE)
    for program in _PROGRAMS:
        if (source / program).is_dir():  # a folder may hold only the package
            shutil.rmtree(tree / program)
            _copy(source / program, tree / program)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))


def export(commit: str, root: Path, target: Path, beside: Sequence[str] = ()) -> str:
    """Write the package of a commit to a folder; return the commit's short name.

    Args:
        commit: its name, as git understands it.
        root: a folder of the repository.
        target: the folder to write to.
        beside: other folders of the commit to write.
    """
    asked = f"{commit}^{{commit}}"
    name = (
        _git(root, "rev-parse", "--short", "--verify", "--end-of-options", asked).decode().strip()
    )
    archive = _git(root, "archive", "--format=tar", name, "--", _PACKAGE, *beside)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(target, filter="data")
    return name


def _git(root: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=True)
    except OSError as error:
        raise NoSuchTreeError(f"git cannot be run: {error}") from error
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip()
        told = f"neither a commit nor a folder with {_PACKAGE} in it: {reason}"
        raise NoSuchTreeError(told) from error
    return done.stdout


def _check_is_imported(tree: Path) -> None:
    """Make sure that an installed package does not take the place of the one to be measured."""
    done = subprocess.run(
        [sys.executable, "-c", _WHERE], cwd=tree, capture_output=True, text=True, check=False
    )
    if not done.stdout.startswith(str(tree)):
        found = done.stdout.strip() or done.stderr.strip()
        raise NoSuchTreeError(f"{tree.name}: another package is imported: {found}")


def named(peer: str, tree: str) -> str:
    """Return what a peer is called in the report."""
    return f"{peer} {tree}"


def names(peers: Sequence[str]) -> list[str]:
    """List what is measured, in the report's order."""
    return [named(peer, tree) for peer in peers for tree in (NOW, THEN)]


def update_specs() -> tuple[Spec, ...]:
    """List what a client is charged for its updates and for the sync before them."""
    return (
        Spec(
            "CPU per update",
            "us",
            cpu_per_update,
            {},
        ),
        Spec(
            "wall time per update",
            "us",
            lambda found: per(found.update_wall_seconds, found.updates, MICRO),
            {},
        ),
        Spec(
            "updates seen one by one (the rest was coalesced)",
            "",
            lambda found: found.updates_seen,
            {},
        ),
        Spec(
            "sync: CPU per object",
            "us",
            lambda found: per(found.sync_cpu_seconds, found.objects, MICRO),
            {},
        ),
        Spec(
            "sync: wall time",
            "ms",
            lambda found: scaled(found.sync_wall_seconds, MILLI),
            {},
        ),
        Spec(
            "sync: longest block of the event loop",
            "ms",
            lambda found: scaled(found.longest_block_seconds, MILLI),
            {},
        ),
        Spec(
            "memory (RSS) per object",
            "bytes",
            rss_per_object,
            {},
        ),
        Spec(
            "peak memory of the process",
            "MB",
            peak_megabytes,
            {},
        ),
    )


def against_specs(peers: Sequence[str]) -> list[Spec]:
    """List the rows: those of the updates run, each with the ratio of now to then."""
    pairs = tuple((named(peer, NOW), named(peer, THEN)) for peer in peers)
    ratios = [f"{above} / {below}" for above, below in pairs]
    return [
        replace(spec, ratios=pairs, targets=dict.fromkeys(ratios, _COMPARED[spec.measures]))
        for spec in update_specs()
        if spec.measures in _COMPARED
    ]


@dataclass(frozen=True, slots=True)
class _AgainstBench:
    known: Known
    workload: Workload
    places: Mapping[str, Path]
    cpu: int | None

    def measure(self, peer: str) -> Measurement:
        program, tree = peer.rsplit(" ", 1)
        found = measure(program, self.workload, cpu=self.cpu, folder=self.places[tree])
        found.peer = peer
        return found


@contextlib.contextmanager
def _open(setting: Setting) -> Iterator[Bench]:
    against = setting.against or (str(ROOT) if setting.size is Size.SMOKE else "HEAD")
    objects, updates = (40, 120) if setting.size is Size.SMOKE else (5_000, 10_000)
    options = ServerOptions(
        objects=objects, updates=updates, seed=setting.seed, cpu=setting.server_cpu
    )
    with trees(against) as places, running_server(options) as server:
        now, then = places
        known: Known = {
            "objects": objects,
            "updates": updates,
            "compared": f"{now} and {then}",
            "client and server CPU": f"{setting.client_cpu}, {setting.server_cpu}",
        }
        folders = {NOW: places[now], THEN: places[then]}
        yield _AgainstBench(known, server.workload, folders, setting.client_cpu)


# A few percent are looked for, and a neighbour's noise is more than that.
_ROUNDS = {Size.SMOKE: 1, Size.BENCH: 15, Size.FULL: 25}

AGAINST = Run(
    name="against",
    title="Against an earlier self",
    says="The same program on the package as it is and as it was, one right after the other.",
    peers={
        Size.SMOKE: tuple(names(PEERS[:1])),
        Size.BENCH: tuple(names(PEERS[:1])),
        Size.FULL: tuple(names(PEERS)),
    },
    rounds=_ROUNDS,
    open=_open,
    specs=lambda _: against_specs(PEERS),
    on_request=True,
)
