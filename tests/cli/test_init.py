"""`pyinformer init`: a whole project whose own checks pass, or an error and nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from pyinformer.cli.project import ProjectNames
from tests.cli.command_line import here
from tests.cli.projects import ELECTED, PLAIN, files_of, init

_ROOT = Path(__file__).parents[2]
_LONG = (
    "a-lofty-operator",
    "--group",
    "birds.example.com",
    "--kind",
    "PigeonLoftFeedingTimetables",
)


def check(folder: Path, *command: str) -> None:
    """Run a tool of this environment in a project."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_project_has_all_that_an_operator_needs(tmp_path: Path) -> None:
    project = init(tmp_path / "project", *PLAIN)

    assert [*files_of(project)] == [
        ".dockerignore",
        ".github/workflows/ci.yml",
        ".gitignore",
        "Dockerfile",
        "README.md",
        "chart/Chart.yaml",
        "chart/crds/crd.yaml",
        "chart/templates/deployment.yaml",
        "chart/templates/rbac.yaml",
        "chart/values.yaml",
        "constraints.txt",
        "database_operator/__init__.py",
        "database_operator/__main__.py",
        "database_operator/model.py",
        "database_operator/operator.py",
        "deploy/crd.yaml",
        "deploy/deployment.yaml",
        "deploy/kustomization.yaml",
        "deploy/namespace.yaml",
        "deploy/rbac.yaml",
        "pyproject.toml",
        "tests/test_operator.py",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["project"]
    assert "database_operator" not in sys.modules


def test_the_types_of_a_project_are_strict(tmp_path: Path) -> None:
    cache = _ROOT / ".mypy_cache" / "project"

    check(init(tmp_path / "project", *PLAIN), "mypy", "--cache-dir", str(cache))


_FOREIGN = ("asyncio", "xdist", "hypothesispytest", "anyio", "timeout")


@pytest.mark.parametrize("arguments", [PLAIN, (*ELECTED, "--replicas", "2")])
def test_a_project_with_webhooks_passes_its_own_checks(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    project = init(tmp_path / "project", *arguments, "--webhooks")

    check(project, "mypy", "--cache-dir", str(tmp_path / "cache"))
    check(project, "ruff", "check", "--no-cache", ".")
    check(project, "ruff", "format", "--no-cache", "--check", ".")
    check(project, "pytest", "-q", "-p", "no:cacheprovider")
    text = (project / "pyproject.toml").read_text(encoding="utf-8")
    assert '"pyinformer[webhooks]>=' in text
    pinned = (project / "constraints.txt").read_text(encoding="utf-8")
    assert "\ncryptography==" in pinned
    assert "webhooks.yaml" in (project / "deploy/kustomization.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "absent", [_FOREIGN, ()], ids=["pyinformer's plugin alone", "with all plugins of this folder"]
)
def test_the_tests_of_a_project_pass(tmp_path: Path, absent: tuple[str, ...]) -> None:
    project = init(tmp_path / "project", *ELECTED, "--replicas", "2")

    left_out = ("cacheprovider", *absent)
    check(project, "pytest", "-q", *(word for each in left_out for word in ("-p", f"no:{each}")))


@pytest.mark.parametrize(
    "arguments",
    [PLAIN, (*ELECTED, "--replicas", "2"), _LONG, (*_LONG, "--webhooks")],
    ids=["plain", "elected", "long", "webhooks"],
)
def test_a_project_is_formatted(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    project = init(tmp_path / "project", *arguments)

    check(project, "ruff", "check", "--no-cache", ".")
    check(project, "ruff", "format", "--no-cache", "--check", ".")


def test_the_options_are_the_names_of_the_resource(tmp_path: Path) -> None:
    arguments = ("--plural", "stores", "--version", "v1", "--replicas", "3")
    project = init(tmp_path / "project", *PLAIN, *arguments)

    definition = yaml.safe_load((project / "deploy/crd.yaml").read_text(encoding="utf-8"))
    deployment, budget = yaml.safe_load_all((project / "deploy/deployment.yaml").read_text())
    assert definition["metadata"]["name"] == "stores.acme.io"
    assert [each["name"] for each in definition["spec"]["versions"]] == ["v1"]
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["strategy"] == {"type": "RollingUpdate"}
    assert budget["kind"] == "PodDisruptionBudget"
    assert "leader_election=" in (project / "database_operator/operator.py").read_text()


def test_the_image_runs_pinned_versions_as_a_user_without_rights(tmp_path: Path) -> None:
    project = init(tmp_path / "project", *PLAIN)

    dockerfile = (project / "Dockerfile").read_text(encoding="utf-8")
    pinned = (project / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert "FROM python:3.13-slim\n" in dockerfile
    assert "USER 65532:65532" in dockerfile
    assert f"msgspec=={msgspec.__version__}" in pinned
    assert {line.partition("==")[0] for line in pinned} > {"pyinformer", "aiohttp", "pyyaml"}
    assert "pytest" not in "".join(pinned)


def test_a_second_init_into_a_folder_changes_nothing(tmp_path: Path) -> None:
    project = init(tmp_path / "project", *PLAIN)
    (project / "database_operator/operator.py").write_text("mine\n", encoding="utf-8")
    before = files_of(tmp_path)

    done = here("init", *ELECTED, "--directory", str(project))

    assert done.exit_code == 1
    assert f"{project} exists and is not changed: remove it, or give --directory" in done.stderr
    assert files_of(tmp_path) == before


def test_of_two_inits_at_once_the_slower_one_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def slow(self: Path, target: Path) -> Path:
        """Rename when another process has written the folder."""
        target.mkdir()
        (target / "README.md").write_text("faster\n", encoding="utf-8")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", slow)
    done = here("init", *PLAIN, "--directory", str(tmp_path / "project"))

    assert done.exit_code == 1
    assert "exists and is not changed: remove it" in done.stderr
    assert files_of(tmp_path) == {"project/README.md": "faster\n"}


def test_the_variable_of_a_kind_hides_no_name_of_the_program(tmp_path: Path) -> None:
    project = init(tmp_path / "project", *PLAIN)
    tree = ast.parse((project / "database_operator/operator.py").read_text(encoding="utf-8"))
    (reconcile,) = (node for node in tree.body if isinstance(node, ast.AsyncFunctionDef))
    used = {node.id for node in ast.walk(reconcile) if isinstance(node, ast.Name)} - {"database"}
    assert "int" in used

    for name in filter(str.islower, used - {"deployment", "status"}):  # kinds that exist
        names = ProjectNames(name="test-operator", group="acme.io", kind=name.title())
        assert names.variable != name


def test_a_folder_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    done = here("init", *PLAIN, "--directory", str(tmp_path / "absent/project"))

    assert done.exit_code == 1
    assert "cannot create" in done.stderr
    assert "No such file or directory" in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_an_error_in_the_middle_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generated program is imported before the folder gets its name; here it cannot be."""
    monkeypatch.setitem(sys.modules, "database_operator", None)

    with pytest.raises(ModuleNotFoundError):
        here("init", *PLAIN, "--directory", str(tmp_path / "project"))

    assert [*tmp_path.iterdir()] == []


_VALID = {"name": "database-operator", "group": "acme.io", "kind": "Database"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"kind": "Deployment"}, "in apps/v1: kubectl would show", id="known-kind"),
        pytest.param({"kind": "Pod"}, "in v1: kubectl would show that one; choose", id="core-kind"),
        pytest.param({"kind": "PodTemplate"}, "exists in Kubernetes: kubectl", id="further-kind"),
        pytest.param({"kind": "database"}, "begin with a capital", id="small-kind"),
        pytest.param({"kind": "My-Database"}, "letters and digits only", id="kind-with-a-dash"),
        pytest.param({"kind": "Any"}, "choose another, such as MyAny", id="kind-of-python"),
        pytest.param({"name": "Database_Operator"}, "must be lower-case letters", id="no-dns-name"),
        pytest.param({"name": "a" * 64}, "at most 63", id="long-name"),
        pytest.param({"name": "null"}, "must be lower-case letters", id="null-of-yaml"),
        pytest.param({"name": "msgspec"}, "such as msgspec-operator", id="installed-module"),
        pytest.param({"name": "json"}, "such as json-operator", id="standard-module"),
        pytest.param({"name": "class"}, "such as class-operator", id="keyword"),
        pytest.param({"name": "tests"}, "such as tests-operator", id="own-folder"),
        pytest.param({"name": "dist"}, "such as dist-operator", id="ignored-folder"),
        pytest.param({"group": "acme"}, "a domain in lower case with a dot", id="group-of-a-word"),
        pytest.param({"group": "Acme.io"}, "a domain in lower case", id="group-in-capitals"),
        pytest.param({"group": "x.k8s.io"}, "belongs to Kubernetes", id="reserved-group"),
        pytest.param({"version": "1"}, "v1beta1 or v1alpha1, got '1'", id="version"),
        pytest.param({"plural": "Databases"}, "must be in lower case", id="plural"),
        pytest.param({"replicas": "0"}, "'--replicas'", id="replicas"),
    ],
)
def test_an_invalid_name_is_wrong_usage_that_names_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {**_VALID, **changed}
    options = [f"--{option}={value}" for option, value in given.items() if option != "name"]

    done = here("init", given["name"], *options, COLUMNS="1000")

    assert done.exit_code == 2
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert [*tmp_path.iterdir()] == []
