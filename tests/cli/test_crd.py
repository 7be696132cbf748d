"""`pyinformer crd`: YAML for kubectl, or one line that says what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

import pyinformer
from pyinformer.cli import main
from pyinformer.objects import load_yaml
from pyinformer.operator import custom_resource_definition
from tests.cli.command_line import Result, environment, here, run

_PROGRAM = '''
from typing import Literal

import msgspec
import pyinformer


class Spec(msgspec.Struct):
    sizes: list[int] = []


@pyinformer.operator.custom_resource("acme.io/v1", "databases", short_names=["db"])
class Database(msgspec.Struct):
    """A database — of any kind."""

    spec: Spec
    other: Spec | None = None


class Backup(msgspec.Struct):
    spec: Spec


class ChartSpec(msgspec.Struct):
    x: int
    y: str
    axis: Literal["y", "n"] = "y"


@pyinformer.operator.custom_resource("acme.io/v1", "charts", columns={"Y": "spec.y"})
class Chart(msgspec.Struct):
    spec: ChartSpec


class Tree(msgspec.Struct):
    children: "list[Tree]" = []


class OldShop(msgspec.Struct):
    spec: Spec


class Shop(msgspec.Struct):
    spec: Spec


OldShop = pyinformer.operator.custom_resource(
    "acme.io/v1beta1", "shops", kind="Shop", storage=False
)(OldShop)
Shop = pyinformer.operator.custom_resource("acme.io/v1", "shops", versions=[OldShop])(Shop)
BadTree = pyinformer.operator.custom_resource("acme.io/v1", "trees")(Tree)
app = pyinformer.Operator("db-operator")
idle = pyinformer.Operator("idle")


@app.reconcile("acme.io/v1", "databases", model=Database)
@app.reconcile("acme.io/v1", "databases", model=Database, name="second")
@app.reconcile("acme.io/v1", "backups", model=Backup)
@app.reconcile("v1", "pods")
@app.reconcile("v1", "configmaps", model=Backup)
async def reconcile(request, database, cluster): ...


if __name__ == "__main__":
    app.run()
'''


_FAILING = {
    "broken": "import sys\nimport not_installed_here\n",
    "unfinished": "import sys\nprint(\n",
    "imports_unfinished": "import unfinished\n",
    "leaves": 'import sys\nsys.exit("no URL")\n',
    "wrong": """import pyinformer
app = pyinformer.Operator("wrong")
app.reconcile("v1", "pods")(None)
""",
}


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a program, and make its folder the current one."""
    (tmp_path / "my_operator.py").write_text(_PROGRAM, encoding="utf-8")
    for module, text in _FAILING.items():
        (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_operator", raising=False)
    return tmp_path


def crd(*targets: str) -> Result:
    """Run the command."""
    return here("crd", *targets)


def test_a_model_is_printed_as_yaml() -> None:
    done = crd("my_operator:Database")

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("---\napiVersion: apiextensions.k8s.io/v1\nkind: Custom")
    definition = yaml.safe_load(done.stdout)
    assert definition["metadata"]["name"] == "databases.acme.io"
    assert "&id" not in done.stdout  # aliases, which people do not read
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["description"] == "A database — of any kind."


def test_it_is_utf_8_whatever_the_locale_is() -> None:
    done = run("crd", "my_operator:Database", env=environment(PYTHONIOENCODING="ascii"))

    assert (done.returncode, done.stderr) == (0, "")
    assert "A database — of any kind." in done.stdout


def test_names_that_look_like_other_values_are_printed_as_texts() -> None:
    done = crd("my_operator:Chart")

    definition = custom_resource_definition(vars(sys.modules["my_operator"])["Chart"])
    version = definition["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["properties"]["axis"]["enum"] == ["n", "y"]
    assert [*spec["properties"]] == ["x", "y", "axis"]
    assert version["additionalPrinterColumns"][0]["name"] == "Y"
    assert load_yaml(done.stdout) == yaml.safe_load(done.stdout) == definition


def test_an_operator_is_printed_as_all_of_its_models() -> None:
    done = crd("my_operator:app")

    assert (done.exit_code, done.stderr) == (0, "")
    found = list(yaml.safe_load_all(done.stdout))
    assert [each["spec"]["names"]["kind"] for each in found] == ["Backup", "Database"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        pytest.param("my_operator", "must be module:name", id="no-name"),
        pytest.param(".my_operator:Database", "must be module:name", id="relative"),
        pytest.param(":Database", "must be module:name", id="no-module"),
        pytest.param("not_there:Database", "module 'not_there' was not found", id="unknown-module"),
        pytest.param("my_operator.deep:X", "was not found", id="unknown-submodule"),
        pytest.param(
            "broken:app",
            "broken.py:2 in <module>: ModuleNotFoundError: No module named 'not_installed_here'",
            id="import-of-a-missing-module",
        ),
        pytest.param(
            "unfinished:app", "unfinished.py:2: SyntaxError: '(' was never closed", id="syntax"
        ),
        pytest.param(
            "imports_unfinished:app", "unfinished.py:2: SyntaxError", id="syntax-of-an-import"
        ),
        pytest.param(
            "wrong:app",
            "wrong.py:3 in <module>: InvalidTypeError: handler: ",
            id="refused-by-pyinformer",
        ),
        pytest.param(
            "leaves:app", "leaves.py:2 in <module>: SystemExit: no URL", id="exits-by-itself"
        ),
        pytest.param("my_operator:Databse", "'Databse' was not found in it", id="unknown-name"),
        pytest.param(
            "my_operator:reconcile", "must be a model or an Operator, got a function", id="function"
        ),
        pytest.param("my_operator:Backup", "must be decorated with", id="undeclared"),
        pytest.param("my_operator:BadTree", "field children[]: Tree holds itself", id="recursion"),
        pytest.param("my_operator:idle", "no reconcile of this operator", id="idle-operator"),
    ],
)
def test_an_error_is_one_line_and_nothing_else_is_printed(target: str, words: str) -> None:
    done = crd("my_operator:Database", target)

    assert (done.exit_code, done.stdout) == (1, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_command_reaches_its_function(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pyinformer", "crd", f"{pyinformer.__name__}:nothing"])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 1
    assert "'nothing' was not found in it" in capsys.readouterr().err


def test_a_model_of_several_versions_says_that_nothing_converts_them() -> None:
    result = crd("my_operator:Shop")
    assert result.exit_code == 0
    expected = "shops.acme.io: nothing converts its versions; if an operator does, name it\n"
    assert result.stderr == expected
