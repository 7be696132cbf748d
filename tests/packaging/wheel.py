"""What a user gets: sdist and wheel are built, looked through, installed and used in empty folders.

    python -m tests.packaging.wheel

Nothing of the checkout is visible to what is installed. The first thing that is not as promised
ends it with a sentence.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

from pyinformer.testing import APIServer
from tests.packaging.environments import PACKAGES, ROOT, Environment, build, run, say

_IN_WHEEL = {
    "pyinformer/py.typed",
    "pyinformer/testing/kube_apiserver/go.mod",
    "pyinformer/testing/kube_apiserver/go.sum",
    "pyinformer/testing/pytest_plugin.py",
}
_IN_SDIST = {
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "Makefile",
    "pyproject.toml",
    "tests/conftest.py",
}
_TOP = re.compile("|".join([*PACKAGES, r"pyinformer-[^/]+\.dist-info"]))

_PROGRAM = """\
import asyncio, sys
import pyinformer

async def main(server):
    async with pyinformer.connect(server=server) as cluster:
        async with pyinformer.SharedInformerFactory(cluster) as factory:
            pods = factory.informer("v1", "pods")
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=30)
            return [pod.key for pod in pods.lister.list()]

def blocking(server):
    with pyinformer.run_in_thread() as runner, runner.connect(server=server) as cluster:
        with cluster.informer_factory() as factory:
            pods = factory.informer("v1", "pods")
            factory.start()
            factory.wait_for_cache_sync(timeout_seconds=30)
            return [pod.key for pod in pods.lister.list()]

assert "site-packages" in pyinformer.__file__, pyinformer.__file__
print(asyncio.run(main(sys.argv[1])), blocking(sys.argv[1]))
"""

_TYPED = """\
import pyinformer

class PodView(pyinformer.View):
    phase: str = ""

async def main(factory: pyinformer.SharedInformerFactory) -> int:
    pods = factory.informer("v1", "pods", projection=PodView)
    await factory.start()
    pods.lister.list()[0].view.phase.upper()
    reveal_type(pods)
    return pods.lister.list()[0].view.phase  # the one mistake
"""


def expect(claim: bool, otherwise: str) -> None:
    """End with a sentence unless something is so."""
    if not claim:
        raise SystemExit(f"the wheel is not as promised: {otherwise}")


def look_through(sdist: Path, wheel: Path) -> None:
    """Compare the contents with what git has of the packages."""
    tracked = run("git", "ls-files", *PACKAGES, cwd=ROOT).split()
    names = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    missing = ({*tracked} | _IN_WHEEL) - names
    expect(not missing, f"it lacks {sorted(missing)}")
    foreign = {name for name in names if not _TOP.fullmatch(name.partition("/")[0])}
    expect(not foreign, f"it brings {sorted(foreign)}")
    expect(not any("/tests/" in name for name in names), "it brings tests")
    expect(sources >= _IN_SDIST, f"the sdist lacks {sorted(_IN_SDIST - sources)}")
    size = wheel.stat().st_size / 1024
    say(f"{wheel.name}: {len(names)} files, {size:.0f} KiB; {sdist.name}: {len(sources)} files")


def use_without_extras(wheel: Path, folder: Path) -> Environment:
    """Install the wheel alone, follow a server with it, and ask for what is not installed."""
    bare = Environment("bare")
    bare.install("-c", ROOT / "constraints.txt", wheel)
    with APIServer() as server:
        metadata = {"namespace": "default", "name": "a"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}
        server.create(pod)
        said = run(bare.python, "-I", "-W", "error", "-c", _PROGRAM, server.url, cwd=folder)
    expect(said == "['default/a'] ['default/a']\n", f"a program said {said!r}")
    asked = subprocess.run(
        [bare.command("pyinformer"), "demo"], capture_output=True, text=True, check=False
    )
    expect(asked.returncode == 1, f"the command without [cli] ended with {asked.returncode}")
    expect("install 'pyinformer[cli]'" in asked.stderr, f"it said {asked.stderr!r}")
    expect("Traceback" not in asked.stderr, "it showed a traceback")
    return bare


def check_types(bare: Environment, folder: Path) -> None:
    """Let mypy check a user's program against the wheel: its types, and one mistake."""
    program = folder / "program.py"
    program.write_text(_TYPED, encoding="utf-8")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--no-incremental"]
    ended = subprocess.run(
        [*mypy, "--python-executable", str(bare.python), program.name],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in ended.stdout.splitlines() if ": error:" in line]
    expect(len(errors) == 1, f"mypy found {errors or ended.stdout!r} instead of one mistake")
    expect("[return-value]" in errors[0], f"mypy found {errors[0]}")
    expect("SharedInformer[program.PodView]" in ended.stdout, f"mypy revealed {ended.stdout!r}")


def use_command_line(wheel: Path, folder: Path) -> None:
    """Install the extra, and let the demo run."""
    whole = Environment("cli")
    whole.install("-c", ROOT / "constraints.txt", f"pyinformer[cli] @ {wheel.as_uri()}")
    version = run(whole.command("pyinformer"), "--version", cwd=folder)
    expect(version.startswith("pyinformer "), f"--version said {version!r}")
    run(whole.command("pyinformer"), "demo", "--seconds", "2", cwd=folder)


def main() -> None:
    """Do all of it, and say how long each part took."""
    began = time.perf_counter()

    def took(what: str) -> None:
        say(f"{what} ({time.perf_counter() - began:.1f} s so far)")

    sdist, wheel = build()
    took("built sdist, and the wheel from it")
    look_through(sdist, wheel)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare = use_without_extras(wheel, folder)
        took("the wheel alone follows a server, and its command says what to install")
        check_types(bare, folder)
        took("mypy sees its types")
        use_command_line(wheel, folder)
        took("the wheel with [cli] plays the demo")


if __name__ == "__main__":
    main()
