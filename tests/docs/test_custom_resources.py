"""The page on custom resources: its models have a definition, and its command counts the rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pyinformer
from pyinformer.testing import APIServer
from tests.cli.command_line import here
from tests.docs import pages

PAGE = "docs/howto/custom-resources.md"


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the program of the page, and make its folder the current one."""
    models, operator = pages.blocks(PAGE, "python")
    (tmp_path / "pools.py").write_text(models.text + operator.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "pools", raising=False)


def test_the_command_of_the_page_counts_the_rules() -> None:
    """The pipe of the `console` block, of which the first half runs in this process."""
    (block,) = pages.blocks(PAGE, "console")
    command, expected = block.text.splitlines()
    first, _, second = command.removeprefix("$ pyinformer ").partition(" | ")

    printed = here(*first.split()).stdout
    counted = subprocess.run(
        ["/bin/sh", "-c", second], input=printed, capture_output=True, text=True, check=True
    )

    assert counted.stdout.strip() == expected


async def test_the_operator_of_the_page_installs_its_definition() -> None:
    app = pages.module_of(PAGE).app
    with APIServer() as api:
        async with pyinformer.connect(server=api.url) as cluster, app.running(cluster):
            pass
        found = api.get("apiextensions.k8s.io/v1", "customresourcedefinitions", "pools.acme.io")
    assert found["metadata"]["annotations"] == {
        "pyinformer.dev/operator": "pool-operator",
        "pyinformer.dev/operator-version": "1.4.0",
    }
