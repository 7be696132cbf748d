"""Declared custom resources: what the definition says, and what cannot be declared."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import msgspec
import pytest

from pyinformer.errors import InvalidArgumentError, InvalidModelError, InvalidTypeError
from pyinformer.operator import custom_resource, custom_resource_definition


class _Spec(msgspec.Struct, rename="camel"):
    engine_name: str = "postgres"


class _Status(msgspec.Struct, rename="camel", frozen=True):
    ready_replicas: int = 0
    since: Annotated[dt.datetime, msgspec.Meta(tz=True)] | None = None


@custom_resource(
    "acme.io/v1",
    "databases",
    short_names=["db"],
    categories=["all"],
    columns={
        "Engine": "spec.engineName",
        "Ready": ".status.readyReplicas",
        "Since": "status.since",
        "Owner": "metadata.labels.owner",
    },
)
class Database(msgspec.Struct):
    """A database."""

    spec: _Spec
    status: _Status = _Status()


def test_a_definition_says_what_was_declared() -> None:
    found = custom_resource_definition(Database)

    (version,) = found["spec"].pop("versions")
    assert found == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "databases.acme.io"},
        "spec": {
            "group": "acme.io",
            "names": {
                "plural": "databases",
                "singular": "database",
                "kind": "Database",
                "shortNames": ["db"],
                "categories": ["all"],
            },
            "scope": "Namespaced",
        },
    }
    assert version.pop("schema")["openAPIV3Schema"]["description"] == "A database."
    assert version == {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Engine", "type": "string", "jsonPath": ".spec.engineName"},
            {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"},
            {"name": "Since", "type": "date", "jsonPath": ".status.since"},
            {"name": "Owner", "type": "string", "jsonPath": ".metadata.labels.owner"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }


def test_a_model_without_a_status_has_no_subresource() -> None:
    @custom_resource("acme.io/v1", "clusters", scope="Cluster", kind="Cluster")
    class Model(msgspec.Struct):
        spec: _Spec

    found = custom_resource_definition(Model)["spec"]

    assert found["scope"] == "Cluster"
    assert found["names"]["kind"] == "Cluster"
    assert set(found["versions"][0]) == {"name", "served", "storage", "schema"}


def test_a_definition_may_be_modified_by_the_caller() -> None:
    custom_resource_definition(Database)["spec"]["names"]["kind"] = "Changed"

    assert custom_resource_definition(Database)["spec"]["names"]["kind"] == "Database"


def test_a_column_without_a_field_is_refused() -> None:
    @custom_resource("acme.io/v1", "databases", columns={"Ready": "status.readyReplica"})
    class Model(msgspec.Struct):
        status: _Status = _Status()

    with pytest.raises(InvalidModelError, match="'Ready'") as caught:
        custom_resource_definition(Model)
    assert caught.value.path == "status.readyReplica"


class _Heir(Database):
    """Inherits the fields, not the resource."""


@pytest.mark.parametrize("model", [_Spec, _Heir, "Database", 5])
def test_a_model_that_nothing_was_declared_for_is_refused(model: Any) -> None:
    with pytest.raises(InvalidTypeError, match="must be decorated with @custom_resource"):
        custom_resource_definition(model)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        pytest.param(("databases", "acme.io/v1"), {}, "arguments swapped", id="swapped"),
        pytest.param(("v1", "databases"), {}, "a group with a dot", id="core"),
        pytest.param(("apps/v1", "databases"), {}, "a group with a dot", id="built-in"),
        pytest.param(("acme.io/v1", "Databases"), {}, "plural", id="kind-for-plural"),
        pytest.param(("acme.io/v1", "databases"), {"scope": "cluster"}, "Namespaced", id="scope"),
        pytest.param(("acme.io/v1", "databases"), {"short_names": "db"}, r"\['db'\]", id="text"),
    ],
)
def test_an_invalid_custom_resource_is_refused(
    arguments: tuple[str, str], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        custom_resource(*arguments, **options)
