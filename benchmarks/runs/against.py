"""pyinformer beside an earlier self: the same updates, the same program, two trees of the package.

Enters: a commit of this repository, or a folder with another checkout. Leaves: rounds, in each of
which both were measured, and the rows with their ratios.
Invariant: both trees are copies that nobody edits during the run, and hold the peer as it is now;
only the package differs, and each process proves which of the two it has imported.
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
from dataclasses import replace
from pathlib import Path

from benchmarks.harness.measure import measure
from benchmarks.harness.phases import Measurement, Workload
from benchmarks.report.rows import Spec, update_specs

ROOT = Path(__file__).parents[2]
NOW = "now"
PEERS = ("pyinformer", "pyinformer-raw", "pyinformer-dict")

_PACKAGE = "pyinformer"
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
        _copy(root / _PACKAGE, now / _PACKAGE)
        if (Path(against) / _PACKAGE).is_dir():
            name = "then"
            _copy(Path(against) / _PACKAGE, then / _PACKAGE)
        else:
            name = _export(against, root, then)
        for tree in (now, then):
            _copy(root / "benchmarks", tree / "benchmarks")
            _check_is_imported(tree)
        yield {NOW: now, name: then}


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))


def _export(commit: str, root: Path, target: Path) -> str:
    """Write the package of a commit to a folder; return the commit's short name."""
    asked = f"{commit}^{{commit}}"
    name = (
        _git(root, "rev-parse", "--short", "--verify", "--end-of-options", asked).decode().strip()
    )
    archive = _git(root, "archive", "--format=tar", name, "--", _PACKAGE)
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


def measure_both(
    peers: Sequence[str],
    workload: Workload,
    places: Mapping[str, Path],
    *,
    cpu: int | None,
    number: int,
) -> dict[str, Measurement]:
    """Run one round: each peer in both trees, one right after the other, who is first by turns."""
    found: dict[str, Measurement] = {}
    for peer in peers:
        order = sorted(places, key=list(places).index, reverse=bool(number % 2))
        for tree in order:
            done = measure(peer, workload, cpu=cpu, folder=places[tree])
            done.peer = named(peer, tree)
            found[done.peer] = done
    return {name: found[name] for name in names(peers, places)}


def named(peer: str, tree: str) -> str:
    """Return what a peer is called in the report."""
    return f"{peer} {tree}"


def names(peers: Sequence[str], places: Mapping[str, Path]) -> list[str]:
    """List what is measured, in the report's order."""
    return [named(peer, tree) for peer in peers for tree in places]


def against_specs(peers: Sequence[str], places: Mapping[str, Path]) -> list[Spec]:
    """List the rows: those of the updates run, each with the ratio of now to then."""
    now, then = places
    pairs = tuple((named(peer, now), named(peer, then)) for peer in peers)
    ratios = [f"{above} / {below}" for above, below in pairs]
    return [
        replace(spec, ratios=pairs, targets=dict.fromkeys(ratios, _COMPARED[spec.measures]))
        for spec in update_specs()
        if spec.measures in _COMPARED
    ]
