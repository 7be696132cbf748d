"""The public face as two type checkers see it.

mypy and pyright each read cases.py; every reveal_type() there must give, on both, the type that
its comment names. pyright also judges whether the whole public face is typed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[2]
_CASES = Path(__file__).with_name("cases.py")
_EXPECTED = re.compile(r"^\s*reveal_type\(.*\)  # (.+)$")
_MYPY = re.compile(r'^.*?:(\d+): note: Revealed type is "(.+)"$')
_PYRIGHT = re.compile(r'^Type of ".*" is "(.+)"$', re.DOTALL)
_MODULE = re.compile(r"\b[a-zA-Z_]\w*\.")


def run(*arguments: str) -> str:
    """Run a module of this environment from the repository's root and return what it prints."""
    command = [sys.executable, "-m", *arguments]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # pyright asks `python`
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,  # both checkers exit with 1 when they have something to say
        cwd=_ROOT,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(_ROOT)},
    ).stdout


def pyright(*arguments: str) -> dict[str, Any]:
    """Run pyright and return its report."""
    report: dict[str, Any] = json.loads(run("pyright", "--outputjson", *arguments))
    return report


def expected_types() -> dict[int, str]:
    """Read from cases.py: line number to type."""
    lines = _CASES.read_text(encoding="utf-8").splitlines()
    return {
        number: found[1] for number, line in enumerate(lines, 1) if (found := _EXPECTED.match(line))
    }


def seen_by_mypy() -> tuple[dict[int, str], list[str]]:
    """Return line number to type, and whatever else mypy had to say."""
    # With other options than those of `make lint`, each would throw the cache of the other away.
    lines = run("mypy", "--no-error-summary", str(_CASES)).splitlines()
    found = {int(match[1]): _bare(match[2]) for line in lines if (match := _MYPY.match(line))}
    return found, [line for line in lines if not _MYPY.match(line)]


def seen_by_pyright() -> tuple[dict[int, str], list[str]]:
    """Return line number to type, and whatever else pyright had to say."""
    found, other = {}, []
    for entry in pyright(str(_CASES))["generalDiagnostics"]:
        line, message = entry["range"]["start"]["line"] + 1, entry["message"]
        if match := _PYRIGHT.match(message):
            found[line] = _bare(match[1])
        else:
            other.append(f"{line}: {message}")
    return found, other


def _bare(text: str) -> str:
    """Strip module names and mypy's marks, so that both checkers write a type alike."""
    return _MODULE.sub("", text).replace("*", "").replace("?", "")


@pytest.mark.parametrize("checker", [seen_by_mypy, seen_by_pyright])
def test_each_checker_reveals_the_expected_types(checker: Any) -> None:
    revealed, complaints = checker()

    assert complaints == []
    assert revealed == expected_types()


def test_the_public_api_is_completely_typed() -> None:
    completeness = pyright("--verifytypes", "pyinformer", "--ignoreexternal")["typeCompleteness"]

    findings = [
        f"{symbol['name']}: {finding['message']}"
        for symbol in completeness["symbols"]
        if not symbol["isTypeKnown"]
        for finding in symbol["diagnostics"]
    ]
    assert findings == []
    assert completeness["completenessScore"] == 1.0
