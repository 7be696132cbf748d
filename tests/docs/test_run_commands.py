"""The page on commands: its programs run, and its tests pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.client import ExecResult
from tests.docs.pages import module_of

if TYPE_CHECKING:
    from pyinformer.testing import APIServer, ExecCall

PAGE = "docs/howto/run-commands.md"  # its blocks of "python"


def test_the_tests_of_the_page_pass() -> None:
    shown = module_of(PAGE)
    shown.test_a_database_that_runs_is_ready()
    shown.test_a_database_that_does_not_run_is_tried_again()


def test_the_operator_of_the_page_has_the_rights_of_the_page() -> None:
    rights = module_of(PAGE).app.required_rbac()
    assert "resources:\n  - pods/exec\n  verbs:\n  - create\n  - get\n" in rights


async def test_the_input_of_the_page_arrives(apiserver: APIServer) -> None:
    shown = module_of(PAGE)
    calls: list[ExecCall] = []

    def psql(call: ExecCall) -> ExecResult:
        calls.append(call)
        return ExecResult(len(calls) - 1)

    apiserver.create(shown.POD)
    apiserver.on_exec(psql)
    async with pyinformer.connect(server=apiserver.url) as cluster:
        await shown.restore(cluster, "shop/db-0", b"select 1")
        with pytest.raises(RuntimeError, match="psql ended with 1"):
            await shown.restore(cluster, "shop/db-0", b"select 1")
    assert calls[0].stdin == b"select 1"
