"""The foreign clients: where they come from; as a program, it installs all that the tests need.

For each client there is a program, or the reason why there is none. client-go and Helm are compiled
with the installed Go, the official Python client gets its own environment, and kubectl is unpacked
from Debian's package without installing it. All of them are kept in the user's cache.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import filelock

from benchmarks.harness.environments import interpreter, user_cache_folder
from benchmarks.harness.go import go_program

_HERE = Path(__file__).parent
_DEBIAN_PACKAGE = "kubernetes-client"
_KUBECTL = Path("usr", "bin", "kubectl")
_APT_SECONDS = 300.0
_LAST = 300  # characters of what a program said at its end

PROGRAMS = _HERE / "programs"


@functools.cache
def client_go() -> Path | str:
    """Return the compiled client-go program, or why there is none."""
    with go_program(_HERE / "client_go", wanted=True, cache_folder=_folder()) as program:
        return program


@functools.cache
def helm() -> Path | str:
    """Return the compiled program that renders charts as Helm does, or why there is none."""
    with go_program(_HERE / "helm", wanted=True, cache_folder=_folder()) as program:
        return program


def official_python() -> Path | str:
    """Return an interpreter that imports the official client, or why there is none."""
    return interpreter("kubernetes")


@functools.cache
def kubectl(which: str) -> Path | str:
    """Return a kubectl, or why there is none.

    Args:
        which: "debian", of Debian's package, or "path", whatever is installed.
    """
    if which == "path":
        found = shutil.which("kubectl")
        return Path(found) if found else "there is no kubectl on PATH"
    folder = _folder() / "kubectl-debian"
    program = folder / _KUBECTL
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(f"{folder}.lock", timeout=_APT_SECONDS):
            if not program.exists():
                _unpack(folder)
    except (OSError, subprocess.SubprocessError, filelock.Timeout) as error:
        said = getattr(error, "stderr", None) or str(error)
        why = f"Debian's package {_DEBIAN_PACKAGE} cannot be had by apt-get"
        return f"{why}: {said.strip()[-_LAST:]}"
    return program


def _folder() -> Path:
    return user_cache_folder().parent / "foreign"


def _unpack(folder: Path) -> None:
    """Download the package and unpack it, which needs no rights and disturbs no other kubectl."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        downloads, fresh = Path(temporary, "downloads"), Path(temporary, "fresh")
        downloads.mkdir()
        command = ["apt-get", "download", _DEBIAN_PACKAGE]
        try:
            _run(command, downloads)
        except subprocess.CalledProcessError:
            if os.geteuid() != 0:
                raise
            _run(["apt-get", "update"], downloads)  # images come without the lists of packages
            _run(command, downloads)
        for package in downloads.glob("*.deb"):
            _run(["dpkg-deb", "--extract", str(package), str(fresh)], downloads)
        fresh.replace(folder)


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True, timeout=_APT_SECONDS
    )


def main() -> None:
    """Install everything and say what was found; what is missing is skipped by the tests."""
    for name, found in {
        "client-go": client_go(),
        "Helm": helm(),
        "the official Python client": official_python(),
        "kubectl of Debian": kubectl("debian"),
        "kubectl on PATH": kubectl("path"),
    }.items():
        is_there = isinstance(found, Path)
        print(f"== {name}: {found if is_there else f'none: {found}'}")  # noqa: T201 - its output
    sys.stdout.flush()


if __name__ == "__main__":
    main()
