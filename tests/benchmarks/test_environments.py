"""The environments of peers: made once, or replaced by a row with the reason why not.

The tests use no network: the package that is installed is a file of the test.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest

from benchmarks.harness.environments import REQUIREMENTS, interpreter
from benchmarks.harness.measure import PEERS, PeerProgram, measure
from benchmarks.harness.phases import Workload
from benchmarks.report.rows import make_rows
from benchmarks.runs.against import update_specs

pytestmark = pytest.mark.timeout(120)  # an environment takes some seconds to make

_ROOT = Path(__file__).parents[2]
_PEERS = [pytest.param(program, id=name) for name, program in PEERS.items()]
_FILES = [pytest.param(path, id=path.stem) for path in sorted(REQUIREMENTS.glob("*.txt"))]
_WORKLOAD = Workload("http://127.0.0.1:9", objects=1, updates=0, last_resource_version="1")
_PIN = re.compile(r"[a-z0-9-]+==[0-9][0-9a-z.]*")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with requirements that can be met (`tiny`) and some that cannot."""
    folder = tmp_path_factory.mktemp("requirements")
    wheel = folder / "tiny_peer-1.0-py3-none-any.whl"
    about = "tiny_peer-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_peer.py", "answer = 42\n")
        archive.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-peer\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    (folder / "tiny.txt").write_text(f"./{wheel.name}\n")
    (folder / "broken.txt").write_text("./no-such-package-1.0-py3-none-any.whl\n")
    return folder


def test_two_runs_at_once_make_one_environment_with_what_it_requires(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with ThreadPoolExecutor(2) as pool:
        asked = [
            pool.submit(interpreter, "tiny", requirements=folder, cache_folder=tmp_path)
            for _ in range(2)
        ]
        first, second = (question.result() for question in asked)
    assert first == second
    assert capfd.readouterr().err.count("installing tiny") == 1
    said = subprocess.run(
        [str(first), "-c", "import tiny_peer; print(tiny_peer.answer)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "42\n"


def test_requirements_that_cannot_be_met_are_a_reason(folder: Path, tmp_path: Path) -> None:
    reason = interpreter("broken", requirements=folder, cache_folder=tmp_path)
    assert isinstance(reason, str)
    assert reason.startswith("the environment broken cannot be installed")
    assert "no-such-package" in reason


def test_an_environment_without_a_description_is_a_reason(folder: Path, tmp_path: Path) -> None:
    reason = interpreter("unheard-of", requirements=folder, cache_folder=tmp_path)
    assert str(reason).startswith("no environment is called unheard-of")


def test_a_peer_without_an_environment_is_reported_in_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupied = tmp_path / "a file where folders are to be made"
    occupied.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(occupied))
    found = measure("kubernetes", _WORKLOAD, cpu=None)
    row = make_rows(update_specs(), ["kubernetes"], [{"kubernetes": found}])[0]
    assert row.median is None
    assert row.note.startswith("kubernetes failed: the environment kubernetes cannot be made")


@pytest.mark.parametrize("program", _PEERS)
def test_every_peer_has_its_function_and_its_environment(program: PeerProgram) -> None:
    spec = importlib.util.find_spec(program.module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))  # its imports may be elsewhere
    functions = [node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)]
    assert program.function in functions
    if program.environment is not None:
        assert (REQUIREMENTS / f"{program.environment}.txt").is_file()


@pytest.mark.parametrize("path", _FILES)
def test_every_requirement_is_one_exact_version(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if not line.startswith("#")]
    assert [line for line in wanted if not _PIN.fullmatch(line)] == []
    assert any(line.startswith("msgspec==") for line in wanted)  # the measurement itself


def test_a_peers_process_needs_nothing_but_msgspec() -> None:
    code = """
        import sys, msgspec
        before = set(sys.modules)
        import benchmarks.harness.measure, benchmarks.peers.reactions, benchmarks.peers.kubeconfig
        for name in set(sys.modules) - before:
            if "site-packages" in (getattr(sys.modules[name], "__file__", None) or ""):
                print(name)
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(code)], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    imported = done.stdout.splitlines()
    assert [name for name in imported if not name.startswith("msgspec.")] == []
