"""Generated manifests, as Helm and kustomize read them: both give the plain objects."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pyinformer.objects import load_yaml
from tests.cli.projects import ELECTED, PLAIN, init
from tests.foreign import clients

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(900)]  # the first run compiles Helm


@pytest.fixture(params=[PLAIN, (*ELECTED, "--replicas", "2")], ids=["plain", "leader-election"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A new project, in a folder with the name of its operator."""
    return init(tmp_path / request.param[0], *request.param)


def plain(project: Path) -> dict[tuple[str, str, str], Any]:
    """Return the objects in the files of `deploy`, as they are."""
    texts = [path.read_text() for path in sorted((project / "deploy").glob("*.yaml"))]
    return {key: one for key, one in objects(texts).items() if key[0] != "Kustomization"}


def objects(texts: Iterable[str]) -> dict[tuple[str, str, str], Any]:
    """Return the objects of YAML documents by kind, namespace and name."""
    return {
        (each["kind"], each.get("metadata", {}).get("namespace", ""), name_of(each)): each
        for text in texts
        for each in yaml.safe_load_all(text)
        if each
    }


def name_of(document: dict[str, Any]) -> str:
    """Return the name of an object; a Kustomization has none."""
    return str(document.get("metadata", {}).get("name", ""))


def run(*command: str | Path) -> str:
    """Run a program to its end, and return what it printed."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_chart_renders_to_the_plain_objects(project: Path, helm: Path) -> None:
    printed = run(helm, project / "chart", project.name, project.name)

    expected = {key: one for key, one in plain(project).items() if key[0] != "Namespace"}
    assert objects([printed]) == expected


def test_braces_in_a_description_are_no_template(project: Path, helm: Path) -> None:
    described = "Names are {{ .cluster.name }}-{{ .random }}."
    path = project / "chart/crds/crd.yaml"
    (crd,) = yaml.safe_load_all(path.read_text())
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = described
    path.write_text(yaml.safe_dump(crd))
    printed = run(helm, project / "chart", project.name, project.name)
    (crd,) = (one for key, one in objects([printed]).items() if key[0].endswith("Definition"))
    found = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"]
    assert found == described


def test_a_release_has_names_and_values_of_its_own(project: Path, helm: Path) -> None:
    values = ("image.repository=mine/op", "image.tag=7", "resources.limits.memory=1Gi")
    printed = objects([run(helm, project / "chart", "blue", "shop", "replicas=3", *values)])

    spec = printed["Deployment", "shop", "blue"]["spec"]
    container = spec["template"]["spec"]["containers"][0]
    assert container["image"] == "mine/op:7"
    assert container["resources"]["limits"] == {"memory": "1Gi"}
    is_elected = ("PodDisruptionBudget", "shop", "blue") in printed
    assert spec["replicas"] == (3 if is_elected else 1)  # several without a leader would all write
    binding = printed["ClusterRoleBinding", "", "blue"]
    account = {"kind": "ServiceAccount", "namespace": "shop", "name": "blue"}
    assert binding["subjects"] == [account]
    assert binding["roleRef"]["name"] == "blue"
    assert ("ServiceAccount", "shop", "blue") in printed


def test_a_release_may_have_a_name_that_looks_like_a_number(project: Path, helm: Path) -> None:
    printed = run(helm, project / "chart", "1e3", "08", "image.repository=7", "image.tag=1e3")

    found = [one for one in map(load_yaml, printed.split("---\n")) if one]
    own = [one for one in found if one["kind"] != "CustomResourceDefinition"]
    names = {(one["metadata"]["name"], one["metadata"].get("namespace")) for one in own}
    assert names <= {("1e3", "08"), ("1e3", None)}
    (deployment,) = [one for one in found if one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]
    assert pod["metadata"]["labels"]["app.kubernetes.io/instance"] == "1e3"
    assert pod["spec"]["containers"][0]["image"] == "7:1e3"
    (binding,) = [one for one in found if one["kind"] == "ClusterRoleBinding"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "namespace": "08", "name": "1e3"}]


def test_kustomize_builds_the_plain_objects(project: Path, kustomize: Path) -> None:
    assert objects([run(kustomize, "kustomize", project / "deploy")]) == plain(project)


def test_an_overlay_moves_the_operator(project: Path, kustomize: Path) -> None:
    overlay = project / "overlay"
    overlay.mkdir()
    image = {"name": project.name, "newName": "mine/op", "newTag": "7"}
    text = yaml.safe_dump({"resources": ["../deploy"], "namespace": "shop", "images": [image]})
    (overlay / "kustomization.yaml").write_text(text, encoding="utf-8")

    built = objects([run(kustomize, "kustomize", overlay)])

    container = built["Deployment", "shop", project.name]["spec"]["template"]["spec"]["containers"]
    assert container[0]["image"] == "mine/op:7"
    account = {"kind": "ServiceAccount", "namespace": "shop", "name": project.name}
    assert built["ClusterRoleBinding", "", project.name]["subjects"] == [account]
    assert ("ServiceAccount", "shop", project.name) in built


@pytest.fixture(scope="session")
def kustomize() -> Path:
    """A kubectl, which has kustomize in it."""
    found = [clients.kubectl("path"), clients.kubectl("debian")]
    programs = [each for each in found if not isinstance(each, str)]
    if not programs:
        pytest.skip(f"there is no kubectl: {'; '.join(map(str, found))}")
    return programs[0]
