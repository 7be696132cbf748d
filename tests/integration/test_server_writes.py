"""What a server does with writes: patches, server-side apply, finalizers, status, generations.

No client of ours stands between test and wire, so that each test says what both servers answer:
what the embedded one claims, the real one confirms here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.objects import unique
from tests.integration.places import APPLY, JSON_PATCH, MERGE, STRATEGIC, Place

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

CUSTOM = "writes.example.com/v1"
_STRING = {"type": "string"}
_CONDITION = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": _STRING, "status": _STRING},
}
_STATUS = {
    "type": "object",
    "properties": {
        "phase": _STRING,
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": _CONDITION,
        },
    },
}
_SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "options": {"type": "object", "additionalProperties": _STRING},
        "whole": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "additionalProperties": _STRING,
        },
        "plain": {"type": "array", "items": _STRING},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": _STRING},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": _STRING, "value": {"type": "integer"}},
            },
        },
    },
}
_SCHEMA: JSONObject = {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}


def config_map(data: JSONObject, name: str = "a", **metadata: Any) -> JSONObject:
    """Return a config map."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data,
    }


def deployment(*containers: str, **spec: Any) -> JSONObject:
    """Return a deployment of containers with these names."""
    listed = [{"name": name, "image": "example.com/app:1"} for name in containers]
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": listed}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template, **spec},
    }


def custom(kind: str, spec: JSONObject, name: str = "a", **body: Any) -> JSONObject:
    """Return a custom resource."""
    return {
        "apiVersion": CUSTOM,
        "kind": kind,
        "metadata": {"name": name, **body.pop("metadata", {})},
        "spec": spec,
        **body,
    }


def serve_custom(server: Server) -> None:
    """Serve a kind with a status of its own and a schema, and one with neither."""
    server.api.register(CUSTOM, "Shaped", "shapeds", has_status=True, schema=_SCHEMA)
    server.api.register(CUSTOM, "Bare", "bares")


def owners(obj: JSONObject) -> dict[tuple[str, str, str], JSONObject]:
    """Return what each manager owns, by name, operation and subresource."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", ())
    }


def names_of_containers(obj: JSONObject) -> list[str]:
    """Return the names of a deployment's containers, in order."""
    return [one["name"] for one in obj["spec"]["template"]["spec"]["containers"]]


class TestJSONPatch:
    """`application/json-patch+json`."""

    @pytest.fixture
    def path(self, place: Place) -> str:
        path = place.path("configmaps", "a")
        body = config_map({"x": "1", "y": "2"}, labels={"a/b": "c"}, finalizers=["e.x/a", "e.x/b"])
        place.created(place.path("configmaps"), body)
        return path

    def test_operations_are_carried_out_in_order(self, place: Place, path: str) -> None:
        operations = [
            {"op": "test", "path": "/data/x", "value": "1"},
            {"op": "add", "path": "/data/new", "value": "3"},
            {"op": "copy", "from": "/data/new", "path": "/data/copied"},
            {"op": "move", "from": "/data/new", "path": "/data/moved"},
            {"op": "replace", "path": "/metadata/labels/a~1b", "value": "d"},
            {"op": "remove", "path": "/data/y"},
            {"op": "add", "path": "/metadata/finalizers/-", "value": "e.x/c"},
            {"op": "add", "path": "/metadata/finalizers/0", "value": "e.x/0"},
            {"op": "remove", "path": "/metadata/finalizers/1"},
        ]
        patched = place.patched(path, operations, JSON_PATCH)
        assert patched["data"] == {"x": "1", "copied": "3", "moved": "3"}
        assert patched["metadata"]["labels"] == {"a/b": "d"}
        assert patched["metadata"]["finalizers"] == ["e.x/0", "e.x/b", "e.x/c"]

    @pytest.mark.parametrize(
        "operation",
        [
            pytest.param({"op": "test", "path": "/data/x", "value": "2"}, id="test"),
            pytest.param({"op": "test", "path": "/data/nope", "value": "2"}, id="test-absent"),
            pytest.param({"op": "remove", "path": "/data/nope"}, id="remove-absent"),
            pytest.param({"op": "add", "path": "/nope/x", "value": "1"}, id="no-parent"),
            pytest.param(
                {"op": "add", "path": "/metadata/finalizers/9", "value": "e.x/z"}, id="no-index"
            ),
            pytest.param({"op": "frob", "path": "/data/x"}, id="unknown"),
            pytest.param({"op": "replace", "value": "1"}, id="no-path"),
        ],
    )
    def test_one_failed_operation_undoes_all_of_a_json_patch(
        self, place: Place, path: str, operation: JSONObject
    ) -> None:
        before = place.get(path)
        first = {"op": "add", "path": "/data/q", "value": "1"}
        refused = place.patch(path, [first, operation], JSON_PATCH)
        assert (refused.status, refused.json["reason"]) == (422, "Invalid")
        assert place.get(path) == before

    def test_json_patch_is_as_lenient_as_kube_apiserver(self, place: Place, path: str) -> None:
        operations = [
            {"op": "test", "path": "/data/nope", "value": None},
            {"op": "replace", "path": "/data/nope", "value": "1"},
            {"op": "remove", "path": "/metadata/finalizers/-1"},
        ]
        patched = place.patched(path, operations, JSON_PATCH)
        assert patched["data"]["nope"] == "1"
        assert patched["metadata"]["finalizers"] == ["e.x/a"]

    @pytest.mark.parametrize("body", [b"{", b"{}", b"3"])
    def test_a_json_patch_that_is_not_a_list_is_400(
        self, place: Place, path: str, body: bytes
    ) -> None:
        assert place.patch(path, body, JSON_PATCH).status == 400

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: should allow updates with non-set ResourceVersion for"
    )
    def test_another_resource_version_or_uid_is_refused(self, place: Place, path: str) -> None:
        stale = [{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}]
        other = [{"op": "replace", "path": "/metadata/uid", "value": "1"}]
        change = {"op": "add", "path": "/data/q", "value": "1"}
        assert place.patch(path, [*stale, change], JSON_PATCH).status == 409
        assert place.patch(path, [*other, change], JSON_PATCH).status == 422
        nameless = [{"op": "replace", "path": "", "value": {}}]
        assert place.patch(path, nameless, JSON_PATCH).status == 400


class TestStrategicMergePatch:
    """`application/strategic-merge-patch+json`."""

    @pytest.fixture
    def path(self, place: Place) -> str:
        body = deployment("one", "two", replicas=1)
        first = body["spec"]["template"]["spec"]["containers"][0]
        first["args"] = ["x"]
        first["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
        body["metadata"] |= {"finalizers": ["e.x/a"], "labels": {"l": "1"}}
        place.created(place.path("deployments", api_version="apps/v1"), body)
        return place.path("deployments", "a", "apps/v1")

    def containers(self, place: Place, path: str, patch: Any, **spec: Any) -> list[JSONObject]:
        body = {"spec": {"template": {"spec": {"containers": patch, **spec}}}}
        patched = place.patched(path, body, STRATEGIC)
        found: list[JSONObject] = patched["spec"]["template"]["spec"]["containers"]
        return found

    def test_items_are_merged_by_their_key(self, place: Place, path: str) -> None:
        change = {"name": "one", "args": ["y"], "env": [{"name": "B", "value": "3"}]}
        one, two = self.containers(place, path, [change])
        assert (one["name"], one["image"], one["args"]) == ("one", "example.com/app:1", ["y"])
        assert one["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]
        assert two["name"] == "two"

    def test_new_items_come_first(self, place: Place, path: str) -> None:
        new = {"name": "new", "image": "example.com/new:1"}
        assert [one["name"] for one in self.containers(place, path, [new])] == ["new", "one", "two"]

    def test_directives_delete_replace_and_sort(self, place: Place, path: str) -> None:
        gone = {"name": "A", "$patch": "delete"}
        assert [
            variable["name"]
            for variable in self.containers(place, path, [{"name": "one", "env": [gone]}])[0]["env"]
        ] == ["B"]
        fresh = [{"$patch": "replace"}, {"name": "C", "value": "1"}]
        one = self.containers(place, path, [{"name": "one", "env": fresh}])[0]
        assert one["env"] == [{"name": "C", "value": "1"}]
        body = {
            "spec": {
                "template": {
                    "spec": {"$setElementOrder/containers": [{"name": "two"}, {"name": "one"}]}
                },
                "strategy": {"$retainKeys": ["type"], "type": "Recreate"},
            }
        }
        spec = place.patched(path, body, STRATEGIC)["spec"]
        assert [one["name"] for one in spec["template"]["spec"]["containers"]] == ["two", "one"]
        assert spec["strategy"] == {"type": "Recreate"}
        labels = {"metadata": {"labels": {"$patch": "replace", "only": "1"}}}
        assert place.patched(path, labels, STRATEGIC)["metadata"]["labels"] == {"only": "1"}

    def test_finalizers_and_owners_are_added_and_taken_away(self, place: Place, path: str) -> None:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1"}
        more = {"metadata": {"finalizers": ["e.x/b"], "ownerReferences": [owner]}}
        metadata = place.patched(path, more, STRATEGIC)["metadata"]
        assert metadata["finalizers"] == ["e.x/b", "e.x/a"]
        less = {
            "metadata": {
                "$deleteFromPrimitiveList/finalizers": ["e.x/a"],
                "ownerReferences": [{"uid": "u1", "$patch": "delete"}],
            }
        }
        metadata = place.patched(path, less, STRATEGIC)["metadata"]
        assert metadata["finalizers"] == ["e.x/b"]
        assert not metadata.get("ownerReferences")

    def test_conditions_are_merged_by_type(self, place: Place, path: str) -> None:
        for name, value in (("A", "True"), ("B", "True"), ("A", "False")):
            condition = {"type": name, "status": value}
            body = {"status": {"conditions": [condition]}}
            patched = place.patched(f"{path}/status", body, STRATEGIC)
        found = {one["type"]: one["status"] for one in patched["status"]["conditions"]}
        assert found == {"A": "False", "B": "True"}

    def test_an_item_without_its_key_is_refused(self, place: Place, path: str) -> None:
        body = {"spec": {"template": {"spec": {"containers": [{"image": "i"}]}}}}
        assert place.patch(path, body, STRATEGIC).status == 500

    def test_custom_resources_refuse_strategic_merge(self, server: Server, place: Place) -> None:
        serve_custom(server)
        path = place.path("shapeds", api_version=CUSTOM)
        place.created(path, custom("Shaped", {"size": 1}))
        refused = place.patch(f"{path}/a", {"spec": {"size": 2}}, STRATEGIC)
        assert (refused.status, refused.json["reason"]) == (415, "UnsupportedMediaType")


class TestApply:
    """`application/apply-patch+yaml`."""

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: supports server-side apply of a client-go resource"
    )
    def test_applying_an_absent_object_creates_it(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        first = place.apply(path, config_map({"x": "1"}), "one")
        assert first.status == 201
        assert owners(first.json) == {("one", "Apply", ""): {"f:data": {"f:x": {}}}}
        again = place.apply(path, config_map({"x": "1"}), "one")
        assert (again.status, again.json) == (200, first.json)

    def test_a_body_may_be_yaml(self, place: Place) -> None:
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  at: '2026-01-01'\n"
        applied = place.applied(place.path("configmaps", "a"), text, "one")
        assert applied["data"] == {"at": "2026-01-01"}

    def test_a_value_that_another_manager_owns_is_a_conflict(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        place.applied(path, config_map({"x": "1", "y": "2"}), "one")
        refused = place.apply(path, config_map({"x": "2", "y": "3"}), "two")
        assert (refused.status, refused.json["reason"]) == (409, "Conflict")
        assert refused.json["message"] == (
            'Apply failed with 2 conflicts: conflicts with "one":\n- .data.x\n- .data.y'
        )
        assert refused.json["details"] == {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "one"',
                    "field": f".data.{name}",
                }
                for name in "xy"
            ]
        }
        one = place.apply(path, config_map({"x": "2"}), "two").json["message"]
        assert one == 'Apply failed with 1 conflict: conflict with "one": .data.x'
        assert place.get(path)["data"] == {"x": "1", "y": "2"}

    def test_force_takes_the_field(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        place.applied(path, config_map({"x": "1", "y": "2"}), "one")
        forced = place.applied(path, config_map({"x": "2"}), "two", force="true")
        assert forced["data"] == {"x": "2", "y": "2"}
        assert owners(forced) == {
            ("one", "Apply", ""): {"f:data": {"f:y": {}}},
            ("two", "Apply", ""): {"f:data": {"f:x": {}}},
        }

    def test_the_same_value_is_shared(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        first = place.applied(path, config_map({"x": "1"}), "one")
        shared = place.applied(path, config_map({"x": "1"}), "two")
        assert shared["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
        left = place.applied(path, config_map({}), "one")
        assert left["data"] == {"x": "1"}, "the other still wants it"

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: supports server-side apply of a client-go resource"
    )
    def test_fields_that_a_manager_no_longer_applies_are_removed(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        place.applied(path, config_map({"x": "1", "y": "2"}, labels={"l": "1"}), "one")
        place.patched(path, {"data": {"z": "3"}}, fieldManager="other")
        left = place.applied(path, config_map({"y": "2"}), "one")
        assert left["data"] == {"y": "2", "z": "3"}
        assert "labels" not in left["metadata"]

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: supports server-side apply of a client-go resource"
    )
    def test_create_and_patch_own_fields(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        created = place.created(
            place.path("configmaps"), config_map({"x": "1"}), fieldManager="creator"
        )
        assert owners(created) == {("creator", "Update", ""): {"f:data": {".": {}, "f:x": {}}}}
        place.patched(path, {"data": {"y": "1"}}, fieldManager="patcher")
        refused = place.apply(path, config_map({"x": "2", "y": "2"}), "creator")
        fields = {one["message"]: one["field"] for one in refused.json["details"]["causes"]}
        assert fields == {
            'conflict with "creator" using v1': ".data.x",
            'conflict with "patcher" using v1': ".data.y",
        }

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: supports server-side apply of a client-go resource"
    )
    def test_without_a_field_manager_the_user_agent_owns(self, place: Place) -> None:
        created = place.created(place.path("configmaps"), config_map({"x": "1"}))
        assert list(owners(created)) == [("wire", "Update", "")]

    def test_writes_of_the_test_kit_have_their_own_manager(
        self, server: Server, place: Place
    ) -> None:
        serve_custom(server)
        body = custom("Shaped", {"size": 1}, status={"phase": "Ready"})
        body["metadata"]["namespace"] = place.namespace
        created = server.api.create(body)
        assert owners(created) == {
            ("pyinformer-testing", "Update", ""): {"f:spec": {".": {}, "f:size": {}}},
            ("pyinformer-testing", "Update", "status"): {"f:status": {".": {}, "f:phase": {}}},
        }

    def test_an_update_by_another_takes_the_field(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        applied = place.applied(path, config_map({"x": "1", "y": "1"}), "one")
        applied["data"]["x"] = "2"
        replaced = place.send("PUT", path, applied, fieldManager="two").json
        assert owners(replaced) == {
            ("one", "Apply", ""): {"f:data": {"f:y": {}}},
            ("two", "Update", ""): {"f:data": {"f:x": {}}},
        }

    def test_containers_are_merged_by_name(self, place: Place) -> None:
        path = place.path("deployments", "a", "apps/v1")
        place.applied(path, deployment("a", "b"), "one")
        both = place.applied(path, deployment("x", "b", "c"), "two")
        assert names_of_containers(both) == ["a", "x", "b", "c"]
        left = place.applied(path, deployment("b"), "one")
        assert names_of_containers(left) == ["x", "b", "c"]

    def test_a_field_that_a_scaler_took_is_left_alone(self, place: Place) -> None:
        path = place.path("deployments", "a", "apps/v1")
        place.applied(path, deployment("a", replicas=1), "one")
        place.patched(path, {"spec": {"replicas": 5}}, fieldManager="scaler")
        refused = place.apply(path, deployment("a", replicas=1), "one")
        message = 'Apply failed with 1 conflict: conflict with "scaler" using apps/v1'
        assert refused.json["message"] == f"{message}: .spec.replicas"
        assert place.applied(path, deployment("a"), "one")["spec"]["replicas"] == 5

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: supports server-side apply of a client-go resource"
    )
    def test_lists_and_maps_of_custom_resources_follow_their_schema(
        self, server: Server, place: Place
    ) -> None:
        serve_custom(server)
        path = place.path("shapeds", "a", CUSTOM)
        ours: JSONObject = {
            "options": {"a": "1"},
            "tags": ["t"],
            "parts": [{"name": "p", "value": 1}],
        }
        theirs: JSONObject = {
            "options": {"b": "1"},
            "tags": ["u"],
            "parts": [{"name": "q", "value": 1}],
        }
        place.applied(path, custom("Shaped", {**ours, "plain": ["x"], "whole": {"a": "1"}}), "one")
        both = place.applied(path, custom("Shaped", theirs), "two")["spec"]
        assert both["options"] == {"a": "1", "b": "1"}
        assert both["tags"] == ["t", "u"]
        assert [one["name"] for one in both["parts"]] == ["p", "q"]
        atomic = custom("Shaped", {"plain": ["y"], "whole": {"b": "1"}})
        refused = place.apply(path, atomic, "two")
        fields = [one["field"] for one in refused.json["details"]["causes"]]
        assert fields == [".spec.plain", ".spec.whole"]
        value = custom("Shaped", {"parts": [{"name": "p", "value": 2}]})
        (cause,) = place.apply(path, value, "two").json["details"]["causes"]
        assert cause["field"] == '.spec.parts[name="p"].value'

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: should not change the status of typed objects that"
    )
    def test_the_status_has_owners_of_its_own(self, server: Server, place: Place) -> None:
        serve_custom(server)
        path = place.path("shapeds", "a", CUSTOM)
        main = custom("Shaped", {"size": 1}, status={"phase": "ignored"})
        assert "status" not in place.applied(path, main, "one")
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        wanted = custom("Shaped", {"size": 7}, status=status)
        applied = place.applied(f"{path}/status", wanted, "one")
        assert (applied["spec"], applied["status"]) == ({"size": 1}, status)
        assert set(owners(applied)) == {("one", "Apply", ""), ("one", "Apply", "status")}
        other = {"conditions": [{"type": "Ready", "status": "False"}]}
        refused = place.apply(f"{path}/status", custom("Shaped", {}, status=other), "two")
        (cause,) = refused.json["details"]["causes"]
        assert cause["message"] == 'conflict with "one" with subresource "status"'
        assert cause["field"] == '.status.conditions[type="Ready"].status'
        nothing = place.path("shapeds", "nothing", CUSTOM)
        missing = custom("Shaped", {}, name="nothing", status=other)
        assert place.apply(f"{nothing}/status", missing, "two").status == 404

    @pytest.mark.parametrize(
        ("metadata", "status"),
        [
            pytest.param({"resourceVersion": "1"}, 409, id="stale"),
            pytest.param({"uid": "00000000-0000-4000-8000-000000000000"}, 422, id="other-uid"),
            pytest.param({"managedFields": [{"manager": "x"}]}, 400, id="managed-fields"),
            pytest.param({"name": "b"}, 400, id="other-name"),
        ],
    )
    def test_a_configuration_of_something_else_is_refused(
        self, place: Place, metadata: JSONObject, status: int
    ) -> None:
        path = place.path("configmaps", "a")
        place.applied(path, config_map({"x": "1"}), "one")
        body = config_map({"x": "1"})
        body["metadata"].update(metadata)
        assert place.apply(path, body, "two").status == status

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: supports server-side apply of a client-go resource"
    )
    def test_a_configuration_of_a_deleted_object_creates_nothing(self, place: Place) -> None:
        body = config_map({"x": "1"}, uid="00000000-0000-4000-8000-000000000000")
        refused = place.apply(place.path("configmaps", "a"), body, "one")
        assert (refused.status, refused.json["reason"]) == (409, "Conflict")

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: supports server-side apply of a client-go resource"
    )
    def test_an_apply_needs_kind_manager_and_readable_yaml(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        assert place.apply(path, {**config_map({}), "kind": "Secret"}, "one").status == 400
        assert place.apply(path, b"a: b: c", "one").status == 400
        assert place.apply(path, b"[1]", "one").status == 400
        refused = place.patch(path, config_map({}), APPLY)
        assert refused.status == 422
        assert refused.json["details"]["causes"][0]["field"] == "fieldManager"
        forced = place.patch(path, {}, MERGE, force="true")
        assert forced.json["details"]["causes"][0]["field"] == "force"

    def test_a_list_with_one_item_twice_is_refused(self, place: Place) -> None:
        path = place.path("deployments", "a", "apps/v1")
        keyless = deployment("a")
        del keyless["spec"]["template"]["spec"]["containers"][0]["name"]
        assert place.apply(path, keyless, "one").status == 422
        refused = place.apply(path, deployment("a", "a"), "one")
        assert refused.status == 500
        assert 'duplicate entries for key [name="a"]' in refused.json["message"]


class TestNoOpWrites:
    """Writes that change nothing."""

    def test_writes_without_changes_keep_the_version_and_make_no_event(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        body = config_map({"x": "1"}, labels={"l": "1"})
        first = place.applied(path, body, "one")
        version = first["metadata"]["resourceVersion"]
        answers = [
            place.applied(path, body, "one"),
            place.patched(path, {"data": {"x": "1"}}, fieldManager="two"),
            place.patched(path, [], JSON_PATCH),
            place.patched(path, {"data": {"x": "1"}}, STRATEGIC),
            place.send("PUT", path, first).json,
        ]
        assert [one["metadata"]["resourceVersion"] for one in answers] == [version] * 5
        end = place.patched(path, {"data": {"x": "2"}})
        collection = place.path("configmaps")
        query = {"resourceVersion": version, "fieldSelector": "metadata.name=a"}
        with place.watch(collection, **query) as stream:
            _, obj = stream.event()
        assert obj["metadata"]["resourceVersion"] == end["metadata"]["resourceVersion"]


class TestReplace:
    """PUT."""

    def test_the_body_of_a_replace_needs_the_name(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        place.created(place.path("configmaps"), config_map({"x": "1"}))
        bodies: list[JSONObject] = [{}, {"metadata": {}}, config_map({}, name="b")]
        for body in bodies:
            assert place.send("PUT", path, body).status == 400
        assert place.send("PUT", path, {"metadata": {"name": "a"}}).status == 200

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: should allow updates with non-set ResourceVersion for"
    )
    def test_replacing_an_absent_object_is_404_except_for_some_resources(
        self, place: Place
    ) -> None:
        """A service that was deleted comes back, unless the update says which one it means."""
        absent = place.path("configmaps", "a")
        assert place.send("PUT", absent, config_map({})).status == 404
        path = place.path("services", "a")
        metadata = {"name": "a", "resourceVersion": "1", "uid": "x"}
        body = {"metadata": metadata, "spec": {"ports": [{"port": 80}]}}
        refused = place.send("PUT", path, body)
        assert (refused.status, refused.json["reason"]) == (409, "Conflict")
        del metadata["uid"]
        assert place.send("PUT", path, body).status == 201

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: should allow updates with non-set ResourceVersion for"
    )
    def test_another_uid_or_resource_version_is_a_conflict(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        stored = place.created(place.path("configmaps"), config_map({"x": "1"}))
        for field in ("uid", "resourceVersion"):
            body = {**stored, "metadata": {**stored["metadata"], field: "1"}}
            refused = place.send("PUT", path, body)
            assert (refused.status, refused.json["reason"]) == (409, "Conflict")

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: supports server-side apply of a client-go resource"
    )
    def test_a_manager_has_a_short_name(self, place: Place) -> None:
        refused = place.send("POST", place.path("configmaps"), {}, fieldManager="m" * 129)
        assert refused.status == 422
        assert refused.json["details"]["causes"][0]["field"] == "fieldManager"

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: should allow updates with non-set ResourceVersion for"
    )
    def test_some_built_in_resources_need_a_version_to_replace(self, place: Place) -> None:
        for plural, api_version, kind in (
            ("leases", "coordination.k8s.io/v1", "Lease"),
            ("poddisruptionbudgets", "policy/v1", "PodDisruptionBudget"),
        ):
            path = place.path(plural, "a", api_version)
            body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": {}}
            place.created(place.path(plural, "", api_version), body)
            refused = place.send("PUT", path, body)
            assert refused.status == 422
            assert refused.json["details"]["causes"][0]["field"] == "metadata.resourceVersion"


class TestMetadata:
    """What every object says of itself."""

    def refused(self, place: Place, metadata: JSONObject) -> list[str]:
        """Return the fields that creating a config map with this metadata is refused for."""
        answer = place.send("POST", place.path("configmaps"), config_map({}, **metadata))
        assert (answer.status, answer.json["reason"]) == (422, "Invalid")
        return [cause["field"] for cause in answer.json["details"]["causes"]]

    def test_a_finalizer_has_a_domain(self, server: Server, place: Place) -> None:
        assert self.refused(place, {"finalizers": ["cleanup"]}) == ["metadata.finalizers[0]"]
        path = place.path("configmaps", "a")
        place.created(place.path("configmaps"), config_map({}, finalizers=["orphan"]))
        late = place.patch(path, {"metadata": {"finalizers": ["orphan", "cleanup"]}})
        assert late.status == 422
        assert place.apply(path, config_map({}, finalizers=["tidy"]), "me").status == 422
        serve_custom(server)
        shapeds = place.path("shapeds", "", CUSTOM)
        body = custom("Shaped", {}, metadata={"finalizers": ["cleanup"]})
        assert place.send("POST", shapeds, body).status == 201

    def test_an_owner_is_complete_and_one_is_the_controller(self, place: Place) -> None:
        uid = "00000000-0000-4000-8000-000000000000"
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid}
        for field in owner:
            fields = self.refused(place, {"ownerReferences": [{**owner, field: ""}]})
            assert f"metadata.ownerReferences[0].{field}" in fields
        controller = {**owner, "controller": True}
        two = [controller, {**controller, "uid": uid.replace("8", "9")}]
        assert self.refused(place, {"ownerReferences": two}) == ["metadata.ownerReferences"]
        place.created(place.path("configmaps"), config_map({}, ownerReferences=[owner, two[1]]))

    def test_labels_and_annotations_are_text(self, place: Place) -> None:
        stored = place.created(
            place.path("configmaps"), config_map({}, labels={"a": None}, annotations={"b": None})
        )
        assert stored["metadata"]["labels"] == {"a": ""}
        assert stored["metadata"]["annotations"] == {"b": ""}
        for name in ("labels", "annotations"):
            body = config_map({}, "b", **{name: {"a": 1}})
            assert place.send("POST", place.path("configmaps"), body).status == 400

    def test_server_owned_fields_are_not_taken_from_a_client(self, place: Place) -> None:
        given: Any = {"deletionGracePeriodSeconds": 9, "selfLink": "/x", "deletionTimestamp": None}
        stored = place.created(place.path("configmaps"), config_map({}, **given))
        assert not given.keys() & stored["metadata"].keys()

    def test_an_empty_body_creates_nothing(self, server: Server, place: Place) -> None:
        serve_custom(server)
        shapeds = place.path("shapeds", "", CUSTOM)
        assert place.send("POST", place.path("configmaps")).status == 400
        assert place.send("POST", shapeds, {"metadata": {"name": "a"}}).status == 400
        nameless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a"}}
        assert place.apply(place.path("configmaps", "a"), nameless, "me").status == 400

    def test_plain_text_of_a_secret_is_stored_encoded(self, place: Place) -> None:
        body = {"metadata": {"name": "a"}, "stringData": {"p": "w"}}
        stored = place.created(place.path("secrets"), body)
        assert (stored["data"], stored["type"]) == ({"p": "dw=="}, "Opaque")
        assert "stringData" not in stored
        again = place.patched(place.path("secrets", "a"), {"stringData": {"q": "w"}})
        assert again["data"] == {"p": "dw==", "q": "dw=="}
        assert "stringData" not in again


class TestGeneration:
    """`metadata.generation`."""

    def test_built_in_objects_count_changes_of_their_spec(self, place: Place) -> None:
        path = place.path("deployments", "a", "apps/v1")
        created = place.created(
            place.path("deployments", api_version="apps/v1"), deployment("a", replicas=1)
        )
        assert created["metadata"]["generation"] == 1
        steps: list[tuple[str, JSONObject, int]] = [
            ("", {"metadata": {"labels": {"x": "y"}}}, 1),
            ("", {"spec": {"replicas": 2}}, 2),
            ("", {"spec": {"replicas": 2}}, 2),
            ("/status", {"status": {"replicas": 2}, "spec": {"replicas": 3}}, 2),
            ("", {"status": {"replicas": 7}}, 2),
            ("", {"metadata": {"annotations": {"x": "y"}}}, 3),  # a peculiarity of deployments
        ]
        for subresource, patch, generation in steps:
            patched = place.patched(path + subresource, patch)
            assert patched["metadata"]["generation"] == generation, patch

    def test_objects_without_a_spec_have_no_generation(self, place: Place) -> None:
        created = place.created(place.path("configmaps"), config_map({"x": "1"}))
        assert "generation" not in created["metadata"]

    def test_custom_resources_count_all_but_metadata_and_a_status_apart(
        self, server: Server, place: Place
    ) -> None:
        serve_custom(server)
        for kind, plural, counted in (("Shaped", "shapeds", 2), ("Bare", "bares", 3)):
            collection = place.path(plural, api_version=CUSTOM)
            created = place.created(collection, custom(kind, {"size": 1}))
            assert created["metadata"]["generation"] == 1
            path = f"{collection}/a"
            place.patched(path, {"metadata": {"labels": {"x": "y"}}})
            place.patched(path, {"spec": {"size": 2}})
            patched = place.patched(path, {"status": {"phase": "Ready"}})
            assert patched["metadata"]["generation"] == counted, kind

    def test_a_pending_deletion_raises_the_generation(self, server: Server, place: Place) -> None:
        serve_custom(server)
        collection = place.path("shapeds", api_version=CUSTOM)
        body = custom("Shaped", {"size": 1}, metadata={"finalizers": ["e.x/a"]})
        place.created(collection, body)
        deleted = place.send("DELETE", f"{collection}/a").json
        assert deleted["metadata"]["generation"] == 2
        again = place.send("DELETE", f"{collection}/a").json
        assert again["metadata"] == deleted["metadata"]


class TestStatus:
    """The status subresource."""

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: should not change the status of typed objects that"
    )
    def test_main_writes_leave_the_status_alone_and_status_writes_the_rest(
        self, server: Server, place: Place
    ) -> None:
        serve_custom(server)
        collection = place.path("shapeds", api_version=CUSTOM)
        body = custom("Shaped", {"size": 1}, status={"phase": "ignored"})
        created = place.created(collection, body)
        assert "status" not in created
        changes = {
            "spec": {"size": 2},
            "status": {"phase": "Ready"},
            "metadata": {"labels": {"x": "y"}, "finalizers": ["e.x/a"]},
        }
        written = place.patched(f"{collection}/a/status", changes)
        assert (written["spec"], written["status"]) == ({"size": 1}, {"phase": "Ready"})
        assert not {"labels", "finalizers"} & set(written["metadata"])
        replaced = {**written, "spec": {"size": 3}, "status": {"phase": "Lost"}}
        answer = place.send("PUT", f"{collection}/a", replaced).json
        assert (answer["spec"], answer["status"]) == ({"size": 3}, {"phase": "Ready"})

    def test_without_a_subresource_the_status_is_an_ordinary_field(
        self, server: Server, place: Place
    ) -> None:
        serve_custom(server)
        collection = place.path("bares", api_version=CUSTOM)
        created = place.created(collection, custom("Bare", {}, status={"phase": "kept"}))
        assert created["status"] == {"phase": "kept"}
        assert place.patch(f"{collection}/a/status", {"status": {}}).status == 404

    def test_a_status_write_of_built_in_objects_takes_metadata_too(self, place: Place) -> None:
        collection = place.path("deployments", api_version="apps/v1")
        place.created(collection, deployment("a"))
        metadata = {"labels": {"x": "y"}, "annotations": {"x": "y"}, "finalizers": ["e.x/a"]}
        written = place.patched(f"{collection}/a/status", {"metadata": metadata})["metadata"]
        assert (written["annotations"], written["finalizers"]) == ({"x": "y"}, ["e.x/a"])
        assert "labels" not in written, "a deployment keeps those"

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: should not change the status of typed objects that"
    )
    def test_stale_status_writes_are_conflicts(self, server: Server, place: Place) -> None:
        serve_custom(server)
        collection = place.path("shapeds", api_version=CUSTOM)
        stale = place.created(collection, custom("Shaped", {"size": 1}))
        place.patched(f"{collection}/a", {"spec": {"size": 2}})
        stale["status"] = {"phase": "Ready"}
        refused = place.send("PUT", f"{collection}/a/status", stale)
        assert (refused.status, refused.json["reason"]) == (409, "Conflict")


class TestDeletion:
    """Finalizers, preconditions, and what a deletion says about dependents."""

    def test_an_object_goes_with_its_last_finalizer(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        finalizers = ["e.x/a", "e.x/b"]
        place.created(place.path("configmaps"), config_map({}, finalizers=finalizers))
        held = place.send("DELETE", path).json
        assert held["metadata"]["deletionTimestamp"]
        late = place.patch(path, {"metadata": {"finalizers": [*finalizers, "e.x/late"]}})
        assert late.status == 422
        assert late.json["details"]["causes"][0]["field"] == "metadata.finalizers"
        place.patched(path, {"metadata": {"finalizers": ["e.x/b"]}})
        assert place.get(path)["metadata"]["finalizers"] == ["e.x/b"]
        freed = place.patched(path, [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)
        assert "finalizers" not in freed["metadata"]
        assert place.send("GET", path).status == 404

    def test_an_apply_that_drops_the_last_finalizer_deletes_the_object(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        place.applied(path, config_map({"x": "1"}, finalizers=["e.x/a"]), "one")
        place.send("DELETE", path)
        late = place.apply(path, config_map({"x": "1"}, finalizers=["e.x/a", "e.x/b"]), "one")
        assert late.status == 422
        place.applied(path, config_map({"x": "1"}), "one")
        assert place.send("GET", path).status == 404

    @pytest.mark.parametrize(
        ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
    )
    def test_foreground_deletion_waits_for_dependents(
        self, place: Place, policy: str, finalizer: str
    ) -> None:
        path = place.path("configmaps", "a")
        place.created(place.path("configmaps"), config_map({}))
        held = place.send("DELETE", path, propagationPolicy=policy).json
        assert held["metadata"]["finalizers"] == [finalizer]
        place.patched(path, {"metadata": {"finalizers": None}})
        assert place.send("GET", path).status == 404

    def test_a_job_is_orphaned_unless_a_policy_is_given(self, place: Place) -> None:
        containers = [{"name": "c", "image": "i"}]
        template = {"spec": {"restartPolicy": "Never", "containers": containers}}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {"template": template},
        }
        jobs = f"/apis/batch/v1/namespaces/{place.namespace}/jobs"
        place.created(jobs, job)
        held = place.send("DELETE", f"{jobs}/j")
        assert held.json["metadata"]["finalizers"][-1] == "orphan"
        assert "child pods are preserved by default" in held.headers["warning"]
        assert place.send("DELETE", f"{jobs}/j", {"propagationPolicy": "Background"}).status == 200

    def test_a_later_deletion_replaces_the_propagation_policy(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        place.created(place.path("configmaps"), config_map({}))
        place.send("DELETE", path, propagationPolicy="Foreground")
        held = place.send("DELETE", path, {"propagationPolicy": "Orphan"}).json
        assert held["metadata"]["finalizers"] == ["orphan"]
        assert place.send("DELETE", path).json["metadata"]["finalizers"] == ["orphan"]
        assert place.send("DELETE", path, {"propagationPolicy": "Background"}).status == 200
        assert place.send("GET", path).status == 404

    def test_orphan_dependents_spares_dependents(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        place.created(place.path("configmaps"), config_map({}))
        both = {"orphanDependents": True, "propagationPolicy": "Orphan"}
        assert place.send("DELETE", path, both).status == 422
        held = place.send("DELETE", path, {"orphanDependents": True}).json
        assert held["metadata"]["finalizers"] == ["orphan"]
        assert place.send("DELETE", path, {"orphanDependents": False}).status == 200
        assert place.send("GET", path).status == 404

    def test_grace_is_shortened_and_never_prolonged(self, place: Place) -> None:
        path = place.path("pods", "a")
        spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
        place.created(place.path("pods"), {"metadata": {"name": "a"}, "spec": spec})
        graces = [
            place.send("DELETE", path, gracePeriodSeconds=seconds).json["metadata"][
                "deletionGracePeriodSeconds"
            ]
            for seconds in ("20", "5", "10")
        ]
        assert graces == [20, 5, 5]
        assert place.send("DELETE", path, gracePeriodSeconds="0").status == 200
        assert place.send("GET", path).status == 404

    def test_background_deletion_waits_for_nothing(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        place.created(place.path("configmaps"), config_map({}))
        assert place.send("DELETE", path, propagationPolicy="Sideways").status == 422
        assert place.send("DELETE", path, {"propagationPolicy": "Background"}).status == 200
        assert place.send("GET", path).status == 404

    @pytest.mark.covers(
        "controller-runtime pkg/client/fake: should allow updates with non-set ResourceVersion for"
    )
    def test_deletion_preconditions_are_checked(self, place: Place) -> None:
        path = place.path("configmaps", "a")
        metadata = place.created(place.path("configmaps"), config_map({}))["metadata"]
        for field in ("uid", "resourceVersion"):
            refused = place.send("DELETE", path, {"preconditions": {field: "1"}})
            assert (refused.status, refused.json["reason"]) == (409, "Conflict")
        both = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        assert place.send("DELETE", path, {"preconditions": both}).status == 200


class TestDryRun:
    """`dryRun=All`."""

    def test_a_dry_run_of_every_verb_answers_and_stores_nothing(self, place: Place) -> None:
        collection, path = place.path("configmaps"), place.path("configmaps", "a")
        stored = place.created(collection, config_map({"x": "1"}))
        new = place.created(collection, config_map({"x": "1"}, name="new"), dryRun="All")
        assert new["metadata"]["uid"]
        assert "resourceVersion" not in new["metadata"]
        answers = [
            place.patched(path, {"data": {"x": "2"}}, dryRun="All"),
            place.applied(path, config_map({"x": "2"}), "one", force="true", dryRun="All"),
            place.send("PUT", path, config_map({"x": "2"}), dryRun="All").json,
        ]
        assert [one["data"] for one in answers] == [{"x": "2"}] * 3
        versions = {one["metadata"]["resourceVersion"] for one in answers}
        assert versions == {stored["metadata"]["resourceVersion"]}
        assert place.send("DELETE", path, dryRun="All").status == 200
        assert place.send("DELETE", path, {"dryRun": ["All"]}).status == 200
        assert place.get(path) == stored
        assert place.send("GET", place.path("configmaps", "new")).status == 404

    def test_a_dry_run_is_refused_as_a_real_write(self, place: Place) -> None:
        collection, path = place.path("configmaps"), place.path("configmaps", "a")
        place.created(collection, config_map({"x": "1"}), fieldManager="one")
        assert place.send("POST", collection, config_map({}), dryRun="All").status == 409
        assert place.apply(path, config_map({"x": "2"}), "two", dryRun="All").status == 409
        assert place.patch(path, {}, dryRun="Some").status == 422


class TestNames:
    """generateName."""

    def test_names_are_generated_and_differ(self, place: Place) -> None:
        body = {"metadata": {"generateName": f"{unique('made')}-"}}
        made = [place.created(place.path("configmaps"), body)["metadata"] for _ in range(3)]
        assert len({one["name"] for one in made}) == 3
        assert all(one["name"].startswith(body["metadata"]["generateName"]) for one in made)
        assert {len(one["name"]) - len(one["generateName"]) for one in made} == {5}


def test_null_fields_of_a_built_in_object_are_absent(place: Place) -> None:
    nulls = {"binaryData": None, "immutable": None}
    path = place.path("configmaps", "a")
    created = place.created(place.path("configmaps"), config_map({"x": "1"}) | nulls)
    assert nulls.keys().isdisjoint(created)
    replaced = place.send("PUT", path, config_map({"x": "2"}) | nulls)
    assert replaced.status == 200
    assert nulls.keys().isdisjoint(place.get(path))

    columns = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = place.send("GET", path, headers={"Accept": columns}).json
    assert table["rows"][0]["cells"][1] == 1
