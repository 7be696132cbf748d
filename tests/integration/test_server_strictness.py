"""What both servers refuse, drop or warn of: the embedded one accepts nothing more.

No client of ours stands between test and wire; each test passes on the real server, too.
"""

from __future__ import annotations

import base64
import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.objects import unique
from tests.integration.places import APPLY, JSON_PATCH, MERGE, STRATEGIC, Place
from tests.integration.test_server_writes import config_map, deployment, owners
from tests.testing.wire import pod
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.objects import JSONObject
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
        "least": {"type": "number", "minimum": 0.5},
        "less": {"type": "number", "maximum": 2.5, "exclusiveMaximum": True},
        "vast": {"type": "number", "maximum": 1e300},
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
            ({"size": 1, "least": 0.4}, ["spec.least"]),
            ({"size": 1, "less": 2.5}, ["spec.less"]),
            ({"size": 1, "less": 2}, ["spec.less"]),  # Go cuts the bound of an integer
            ({"size": 1, "vast": 0}, ["spec.vast"]),
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

    def test_the_bounds_of_a_whole_number_are_cut(self, place: Place, things: str) -> None:
        spec = {"size": 1, "least": 0, "less": 2.4, "vast": 0.5}

        created = place.created(things, thing(spec=spec))

        assert created["spec"] == {**spec, "given": 3}

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


_VERBS_AT_THE_END = ["delete", "deletecollection", "get", "list", "watch"]


def _verbs(place: Place, group: str) -> list[str]:
    """Return the verbs that discovery names for the only kind of a group."""
    (kind,) = place.get(f"/apis/{group}/v1")["resources"]
    found: list[str] = kind["verbs"]
    return found


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
        # The real server deletes them side by side, in any order.
        assert poll(
            lambda: "deletionTimestamp" in place.get(f"{path}/held")["metadata"],
            timeout_seconds=100,
        )
        terminating = {one["type"]: one["reason"] for one in place.get(crd)["status"]["conditions"]}
        assert terminating["Terminating"] == "InstanceDeletionInProgress"
        assert poll(lambda: _verbs(place, group) == _VERBS_AT_THE_END, timeout_seconds=100)
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
                _with_field(type="array", uniqueItems=True, items=_STRING),
                f"{_FIELD}.uniqueItems",
            ),
            (
                _with_field(**{"type": "object", "x-kubernetes-embedded-resource": True}),
                f"{_FIELD}.properties",
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
            "unique-items",
            "embedded-without-fields",
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


class TestNames:
    """Names and labels, which programs derive from names of other objects."""

    @pytest.mark.parametrize(
        "name", ["A", "a_b", "-a", "a-", "a b", "a" * 254, "é"], ids=lambda name: name[:4]
    )
    def test_a_malformed_name_is_refused(self, place: Place, things: str, name: str) -> None:
        built_in = place.send("POST", place.path("configmaps"), config_map({}, name=name))
        custom = place.send("POST", things, thing(name, spec={"size": 1}))

        assert fields(built_in) == ["metadata.name"]
        assert fields(custom) == ["metadata.name"]

    def test_some_kinds_have_shorter_names(self, place: Place) -> None:
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a.b"}}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a" * 64}}
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "a/b"},
        }
        roles = place.path("roles", api_version="rbac.authorization.k8s.io/v1")

        assert "metadata.name" in fields(place.send("POST", place.path("services"), service))
        assert "metadata.name" in fields(place.send("POST", "/api/v1/namespaces", namespace))
        assert "metadata.name" in fields(place.send("POST", roles, role))
        assert place.created(roles, {**role, "metadata": {"name": "System:Any_thing"}})

    def test_a_generated_name_is_cut_to_63_characters(self, place: Place) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a" * 99}}

        created = place.created(place.path("configmaps"), body)

        assert len(created["metadata"]["name"]) == 63
        assert created["metadata"]["generateName"] == "a" * 99

    @pytest.mark.parametrize(
        "metadata",
        [
            {"labels": {"a b": "x"}},
            {"labels": {"a": "x y"}},
            {"labels": {"a": "x" * 64}},
            {"labels": {"a/b/c": "x"}},
            {"labels": {"/a": "x"}},
            {"labels": {"A.b/c": "x"}},
            {"labels": {"": "x"}},
            {"annotations": {"a b": "x"}},
        ],
    )
    def test_malformed_labels_and_annotations_are_refused(
        self, place: Place, things: str, metadata: JSONObject
    ) -> None:
        path = f"metadata.{next(iter(metadata))}"
        place.created(things, thing("b", spec={"size": 1}))

        for answer in (
            place.send("POST", place.path("configmaps"), config_map({}, **metadata)),
            place.send("POST", things, thing(spec={"size": 1}, metadata=metadata)),
            place.patch(f"{things}/b", {"metadata": metadata}),
        ):
            assert set(fields(answer)) == {path}


class TestSizes:
    """Limits of what can be stored."""

    def test_annotations_have_256_kib(self, place: Place, things: str) -> None:
        for path, body in (
            (place.path("configmaps"), config_map({}, annotations={"a": "x" * 262_144})),
            (things, thing(spec={"size": 1}, metadata={"annotations": {"a": "x" * 262_144}})),
        ):
            assert fields(place.send("POST", path, body)) == ["metadata.annotations"]
            body["metadata"]["annotations"] = {"a": "x" * 262_143}
            place.created(path, body)

    def test_the_data_of_config_maps_and_secrets_has_1_mib(self, place: Place) -> None:
        path = place.path("configmaps")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
        text = "x" * (1 << 20)

        assert place.created(path, config_map({"a": text}))
        assert fields(place.send("POST", path, config_map({"a": f"{text}y"}, name="b"))) == ["[]"]
        assert fields(place.patch(f"{path}/a", {"data": {"b": "y"}})) == ["[]"]
        large = place.send(
            "POST", place.path("secrets"), {**secret, "stringData": {"a": f"{text}y"}}
        )
        assert fields(large) == ["data"]

    def test_a_body_has_3_mib(self, place: Place) -> None:
        answer = place.send("POST", place.path("configmaps"), config_map({"a": "x" * (3 << 20)}))

        assert refused(answer, 413) == "Request entity too large: limit is 3145728"

    def test_an_object_must_fit_into_a_request_of_etcd(self, place: Place, things: str) -> None:
        fits = thing("a", spec={"size": 1, "free": {"a": "x" * 1_500_000}})
        large = thing("b", spec={"size": 1, "free": {"a": "x" * 1_600_000}})

        assert place.created(things, fits)
        assert refused(place.send("POST", things, large), 500) == (
            "etcdserver: request is too large"
        )


class TestServersMetadata:
    """Metadata that the server owns."""

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: should reject changes to deletionTimestamp on Update"
    )
    @pytest.mark.parametrize("kind", [MERGE, APPLY])
    def test_a_client_cannot_begin_a_deletion(self, place: Place, kind: str) -> None:
        path = place.path("configmaps")
        place.created(path, config_map({"a": "b"}))
        body = {"apiVersion": "v1", "kind": "ConfigMap"}
        options = {"fieldManager": "me"} if kind == APPLY else {}
        metadata = {"name": "a", "deletionTimestamp": "2026-01-02T03:04:05Z"}

        answer = place.patch(f"{path}/a", {**body, "metadata": metadata}, kind, **options)

        assert fields(answer) == ["metadata.deletionTimestamp"]

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: should reject changes to deletionTimestamp on Update"
    )
    def test_a_deletion_keeps_its_time_and_its_grace_period(self, place: Place) -> None:
        path = place.path("configmaps")
        place.created(path, config_map({"a": "b"}, finalizers=["example.com/clean"]))
        place.send("DELETE", f"{path}/a")
        since = place.get(f"{path}/a")["metadata"]["deletionTimestamp"]

        gone = place.patched(f"{path}/a", {"metadata": {"deletionTimestamp": None}})
        other = place.patched(
            f"{path}/a", {"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}}
        )
        grace = place.patch(f"{path}/a", {"metadata": {"deletionGracePeriodSeconds": 5}})

        assert gone["metadata"]["deletionTimestamp"] == since
        assert other["metadata"]["deletionTimestamp"] == since
        assert fields(grace) == ["metadata.deletionGracePeriodSeconds"]

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: supports server-side apply of a client-go resource"
    )
    @pytest.mark.parametrize("reset", [[], [{}]])
    def test_a_client_may_remove_the_owners_of_all_fields(
        self, place: Place, reset: list[JSONObject]
    ) -> None:
        path = place.path("configmaps")
        place.created(path, config_map({"a": "1"}))

        without = place.patched(f"{path}/a", {"metadata": {"managedFields": reset}})
        changed = place.patched(f"{path}/a", {"data": {"a": "2"}})
        applied = place.applied(f"{path}/a", config_map({"a": "2"}), "me")
        conflict = place.apply(f"{path}/a", config_map({"a": "3"}), "me")

        assert not owners(without)
        assert not owners(changed)
        assert owners(applied) == {
            ("me", "Apply", ""): {"f:data": {"f:a": {}}},
            ("before-first-apply", "Update", ""): {"f:data": {".": {}, "f:a": {}}},
        }
        assert 'conflict with "before-first-apply" using v1: .data.a' in refused(conflict, 409)

    def test_a_client_may_move_fields_to_another_owner(self, place: Place) -> None:
        path = place.path("configmaps")
        created = place.created(path, config_map({"a": "1", "b": "2"}), fieldManager="old")
        entry = {**created["metadata"]["managedFields"][0], "manager": "new", "operation": "Apply"}
        version = created["metadata"]["resourceVersion"]
        operations = [
            {"op": "replace", "path": "/metadata/managedFields", "value": [entry]},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ]

        moved = place.patched(f"{path}/a", operations, JSON_PATCH)
        applied = place.applied(f"{path}/a", config_map({"a": "9"}), "new")

        assert owners(moved) == {("new", "Apply", ""): entry["fieldsV1"]}
        assert applied["data"] == {"a": "9"}

    def test_an_apply_of_empty_labels_changes_nothing_later(self, place: Place) -> None:
        path, body = place.path("configmaps", "a"), config_map({"a": "1"}, labels={})
        entry = place.applied(path, body, "me")["metadata"]["managedFields"][0]
        earlier = [{**entry, "time": "2026-01-02T03:04:05Z"}]
        patched = place.patched(path, {"metadata": {"managedFields": earlier}})

        again = place.applied(path, body, "me")

        version = patched["metadata"]["resourceVersion"]
        assert again["metadata"]["resourceVersion"] == version

    def test_owners_that_cannot_be_read_are_ignored(self, place: Place) -> None:
        path = place.path("configmaps")
        created = place.created(path, config_map({"a": "1"}))
        entry = created["metadata"]["managedFields"][0]

        for change in ({"operation": "Odd"}, {"apiVersion": ""}, {"fieldsType": "FieldsV9"}):
            entries = [{**entry, **change, "manager": "me"}]
            patched = place.patched(f"{path}/a", {"metadata": {"managedFields": entries}})
            assert owners(patched) == owners(created)
        long = place.patch(
            f"{path}/a", {"metadata": {"managedFields": [{**entry, "manager": "x" * 129}]}}
        )
        assert fields(long) == ["metadata.managedFields[0].manager"]

    def test_kubectl_takes_over_from_client_side_apply(self, place: Place) -> None:
        path = place.path("configmaps")
        last = json.dumps(config_map({"a": "1", "b": "2"}))
        key = "kubectl.kubernetes.io/last-applied-configuration"
        body = config_map({"a": "1", "b": "2"}, annotations={key: last})
        place.created(path, body, fieldManager="kubectl-client-side-apply")

        other = place.apply(f"{path}/a", config_map({"a": "9"}), "other")
        kubectl = place.applied(f"{path}/a", config_map({"a": "9"}), "kubectl")
        place.patched(f"{path}/a", {"data": {"b": "edited"}}, fieldManager="editor")
        conflict = place.apply(f"{path}/a", config_map({"a": "9", "b": "3"}), "kubectl")

        assert 'conflict with "kubectl-client-side-apply"' in refused(other, 409)
        assert owners(kubectl)["kubectl", "Apply", ""] == {"f:data": {"f:a": {}}}
        assert json.loads(kubectl["metadata"]["annotations"][key]) == config_map({"a": "9"})
        assert 'conflict with "editor" using v1: .data.b' in refused(conflict, 409)


class TestScales:
    """The scale of a custom resource without its number of replicas."""

    @pytest.fixture
    def path(self, place: Place) -> str:
        scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
        schema = {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"size": _INTEGER}}},
        }
        path = create_definition(
            place,
            f"{unique('scales')}.example.com",
            "Scaled",
            subresources={"scale": scale},
            schema={"openAPIV3Schema": schema},
        )
        api_version = "/".join(path.split("/")[2:4])
        body = {"apiVersion": api_version, "kind": "Scaled", "metadata": {"name": "a"}, "spec": {}}
        place.created(path, body)
        return f"{path}/a"

    def test_it_can_be_set_but_not_read(self, place: Place, path: str) -> None:
        assert "does not exist" in refused(place.send("GET", f"{path}/scale"), 500)
        empty = place.patch(f"{path}/scale", {"spec": {}})
        assert refused(empty, 400) == 'the spec replicas field ".spec.size" cannot be empty'

        patched = place.patched(f"{path}/scale", {"spec": {"replicas": 3}})

        assert patched["spec"] == {"replicas": 3}
        assert place.get(path)["spec"] == {"size": 3}

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: supports server-side apply of a client-go resource"
    )
    def test_it_is_never_applied(self, place: Place, path: str) -> None:
        body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}

        answer = place.apply(f"{path}/scale", {**body, "spec": {"replicas": 3}}, "me")

        assert "request to convert CR to an invalid group/version" in refused(answer, 500)

    def test_its_number_must_be_one(self, place: Place, path: str) -> None:
        place.patched(f"{path}/scale", {"spec": {"replicas": 3}})

        text = place.patch(f"{path}/scale", {"spec": {"replicas": "4"}})
        odd = place.patch(f"{path}/scale", {"spec": {"replica": 4}})

        assert fields(text) == ["patch"]
        assert odd.headers["warning"] == '299 - "unknown field \\"spec.replica\\""'
        assert place.get(path)["spec"] == {"size": 3}


class TestEmptyBodies:
    """Writes whose body is missing, or of another kind."""

    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("pods/a/eviction", "Eviction"),
            ("pods/a/binding", "Binding"),
            ("configmaps", "ConfigMap"),
        ],
    )
    def test_a_create_without_a_body_is_refused(self, place: Place, path: str, kind: str) -> None:
        place.created(place.path("pods"), pod())

        answer = place.send("POST", place.path(path), b"")

        assert f"must be of type {kind}" in refused(answer, 400)
        assert place.get(place.path("pods", "a"))

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: should error when creating an eviction with the wrong"
    )
    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"metadata": {"name": "b"}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
            {"metadata": {"name": "a", "namespace": "other"}},
        ],
    )
    def test_an_eviction_must_be_of_its_pod(self, place: Place, body: JSONObject) -> None:
        place.created(place.path("pods"), pod())

        refused(place.send("POST", place.path("pods", "a/eviction"), body), 400)

        assert "deletionTimestamp" not in place.get(place.path("pods", "a"))["metadata"]

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: should error when creating an eviction with the wrong"
    )
    @pytest.mark.parametrize(
        "body",
        [
            {"apiVersion": "v1", "kind": "Pod"},
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"},
            {"metadata": {"name": "a", "namespace": "other"}},
        ],
    )
    def test_a_token_is_of_its_kind_and_its_account(self, place: Place, body: JSONObject) -> None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
        place.created(place.path("serviceaccounts"), account)

        refused(place.send("POST", place.path("serviceaccounts", "a/token"), body), 400)

    def test_a_null_is_an_empty_object(self, place: Place) -> None:
        path = place.path("configmaps")
        place.created(path, config_map({}))

        assert fields(place.send("POST", path, b"null")) == ["metadata.name"]
        refused(place.send("PUT", f"{path}/a", b"null"), 400)
        assert place.send("DELETE", f"{path}/a", b"null").status == 200

    def test_a_deletion_needs_options_of_their_kind(self, place: Place) -> None:
        path = place.path("configmaps")
        place.created(path, config_map({}))

        for body in ({"apiVersion": "v1", "kind": "Pod"}, {"gracePeriodSeconds": "x"}):
            refused(place.send("DELETE", f"{path}/a", body), 400)

        assert place.get(f"{path}/a")
