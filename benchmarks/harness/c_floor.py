"""The floor in C: built with the user's own compiler and OpenSSL on first use, and then kept.

A program is of exactly the source beside us, and of the compiler found now: the folder of the
user's cache that keeps it is named by the digest of both.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.harness.environments import user_cache_folder
from benchmarks.harness.kept_programs import kept_program
from benchmarks.harness.phases import Workload
from benchmarks.peers.floor import watch_request

_SOURCE = Path(__file__).parents[1] / "peers" / "floor.c"
_COMPILER = "cc"
_BUILD_TIMEOUT_SECONDS = 120.0
_LINES_OF_AN_ERROR = 3  # the first of them name what is missing


def c_floor(workload: Workload) -> list[str] | str:
    """Return the command that receives a workload's watch in C, or why there is none."""
    program = compiled()
    if isinstance(program, str):
        return program
    server, control = (urlsplit(url).netloc for url in (workload.url, workload.control_url))
    return [str(program), server, workload.ca_file, control, watch_request(workload).decode()]


def compiled(*, source: Path = _SOURCE, cache_folder: Path | None = None) -> Path | str:
    """Compile the program, unless that was done before.

    Args:
        source: what is compiled.
        cache_folder: where programs stay; None for the user's cache.

    Returns:
        The program, or why there is none.
    """
    try:
        return _compiled(source, cache_folder or user_cache_folder())
    except FileNotFoundError as error:
        return f"there is no C compiler: {error}"
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr).strip().splitlines()
        return f"{source.name} cannot be compiled: {' / '.join(lines[:_LINES_OF_AN_ERROR])}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{source.name} cannot be compiled: {error}"


def _compiled(source: Path, cache_folder: Path) -> Path:
    digest = hashlib.sha256(_run("--version").encode() + source.read_bytes()).hexdigest()[:16]
    target = cache_folder / f"{source.stem}_c-{digest}" / source.stem
    return kept_program(
        target, lambda fresh: _run("-O2", "-o", str(fresh), str(source), "-lssl", "-lcrypto")
    )


def _run(*arguments: str) -> str:
    done = subprocess.run(
        [_COMPILER, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_SECONDS,
    )
    return done.stdout
