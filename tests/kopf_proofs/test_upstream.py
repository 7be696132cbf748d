"""kopf's own tests, with the line and without it.

`make test-kopf` runs its end-to-end tests with the line, on a real kube-apiserver, and those of
its other tests that are around the hooks. `make soak` runs the end-to-end tests without the line
as well, and all of the others with it. kopf's tests have bounds in seconds, which a busy machine
breaks with and without the line: those that fail are run again.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kopf_proofs.suite import AROUND_HOOKS, CANNOT_HOLD, WHOLE, deselected
from tests.kopf_proofs.upstream import kubectl, run_tests, source

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.testing import KubeAPIServer

pytestmark = [pytest.mark.upstream, pytest.mark.timeout(1800)]

_EXAMPLE = "tests/e2e/test_examples.py::test_all_examples_are_runnable[{}]"
_HALVES = (
    tuple(
        map(
            _EXAMPLE.format,
            (
                "01-minimal",
                "02-children",
                "03-exceptions",
                "04-events",
                "05-handlers",
                "06-peering",
                "07-subhandlers",
                "08-events",
                "14-daemons",
                "15-timers",
            ),
        )
    ),
    (
        *map(_EXAMPLE.format, ("13-hooks", "16-indexing", "17-admission", "99-all-at-once")),
        "examples/09-testing",
        "examples/10-builtins",
        "examples/11-filtering-handlers",
    ),
)
_WITH_AND_WITHOUT = [
    pytest.param(True, id="with-line"),
    pytest.param(False, id="plain", marks=pytest.mark.soak),
]
_ATTEMPTS = 3


@pytest.fixture(scope="module", autouse=True)
def _fetched() -> None:
    """Fail where the tests of kopf, or what they need, cannot be installed: who runs them asks."""
    try:
        source()
    except subprocess.CalledProcessError as error:
        pytest.fail(f"kopf's source distribution cannot be fetched: {error.stderr}")


@pytest.mark.real
@pytest.mark.parametrize("with_line", _WITH_AND_WITHOUT)
@pytest.mark.parametrize("half", _HALVES, ids=["first-half", "second-half"])
def test_end_to_end_tests_pass(
    half: tuple[str, ...], with_line: bool, kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    """Operators of all 17 examples handle the life of an object."""
    path = kubectl(tmp_path)
    kubeconfig = kube_apiserver_session.write_kubeconfig(tmp_path / "kubeconfig")
    environment = {"PATH": path, "KUBECONFIG": str(kubeconfig)}
    left = list(half)
    for _ in range(_ATTEMPTS):
        outcomes = run_tests(
            ["--with-e2e", "--timeout=150", *left],
            folder=tmp_path,
            with_line=with_line,
            environment=environment,
        )
        assert len(outcomes) == len(left), (tmp_path / "output.txt").read_text()[-5000:]
        left = [name for name, outcome in outcomes.items() if outcome != "passed"]
        if not left:
            return
    pytest.fail((tmp_path / "output.txt").read_text()[-5000:])


@pytest.mark.parametrize(
    ("paths", "least"),
    [
        pytest.param(AROUND_HOOKS, 1_000, id="around-hooks"),
        pytest.param(WHOLE, 7_000, id="whole", marks=pytest.mark.soak),
    ],
)
def test_other_tests_pass_with_the_line(paths: tuple[str, ...], least: int, tmp_path: Path) -> None:
    """All but those that cannot hold; `least` is how many there are at the least."""
    outcomes = run_tests(
        [*paths, *deselected(), "--timeout=60", "--ignore=tests/e2e"],
        folder=tmp_path,
        with_line=True,
    )
    assert len(outcomes) >= least, (tmp_path / "output.txt").read_text()[-5000:]
    for _ in range(_ATTEMPTS - 1):
        left = [name for name, outcome in outcomes.items() if outcome != "passed"]
        if not left:
            return
        outcomes = run_tests(["--timeout=60", *left], folder=tmp_path, with_line=True)
        assert len(outcomes) == len(left), (tmp_path / "output.txt").read_text()[-5000:]
    assert set(outcomes.values()) == {"passed"}, (tmp_path / "output.txt").read_text()[-5000:]


def test_the_tests_that_cannot_hold_pass_with_plain_kopf(tmp_path: Path) -> None:
    """They exist, and the line is the only reason to leave them out."""
    outcomes = run_tests(["--timeout=60", *CANNOT_HOLD], folder=tmp_path, with_line=False)
    assert {name.partition("[")[0] for name in outcomes} == set(CANNOT_HOLD)
    assert set(outcomes.values()) == {"passed"}, (tmp_path / "output.txt").read_text()[-5000:]
