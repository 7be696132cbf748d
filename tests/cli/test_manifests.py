"""`pyinformer manifests`: files that follow the code, a diff, or an error and no change."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cli.command_line import Result, here
from tests.cli.projects import PLAIN, files_of, forget, init

if TYPE_CHECKING:
    from pathlib import Path


_PACKAGE = "database_operator"
_TARGET = f"{_PACKAGE}.operator:app"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new project, which is the current folder."""
    made = init(tmp_path / "project", *PLAIN)
    monkeypatch.chdir(made)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return made


def manifests(*options: str, target: str = _TARGET) -> Result:
    """Run the command, as a new process would."""
    try:
        return here("manifests", target, *options)
    finally:
        forget(_PACKAGE)


def edit(path: Path, old: str, new: str) -> None:
    """Replace text in a file."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_the_manifests_of_a_new_project_are_those_of_its_code(project: Path) -> None:
    before = files_of(project)

    checked, written = manifests("--check"), manifests()

    assert (checked.exit_code, checked.output) == (0, "")
    assert (written.exit_code, written.output) == (0, "")
    assert files_of(project) == before


def test_a_change_of_the_code_is_a_diff_and_then_written(project: Path) -> None:
    edit(
        project / _PACKAGE / "model.py",
        "    replicas: int = 0\n",
        "    replicas: int = 0\n    zone: str = ''\n",
    )
    edit(
        project / _PACKAGE / "operator.py",
        '"database-operator"',
        '"database-operator", writes=[("v1", "secrets")]',
    )
    before = files_of(project)

    checked = manifests("--check")

    assert checked.exit_code == 1
    assert files_of(project) == before
    assert "--- a/deploy/crd.yaml\n+++ b/deploy/crd.yaml\n" in checked.stdout
    assert "+              zone:\n" in checked.stdout
    assert "+++ b/chart/templates/rbac.yaml\n" in checked.stdout
    assert "+  - secrets\n" in checked.stdout

    written = manifests()

    assert written.exit_code == 0
    assert written.stdout.split() == [
        "chart/crds/crd.yaml",
        "chart/templates/rbac.yaml",
        "deploy/crd.yaml",
        "deploy/rbac.yaml",
    ]
    assert manifests("--check").exit_code == 0


@pytest.mark.parametrize(
    "several",
    ["leader_election=pyinformer.LeaderElection()", "sharding=pyinformer.Buckets()"],
)
def test_several_replicas_change_the_deployment(project: Path, several: str) -> None:
    edit(project / "pyproject.toml", "replicas = 1\n", "")
    edit(
        project / _PACKAGE / "operator.py",
        '"database-operator"',
        f'"database-operator", {several}',
    )

    assert manifests().exit_code == 0

    deployment, budget = yaml.safe_load_all((project / "deploy/deployment.yaml").read_text())
    assert deployment["spec"]["replicas"] == 2
    assert budget["spec"]["maxUnavailable"] == 1, "minAvailable would let no single replica go"
    leases = [
        rule
        for document in yaml.safe_load_all((project / "deploy/rbac.yaml").read_text())
        for rule in document.get("rules", ())
        if "leases" in rule["resources"]
    ]
    assert leases
    assert (
        "replicas: {{ .Values.replicas }}"
        in (project / "chart/templates/deployment.yaml").read_text()
    )
    assert yaml.safe_load((project / "chart/values.yaml").read_text())["replicas"] == 2


def test_a_fixed_number_of_shards_is_a_stateful_set(project: Path) -> None:
    edit(project / "pyproject.toml", "replicas = 1\n", "")
    shard = "pyinformer.Shard(index=0, total=3)"
    name = '"database-operator"'
    edit(project / _PACKAGE / "operator.py", name, f"{name}, sharding={shard}")

    assert manifests().exit_code == 0

    assert not (project / "deploy/deployment.yaml").exists()
    assert not (project / "chart/templates/deployment.yaml").exists()
    path = project / "deploy/stateful_set.yaml"
    found, _budget = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    assert (found["kind"], found["spec"]["replicas"]) == ("StatefulSet", 3)
    assert found["spec"]["podManagementPolicy"] == "Parallel"
    env = {one["name"]: one for one in found["spec"]["template"]["spec"]["containers"][0]["env"]}
    field = env["POD_INDEX"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert field == "metadata.labels['apps.kubernetes.io/pod-index']"
    assert "stateful_set.yaml" in (project / "deploy/kustomization.yaml").read_text("utf-8")
    chart = (project / "chart/templates/stateful_set.yaml").read_text(encoding="utf-8")
    assert "replicas: 3\n" in chart
    assert "replicas" not in yaml.safe_load((project / "chart/values.yaml").read_text("utf-8"))
    assert manifests("--check").exit_code == 0


def test_another_number_of_replicas_than_of_shards_changes_nothing(project: Path) -> None:
    edit(project / "pyproject.toml", "replicas = 1\n", "replicas = 2\n")
    shard = "pyinformer.Shard(index=0, total=3)"
    name = '"database-operator"'
    edit(project / _PACKAGE / "operator.py", name, f"{name}, sharding={shard}")
    before = files_of(project)

    done = manifests()

    assert done.exit_code == 1
    assert "must be 3, the number of shards" in done.stderr
    assert files_of(project) == before


def test_settings_are_in_the_manifests(project: Path) -> None:
    edit(project / "pyproject.toml", 'version = "0.1.0"', 'version = "1.2.dev3"')
    edit(project / "pyproject.toml", 'namespace = "database-operator"', 'namespace = "ops"')
    edit(
        project / "pyproject.toml",
        'image = "database-operator:0.1.0"',
        'image = "host:5000/db:7"\nwatch_namespaces = ["shop", "bank"]',
    )

    assert manifests().exit_code == 0

    deployment = yaml.safe_load((project / "deploy/deployment.yaml").read_text())
    assert deployment["metadata"]["namespace"] == "ops"
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "host:5000/db:7"
    values = yaml.safe_load((project / "chart/values.yaml").read_text())
    assert values["image"] == {"repository": "host:5000/db", "tag": "7"}
    chart = yaml.safe_load((project / "chart/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == ("1.2.0", "1.2.dev3")
    roles = [*yaml.safe_load_all((project / "deploy/rbac.yaml").read_text())]
    shown = {(each["kind"], each["metadata"].get("namespace")) for each in roles}
    assert shown >= {("Role", "shop"), ("Role", "bank")}
    assert ("ClusterRole", None) not in shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tool = 1\n", "tool in pyproject.toml: must be a table, got 1"),
        ("project = 1\n", "project in pyproject.toml: must be a table"),
        ('[project]\nname = "no-such-operator"\ndynamic = ["version"]\n', "install it first"),
        ("[project]\nversion = 1\n", "project.version in pyproject.toml: must be a version"),
        ("[project]\nversion = '1\"'\n", "project.version in pyproject.toml: must be a version"),
    ],
)
def test_a_malformed_project_changes_nothing(project: Path, text: str, words: str) -> None:
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    before = files_of(project)

    done = manifests()

    assert (done.exit_code, manifests("--check").exit_code) == (1, 2)
    assert words in done.stderr
    assert files_of(project) == before


def test_a_file_that_is_not_text_is_replaced(project: Path) -> None:
    rights = project / "deploy/rbac.yaml"
    before = rights.read_text(encoding="utf-8")
    rights.write_bytes(b"\xff\xfe")

    assert manifests("--check").exit_code == 1
    assert manifests().exit_code == 0
    assert rights.read_text(encoding="utf-8") == before


def test_what_a_program_prints_is_not_in_the_output(project: Path) -> None:
    edit(project / _PACKAGE / "operator.py", "import pyinformer\n", "import pyinformer\nprint(7)\n")

    done = manifests("--check")

    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "7\n"


def test_a_definition_that_is_gone_is_removed(project: Path) -> None:
    edit(project / _PACKAGE / "operator.py", "    model=Database,\n", "")
    edit(project / _PACKAGE / "operator.py", '"acme.io/v1alpha1"', '"v1"')
    edit(project / _PACKAGE / "operator.py", '"databases"', '"configmaps"')

    assert "-kind: CustomResourceDefinition" in manifests("--check").stdout
    assert manifests().exit_code == 0

    assert not (project / "deploy/crd.yaml").exists()
    assert not (project / "chart/crds/crd.yaml").exists()
    assert "crd.yaml" not in (project / "deploy/kustomization.yaml").read_text()
    assert manifests("--check").exit_code == 0


def test_a_program_without_a_project_has_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import pyinformer\n\napp = pyinformer.Operator('pod-operator')\n\n\n"
        "@app.reconcile('v1', 'pods')\nasync def reconcile(request, obj, cluster): ...\n"
    )
    (tmp_path / "bare_operator.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "bare_operator", raising=False)

    done = manifests(target="bare_operator:app")

    assert done.exit_code == 0, done.output
    assert "chart/Chart.yaml" in done.stdout
    deployment = yaml.safe_load((tmp_path / "deploy/deployment.yaml").read_text())
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "pod-operator:0.1.0"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param("replicas = 1", "replicas = 2", "needs Operator(..., leader_election", id="2"),
        pytest.param("replicas = 1", "replicas = 0", "`int` >= 1", id="no-replicas"),
        pytest.param("replicas = 1", "replica = 1", "unknown field `replica`", id="unknown"),
        pytest.param(":0.1.0", "", "tool.pyinformer in pyproject.toml: Expected", id="no-tag"),
        pytest.param('= "database-operator"', '= "Ops_1"', "$.namespace", id="namespace"),
        pytest.param("[tool.pyinformer]", "[tool.pyinformer", "cannot be parsed", id="no-toml"),
    ],
)
def test_an_invalid_setting_changes_nothing(project: Path, old: str, new: str, words: str) -> None:
    text = (project / "pyproject.toml").read_text(encoding="utf-8")
    head, _, table = text.partition("# What `pyinformer manifests`")
    assert old in table
    (project / "pyproject.toml").write_text(f"{head}# {table.replace(old, new)}", encoding="utf-8")
    before = files_of(project)

    done = manifests()

    assert done.exit_code == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert files_of(project) == before


@pytest.mark.parametrize(
    ("target", "words"),
    [
        pytest.param(f"{_PACKAGE}.model:Database", "must be an Operator, got a", id="model"),
        pytest.param("absent:app", "module 'absent' was not found", id="absent"),
    ],
)
def test_a_target_that_is_not_an_operator_is_refused(
    project: Path, target: str, words: str
) -> None:
    del project
    done = manifests(target=target)

    assert done.exit_code == 1
    assert words in done.stderr


def test_a_name_that_kubernetes_does_not_take_is_refused(project: Path) -> None:
    edit(
        project / _PACKAGE / "operator.py",
        'Operator("database-operator")',
        'Operator("My operator")',
    )

    done = manifests()

    assert done.exit_code == 1
    assert "the operator's name: must be a name of Kubernetes" in done.stderr


_HOOKS = """
app.validate("acme.io/v1", "databases/scale", operations=["update"])(lambda obj, review: None)
app.default("acme.io/v1", "databases")(lambda obj, review: None)
"""


def _with_webhooks(project: Path, address: str) -> None:
    file = project / _PACKAGE / "operator.py"
    text = file.read_text(encoding="utf-8")
    made = re.sub(
        r"^app = pyinformer\.Operator\((.*?)\)$",
        rf"app = pyinformer.Operator(\1, webhooks=pyinformer.Webhooks({address}))",
        text,
        count=1,
        flags=re.MULTILINE,
    )
    assert made != text, text
    file.write_text(made + _HOOKS, encoding="utf-8")


def test_manifests_have_the_service_of_webhooks_its_port_and_the_configurations(
    project: Path,
) -> None:
    name = "database-operator"
    _with_webhooks(project, f"service='{name}/hooks'")
    assert manifests().exit_code == 0
    files = files_of(project)
    service, mutating, validating = yaml.safe_load_all(files["deploy/webhooks.yaml"])
    assert service["metadata"] == {"namespace": name, "name": "hooks"}
    assert service["spec"]["ports"][0]["targetPort"] == "webhooks"
    assert mutating["kind"] == "MutatingWebhookConfiguration"
    assert validating["kind"] == "ValidatingWebhookConfiguration"
    deployment = next(iter(yaml.safe_load_all(files["deploy/deployment.yaml"])))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "webhooks", "containerPort": 9443} in container["ports"]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert "  - webhooks.yaml\n" in files["deploy/kustomization.yaml"]
    granted = {
        (resource, verb, *rule.get("resourceNames", ()))
        for one in yaml.safe_load_all(files["deploy/rbac.yaml"])
        for rule in one.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert ("secrets", "create") in granted
    assert ("secrets", "update", f"{name}-webhooks") in granted
    assert ("secrets", "update") not in granted
    assert ("mutatingwebhookconfigurations", "patch", name) in granted
    chart = files["chart/templates/webhooks.yaml"]
    assert f"system:serviceaccount:{name}:{{{{ .Release.Name }}}}" in chart
    assert f'if ne .Release.Namespace "{name}"' in chart


def test_the_service_of_webhooks_is_in_the_namespace_of_the_pods(project: Path) -> None:
    _with_webhooks(project, "service='shop/hooks'")
    refused = manifests()
    assert refused.exit_code != 0
    assert "webhooks: is 'shop/hooks', but the operator is deployed in" in refused.output


def test_hooks_at_a_url_have_no_service_and_the_command_warns(project: Path) -> None:
    _with_webhooks(project, "url='https://127.0.0.1:9443'")
    found = manifests()
    assert found.exit_code == 0
    assert "the hooks are at https://127.0.0.1:9443, so there is no webhooks.yaml" in found.stderr
    assert "deploy/webhooks.yaml" not in files_of(project)
