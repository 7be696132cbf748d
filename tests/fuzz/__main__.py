"""Run the coverage-guided fuzzer on one target or on all: `make fuzz TARGET=yaml RUNS=1000000`.

Each target runs in a process of its own, on the kept corpus and the seeds. A finding is a file
below build/fuzz, which `python -m tests.fuzz.one TARGET FILE` repeats; once it is mended, its bytes
belong into the corpus. With `--keep`, the shortest inputs that have reached something new become
the corpus.
"""

from __future__ import annotations

import argparse
import base64
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.fuzz.kept import CORPUS, kept
from tests.fuzz.targets import SEEDS, TARGETS

_BUILD: Final = Path(__file__).parents[2] / "build/fuzz"
_LONGEST: Final = 4096
_KEPT_BYTES: Final = 512  # longer inputs teach the next run little
_KEPT_FILES: Final = 120


def run(target: str, runs: int, *, keep: bool) -> int:
    """Fuzz one target.

    Returns:
        The exit status: 0 if nothing was found.
    """
    folder = _BUILD / target
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate([*SEEDS[target], *kept(target)]):
        (folder / f"seed-{number}").write_bytes(data)
    options = [
        f"-runs={runs}",
        f"-max_len={_LONGEST}",
        f"-artifact_prefix={folder}-",
        "-timeout=30",
    ]
    command = [sys.executable, "-m", "tests.fuzz.one", target]
    sys.stdout.write(f"== fuzz: {target}, {runs} runs\n")
    sys.stdout.flush()
    status = subprocess.run([*command, "--fuzz", *options, str(folder)], check=False).returncode
    if keep and status == 0:
        _keep(target, folder)
    return status


def _keep(target: str, folder: Path) -> None:
    """Write the shortest inputs that have reached something new into the corpus."""
    found = sorted(
        (path.read_bytes() for path in folder.iterdir()), key=lambda one: (len(one), one)
    )
    chosen = [data for data in dict.fromkeys(found) if len(data) <= _KEPT_BYTES][:_KEPT_FILES]
    lines = "".join(f"{base64.b64encode(data).decode()}\n" for data in chosen)
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f"{target}.txt").write_text(lines, encoding="ascii")


def main() -> int:
    """Fuzz what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", nargs="?", choices=["all", *TARGETS], default="all")
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    targets = list(TARGETS) if given.target == "all" else [given.target]
    return max(run(target, given.runs, keep=given.keep) for target in targets)


if __name__ == "__main__":
    sys.exit(main())
