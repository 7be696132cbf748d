"""The comparison finds the earlier package, and each process measures the right tree.

The tests use repositories and folders of their own and measure nothing; test_smoke does that.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import make_rows
from benchmarks.runs.against import (
    NOW,
    THEN,
    NoSuchTreeError,
    against_specs,
    named,
    names,
    trees,
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Make a repository whose files were committed as 1 and were made 2 since then."""
    root = tmp_path / "repository"
    _write(root, 1)
    _git(root, "init", "--quiet")
    _git(root, "add", ".")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    _git(root, *identity, "commit", "--quiet", "--message=first")
    _write(root, 2)
    return root


_FILES = (
    "pyinformer/__init__.py",
    "benchmarks/peers/one.py",
    "benchmarks/stations/one.py",
    "benchmarks/harness/one.py",
)


def _write(root: Path, value: int) -> None:
    for name in _FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"VALUE = {value}")


def _read(tree: Path) -> list[str]:
    return [(tree / name).read_text()[-1] for name in _FILES]


def test_a_commit_is_compared_with_the_working_tree(repository: Path) -> None:
    with trees("HEAD", repository) as places:
        contents = [_read(place) for place in places.values()]
    harness_of_now = "2"
    assert contents == [["2"] * 4, ["1", "1", "1", harness_of_now]]
    assert list(places) == [NOW, _git(repository, "rev-parse", "--short", "HEAD")]


def test_another_checkout_is_compared_with(repository: Path, tmp_path: Path) -> None:
    _write(tmp_path / "other", 3)
    with trees(str(tmp_path / "other"), repository) as places:
        assert list(places) == [NOW, "then"]
        assert _read(places["then"]) == ["3", "3", "3", "2"]


def test_temporary_trees_are_removed_and_the_repository_is_unchanged(repository: Path) -> None:
    before = _git(repository, "status", "--porcelain")
    with trees("HEAD", repository) as places:
        pass
    assert not any(place.exists() for place in places.values())
    assert _git(repository, "status", "--porcelain") == before
    assert _git(repository, "worktree", "list").count("\n") == 0


@pytest.mark.parametrize("against", ["no-such-commit", "--help", ""])
def test_a_name_of_neither_a_commit_nor_a_checkout_is_refused(
    repository: Path, against: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.parent)
    refused = pytest.raises(NoSuchTreeError, match="neither a commit nor a folder")
    with refused, trees(against, repository):
        pass


def test_a_tree_whose_package_is_not_the_one_imported_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    refused = pytest.raises(NoSuchTreeError, match="another package is imported")
    with refused, trees("HEAD", repository):
        pass


def test_each_row_has_its_ratio_of_now_to_then() -> None:
    then, now = (
        Measurement("pyinformer", updates=1, update_cpu_seconds=seconds) for seconds in (2.0, 3.0)
    )
    found = {named("pyinformer", NOW): now, named("pyinformer", THEN): then}
    specs = against_specs(["pyinformer"])
    rows = make_rows(specs, names(["pyinformer"]), [found])
    ratios = {row.measures: row for row in rows if row.unit == "x"}
    assert ratios["CPU per update, ratio"].median == 1.5
    assert ratios["CPU per update, ratio"].target == "<= 1.05"
    assert len(ratios) == len(specs)


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
