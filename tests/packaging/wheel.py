"""What a user gets: sdist and wheel are built, looked through, installed and used in empty folders.

    python -m tests.packaging.wheel

Nothing of the checkout is visible to what is installed. The first thing that is not as promised
ends it with a sentence.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from pyinformer.testing import APIServer
from tests.packaging.environments import (
    PACKAGES,
    PYPROJECT,
    ROOT,
    Environment,
    build,
    build_again,
    run,
    say,
    uv,
)

_IN_WHEEL = {
    "pyinformer/py.typed",
    "pyinformer/cli/project/templates/Dockerfile.template",
    "pyinformer/operator/debug/debug.css",
    "pyinformer/operator/debug/debug.html",
    "pyinformer/operator/debug/debug.js",
    "pyinformer/testing/kube_apiserver/go.mod",
    "pyinformer/testing/kube_apiserver/go.sum",
    "pyinformer/testing/pytest_plugin.py",
    "pyinformer/testing/apiserver/requests/protobuf_fields.json",
}
_IN_SDIST = {
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "Makefile",
    "pyproject.toml",
    "tests/conftest.py",
}
_TOP = re.compile(r"pyinformer(_[a-z]+(\.py)?)?|pyinformer-[^/]+\.dist-info")

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
    pods = factory.informer("v1", "pods", model=PodView)
    await factory.start()
    pods.lister.list()[0].view.phase.upper()
    reveal_type(pods)
    return pods.lister.list()[0].view.phase  # the one mistake
"""

_TESTED = """\
def test_the_installed_package_receives_an_object(apiserver):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b"}}
    created = apiserver.create(pod)

    assert created["metadata"]["resourceVersion"]
"""

_LINK_TO_A_FILE = re.compile(r"\]\((?!https?://)[^)]*\)")


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
    at_top = {name for name in tracked if Path(name).name in names}  # modules beside the package
    missing = ({*tracked} | _IN_WHEEL) - names - at_top
    expect(not missing, f"it lacks {sorted(missing)}")
    foreign = {name for name in names if not _TOP.fullmatch(name.partition("/")[0])}
    expect(not foreign, f"it brings {sorted(foreign)}")
    expect(not any("/tests/" in name for name in names), "it brings tests")
    expect(sources >= _IN_SDIST, f"the sdist lacks {sorted(_IN_SDIST - sources)}")
    size = wheel.stat().st_size / 1024
    say(f"{wheel.name}: {len(names)} files, {size:.0f} KiB; {sdist.name}: {len(sources)} files")


def read_metadata(wheel: Path) -> Message:
    """Return the metadata for an index, after checks of the page that it would show."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    page = str(metadata.get_payload())
    expect(metadata["Description-Content-Type"] == "text/markdown", "its page is not Markdown")
    expect(page.startswith("# pyinformer\n"), f"its page begins {page[:40]!r}")
    expect("## Limits" in page, "its page has no limits")
    linked = _LINK_TO_A_FILE.findall(page)
    expect(not linked, f"its page links to files, which no index has: {linked}")
    for local in ("this repository", "`make", "<!--"):
        expect(local not in page, f"its page says {local!r}, which is true in a clone only")
    return metadata


def install_each_extra(wheel: Path, metadata: Message, bare: Environment) -> None:
    """Resolve each extra with the versions of constraints.txt; nothing is downloaded."""
    promised = set(PYPROJECT["project"]["optional-dependencies"])
    extras = set(metadata.get_all("Provides-Extra", ()))
    expect(extras == promised, f"it has the extras {sorted(extras)}")
    held = ("-c", ROOT / "constraints.txt", "--python", bare.python)
    for extra in sorted(extras):
        what = f"pyinformer[{extra}] @ {wheel.as_uri()}"
        uv("pip", "install", "--quiet", "--dry-run", *held, what)


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


def check_types_by_pyright(bare: Environment, folder: Path) -> None:
    """Let pyright check the same program."""
    program = folder / "program.py"
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(bare.python)]
    ended = subprocess.run(
        [*command, str(program)], cwd=folder, capture_output=True, text=True, check=False
    )
    said = json.loads(ended.stdout)["generalDiagnostics"]
    errors = [one for one in said if one["severity"] == "error"]
    expect(len(errors) == 1, f"pyright found {errors} instead of one mistake")
    expect(errors[0]["rule"] == "reportReturnType", f"pyright found {errors[0]}")
    revealed = [one["message"] for one in said if one["severity"] == "information"]
    expect(any("SharedInformer[PodView]" in one for one in revealed), f"it revealed {revealed}")


def use_fixtures(wheel: Path, folder: Path) -> None:
    """Install the extra beside a bare pytest, which finds the fixtures without a conftest."""
    tested = Environment("testing")
    extra = f"pyinformer[testing] @ {wheel.as_uri()}"
    tested.install("-c", ROOT / "constraints.txt", extra, "pytest")
    (folder / "test_it.py").write_text(_TESTED, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # not that of a folder above
    pytest = ("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "test_it.py")
    said = run(tested.python, *pytest, cwd=folder)
    expect("1 passed" in said, f"pytest said {said!r}")
    run(tested.python, "-I", "-c", "import pyinformer_pytest", cwd=folder)


def use_command_line(wheel: Path, folder: Path) -> None:
    """Install the extra, and let the demo run."""
    whole = Environment("cli")
    whole.install("-c", ROOT / "constraints.txt", f"pyinformer[cli] @ {wheel.as_uri()}")
    version = run(whole.command("pyinformer"), "--version", cwd=folder)
    expect(version.startswith("pyinformer "), f"--version said {version!r}")
    run(whole.command("pyinformer"), "demo", "--seconds", "2", cwd=folder)


def start_a_project(wheel: Path, folder: Path) -> None:
    """Write a project by the installed command, install it, and run all of its checks."""
    began = time.perf_counter()
    fresh = Environment("project")
    fresh.install("-c", ROOT / "constraints.txt", f"pyinformer[cli] @ {wheel.as_uri()}")
    command = fresh.command("pyinformer")
    run(command, "init", "first-operator", "--group", "acme.io", "--kind", "First", cwd=folder)
    project = folder / "first-operator"
    held = ("-c", project / "constraints.txt", "-c", ROOT / "constraints.txt")
    group = f"{project / 'pyproject.toml'}:dev"
    fresh.install(*held, "--find-links", wheel.parent, "-e", project, "--group", group)
    run(fresh.python, "-m", "pytest", "-q", cwd=project)
    say(f"from `pyinformer init` to its green tests: {time.perf_counter() - began:.1f} s")
    run(fresh.command("mypy"), cwd=project)
    run(fresh.command("ruff"), "check", ".", cwd=project)
    run(fresh.command("ruff"), "format", "--check", ".", cwd=project)
    run(command, "manifests", "first_operator.operator:app", "--check", cwd=project)


def main() -> None:
    """Do all of it, and say how long each part took."""
    began = time.perf_counter()

    def took(what: str) -> None:
        say(f"{what} ({time.perf_counter() - began:.1f} s so far)")

    sdist, wheel = build()
    took("built sdist, and the wheel from it")
    look_through(sdist, wheel)
    metadata = read_metadata(wheel)
    expect(build_again().read_bytes() == wheel.read_bytes(), "a second build has other bytes")
    took("built the same wheel again, from the checkout")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare = use_without_extras(wheel, folder)
        took("the wheel alone follows a server, and its command says what to install")
        check_types(bare, folder)
        check_types_by_pyright(bare, folder)
        took("mypy and pyright see its types")
        install_each_extra(wheel, metadata, bare)
        use_fixtures(wheel, folder)
        took("each extra can be installed, and [testing] brings pytest its fixtures")
        use_command_line(wheel, folder)
        took("the wheel with [cli] plays the demo")
        start_a_project(wheel, folder)
        took("the wheel with [cli] writes a project, whose checks pass")


if __name__ == "__main__":
    main()
