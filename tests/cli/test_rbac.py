"""`pyinformer rbac`: the roles of an operator for kubectl, or one line that says what is wrong."""

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

app = pyinformer.Operator("db-operator", writes=[("v1", "secrets", "create")])
idle = pyinformer.Operator("idle")


@app.reconcile("acme.io/v1", "databases", owns=[("apps/v1", "statefulsets")])
async def reconcile(request, database, cluster): ...
"""


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a program, and make its folder the current one."""
    (tmp_path / "rights_operator.py").write_text(_PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "rights_operator", raising=False)


def test_the_roles_and_bindings_of_an_operator_are_printed() -> None:
    done = here(
        *("rbac", "rights_operator:app", "-n", "shop", "-n", "bank"),
        *("--name", "db", "--service-account", "ops/db"),
    )

    assert (done.exit_code, done.stderr) == (0, "")
    found = [one["metadata"] | {"kind": one["kind"]} for one in yaml.safe_load_all(done.stdout)]
    assert found == [
        {"namespace": namespace, "name": "db", "kind": kind}
        for namespace in ("bank", "shop")
        for kind in ("Role", "RoleBinding")
    ]


def test_without_options_it_is_a_cluster_role_of_the_operators_name() -> None:
    (role,) = yaml.safe_load_all(here("rbac", "rights_operator:app").stdout)

    assert (role["kind"], role["metadata"]) == ("ClusterRole", {"name": "db-operator"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["rights_operator"], "must be module:name", id="no-name"),
        pytest.param(
            ["rights_operator:reconcile"], "must be an Operator, got a function", id="function"
        ),
        pytest.param(["rights_operator:idle"], "no function is registered", id="idle"),
        pytest.param(
            ["rights_operator:app", "--service-account", "db"],
            "--service-account: must be 'namespace/name'",
            id="account",
        ),
        pytest.param(
            ["rights_operator:app", "--name", "A b"], "cannot print the rights: --name: ", id="name"
        ),
    ],
)
def test_an_error_is_one_line(arguments: list[str], words: str) -> None:
    done = here("rbac", *arguments)

    assert (done.exit_code, done.stdout) == (1, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


_UNGUARDED = """
import asyncio

from pyinformer import Controller, SharedInformerFactory, connect

SERVER = "http://127.0.0.1:1"


async def awaited():
    async with connect(server=SERVER) as cluster:
        await app.run_async(cluster)


async def controller():
    async with connect(server=SERVER) as cluster:
        factory = SharedInformerFactory(cluster)
        await Controller("pods", nothing, factory.informer("v1", "pods")).run()


async def nothing(request, pod): ...


"""


@pytest.mark.parametrize(
    "end", ["app.run(server=SERVER)", "asyncio.run(awaited())", "asyncio.run(controller())"]
)
def test_a_program_that_runs_when_it_is_imported_is_refused(end: str, tmp_path: Path) -> None:
    """It would reconcile, with the rights of the one who asks for the YAML."""
    path = tmp_path / "rights_operator.py"
    path.write_text(f"{_PROGRAM}{_UNGUARDED}{end}\n", encoding="utf-8")

    done = here("rbac", "rights_operator:app")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "cannot print the rights: rights_operator runs controllers while it is imported: put the"
        " call of run() under `if __name__ == '__main__':`\n"
    )
