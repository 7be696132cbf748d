"""The mutation check of the pytest plugin: a test that changes a shared object fails."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_TESTS = """
import asyncio
import pyinformer
import pytest

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"},
       "spec": {"containers": [{"name": "c", "image": "x"}]}}


def read(server, change, **options):
    async def main():
        async with (
            pyinformer.connect(server=server.url) as cluster,
            pyinformer.SharedInformer(
                cluster, "v1", "pods", sharing="decoded", **options
            ) as pods,
        ):
            await pods.wait_for_cache_sync()
            change(pods.lister.decoded["default/a"])

    server.create(POD)
    asyncio.run(main())


def test_careless(apiserver):
    read(apiserver, lambda pod: pod["metadata"].update(mine="hush"))


def test_careless_and_broken(apiserver):
    def change(pod):
        pod["metadata"].update(mine="hush")
        raise ValueError("own error")

    read(apiserver, change)


def test_careful(apiserver):
    read(apiserver, lambda pod: {**pod, "mine": 1})


@pytest.fixture
def careless_fixture(apiserver):
    read(apiserver, lambda pod: pod["metadata"].update(mine=1))


def test_after_a_careless_fixture(careless_fixture):
    pass


@pytest.fixture
def careless_end(apiserver):
    yield
    read(apiserver, lambda pod: pod["metadata"].update(mine=1))


def test_with_a_careless_end(careless_end):
    pass


def test_own_mode(apiserver):
    from pyinformer.cache.audit import MutationDetector  # not above: the first test loads the cache

    read(
        apiserver,
        lambda pod: pod["metadata"].update(mine=1),
        mutation_detector=MutationDetector("sample"),
    )
"""


def _run(folder: Path, ini: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    (folder / "test_it.py").write_text(_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "."]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=100
    )


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of a run with the plugin's defaults."""
    return _run(tmp_path_factory.mktemp("careless")).stdout


def test_the_test_that_changed_a_shared_object_fails_and_no_other(output: str) -> None:
    assert "FAILED test_it.py::test_careless - " in output
    assert "PASSED test_it.py::test_careful" in output
    assert "PASSED test_it.py::test_own_mode" in output
    assert re.search(r"metadata\.mine: absent became str, read by \S*test_it\.py:\d+", output)
    assert "hush" not in output.partition("short test summary")[0].replace('"hush"', "")


def test_a_failing_test_keeps_its_error_and_gets_the_mutation_as_a_note(output: str) -> None:
    assert "FAILED test_it.py::test_careless_and_broken - ValueError: own error" in output
    assert "pyinformer: the shared decoded object of default/a in pods.v1" in output


def test_a_fixture_that_changed_a_shared_object_is_an_error_of_its_test(output: str) -> None:
    """Changes by a task that a test left running are reported, too, at the end of the run."""
    assert "ERROR test_it.py::test_after_a_careless_fixture - " in output
    assert "ERROR test_it.py::test_with_a_careless_end - " in output
    assert "PASSED test_it.py::test_with_a_careless_end" in output
    assert output.count("fixture of this test changed what readers of a cache share") >= 2


def test_the_mutation_detector_can_be_switched_off(tmp_path: Path) -> None:
    output = _run(tmp_path, "pyinformer_mutation_detector = off").stdout

    assert "PASSED test_it.py::test_careless" in output


def test_an_invalid_mode_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    ended = _run(tmp_path, "pyinformer_mutation_detector = loud")

    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert "must be 'debug' or 'off', got 'loud'" in ended.stderr
