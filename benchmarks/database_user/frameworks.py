"""The four programs: how each is built and started, what it needs, and how long it is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import pyinformer
from benchmarks.database_user.lines import Lines, count
from benchmarks.harness.environments import interpreter, user_cache_folder
from benchmarks.harness.go import go_program
from pyinformer.testing import KubeAPIServer

HERE: Final = Path(__file__).parent
_BUILD_SECONDS: Final = 900.0
_PEERINGS: Final = ("kopf.dev/v1", "ClusterKopfPeering", "clusterkopfpeerings")


@dataclass(frozen=True, slots=True)
class Framework:
    """One of the four."""

    name: str
    version: Callable[[], str]
    build: Callable[[], Sequence[str] | str]
    """Returns the command of a replica, or why there is none."""
    sources: str
    """A pattern of what is written by hand."""
    generated: str = ""
    """A pattern of what a tool usually generates."""
    settings: str = ""
    """A pattern of what the build needs."""
    prepare: Callable[[KubeAPIServer], None] = lambda _: None
    """Creates what the framework itself needs in the cluster."""

    def lines(self) -> dict[str, Lines]:
        """Return how long its parts are."""
        generated = _found(self.generated)
        return {
            "program": count([one for one in _found(self.sources) if one not in generated]),
            "generated": count(generated),
            "build": count(_found(self.settings)),
        }


def _found(pattern: str) -> list[Path]:
    return sorted(HERE.glob(pattern)) if pattern else []


def _version_in(file: str, pattern: str) -> str:
    found = re.search(pattern, (HERE / file).read_text(encoding="utf-8"))
    return found[1] if found else "unknown"


def _own() -> list[str]:
    return [sys.executable, "-m", "benchmarks.database_user.own_operator"]


def _kopf() -> list[str] | str:
    python = interpreter("kopf-operator", requirements=HERE / "requirements")
    if isinstance(python, str):
        return python
    arguments = ["run", "--all-namespaces", "--peering=database-users"]
    return [str(python), "-m", "kopf", *arguments, str(HERE / "kopf_operator.py")]


def _prepare_kopf(api: KubeAPIServer) -> None:
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"status": status}}
    api.register(*_PEERINGS, namespaced=False, schema=schema)
    api_version, kind, _ = _PEERINGS
    api.create({"apiVersion": api_version, "kind": kind, "metadata": {"name": "database-users"}})


def _controller_runtime() -> list[str] | str:
    with go_program(HERE / "controller_runtime", wanted=True) as program:
        return program if isinstance(program, str) else [str(program)]


def _josdk() -> list[str] | str:
    """Build it by Maven, once for these sources; the cache holds it whole or not at all."""
    if shutil.which("mvn") is None or shutil.which("java") is None:
        return "there is not a Maven and a Java on PATH"
    source = HERE / "josdk"
    digest = sha256(b"".join(one.read_bytes() for one in _found("josdk/**/*.*"))).hexdigest()
    target = user_cache_folder() / f"josdk-{digest[:16]}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            work = Path(folder) / "josdk"
            shutil.copytree(source, work, ignore=shutil.ignore_patterns("target"))
            command = ["mvn", "--batch-mode", "--quiet", "package"]
            done = subprocess.run(
                command,
                check=False,
                cwd=work,
                capture_output=True,
                text=True,
                timeout=_BUILD_SECONDS,
            )
            if done.returncode:
                return f"Maven failed: {done.stdout[-1000:]}{done.stderr[-1000:]}"
            (work / "target").replace(target)
    return ["java", "-Xmx256m", "-cp", f"{target}/*", "io.acme.DatabaseUserOperator"]


FRAMEWORKS: Final = {
    one.name: one
    for one in (
        Framework(
            "pyinformer",
            version=lambda: str(pyinformer.__version__),
            build=_own,
            sources="own_operator.py",
        ),
        Framework(
            "kopf",
            version=lambda: _version_in("requirements/kopf-operator.txt", r"kopf==(\S+)"),
            build=_kopf,
            sources="kopf_operator.py",
            prepare=_prepare_kopf,
        ),
        Framework(
            "controller-runtime",
            version=lambda: _version_in("controller_runtime/go.mod", r"/controller-runtime v(\S+)"),
            build=_controller_runtime,
            sources="controller_runtime/*.go",
            generated="controller_runtime/deepcopy.go",
            settings="controller_runtime/go.mod",
        ),
        Framework(
            "JOSDK",
            version=lambda: _version_in(
                "josdk/pom.xml", r"operator-framework</\w+>\s*<\w+>([^<]+)"
            ),
            build=_josdk,
            sources="josdk/**/*.java",
            settings="josdk/pom.xml",
        ),
    )
}
