"""The workflows of a public forge run the gates that exist, with no more rights than they need."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

_ROOT = Path(__file__).parents[2]
_WORKFLOWS = sorted(_ROOT.glob(".github/workflows/*.yml"))
_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
_CALL = re.compile(r"\bmake ([a-z][a-z-]*)")
_USES = re.compile(r"uses: (\S+)@(\S+)(.*)")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_VERSION = re.compile(r"  # v\d+\.\d+\.\d+")


def read(path: Path) -> dict[Any, Any]:
    """Return a workflow; YAML takes the key `on` for True."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    """Return the steps of all jobs; a job that is another workflow has none."""
    return [step for job in workflow["jobs"].values() for step in job.get("steps", ())]


def called(text: str) -> set[str]:
    """Return the targets that a text calls by make."""
    return set(_CALL.findall(text))


def test_there_are_workflows_for_changes_and_for_releases() -> None:
    assert [path.name for path in _WORKFLOWS] == ["ci.yml", "release.yml"]


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_a_valid_syntax(path: Path) -> None:
    workflow = read(path)

    assert workflow["name"] == path.stem
    assert workflow[True], "it says when it runs"
    for job in workflow["jobs"].values():
        if "uses" in job:
            assert (_ROOT / job["uses"]).is_file()
            continue
        assert job["runs-on"]
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.name)
def test_every_target_that_a_workflow_makes_exists(path: Path) -> None:
    targets = set(_TARGET.findall((_ROOT / "Makefile").read_text(encoding="utf-8")))
    made = {name for step in steps(read(path)) for name in called(step.get("run", ""))}

    assert made
    assert made - targets == set()


def test_changes_pass_every_gate_that_a_clone_passes() -> None:
    ran = called((_ROOT / ".ci/run").read_text(encoding="utf-8"))
    made = called((_ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))

    assert ran - made == set()


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_read_the_sources_and_nothing_else(path: Path) -> None:
    workflow = read(path)
    granted = [
        workflow["permissions"],
        *(job.get("permissions", {}) for job in workflow["jobs"].values()),
    ]
    allowed = {("contents", "read")} | (
        {("id-token", "write")} if path.stem == "release" else set()
    )

    assert {pair for grant in granted for pair in grant.items()} <= allowed
    assert "secrets." not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_to_a_commit_and_keeps_no_credentials(path: Path) -> None:
    """A tag can be moved; the version beside the commit is for people."""
    for action, commit, remark in _USES.findall(path.read_text(encoding="utf-8")):
        assert _COMMIT.fullmatch(commit), f"{action}@{commit}"
        assert _VERSION.fullmatch(remark), f"{action}: {remark}"
    for step in steps(read(path)):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_an_action_has_one_commit_everywhere() -> None:
    found = {
        (action, commit, remark)
        for path in _WORKFLOWS
        for action, commit, remark in _USES.findall(path.read_text(encoding="utf-8"))
    }
    assert len(found) == len({action for action, _, _ in found}) == 5


def test_the_tools_that_build_a_release_are_pinned() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = project["build-system"]["requires"]
    pinned = (_ROOT / "constraints.txt").read_text(encoding="utf-8")

    assert project["dependency-groups"]["build"] == wanted
    for requirement in wanted:
        name = requirement.partition(">")[0]
        assert re.search(rf"^{name}==", pinned, re.MULTILINE), name


def test_nothing_is_released_before_every_gate_has_passed() -> None:
    jobs = read(_ROOT / ".github/workflows/release.yml")["jobs"]

    assert jobs["gates"]["uses"] == "./.github/workflows/ci.yml"
    assert jobs["build"]["needs"] == "gates"
    assert "workflow_call" in read(_ROOT / ".github/workflows/ci.yml")[True]


def test_only_the_job_that_publishes_gets_an_identity_and_runs_nothing_of_ours() -> None:
    jobs = read(_ROOT / ".github/workflows/release.yml")["jobs"]
    identified = [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})]

    assert identified == ["publish"]
    assert not any("run" in step for step in jobs["publish"]["steps"])
    assert jobs["publish"]["needs"] == "build"
