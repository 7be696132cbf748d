"""Definitions in files: which files are read, and what is in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.errors import DefinitionsNotFoundError, InvalidArgumentError, InvalidTypeError
from pyinformer.testing import World, definitions_in

if TYPE_CHECKING:
    from pathlib import Path

_DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: {plural}.acme.io
spec:
  group: acme.io
  scope: Namespaced
  names: {{plural: {plural}, singular: {singular}, kind: {kind}}}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {{type: object, properties: {{size: {{type: integer, default: {size}}}}}}}
status: {{acceptedNames: {{kind: '', plural: ''}}, conditions: [], storedVersions: []}}
"""


def definition(plural: str, *, size: int = 1) -> str:
    """Return a definition as controller-gen writes it."""
    kind = plural.removesuffix("s")
    return _DEFINITION.format(plural=plural, singular=kind, kind=kind.title(), size=size)


def _names(*paths: str | Path) -> list[str]:
    return [one["metadata"]["name"] for one in definitions_in(*paths)]


def test_a_file_may_have_several_documents_of_which_others_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    parts = ("", config_map, definition("cars"), "# nothing\n", definition("boats"))
    path.write_text("--- # begin\n".join(parts))

    found = definitions_in(str(path))

    assert [one["metadata"]["name"] for one in found] == ["cars.acme.io", "boats.acme.io"]
    assert all("status" not in one for one in found)


@pytest.mark.parametrize("items", ["", "[]", "{a: b}", "7", "[7, {kind: ConfigMap}]"])
def test_a_list_without_definitions_is_left_out(tmp_path: Path, items: str) -> None:
    (tmp_path / "a.yaml").write_text(f"apiVersion: v1\nkind: List\nitems: {items}\n")
    (tmp_path / "b.yaml").write_text(definition("cars"))
    assert _names(tmp_path) == ["cars.acme.io"]


@pytest.mark.covers(
    "controller-runtime pkg/envtest: should not mix up files from different directories"
)
def test_files_of_one_name_in_two_folders_are_not_mixed_up(tmp_path: Path) -> None:
    for folder, plural in (("a", "cars"), ("b", "boats")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "crd.yaml").write_text(definition(plural))

    assert _names(tmp_path / "a", tmp_path / "b") == ["cars.acme.io", "boats.acme.io"]


def test_a_folder_is_read_in_the_order_of_its_files_and_not_below(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(definition("boats"))
    (tmp_path / "a.yaml").write_text(definition("cars"))
    (tmp_path / "kustomization.yaml").write_text("resources: [a.yaml]\n")
    (tmp_path / "README.md").write_text("---\n")
    (tmp_path / "c.json").write_text(json.dumps(definitions_in(tmp_path / "a.yaml")[0]))
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "crd.yaml").write_text(definition("trains"))

    assert _names(tmp_path) == ["cars.acme.io", "boats.acme.io"]


def test_a_definition_that_occurs_twice_counts_as_it_is_in_the_last_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(definition("cars", size=1))
    (tmp_path / "b.yaml").write_text(definition("cars", size=2))

    (found,) = definitions_in(tmp_path)

    assert "'default': 2" in str(found)


@pytest.mark.covers(
    "controller-runtime pkg/envtest: should install the unserved CRDs into the cluster"
)
@pytest.mark.parametrize("name", ["missing.yaml", "missing", "empty", "kustomization.yaml"])
def test_a_path_without_definitions_is_a_typed_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "kustomization.yaml").write_text("resources: []\n")
    (tmp_path / "a.yaml").write_text(definition("cars"))

    with pytest.raises(DefinitionsNotFoundError) as caught:
        definitions_in(tmp_path / "a.yaml", tmp_path / name)

    assert caught.value.path == str(tmp_path / name)
    assert isinstance(caught.value, FileNotFoundError)
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(b"a: [\n", "cannot be read", id="no-yaml"),
        pytest.param(b"\xff\xfe\xff", "cannot be read", id="no-utf-8"),
        pytest.param(
            b"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n",
            "has no metadata.name",
            id="no-name",
        ),
        *(
            pytest.param(
                b"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
                b"metadata: {name: a.acme.io}\nspec: " + spec + b"\n",
                "a.acme.io has no list of spec.versions",
                id=f"spec-{spec.decode()}",
            )
            for spec in (b"", b"x", b"{}", b"{versions: {}}", b"{versions: [null]}")
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: bytes, complaint: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(text)
    with pytest.raises(InvalidArgumentError, match=complaint) as caught:
        definitions_in(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("wrong", [5, None, b"a", "", [], {}])
def test_a_value_that_is_not_a_path_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidTypeError, match="paths"):
        definitions_in(wrong)


def test_a_world_serves_the_kinds_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(definition("cars", size=3))
    metadata = {"name": "a", "namespace": "default"}
    car = {"apiVersion": "acme.io/v1", "kind": "Car", "metadata": metadata, "spec": {}}

    with World([*definitions_in(tmp_path), car]) as world:
        assert world.get("acme.io/v1", "cars", "a")["spec"] == {"size": 3}
        (tmp_path / "b.yaml").write_text(definition("boats"))
        assert world.install_definitions(tmp_path) == ("cars.acme.io", "boats.acme.io")
        boat = {**car, "kind": "Boat"}
        assert world.create(boat)["spec"] == {"size": 1}
