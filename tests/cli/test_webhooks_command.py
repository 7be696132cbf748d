"""`pyinformer webhooks`: the configurations of hooks for kubectl, or one line that says why not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cli.command_line import here

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """
import pyinformer

app = pyinformer.Operator("db", webhooks=pyinformer.Webhooks(service="acme/db"))
idle = pyinformer.Operator("idle")


@app.validate("acme.io/v1", "databases")
def check(database, review): ...
"""


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a program, and make its folder the current one."""
    (tmp_path / "hooked_operator.py").write_text(_PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "hooked_operator", raising=False)


def test_the_configurations_of_an_operator_are_printed() -> None:
    done = here("webhooks", "hooked_operator:app", "--service-account", "acme/db")

    assert (done.exit_code, done.stderr) == (0, "")
    (found,) = yaml.safe_load_all(done.stdout)
    assert found["kind"] == "ValidatingWebhookConfiguration"
    assert "system:serviceaccount:acme:db" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["hooked_operator:idle"], "webhooks: must be given: how does the API server reach"),
        (["hooked_operator:check"], "must be an Operator, got a function"),
        (["hooked_operator:app", "--service-account", "a"], "service_account: must be namespace"),
    ],
)
def test_what_cannot_be_printed_is_one_line(arguments: list[str], words: str) -> None:
    done = here("webhooks", *arguments)

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("cannot print the configurations: ")
    assert words in done.stderr
