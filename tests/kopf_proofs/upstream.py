"""kopf's source distribution, with its tests and examples, and a Python that can run them.

Both are fetched on first use and stay in the user's cache; nothing of kopf is kept in this
repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import filelock

from benchmarks.harness.environments import interpreter, user_cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

VERSION = "1.45.2"
_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_CACHE = user_cache_folder().parent / "kopf"
_DOWNLOAD_SECONDS = 300.0
_RUN_SECONDS = 1500.0
# A socket that kopf leaves to the garbage collector fails the test that runs at that moment.
_LEFT_SOCKETS = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning")


def source() -> Path:
    """Return the folder of kopf's unpacked source distribution."""
    folder = _CACHE / f"kopf-{VERSION}"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(f"{folder}.lock", timeout=_DOWNLOAD_SECONDS):
        if not folder.exists():
            _fetch(folder)
    return folder


def python() -> Path:
    """Return an interpreter with kopf, what its tests need, and what pyinformer needs.

    Raises:
        OSError: it cannot be installed.
    """
    found = interpreter("kopf-suite", requirements=_HERE / "requirements", cache_folder=_CACHE)
    if not isinstance(found, Path):
        raise OSError(found)
    return found


def kubectl(folder: Path) -> str:
    """Put a `kubectl` into a folder, and return a PATH that begins with it."""
    program = folder / "kubectl"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{_HERE / "kubectl.py"}" "$@"\n')
    program.chmod(0o755)
    return os.pathsep.join((str(folder), os.environ.get("PATH", "")))


def run_tests(
    arguments: Sequence[str],
    *,
    folder: Path,
    with_line: bool,
    environment: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Run tests of kopf's suite.

    Args:
        arguments: of pytest; paths are relative to the source distribution.
        folder: where `output.txt` and pytest's report are written.
        with_line: whether `pyinformer.kopf` is installed before any test is imported.
        environment: further variables.

    Returns:
        For the id of each test its outcome: "passed", "failed", "error" or "skipped".
    """
    report = folder / "report.xml"
    plugins = ["long_openssl_versions", *(["kopf_on_pyinformer"] if with_line else [])]
    command = [str(python()), "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
    command += [f"--junit-xml={report}", "-o", "junit_family=xunit1"]
    command += [word for plugin in plugins for word in ("-p", plugin)]
    command += [word for warning in _LEFT_SOCKETS for word in ("-W", f"ignore::{warning}")]
    with (folder / "output.txt").open("w") as output:
        subprocess.run(
            [*command, *arguments],
            cwd=source(),
            env=_environment() | dict(environment or {}),
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=_RUN_SECONDS,
            check=False,
        )
    return dict(_outcomes(report))


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    here = os.pathsep.join((str(_ROOT), str(_HERE / "plugin")))
    return kept | {"PYTHONPATH": here, "PYTHONDONTWRITEBYTECODE": "1"}


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", ":all:", "--dest", temporary, f"kopf=={VERSION}"]
        subprocess.run(command, check=True, capture_output=True, timeout=_DOWNLOAD_SECONDS)
        with tarfile.open(Path(temporary, f"kopf-{VERSION}.tar.gz")) as archive:
            archive.extractall(temporary, filter="data")
        shutil.move(Path(temporary, f"kopf-{VERSION}"), folder)


def _outcomes(report: Path) -> Iterator[tuple[str, str]]:
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it a moment ago
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        outcome = min(kinds, default="passed").replace("failure", "failed")
        yield f"{case.get('file')}::{case.get('name')}", outcome
