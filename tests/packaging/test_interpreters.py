"""The interpreters on which the wheel is tested: all that are installed and work.

The functions under test get folders of programs instead of PATH, and return versions. A missing or
broken interpreter fails the tests only if it was requested by name.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.packaging.environments import interpreters

_OWN = f"3.{sys.version_info.minor}"
_OTHER = "3.12" if _OWN != "3.12" else "3.13"


@pytest.fixture(autouse=True)
def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the variables that name interpreters."""
    monkeypatch.delenv("PYTHONS", raising=False)


def program(folder: Path, name: str, script: str) -> Path:
    """Write a shell script."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_without_other_interpreters_the_running_one_is_tested(tmp_path: Path) -> None:
    assert interpreters(str(tmp_path)) == {_OWN: sys.executable}


def test_a_shim_that_fails_is_not_an_interpreter(tmp_path: Path) -> None:
    program(tmp_path, f"python{_OTHER}", "echo 'command not found' >&2; exit 127")

    assert list(interpreters(str(tmp_path))) == [_OWN]


def test_a_shim_that_fails_has_its_interpreter_found_by_pyenv(tmp_path: Path) -> None:
    program(tmp_path, f"python{_OTHER}", "exit 127")
    real = program(tmp_path / "prefix", "bin/python", f"echo {_OTHER}")
    listed = f"echo 2.7.18; echo {_OTHER}.1"
    program(
        tmp_path,
        "pyenv",
        f'if [ "$1" = versions ]; then {listed}; else echo {tmp_path / "prefix"}; fi',
    )

    assert interpreters(str(tmp_path))[_OTHER] == str(real)


def test_an_alpha_or_a_free_threaded_build_is_left_out(tmp_path: Path) -> None:
    program(tmp_path, f"python{_OTHER}", "echo")  # what the question prints there

    assert list(interpreters(str(tmp_path))) == [_OWN]


def test_a_named_interpreter_that_cannot_be_used_ends_the_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONS", f"{sys.executable} {tmp_path / 'none'}")

    with pytest.raises(SystemExit, match="none is not a Python that can be tested"):
        interpreters()
