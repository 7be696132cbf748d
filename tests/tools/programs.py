"""The programs of Debian's that these tests need; as a program, it installs those that are missing.

python -m tests.tools.programs
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

PACKAGES: Final = {"chromium": "chromium", "prometheus": "prometheus", "promtool": "prometheus"}
"""The Debian package of each program."""

_LAST: Final = 1_000  # characters of what apt-get said at its end


def install() -> None:
    """Install the packages of programs that are missing.

    Raises:
        SystemExit: one is missing and cannot be installed; names it.
    """
    missing = sorted(
        {package for program, package in PACKAGES.items() if shutil.which(program) is None}
    )
    if not missing:
        return
    names = " ".join(missing)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SystemExit(f"these packages are missing, and root can install them: {names}")
    print(f"== installing {names}", flush=True)  # noqa: T201 - it takes a minute
    quiet = ("apt-get", "-qq", "-o", "Dpkg::Use-Pty=0")
    _run(*quiet, "update")
    _run(*quiet, "install", "--yes", "--no-install-recommends", *missing)


def _run(*command: str) -> None:
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {(ended.stdout + ended.stderr)[-_LAST:]}")


if __name__ == "__main__":
    install()
