"""Definitions from files on both servers: created, replaced, and served when the call returns."""

from __future__ import annotations

import json
import secrets
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import DefinitionsNotFoundError, InvalidArgumentError, InvalidError
from pyinformer.testing import World, definitions_in
from tests.integration.definitions import DEFINITIONS, is_gone
from tests.testing.test_definition_files import definition
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server


def _plural() -> str:
    return f"w{secrets.token_hex(4)}s"


def _object(plural: str, name: str, namespace: str) -> JSONObject:
    kind = plural.removesuffix("s").title()
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "acme.io/v1", "kind": kind, "metadata": metadata, "spec": {}}


@pytest.mark.covers(
    "controller-runtime pkg/envtest: should install the unserved CRDs into the cluster"
)
async def test_objects_can_be_created_at_once(server: Server, tmp_path: Path) -> None:
    """Should install the CRDs into the cluster using directory, using file, multiple files."""
    namespace, plurals = server.namespace(), [_plural(), _plural()]
    for plural in plurals:
        (tmp_path / f"{plural}.yaml").write_text(definition(plural, size=7))

    names = server.api.install_definitions(tmp_path)

    assert sorted(names) == sorted(f"{plural}.acme.io" for plural in plurals)
    async with server.connect() as cluster:
        for plural in plurals:
            made = await cluster.create(_object(plural, "a", namespace))
            assert made.at("spec.size") == 7


@pytest.mark.covers(
    "controller-runtime pkg/envtest: should install the unserved CRDs into the cluster"
)
def test_a_definition_that_exists_is_replaced(server: Server, tmp_path: Path) -> None:
    """Should reinstall the CRDs, should update CRDs if already present in the cluster."""
    namespace, plural = server.namespace(), _plural()
    path = tmp_path / "crd.yaml"
    for size in (7, 7, 8):
        path.write_text(definition(plural, size=size))
        server.api.install_definitions(path)
    stored = server.api.get(
        "apiextensions.k8s.io/v1", "customresourcedefinitions", f"{plural}.acme.io"
    )

    (version,) = stored["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    assert properties["spec"]["properties"]["size"]["default"] == 8
    assert stored["status"]["storedVersions"] == ["v1"]
    assert {one["type"] for one in stored["status"]["conditions"]} >= {"Established"}
    server.api.create(_object(plural, "a", namespace))


async def test_definitions_as_a_server_has_them_are_installed_again(
    server: Server, tmp_path: Path
) -> None:
    """`kubectl get crd -o yaml` writes a List, with uid, version and status of each."""
    namespace, plurals = server.namespace(), [_plural(), _plural()]
    for plural in plurals:
        (tmp_path / f"{plural}.yaml").write_text(definition(plural, size=7))
    names = server.api.install_definitions(tmp_path)
    stored = [server.api.get(*DEFINITIONS, name) for name in names]
    assert all(one["metadata"]["uid"] and one["status"] for one in stored)
    path = tmp_path / "exported.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": stored}))

    assert server.api.install_definitions(path) == names  # over the same ones
    for name in names:
        server.api.delete(*DEFINITIONS, name)
        await until(partial(is_gone, server, *DEFINITIONS, name))
    assert server.api.install_definitions(path) == names

    async with server.connect() as cluster:
        for plural in plurals:
            made = await cluster.create(_object(plural, "a", namespace))
            assert made.at("spec.size") == 7
    with World(definitions_in(path)) as world:
        made_here = {one["metadata"]["name"] for one in world.list(*DEFINITIONS)}
        assert made_here == set(names)


@pytest.mark.covers(
    "controller-runtime pkg/envtest: should install the unserved CRDs into the cluster"
)
def test_a_version_that_is_not_served_is_not_waited_for(server: Server, tmp_path: Path) -> None:
    """Should install the unserved CRDs into the cluster."""
    plural = _plural()
    text = definition(plural)
    unserved = text.replace("served: true", "served: false")
    (tmp_path / "crd.yaml").write_text(unserved)

    assert server.api.install_definitions(tmp_path) == (f"{plural}.acme.io",)
    with pytest.raises(InvalidArgumentError, match="is not served"):
        server.api.list("acme.io/v1", plural)


@pytest.mark.covers(
    "controller-runtime pkg/envtest: should install the unserved CRDs into the cluster"
)
def test_a_missing_path_and_a_refused_definition_are_errors(server: Server, tmp_path: Path) -> None:
    """Should return an error if the directory, or the file, doesn't exist."""
    with pytest.raises(DefinitionsNotFoundError):
        server.api.install_definitions(tmp_path / "missing")
    plural = _plural()
    wrong = definition(plural).replace(f"{plural}.acme.io", "other.acme.io")
    (tmp_path / "crd.yaml").write_text(wrong)
    with pytest.raises(InvalidError):
        server.api.install_definitions(tmp_path)
