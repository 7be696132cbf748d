"""Environments in which a wheel is installed as a user would, away from this checkout.

Each has a wheel, its extras and an interpreter, and nothing else. Everything is in build/, and is
made again each time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "packaging"
DIST = BUILD / "dist"

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

PACKAGES: list[str] = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
"""What the wheel consists of."""

OLDEST, NEWEST = 11, 15
"""The minor versions of Python 3 that are looked for; what is missing is named."""


def say(text: str) -> None:
    """Print what begins, before it begins."""
    show(f"== {text}")


def show(text: str) -> None:
    """Print, at once."""
    print(text, flush=True)  # noqa: T201 - what a gate says


def run(*command: str | Path, cwd: Path | None = None, **env: str) -> str:
    """Run a program to its end and return what it printed.

    Raises:
        SystemExit: it failed; its output is shown.
    """
    ended = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ended.returncode:
        show(ended.stdout)
        raise SystemExit(f"failed with {ended.returncode}: {' '.join(map(str, command))}")
    return ended.stdout


def uv(*arguments: str | Path) -> str:
    """Run the uv of this environment, which downloads no interpreter."""
    return run(sys.executable, "-m", "uv", *arguments, UV_PYTHON_DOWNLOADS="never")


def build() -> tuple[Path, Path]:
    """Build the source distribution, and the wheel from that, so that both are proven.

    Returns:
        The two files.
    """
    shutil.rmtree(DIST, ignore_errors=True)
    _build("--outdir", DIST, ROOT)
    (sdist,) = DIST.glob("*.tar.gz")
    (wheel,) = DIST.glob("*.whl")
    return sdist, wheel


def build_again() -> Path:
    """Build the wheel from the checkout itself, and return the file."""
    folder = BUILD / "again"
    shutil.rmtree(folder, ignore_errors=True)
    _build("--wheel", "--outdir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _build(*arguments: str | Path) -> None:
    """Build by the exact versions of constraints.txt, not by the newest there are that day."""
    pinned = str(ROOT / "constraints.txt")
    run(sys.executable, "-m", "build", "--installer", "uv", *arguments, UV_CONSTRAINT=pinned)


class Environment:
    """A virtual environment, empty at first.

    Args:
        name: its folder.
        python: the interpreter.
    """

    def __init__(self, name: str, python: str | Path = sys.executable) -> None:
        self.folder: Path = BUILD / name
        shutil.rmtree(self.folder, ignore_errors=True)
        uv("venv", "--quiet", "--no-project", "--python", python, self.folder)
        self.python: Path = self.folder / "bin" / "python"

    def install(self, *what: str | Path) -> None:
        """Install something, with uv's options for that."""
        uv("pip", "install", "--quiet", "--python", self.python, *what)

    def command(self, name: str) -> Path:
        """Return a program that a package has installed."""
        return self.folder / "bin" / name

    def versions(self, *packages: str) -> str:
        """Say which versions of these are installed."""
        frozen = uv("pip", "freeze", "--quiet", "--python", self.python).splitlines()
        found = dict(re.match(r"([^= @]+)(?:==| @ )?(.*)", line).groups() for line in frozen)  # type: ignore[union-attr,misc]  # every line has a name
        return ", ".join(f"{name} {found.get(name, 'absent')}" for name in packages)


def interpreters(path: str | None = None) -> dict[str, str]:
    """Return the interpreters that there are, by version such as `3.12`, the oldest first.

    PYTHONS names some instead, separated by blanks; else they are `python3.12` and so on of PATH,
    or what pyenv has installed under that version, and the one that runs this.

    Args:
        path: instead of PATH.

    Raises:
        SystemExit: one that was named cannot be used.
    """
    named = os.environ.get("PYTHONS", "").split()
    found = {}
    for candidate in named or [f"python3.{minor}" for minor in range(OLDEST, NEWEST + 1)]:
        own = [sys.executable] if candidate == _OWN else []
        for python in (candidate, *_of_pyenv(candidate, path), *own):
            version = _version_of(python, path)
            if version:
                found[version] = python
                break
        else:
            if named:
                raise SystemExit(f"{candidate} is not a Python that can be tested: {_USABLE}")
            say(f"skipped: {candidate} is not installed")
    return found


_OWN = f"python3.{sys.version_info.minor}"

_USABLE = "it has to run, to be released, and to have the global interpreter lock"

_ASK_FOR_VERSION = """\
import ssl, sys, sysconfig
released = sys.version_info.releaselevel == "final"
locked = not sysconfig.get_config_var("Py_GIL_DISABLED")
print("%d.%d" % sys.version_info[:2] if released and locked else "")
"""


def _of_pyenv(candidate: str, path: str | None) -> list[str]:
    """Return the interpreters that pyenv would have for `python3.12`, if there is a pyenv."""
    pyenv = shutil.which("pyenv", path=path)
    if pyenv is None or os.sep in candidate:
        return []
    wanted = candidate.removeprefix("python")
    versions = _said_by(pyenv, "versions", "--bare").split()
    prefixes = [
        _said_by(pyenv, "prefix", version)
        for version in versions
        if version.startswith(f"{wanted}.")
    ]
    return [f"{prefix}/bin/python" for prefix in reversed(prefixes) if prefix]


def _version_of(python: str, path: str | None) -> str:
    """Return the version of an interpreter that can be used; nothing if it cannot."""
    program = shutil.which(python, path=path)
    return _said_by(program, "-c", _ASK_FOR_VERSION) if program else ""


def _said_by(*command: str) -> str:
    """Return what a program said that ended well; nothing if it did not."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.stdout.strip() if ended.returncode == 0 else ""
