"""Virtual environments of the peers, one for each, made on first use and kept for the next run.

An environment is used only once all of it is installed, and is named by its requirements and by the
Python it was made with, so that a changed pin makes another one. Two runs at once make it once.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import filelock
import platformdirs

REQUIREMENTS = Path(__file__).parents[1] / "peers" / "requirements"

_READY = "ready"  # a file, written last
_LOCK_SECONDS = 900.0  # longer than an installation may take
_INSTALL_SECONDS = 600.0
_LINES_OF_AN_ERROR = 3  # pip says last what went wrong


def user_cache_folder() -> Path:
    """Return the folder of the user's cache that holds the environments; it may not exist."""
    return Path(platformdirs.user_cache_dir("pyinformer")) / "benchmarks"


def interpreter(
    name: str, *, requirements: Path = REQUIREMENTS, cache_folder: Path | None = None
) -> Path | str:
    """Return the interpreter of an environment, which is made if there is none.

    Args:
        name: of the environment: `<name>.txt` holds its requirements.
        requirements: the folder of those files.
        cache_folder: where environments are kept; None for the user's cache.

    Returns:
        The interpreter, or why there is none. Either is remembered: an installation that failed
        is not tried again by this process, so that each round of a run does not wait for it.
    """
    return _interpreter(name, requirements, cache_folder or user_cache_folder())


@functools.cache
def _interpreter(name: str, requirements: Path, cache_folder: Path) -> Path | str:
    wanted = requirements / f"{name}.txt"
    if not wanted.is_file():
        return f"no environment is called {name}: {wanted} does not exist"
    folder = cache_folder / f"{name}-{_digest(wanted)}"
    lock = filelock.FileLock(cache_folder / f"{folder.name}.lock")
    try:
        cache_folder.mkdir(parents=True, exist_ok=True)
        with lock.acquire(timeout=_LOCK_SECONDS):
            if not (folder / _READY).exists():
                _make(folder, wanted)
    except filelock.Timeout:
        return f"another process has held {lock.lock_file} for {_LOCK_SECONDS:.0f} s"
    except subprocess.TimeoutExpired:
        return f"the environment {name} was not installed after {_INSTALL_SECONDS:.0f} s"
    except subprocess.CalledProcessError as error:
        return f"the environment {name} cannot be installed: {_last_lines(error)}"
    except OSError as error:
        return f"the environment {name} cannot be made: {error}"
    return _python(folder)


def _digest(wanted: Path) -> str:
    """Name what an environment consists of: its requirements, and the Python under it."""
    parts = (wanted.read_bytes(), sys.version.encode(), sys.base_prefix.encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def _make(folder: Path, wanted: Path) -> None:
    print(f"installing {wanted.stem} into {folder}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)  # what an interrupted run left
    venv.create(
        folder, with_pip=False, symlinks=True
    )  # the pip of this environment installs into it
    command = [sys.executable, "-m", "pip", "--python", str(_python(folder))]
    command += ["install", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--requirement", str(wanted)]
    subprocess.run(
        command,
        cwd=wanted.parent,  # a path in a file of requirements is read from there
        check=True,
        capture_output=True,
        text=True,
        timeout=_INSTALL_SECONDS,
    )
    (folder / _READY).touch()


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _last_lines(error: subprocess.CalledProcessError) -> str:
    said = str(error.stderr or error.output or "")
    return " / ".join(said.strip().splitlines()[-_LINES_OF_AN_ERROR:])
