"""Go accepts and refuses the same regular expressions."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from pyinformer.objects import re2_problem
from tests.foreign.test_yaml import KUBECONFIG
from tests.re2_patterns import ACCEPTED, REFUSED, patterns
from tests.soak import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def go(client_go: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """What Go refuses in a pattern; empty if it accepts it."""
    kubeconfig = tmp_path_factory.mktemp("re2") / "kubeconfig"
    kubeconfig.write_text(json.dumps(KUBECONFIG), encoding="utf-8")
    command = [str(client_go), "regexps", "-", str(kubeconfig), "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        asked, answers = program.stdin, program.stdout
        assert asked is not None
        assert answers is not None

        def problem(pattern: str) -> str:
            asked.write(json.dumps(pattern).encode() + b"\n")
            asked.flush()
            return str(json.loads(answers.readline())["problem"])

        yield problem
        asked.close()


def test_go_decides_as_the_other_tests_promise(go: Callable[[str], str]) -> None:
    assert {pattern: go(pattern) for pattern in ACCEPTED} == dict.fromkeys(ACCEPTED, "")
    assert [pattern for pattern in REFUSED if not go(pattern)] == []


@settings(max_examples=examples(2000), deadline=None)
@given(pattern=patterns)
def test_a_pattern_is_refused_if_go_refuses_it(go: Callable[[str], str], pattern: str) -> None:
    assert bool(re2_problem(pattern)) == bool(go(pattern))
