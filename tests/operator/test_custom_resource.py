"""Declared custom resources: what the definition says, and what cannot be declared."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import msgspec
import pytest

from pyinformer.errors import InvalidArgumentError, InvalidModelError, InvalidTypeError
from pyinformer.objects import JSONObject
from pyinformer.operator import Operator, Scale, custom_resource, custom_resource_definition


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


@pytest.mark.parametrize("kind", ["_Database", "My-Database", "K" * 64])
def test_a_kind_that_the_server_does_not_take_is_refused(kind: str) -> None:
    model = custom_resource("acme.io/v1", "databases", kind=kind)(msgspec.defstruct("Any", []))

    with pytest.raises(InvalidModelError, match="1 to 59 letters and digits"):
        custom_resource_definition(model)


def test_a_column_without_a_field_is_refused() -> None:
    @custom_resource("acme.io/v1", "databases", columns={"Ready": "status.readyReplica"})
    class Model(msgspec.Struct):
        status: _Status = _Status()

    with pytest.raises(InvalidModelError, match="'Ready'") as caught:
        custom_resource_definition(Model)
    assert caught.value.path == "status.readyReplica"


class _OpenStatus(msgspec.Struct, frozen=True):
    conditions: list[JSONObject] = []
    sizes: dict[str, int] = {}
    extra: dict[str, Any] = {}
    free: Any = None


@pytest.mark.parametrize(
    ("path", "type_"),
    [
        ('status.conditions[?(@.type=="Ready")].status', "string"),
        ("status.conditions[0].any.depth", "string"),
        ("status.sizes.any", "integer"),
        ("status.free", "string"),
        ("status.free.any[*].depth", "string"),
        ("status.extra.any", "string"),
    ],
)
def test_a_column_may_show_a_field_of_an_open_object(path: str, type_: str) -> None:
    @custom_resource("acme.io/v1", "databases", columns={"Shown": path})
    class Model(msgspec.Struct):
        status: _OpenStatus = _OpenStatus()

    (version,) = custom_resource_definition(Model)["spec"]["versions"]
    assert version["additionalPrinterColumns"][0] == {
        "name": "Shown",
        "type": type_,
        "jsonPath": f".{path}",
    }


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
        pytest.param(
            ("acme.io/v1", "databases"), {"versions": _Spec}, r"\[_Spec\]", id="one-version"
        ),
        pytest.param(("acme.io/v1", "d" * 64), {}, "^plural: .* at most 63", id="long"),
        pytest.param(
            ("acme.io/v1", "databases"), {"short_names": ["DB"]}, "^short_names.*'DB'", id="capital"
        ),
        pytest.param(
            ("acme.io/v1", "databases"), {"short_names": ["d b"]}, "^short_names.*'d b'", id="space"
        ),
        pytest.param(
            ("acme.io/v1", "databases"), {"categories": [""]}, "^categories.*''", id="empty"
        ),
        pytest.param(
            ("acme.io/v1", "databases"), {"columns": [("A", "spec")]}, "a dict", id="columns"
        ),
        pytest.param(("acme.io/v1", "databases"), {"scale": Scale}, r"Scale\(...\)", id="scale"),
    ],
)
def test_an_invalid_custom_resource_is_refused(
    arguments: tuple[str, str], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        custom_resource(*arguments, **options)


def test_a_scale_subresource_has_the_paths_of_its_fields() -> None:
    @custom_resource(
        "acme.io/v1", "pools", scale=Scale(label_selector_path=".status.selector"), kind="Pool"
    )
    class Model(msgspec.Struct):
        spec: _PoolSpec = _PoolSpec()
        status: _PoolStatus = _PoolStatus()

    (version,) = custom_resource_definition(Model)["spec"]["versions"]
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }


class _PoolSpec(msgspec.Struct, frozen=True):
    replicas: int = 1
    sizes: list[int] = []
    zone: str = ""


class _PoolStatus(msgspec.Struct, frozen=True):
    replicas: int | None = None
    selector: str = ""


@pytest.mark.parametrize(
    ("scale", "path"),
    [
        pytest.param(Scale(spec_replicas_path="spec.size"), "spec.size", id="unknown"),
        pytest.param(Scale(spec_replicas_path="status.replicas"), "status.replicas", id="status"),
        pytest.param(Scale(spec_replicas_path="spec.zone"), "spec.zone", id="not-an-integer"),
        pytest.param(Scale(spec_replicas_path="spec.sizes[0]"), "spec.sizes[0]", id="array"),
        pytest.param(Scale(status_replicas_path="spec.replicas"), "spec.replicas", id="spec"),
        pytest.param(Scale(label_selector_path="spec.replicas"), "spec.replicas", id="not-text"),
    ],
)
def test_a_scale_path_that_the_schema_does_not_have_is_refused(scale: Scale, path: str) -> None:
    class Model(msgspec.Struct):
        spec: _PoolSpec = _PoolSpec()
        status: _PoolStatus = _PoolStatus()

    with pytest.raises(InvalidModelError, match="scale subresource must be of type") as caught:
        custom_resource_definition(custom_resource("acme.io/v1", "pools", scale=scale)(Model))
    assert caught.value.path == path


def _version(version: str, **options: Any) -> type:
    """Return a model of one version of databases."""
    field = "field_" + version.rpartition("/")[2]
    model = msgspec.defstruct(f"Database{version.upper()}", [(field, int, 0)])
    options = {"kind": "Database", **options}
    api_version = version if "/" in version else f"acme.io/{version}"
    return custom_resource(api_version, options.pop("plural", "databases"), **options)(model)


def test_versions_of_a_resource_share_a_definition() -> None:
    old = _version("v1alpha1", storage=False, served=False)
    beta = _version("v1beta1", storage=False)
    model = _version("v1", short_names=["db"], versions=[beta, old])

    found = custom_resource_definition(model)["spec"]

    assert found["names"]["shortNames"] == ["db"]
    assert found["conversion"] == {"strategy": "None"}
    shown = [(each["name"], each["served"], each["storage"]) for each in found["versions"]]
    assert shown == [("v1", True, True), ("v1beta1", True, False), ("v1alpha1", False, False)]
    fields = [
        list(each["schema"]["openAPIV3Schema"]["properties"])[3] for each in found["versions"]
    ]
    assert fields == ["field_v1", "field_v1beta1", "field_v1alpha1"]


def test_an_old_version_may_be_the_storage_version() -> None:
    model = _version("v1", storage=False, versions=[_version("v1beta1")])

    found = custom_resource_definition(model)["spec"]["versions"]

    assert [each["name"] for each in found if each["storage"]] == ["v1beta1"]


_UNDECLARED = msgspec.defstruct("Undeclared", [])


@pytest.mark.parametrize(
    ("model", "words"),
    [
        pytest.param(
            _version("v1", versions=[_version("v1beta1")]),
            "DatabaseV1 and DatabaseV1BETA1 are both the storage version",
            id="two-storage-versions",
        ),
        pytest.param(
            _version("v1", storage=False, versions=[_version("v1beta1", storage=False)]),
            "no version is the storage version: declare one without storage=False$",
            id="no-storage-version",
        ),
        pytest.param(
            _version("v1", storage=False), "the model that names this one in versions=", id="alone"
        ),
        pytest.param(
            _version("v1", versions=[_version("v1", storage=False)]),
            "each version needs a model of its own, got v1, v1",
            id="one-version-twice",
        ),
        pytest.param(
            _version("v1", versions=[_version("v1beta1", kind="Db", storage=False)]),
            "all versions have one kind; it is 'Database', and 'Db' in DatabaseV1BETA1",
            id="kind",
        ),
        pytest.param(
            _version("v1", versions=[_version("v1beta1", plural="dbs", storage=False)]),
            "one plural name",
            id="plural",
        ),
        pytest.param(
            _version("v1", versions=[_version("b.io/v1beta1", storage=False)]),
            "one group",
            id="group",
        ),
        pytest.param(
            _version("v1", versions=[_version("v1beta1", scope="Cluster", storage=False)]),
            "one scope",
            id="scope",
        ),
        pytest.param(
            _version("v1", versions=[_version("v1beta1", short_names=["db"], storage=False)]),
            "short_names belongs to DatabaseV1; remove it from DatabaseV1BETA1",
            id="short-names",
        ),
        pytest.param(
            _version("v1", versions=[_UNDECLARED]), "Undeclared must be decorated", id="undeclared"
        ),
    ],
)
def test_versions_that_do_not_fit_together_are_refused(model: type, words: str) -> None:
    with pytest.raises(InvalidTypeError, match=words):
        custom_resource_definition(model)


async def _reconcile(request: Any, obj: Any, cluster: Any) -> None: ...


def test_an_operator_of_two_versions_has_one_definition() -> None:
    old = _version("v1beta1", storage=False)
    model = _version("v1", versions=[old])
    app = Operator("databases")
    app.reconcile("acme.io/v1beta1", "databases", model=old, name="old")(_reconcile)
    app.reconcile("acme.io/v1", "databases", model=model)(_reconcile)

    assert app.custom_resource_definitions() == [custom_resource_definition(model)]


def test_two_versions_of_which_none_names_the_other_are_refused() -> None:
    app = Operator("databases")
    app.reconcile("acme.io/v1", "databases", model=_version("v1"))(_reconcile)
    old = _version("v1beta1")
    app.reconcile("acme.io/v1beta1", "databases", model=old, name="old")(_reconcile)

    words = r"two versions of one resource: declare DatabaseV1 with versions=\[DatabaseV1BETA1\]"
    with pytest.raises(InvalidModelError, match=words):
        app.custom_resource_definitions()
