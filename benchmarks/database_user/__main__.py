"""Plays faults to one operator in four frameworks: what is wrong afterwards, and for how long?

    python -m benchmarks.database_user --json four-operators.json      # half an hour
    python -m benchmarks.database_user --frameworks pyinformer kopf --runs 1

Each has two replicas as processes, a real kube-apiserver with etcd of its own, and a database that
is a small service on loopback. All is right when the users of the database are exactly those of
the DatabaseUsers, each Secret has the password that the database has, and all objects are Ready.
No figure fails anything.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.database_user.database import Database
from benchmarks.database_user.frameworks import FRAMEWORKS, Framework
from benchmarks.database_user.replicas import Replicas
from benchmarks.database_user.scenes import SCENES, Outcome, Stage, play
from benchmarks.database_user.state import NAMESPACE
from pyinformer.testing import KubeAPIServer

Found = dict[str, list[Outcome]]
"""The outcomes of each scene."""


def run(
    framework: Framework,
    command: Sequence[str],
    scenes: Sequence[str],
    *,
    bound_seconds: float,
    logs: Path | None,
) -> dict[str, Outcome]:
    """Play scenes to one framework, on a fresh server."""
    with (
        KubeAPIServer(build=True) as api,
        Database() as database,
        tempfile.TemporaryDirectory() as temporary,
    ):
        folder = logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        api.ensure_namespace(NAMESPACE)
        kubeconfig = api.write_kubeconfig(Path(temporary) / "kubeconfig")
        framework.prepare(api)
        replicas = Replicas(command, {"KUBECONFIG": str(kubeconfig)}, folder, database)
        stage = Stage(api, database, replicas, bound_seconds=bound_seconds)
        stage.define()
        try:
            found = {}
            for name in scenes:
                found[name] = play(stage, SCENES[name])
                print(framework.name, name, found[name], file=sys.stderr, flush=True)
            return found
        finally:
            replicas.stop()


def table(found: dict[str, Found]) -> str:
    """Return the outcomes in Markdown: a row for each scene, a column for each framework."""
    names = list(found)
    lines = [f"| | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|"]
    for scene in SCENES:
        cells = [cell(found[name][scene]) for name in names if scene in found[name]]
        if cells:
            lines.append(f"| {scene} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes of one scene, of all runs."""
    seconds = [one.seconds for one in outcomes if one.seconds is not None]
    parts = []
    if seconds:
        spread = f" ({min(seconds):.1f} to {max(seconds):.1f})" if len(seconds) > 1 else ""
        parts.append(f"{median(seconds):.1f} s{spread}")
    if failed := len(outcomes) - len(seconds):
        worst = Counter[str]()
        for one in outcomes:
            worst |= Counter({problem: len(names) for problem, names in one.problems.items()})
        wrong = ", ".join(f"{problem}: {count}" for problem, count in worst.items())
        parts.append(f"not right in {failed} of {len(outcomes)} ({wrong})")
    parts.append(f"{median(one.errors for one in outcomes):g} errors")
    if exits := median(one.exits for one in outcomes):
        parts.append(f"{exits:g} exits")
    return "; ".join(parts)


def lines_table(names: Sequence[str]) -> str:
    """Return how long the programs are, in Markdown."""
    rows = ["| | code | imports | generated | build |", "|---|---|---|---|---|"]
    for name in names:
        lines = FRAMEWORKS[name].lines()
        title = f"{name} {FRAMEWORKS[name].version()}"
        program, others = lines["program"], (lines["generated"].code, lines["build"].code)
        rows.append(f"| {title} | {program.code} | {program.imports} | {others[0]} | {others[1]} |")
    return "\n".join(rows)


def record(found: dict[str, Found]) -> str:
    """Return everything as JSON."""
    content = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "frameworks": {
            name: {
                "version": FRAMEWORKS[name].version(),
                "lines": {part: one._asdict() for part, one in FRAMEWORKS[name].lines().items()},
                "scenes": {scene: [asdict(one) for one in all_] for scene, all_ in scenes.items()},
            }
            for name, scenes in found.items()
        },
    }
    return json.dumps(content, indent=1) + "\n"


def main(arguments: argparse.Namespace) -> None:
    """Play all scenes to all frameworks, by turns, and print the tables."""
    found: dict[str, Found] = {}
    commands: dict[str, Sequence[str]] = {}
    for name in arguments.frameworks:
        command = FRAMEWORKS[name].build()
        if isinstance(command, str):
            print(f"{name} does not take part: {command}", file=sys.stderr)
        else:
            commands[name] = command
    for number in range(arguments.runs):
        for name, command in commands.items():
            logs = arguments.logs and arguments.logs / f"{name}-{number}"
            if logs:
                shutil.rmtree(logs, ignore_errors=True)
            bound = arguments.bound_seconds
            scenes = [*SCENES][: arguments.scenes]
            outcomes = run(FRAMEWORKS[name], command, scenes, bound_seconds=bound, logs=logs)
            for scene, outcome in outcomes.items():
                found.setdefault(name, {}).setdefault(scene, []).append(outcome)
            if arguments.json:
                arguments.json.write_text(record(found), encoding="utf-8")
    print(f"{lines_table([*commands])}\n\n{table(found)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.database_user", description=__doc__)
    parser.add_argument("--frameworks", nargs="+", choices=[*FRAMEWORKS], default=[*FRAMEWORKS])
    parser.add_argument("--scenes", type=int, default=len(SCENES), help="the first ones only")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--bound-seconds", type=float, default=120.0, help="of one scene")
    parser.add_argument("--json", type=Path, help="where everything is written")
    parser.add_argument("--logs", type=Path, help="a folder that keeps the logs of the replicas")
    main(parser.parse_args())
