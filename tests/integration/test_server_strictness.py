"""What both servers refuse, drop or warn of: the embedded one accepts nothing more.

No client of ours stands between test and wire; each test passes on the real server, too.
"""

from __future__ import annotations

import base64
import copy
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.testing._polling import poll
from tests.integration.objects import unique
from tests.integration.test_server_writes import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Place,
    config_map,
    deployment,
    owners,
)
from tests.testing.wire import Wire, pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyinformer.apimachinery import JSONObject
    from tests.integration.servers import Server
    from tests.testing.wire import Answer

STRICT = "strict.example.com/v1"
_INTEGER: JSONObject = {"type": "integer"}
_STRING: JSONObject = {"type": "string"}
_SPEC: JSONObject = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "plain": _INTEGER,
        "nullable": {"type": "integer", "nullable": True},
        "given": {"type": "integer", "default": 3},
        "ratio": {"type": "number"},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
        "port": {"x-kubernetes-int-or-string": True},
        "words": {"type": "array", "maxItems": 2, "items": _STRING},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": _STRING},
        "nested": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"key": _STRING, "level": {"type": "integer", "default": 1}},
            },
        },
        "labels": {"type": "object", "additionalProperties": _STRING},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
_STATUS: JSONObject = {
    "type": "object",
    "properties": {"last": _STRING, "since": {"type": "string", "format": "date-time"}},
}
SCHEMA: JSONObject = {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}


@pytest.fixture
def place(server: Server) -> Iterator[Place]:
    context = ssl.create_default_context(cafile=str(server.api.ca_file))
    with Wire(server.api.url, token=server.token, context=context) as wire:
        yield Place(server, wire)


@pytest.fixture
def things(server: Server, place: Place) -> str:
    """The path of a collection whose kind has a schema."""
    server.api.register(STRICT, "Strict", "stricts", schema=SCHEMA)
    return place.path("stricts", api_version=STRICT)


def thing(name: str = "a", metadata: JSONObject | None = None, **body: Any) -> JSONObject:
    """Return an object with a schema."""
    return {
        "apiVersion": STRICT,
        "kind": "Strict",
        "metadata": {"name": name, **(metadata or {})},
        **body,
    }


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(group: str, kind: str, **version: Any) -> JSONObject:
    """Return a definition with the schema of this module."""
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": SCHEMA},
                    **version,
                }
            ],
        },
    }


def create_definition(place: Place, group: str, kind: str, **version: Any) -> str:
    """Create a definition, wait until it is served, and return the path of its objects."""
    body = definition(group, kind, **version)
    place.created(DEFINITIONS, body)
    path = place.path(body["spec"]["names"]["plural"], api_version=f"{group}/v1")
    assert poll(lambda: place.send("GET", path).status == 200, timeout_seconds=100)
    return path


def refused(answer: Answer, status: int) -> str:
    """Return the message of a refusal."""
    assert answer.status == status, answer.json
    assert answer.json["kind"] == "Status"
    return str(answer.json["message"])


def fields(answer: Answer) -> list[str]:
    """Return the fields that a 422 names."""
    assert answer.status == 422, answer.json
    found = {cause["field"] for cause in answer.json["details"]["causes"]}
    return sorted(found - {"<nil>"})  # a real server adds it for rules that it has not checked


class TestUndeclaredFields:
    """A field that the type of the object does not have."""

    @pytest.mark.parametrize(
        ("body", "path"),
        [
            ({"spec": {"size": 1, "sise": 2}}, ".spec.sise"),
            ({"specs": {"size": 1}}, ".specs"),
            ({"metadata": {"label": {"a": "b"}}}, ".metadata.label"),
            ({"spec": {"nested": [{"key": "a", "kay": "b"}]}}, ".spec.nested[0].kay"),
        ],
    )
    def test_an_apply_of_a_custom_resource_with_one_is_refused(
        self, place: Place, things: str, body: JSONObject, path: str
    ) -> None:
        answer = place.apply(f"{things}/a", thing(**body), "me")

        message = refused(answer, 500)
        assert message == (
            "failed to create typed patch object (/a; strict.example.com/v1, Kind=Strict):"
            f" {path}: field not declared in schema"
        )
        assert place.send("GET", f"{things}/a").status == 404

    @pytest.mark.parametrize(
        ("path", "change"),
        [
            (".spec.replica", {"spec": {"replica": 3}}),
            (".metadata.label", {"metadata": {"label": {"a": "b"}}}),
            (".statuz", {"statuz": {}}),
        ],
    )
    def test_an_apply_of_a_built_in_kind_with_one_is_refused(
        self, place: Place, path: str, change: JSONObject
    ) -> None:
        body = deployment("main")
        for part, added in change.items():
            body[part] = {**body.get(part, {}), **added}

        answer = place.apply(place.path("deployments", "a", "apps/v1"), body, "me")

        message = refused(answer, 500)
        assert message.endswith(
            f"(/a; apps/v1, Kind=Deployment): {path}: field not declared in schema"
        )

    def test_an_apply_names_the_container_with_one(self, place: Place) -> None:
        body = deployment("main", "side")
        body["spec"]["template"]["spec"]["containers"][1]["imag"] = "b"

        answer = place.apply(place.path("deployments", "a", "apps/v1"), body, "me")

        where = '.spec.template.spec.containers[name="side"].imag'
        assert refused(answer, 500).endswith(f"{where}: field not declared in schema")

    def test_an_apply_of_a_config_map_with_a_status_is_refused(self, place: Place) -> None:
        body = {**config_map({"a": "b"}), "status": {"ready": True}}

        answer = place.apply(place.path("configmaps", "a"), body, "me")

        assert ".status: field not declared in schema" in refused(answer, 500)

    def test_an_apply_with_values_of_other_types_is_refused(
        self, place: Place, things: str
    ) -> None:
        body = thing(spec={"size": "x", "labels": {"a": 1}, "words": {"a": "b"}})

        message = refused(place.apply(f"{things}/a", body, "me"), 500)

        assert ".spec.size: expected numeric (int or float), got string" in message
        assert ".spec.labels.a: expected string" in message
        assert ".spec.words: expected list" in message

    def test_a_write_drops_them_with_a_warning_each(self, place: Place, things: str) -> None:
        body = thing(spec={"size": 1, "nested": [{"kay": 1}]}, metadata={"label": "x"})

        answer = place.send("POST", things, body)

        assert answer.status == 201
        assert answer.json["spec"]["nested"] == [{"level": 1}]
        assert "label" not in answer.json["metadata"]
        assert 'unknown field \\"' in answer.headers["warning"]

    def test_a_write_of_a_built_in_kind_drops_them(self, place: Place) -> None:
        path = place.path("deployments", api_version="apps/v1")
        body = deployment("main", replicas=2, replica=3)

        created = place.send("POST", path, body)
        changed = place.patch(f"{path}/a", {"spec": {"replica": 4}}, MERGE)
        again = place.send("PUT", f"{path}/a", {**changed.json, "more": 1})

        assert created.headers["warning"] == '299 - "unknown field \\"spec.replica\\""'
        assert changed.headers["warning"] == '299 - "unknown field \\"spec.replica\\""'
        assert again.headers["warning"] == '299 - "unknown field \\"more\\""'
        assert "replica" not in created.json["spec"]
        assert changed.json["metadata"]["generation"] == 1
        assert (
            again.json["metadata"]["resourceVersion"]
            == (created.json["metadata"]["resourceVersion"])
        )

    def test_a_write_with_field_validation_strict_is_refused(
        self, place: Place, things: str
    ) -> None:
        custom = thing(spec={"size": 1, "sise": 1}, metadata={"label": "x"}, top=1)
        built_in = deployment("main", replica=3)

        one = place.send("POST", things, custom, fieldValidation="Strict")
        other = place.send(
            "POST", place.path("deployments", "", "apps/v1"), built_in, fieldValidation="Strict"
        )

        assert refused(one, 400).endswith(
            'strict decoding error: unknown field "metadata.label", unknown field "spec.sise",'
            ' unknown field "top"'
        )
        assert refused(other, 400) == (
            'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error:'
            ' unknown field "spec.replica"'
        )

    @pytest.mark.parametrize("kind", [MERGE, STRATEGIC, JSON_PATCH])
    def test_a_patch_with_field_validation_strict_is_refused(self, place: Place, kind: str) -> None:
        path = place.path("deployments", api_version="apps/v1")
        place.created(path, deployment("main"))
        patch: Any = {"spec": {"replica": 3}}
        if kind == JSON_PATCH:
            patch = [{"op": "add", "path": "/spec/replica", "value": 3}]

        answer = place.patch(f"{path}/a", patch, kind, fieldValidation="Strict")

        assert fields(answer) == ["patch"]
        assert 'unknown field "spec.replica"' in answer.json["message"]

    def test_they_are_ignored_on_request(self, place: Place, things: str) -> None:
        body = thing(spec={"size": 1, "sise": 1})

        answer = place.send("POST", things, body, fieldValidation="Ignore")

        assert answer.status == 201
        assert "warning" not in answer.headers
        assert fields(place.send("POST", things, body, fieldValidation="Loud")) == [
            "fieldValidation"
        ]


class TestTypes:
    """Values of another type than their field."""

    @pytest.mark.parametrize(
        ("metadata", "words"),
        [
            ({"labels": {"a": 1}}, "number into Go struct field ObjectMeta"),
            ({"labels": "x"}, "string into Go struct field ObjectMeta"),
            ({"annotations": {"a": True}}, "bool into Go struct field ObjectMeta"),
            ({"finalizers": "x"}, "string into Go struct field ObjectMeta"),
            ({"finalizers": ["a/b", 1]}, "number into Go struct field ObjectMeta"),
            ({"ownerReferences": {}}, "object into Go struct field ObjectMeta"),
            ({"ownerReferences": [{"uid": 5}]}, "number into Go struct field OwnerReference"),
            ({"generation": "1"}, "string into Go struct field ObjectMeta"),
            ({"creationTimestamp": "yesterday"}, 'parsing time "yesterday"'),
            ({"resourceVersion": 5}, "number into Go struct field ObjectMeta"),
            ({"name": 5}, "number into Go struct field ObjectMeta"),
            ({"namespace": 5}, "number into Go struct field ObjectMeta"),
        ],
    )
    def test_metadata_of_another_type_is_refused(
        self, place: Place, things: str, metadata: JSONObject, words: str
    ) -> None:
        built_in = config_map({}, **metadata) if "name" not in metadata else config_map({}, name=5)  # type: ignore[arg-type]

        for path, body in (
            (things, thing(metadata=metadata, spec={"size": 1})),
            (place.path("configmaps"), built_in),
        ):
            assert words in refused(place.send("POST", path, body), 400)

    @pytest.mark.parametrize(
        ("spec", "words"),
        [
            (
                {"replicas": "3"},
                "string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            ({"replicas": 2.0}, "number 2.0 into Go struct field DeploymentSpec.spec.replicas"),
            ({"replicas": 2**31}, "number 2147483648 into Go struct field DeploymentSpec"),
            (
                {"paused": "yes"},
                "string into Go struct field DeploymentSpec.spec.paused of type bool",
            ),
            ({"template": "x"}, "field DeploymentSpec.spec.template of type v1.PodTemplateSpec"),
            (
                {"template": {"spec": {"containers": {"name": "a"}}}},
                "object into Go struct field PodSpec.spec.template.spec.containers of type []v1.",
            ),
        ],
    )
    def test_a_built_in_field_of_another_type_is_refused(
        self, place: Place, spec: JSONObject, words: str
    ) -> None:
        path = place.path("deployments", api_version="apps/v1")

        assert words in refused(place.send("POST", path, deployment("main", **spec)), 400)

    def test_a_secret_that_is_not_in_base64_is_refused(self, place: Place) -> None:
        path = place.path("secrets")
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}

        plain = place.send("POST", path, {**body, "data": {"password": "s3cret!"}})
        encoded = base64.b64encode(b"s3cret!").decode()

        assert "illegal base64 data at input byte" in refused(plain, 400)
        assert place.created(path, {**body, "data": {"password": encoded}})

    def test_a_quantity_must_be_one(self, place: Place) -> None:
        body = deployment("main")
        container = body["spec"]["template"]["spec"]["containers"][0]
        container["resources"] = {"limits": {"memory": "much"}}

        answer = place.send("POST", place.path("deployments", "", "apps/v1"), body)

        assert "quantities must match the regular expression" in refused(answer, 400)

    def test_times_are_stored_as_go_writes_them(self, place: Place) -> None:
        path = place.path("leases", api_version="coordination.k8s.io/v1")
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
        condition = {"type": "Ready", "status": "True"}
        condition["lastTransitionTime"] = "2026-01-02T03:04:05.75+01:00"
        place.created(place.path("pods"), pod())

        short = place.send("POST", path, {**lease, "spec": {"renewTime": "2026-01-02T03:04:05Z"}})
        renewed = {"renewTime": "2026-01-02T03:04:05.500000+01:00"}
        exact = place.created(path, {**lease, "spec": renewed})
        status = {"status": {"conditions": [condition]}}
        ready = place.patched(place.path("pods", "a/status"), status)

        assert 'as "2006-01-02T15:04:05.000000Z07:00"' in refused(short, 400)
        assert exact["spec"] == {"renewTime": "2026-01-02T02:04:05.500000Z"}
        assert ready["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-02T02:04:05Z"

    @pytest.mark.parametrize(
        ("spec", "found"),
        [
            ({}, ["spec.size"]),
            ({"size": "1"}, ["spec.size"]),
            ({"size": 1.5}, ["spec.size"]),
            ({"size": 0}, ["spec.size"]),
            ({"size": 10}, ["spec.size"]),
            ({"size": 1, "mode": "odd"}, ["spec.mode"]),
            ({"size": 1, "name": "a"}, ["spec.name"]),
            ({"size": 1, "name": "abcde"}, ["spec.name"]),
            ({"size": 1, "name": "A9"}, ["spec.name"]),
            ({"size": 1, "port": True}, ["spec.port"]),
            ({"size": 1, "words": ["a", "b", "c"]}, ["spec.words"]),
            ({"size": 1, "words": [1]}, ["spec.words[0]"]),
            ({"size": 1, "tags": ["a", "a"]}, ["spec.tags[1]"]),
            ({"size": 1, "labels": {"a": 1}}, ["spec.labels.a"]),
            ({"size": 1, "nested": [{"key": 1}]}, ["spec.nested[0].key"]),
        ],
    )
    def test_a_custom_resource_must_fit_its_schema(
        self, place: Place, things: str, spec: JSONObject, found: list[str]
    ) -> None:
        assert fields(place.send("POST", things, thing(spec=spec))) == found

    def test_a_custom_resource_that_fits_is_accepted(self, place: Place, things: str) -> None:
        spec = {"size": 9, "name": "abcd", "mode": "fast", "port": "http", "free": {"any": [1]}}
        status = {"since": "2026-01-02T03:04:05Z"}

        created = place.created(things, thing(spec=spec, status=status))

        assert created["spec"] == {**spec, "given": 3}
        assert fields(place.patch(f"{things}/a", {"status": {"since": "noon"}})) == ["status.since"]

    def test_whole_numbers_lose_their_fraction(self, place: Place, things: str) -> None:
        spec = {"size": 2.0, "ratio": 2.0, "free": {"a": [2.0, 2.5]}}

        created = place.send("POST", things, thing(spec=spec))

        assert b"2.0" not in created.body
        assert created.json["spec"] == {"size": 2, "ratio": 2, "free": {"a": [2, 2.5]}, "given": 3}


class TestNulls:
    """Nulls in the bodies of writes."""

    def test_a_create_keeps_those_that_the_schema_allows(self, place: Place, things: str) -> None:
        spec = {"size": 1, "plain": None, "nullable": None, "given": None}

        created = place.created(things, thing(spec=spec))

        assert created["spec"] == {"size": 1, "nullable": None, "given": 3}
        owned = owners(created)["wire", "Update", ""]["f:spec"]
        assert set(owned) == {".", "f:size", "f:nullable", "f:given"}

    def test_an_apply_with_one_that_the_schema_forbids_is_refused(
        self, place: Place, things: str
    ) -> None:
        refusal = place.apply(f"{things}/a", thing(spec={"size": 1, "plain": None}), "me")
        applied = place.applied(f"{things}/a", thing(spec={"size": 1, "nullable": None}), "me")

        assert fields(refusal) == ["spec.plain"]
        assert applied["spec"] == {"size": 1, "nullable": None, "given": 3}
        assert set(owners(applied)["me", "Apply", ""]["f:spec"]) == {"f:size", "f:nullable"}

    def test_those_of_a_built_in_kind_are_as_if_absent(self, place: Place) -> None:
        body = deployment("main", replicas=None, strategy=None)
        path = place.path("configmaps")

        created = place.created(place.path("deployments", "", "apps/v1"), body)
        data = place.created(path, config_map({"a": None}))

        assert created["spec"].get("replicas", 1) == 1
        assert data["data"] == {"a": ""}


TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
_COLUMNS = {
    "Last": ("date", ".status.last"),
    "Size": ("string", ".spec.size"),
    "Labels": ("string", ".spec.labels"),
    "Words": ("string", ".spec.words"),
    "Ratio": ("string", ".spec.ratio"),
    "Free": ("string", ".spec.free.a"),
    "Nothing": ("string", ".spec.nullable"),
    "Number": ("integer", ".spec.name"),
    "Whole": ("integer", ".spec.ratio"),
    "Flag": ("boolean", ".spec.name"),
}


class TestTables:
    """The cells of a custom resource, as the server formats them."""

    @pytest.fixture
    def path(self, place: Place) -> str:
        group = f"{unique('tables')}.example.com"
        columns = [
            {"name": name, "type": kind, "jsonPath": path}
            for name, (kind, path) in _COLUMNS.items()
        ]
        return create_definition(place, group, "Row", additionalPrinterColumns=columns)

    @pytest.mark.parametrize(
        ("body", "cells"),
        [
            (
                {
                    "spec": {
                        "size": 7,
                        "labels": {"b": "<x>", "a": "y"},
                        "words": ["v"],
                        "ratio": 2.5,
                        "free": {"a": True},
                        "nullable": None,
                        "name": "ab",
                    },
                    "status": {"last": "never"},
                },
                {
                    "Last": "<invalid>",
                    "Size": "7",
                    "Labels": '{"a":"y","b":"\\u003cx\\u003e"}',
                    "Words": '["v"]',
                    "Ratio": "2.5",
                    "Free": "true",
                    "Nothing": "<no value>",
                    "Number": None,
                    "Whole": 2,
                    "Flag": None,
                },
            ),
            (
                {"spec": {"size": 1, "ratio": 100000000.5}, "status": {"last": ""}},
                {"Last": "<unknown>", "Ratio": "1.000000005e+08", "Words": None},
            ),
            (
                {"spec": {"size": 1, "ratio": 1e-7}, "status": {"last": "2026-01-02T03:04:05"}},
                {"Last": "<invalid>", "Ratio": "1e-07"},
            ),
            ({"spec": {"size": 1, "free": {"a": [1e6]}}}, {"Last": None, "Free": "[1000000]"}),
        ],
        ids=["values", "empty-date", "date-without-zone", "no-date"],
    )
    def test_a_cell_is_what_go_prints(
        self, place: Place, path: str, body: JSONObject, cells: JSONObject
    ) -> None:
        api_version = "/".join(path.split("/")[2:4])
        metadata = {"name": "a"}
        place.created(
            path, {"apiVersion": api_version, "kind": "Row", "metadata": metadata, **body}
        )

        answer = place.send("GET", f"{path}/a", headers={"Accept": TABLE})

        names = [column["name"] for column in answer.json["columnDefinitions"]]
        row = dict(zip(names, answer.json["rows"][0]["cells"], strict=True))
        assert {name: row[name] for name in cells} == cells


def _without(part: str) -> Callable[[JSONObject], object]:
    return lambda version: version["schema"]["openAPIV3Schema"]["properties"]["spec"].pop(part)


def _with_field(**schema: Any) -> Callable[[JSONObject], object]:
    def edit(version: JSONObject) -> None:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"]["field"] = schema

    return edit


_FIELD = "spec.validation.openAPIV3Schema.properties[spec].properties[field]"


class TestDefinitions:
    """CustomResourceDefinitions: their deletion, their versions, and what they may not have."""

    def test_a_deleted_one_waits_for_the_finalizers_of_its_objects(self, place: Place) -> None:
        group = f"{unique('ends')}.example.com"
        path = create_definition(place, group, "End")
        crd = f"{DEFINITIONS}/ends.{group}"
        body = {"apiVersion": f"{group}/v1", "kind": "End", "spec": {"size": 1}}
        held = {"name": "held", "finalizers": ["example.com/clean"]}
        place.created(path, {**body, "metadata": held})
        place.created(path, {**body, "metadata": {"name": "free"}})

        deleted = place.send("DELETE", crd)

        assert deleted.status == 200
        assert deleted.json["metadata"]["finalizers"] == [
            "customresourcecleanup.apiextensions.k8s.io"
        ]
        assert poll(lambda: place.send("GET", f"{path}/free").status == 404, timeout_seconds=100)
        assert place.get(f"{path}/held")["metadata"]["deletionTimestamp"]
        terminating = {one["type"]: one["reason"] for one in place.get(crd)["status"]["conditions"]}
        assert terminating["Terminating"] == "InstanceDeletionInProgress"
        new = {**body, "metadata": {"name": "new"}}
        assert "custom resource definition is terminating" in refused(
            place.send("POST", path, new), 403
        )
        assert "custom resource definition is terminating" in refused(
            place.apply(f"{path}/new", new, "me"), 403
        )
        assert refused(place.send("POST", DEFINITIONS, definition(group, "End")), 409).startswith(
            "object is being deleted: "
        )

        place.patched(f"{path}/held", {"metadata": {"finalizers": None}})

        assert poll(lambda: place.send("GET", crd).status == 404, timeout_seconds=100)
        assert poll(lambda: place.send("GET", path).status == 404, timeout_seconds=100)

    def test_one_without_objects_ends_at_once(self, place: Place) -> None:
        group = f"{unique('empties')}.example.com"
        path = create_definition(place, group, "Empty")
        crd = f"{DEFINITIONS}/emptys.{group}"

        assert place.send("DELETE", crd).status == 200

        assert poll(lambda: place.send("GET", crd).status == 404, timeout_seconds=100)
        assert poll(lambda: place.send("GET", path).status == 404, timeout_seconds=100)

    def test_a_version_that_was_stored_stays_until_its_name_is_removed(self, place: Place) -> None:
        group = f"{unique('stores')}.example.com"
        body = definition(group, "Store")
        first = body["spec"]["versions"][0]
        body["spec"]["versions"].append({**first, "name": "v2", "storage": False})
        place.created(DEFINITIONS, body)
        crd = f"{DEFINITIONS}/stores.{group}"
        assert poll(lambda: "conditions" in place.get(crd).get("status", {}), timeout_seconds=100)
        moved = [{**first, "storage": False}, {**first, "name": "v2", "storage": True}]

        both = place.patched(crd, {"spec": {"versions": moved}})
        refusal = place.patch(crd, {"spec": {"versions": moved[1:]}})
        status = place.patched(f"{crd}/status", {"status": {"storedVersions": ["v2"]}})
        alone = place.patched(crd, {"spec": {"versions": moved[1:]}})

        assert both["status"]["storedVersions"] == ["v1", "v2"]
        assert fields(refusal) == ["status.storedVersions[0]"]
        assert status["status"]["storedVersions"] == ["v2"]
        assert alone["status"]["storedVersions"] == ["v2"]
        gone = place.path("stores", api_version=f"{group}/v1")
        assert poll(lambda: place.send("GET", gone).status == 404, timeout_seconds=100)

    def test_names_and_conversion_are_completed(self, place: Place) -> None:
        group = f"{unique('names')}.example.com"

        created = place.created(DEFINITIONS, definition(group, "Name"))

        assert created["spec"]["conversion"] == {"strategy": "None"}
        assert created["spec"]["names"] == {
            "kind": "Name",
            "listKind": "NameList",
            "plural": "names",
            "singular": "name",
        }

    @pytest.mark.parametrize(
        ("edit", "path"),
        [
            (lambda v: v.pop("schema"), "spec.versions[0].schema.openAPIV3Schema"),
            (lambda v: v.update(storage=False), "spec.versions"),
            (_without("type"), "spec.validation.openAPIV3Schema.properties[spec].type"),
            (_with_field(), f"{_FIELD}.type"),
            (_with_field(type="array"), f"{_FIELD}.items"),
            (_with_field(type="integer", default="x"), f"{_FIELD}.default"),
            (
                _with_field(
                    type="object",
                    default={"mode": None},
                    properties={"mode": {"type": "string"}},
                ),
                f"{_FIELD}.default.mode",
            ),
            (_with_field(type="string", pattern="^(?!kube-).*$"), f"{_FIELD}.pattern"),
            (
                _with_field(
                    **{
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "properties": {"name": _STRING}},
                    }
                ),
                f"{_FIELD}.items.properties[name].default",
            ),
            (
                lambda v: v.update(
                    additionalPrinterColumns=[{"name": "a", "type": "text", "jsonPath": ".a"}]
                ),
                "spec.additionalPrinterColumns[0].type",
            ),
        ],
        ids=[
            "no-schema",
            "no-storage",
            "no-type",
            "empty-field",
            "no-items",
            "default-type",
            "default-null",
            "look-ahead",
            "list-keys",
            "column-type",
        ],
    )
    def test_what_a_schema_may_not_have_is_refused(
        self, place: Place, edit: Callable[[JSONObject], object], path: str
    ) -> None:
        body = copy.deepcopy(definition(f"{unique('bad')}.example.com", "Bad"))
        edit(body["spec"]["versions"][0])

        assert path in fields(place.send("POST", DEFINITIONS, body))

    @pytest.mark.parametrize(
        ("edit", "path"),
        [
            (lambda crd: crd["metadata"].update(name="other"), "metadata.name"),
            (lambda crd: crd["spec"].pop("scope"), "spec.scope"),
            (lambda crd: crd["spec"]["names"].pop("kind"), "spec.names.kind"),
            (lambda crd: crd["spec"].update(group="nodots"), "spec.group"),
            (lambda crd: crd["spec"]["names"].update(plural="Bads"), "spec.names.plural"),
        ],
    )
    def test_one_without_its_names_is_refused(
        self, place: Place, edit: Callable[[JSONObject], object], path: str
    ) -> None:
        body = copy.deepcopy(definition(f"{unique('bad')}.example.com", "Bad"))
        edit(body)

        assert path in fields(place.send("POST", DEFINITIONS, body))
