"""`make chaos SEED= MINUTES= LIES=`: one storm, its verdict, and the command that replays it."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from tests.foreign.clients import client_go
from tests.foreign.judged import in_a_storm
from tests.integration.chaos.script import Script
from tests.integration.chaos.storm import StartBeside, Storm


def main() -> int:
    """Run a storm; return 1 if something was violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--no-lies", action="store_true", help="only faults of class A")
    parser.add_argument(
        "--client-go", action="store_true", help="client-go beside it; only with faults of class A"
    )
    parser.add_argument("--replay", type=Path, help="the history of the storm to repeat")
    parser.add_argument("--folder", type=Path, default=Path("build/chaos"))
    asked = parser.parse_args()
    if asked.client_go and not asked.no_lies:
        parser.error("client-go reports no lie of a server: --client-go needs --no-lies")
    seed = secrets.randbelow(1_000_000) if asked.seed is None else asked.seed
    script = (
        Script.drawn(seed, seconds=asked.minutes * 60, lies=not asked.no_lies)
        if asked.replay is None
        else Script.of_history(asked.replay)
    )
    asked.folder.mkdir(parents=True, exist_ok=True)
    path = _unused(asked.folder / f"seed-{script.seed}.jsonl")
    _say(f"seed {script.seed}, history {path}, log {path.with_suffix('.log')}")
    outcome = Storm(script, path, beside=_beside(path) if asked.client_go else None).run()
    _say(str(outcome))
    if not outcome.holds:
        _say(f"replay: make chaos REPLAY={path}")
    return 0 if outcome.holds else 1


def _beside(path: Path) -> StartBeside:
    program = client_go()
    if isinstance(program, str):
        sys.exit(program)
    return in_a_storm(program, path.with_suffix(".kubeconfig"))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _unused(path: Path) -> Path:
    """Return a path beside which nothing exists: what an earlier run left is kept."""
    number = 1
    found = path
    while any(found.parent.glob(f"{found.stem}.*")):  # a run that was stopped has no history
        number += 1
        found = path.with_stem(f"{path.stem}-{number}")
    return found


if __name__ == "__main__":
    sys.exit(main())
