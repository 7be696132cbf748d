"""What an apply removes after another client has edited a part of it, on both servers.

An item of a keyed list, and a key of a map, goes as a whole unless a manager owns the item itself.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.places import JSON_PATCH, MERGE, Place
from tests.integration.test_server_writes import owners

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

DROPPED = "dropped.example.com/v1"
_STRING: JSONObject = {"type": "string"}


def _keyed(**properties: JSONObject) -> JSONObject:
    """Return the schema of a list of objects whose key is their name."""
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": _STRING, **properties},
        },
    }


_TAGS: JSONObject = {"type": "array", "x-kubernetes-list-type": "set", "items": _STRING}
_PARTS = _keyed(value=_STRING, note=_STRING, inner=_keyed(value=_STRING, note=_STRING), tags=_TAGS)
_ZONE: JSONObject = {"type": "object", "properties": {"a": _STRING, "b": _STRING}}
_SPEC: JSONObject = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "parts": _PARTS,
        "nullable": {**_PARTS, "nullable": True},
        "defaulted": {**_PARTS, "default": [{"name": "default"}]},
        "zones": {"type": "object", "additionalProperties": _ZONE},
        "deep": {"type": "object", "properties": {"parts": _PARTS, "tags": _TAGS}},
        "plain": {"type": "array", "items": _ZONE},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
_SCHEMA: JSONObject = {"type": "object", "properties": {"spec": _SPEC}}
_KEY = 'k:{"name":"p"}'


@pytest.fixture
def path(server: Server, place: Place) -> str:
    """The path of a custom resource whose kind has a schema."""
    server.api.register(DROPPED, "Dropped", "droppeds", schema=_SCHEMA)
    return place.path("droppeds", "a", DROPPED)


def custom(spec: JSONObject) -> JSONObject:
    return {"apiVersion": DROPPED, "kind": "Dropped", "metadata": {"name": "a"}, "spec": spec}


def part(**fields: Any) -> JSONObject:
    return {"name": "p", **fields}


def added(pointer: str, value: Any) -> JSONObject:
    """Return the operation of a JSON patch that adds or replaces a field of the spec."""
    return {"op": "add", "path": f"/spec/{pointer}", "value": value}


def owned(obj: JSONObject) -> dict[str, Any]:
    """Return what each manager owns in the spec, by its name."""
    return {name: fields["f:spec"] for (name, _, _), fields in owners(obj).items()}


def _deployment(name: str, **pod: Any) -> JSONObject:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
    }


_MAIN: JSONObject = {
    "name": "main",
    "image": "example.com/app:1",
    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
    "ports": [{"containerPort": 80, "name": "http"}],
    "volumeMounts": [{"name": "config", "mountPath": "/config"}],
}
_POD: JSONObject = {
    "containers": [_MAIN, {"name": "side", "image": "example.com/side:1"}],
    "volumes": [
        {"name": "config", "configMap": {"name": "config"}},
        {"name": "other", "configMap": {"name": "other"}},
    ],
    "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a"]}],
}


def _without_item(pod: JSONObject, item: str) -> JSONObject:
    """Return a copy of a pod spec without an item; the last item goes with its list."""
    left = copy.deepcopy(pod)
    holder: Any = left
    *above, name, index = item.split("/")
    for step in above:
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]
    del holder[name][int(index)]
    if not holder[name]:
        del holder[name]
    return left


class TestBuiltInTypes:
    """Items of lists in a pod template and in a Service."""

    @pytest.mark.parametrize(
        ("item", "field", "value"),
        [
            pytest.param("containers/1", "image", "example.com/side:2", id="container"),
            pytest.param("containers/1", "env", [{"name": "C", "value": "1"}], id="added-below"),
            pytest.param("containers/0/env/0", "value", "2", id="variable"),
            pytest.param("containers/0/ports/0", "name", "web", id="last-port"),
            pytest.param("containers/0/volumeMounts/0", "readOnly", True, id="last-mount"),
            pytest.param("volumes/1", "configMap/name", "third", id="volume"),
            pytest.param("hostAliases/0", "hostnames", ["b"], id="last-alias"),
        ],
    )
    def test_an_item_goes_with_what_another_client_has_edited_in_it(
        self, place: Place, item: str, field: str, value: Any
    ) -> None:
        path = place.path("deployments", "a", "apps/v1")
        place.applied(path, _deployment("a", **_POD), "operator")
        edit = added(f"template/spec/{item}/{field}", value)
        edited = place.patched(path, [edit], JSON_PATCH, fieldManager="editor")
        assert set(owned(edited)) == {"operator", "editor"}
        wanted = _without_item(_POD, item)
        left = place.applied(path, _deployment("a", **wanted), "operator", force="true")
        never = place.path("deployments", "b", "apps/v1")
        assert left["spec"] == place.applied(never, _deployment("b", **wanted), "operator")["spec"]
        assert set(owned(left)) == {"operator"}

    def test_a_port_of_a_service_goes_with_its_edited_target(self, place: Place) -> None:
        def service(*ports: int) -> JSONObject:
            spec = {"ports": [{"port": port, "name": f"p{port}"} for port in ports]}
            return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec}

        path = place.path("services", "a")
        applied = place.applied(path, service(80, 81), "operator")
        ports = [{**port, "targetPort": 8080} for port in applied["spec"]["ports"]]
        place.patched(path, {"spec": {"ports": ports}}, fieldManager="editor")
        left = place.applied(path, service(80), "operator")
        assert left["spec"]["ports"] == ports[:1]
        port = 'k:{"port":80,"protocol":"TCP"}'
        assert owned(left)["editor"] == {"f:ports": {port: {"f:targetPort": {}}}}

    def test_an_item_that_another_manager_has_applied_stays(self, place: Place) -> None:
        path = place.path("deployments", "a", "apps/v1")
        place.applied(path, _deployment("a", **_POD), "operator")
        only_name = {"containers": [{"name": "side"}]}
        place.applied(path, _deployment("a", **only_name), "other")
        edit = added("template/spec/containers/1/image", "example.com/side:2")
        place.patched(path, [edit], JSON_PATCH, fieldManager="editor")
        wanted = _without_item(_POD, "containers/1")
        left = place.applied(path, _deployment("a", **wanted), "operator")
        _, side = left["spec"]["template"]["spec"]["containers"]
        assert (side["name"], side["image"]) == ("side", "example.com/side:2")
        assert set(owned(left)) == {"operator", "other", "editor"}

    def test_an_owner_of_an_emptied_list_keeps_it(self, place: Place) -> None:
        """The list is absent then, and the next manager that fills it takes it."""
        path = place.path("deployments", "a", "apps/v1")
        only_a = {"containers": [{**_MAIN, "env": _MAIN["env"][:1]}], "volumes": _POD["volumes"]}
        only_b = {"containers": [{**_MAIN, "env": _MAIN["env"][1:]}], "volumes": _POD["volumes"]}
        collection = place.path("deployments", api_version="apps/v1")
        place.created(collection, _deployment("a", **only_a), fieldManager="creator")
        place.applied(path, _deployment("a", **only_b), "operator")
        first = {"op": "remove", "path": "/spec/template/spec/containers/0/env/0"}
        place.patched(path, [first], JSON_PATCH, fieldManager="editor")
        neither = copy.deepcopy(only_b)
        del neither["containers"][0]["env"]
        emptied = place.applied(path, _deployment("a", **neither), "operator")
        (main,) = emptied["spec"]["template"]["spec"]["containers"]
        assert "env" not in main
        assert self._of_main(owned(emptied)["creator"])["f:env"] == {}
        filled = place.applied(path, _deployment("a", **only_b), "operator", force="true")
        assert "f:env" not in self._of_main(owned(filled)["creator"])

    @staticmethod
    def _of_main(fields: JSONObject) -> Any:
        return fields["f:template"]["f:spec"]["f:containers"]['k:{"name":"main"}']


class TestCustomResources:
    """Items of lists and keys of maps, by the schema of the definition."""

    @pytest.mark.parametrize(
        ("first", "edit", "second", "expected", "editors"),
        [
            pytest.param(
                {"parts": [part(value="1", note="1"), {"name": "q"}]},
                added("parts/0/value", "2"),
                {"parts": [{"name": "q"}]},
                {"parts": [{"name": "q"}]},
                None,
                id="item",
            ),
            pytest.param(
                {"parts": [part(), {"name": "q"}]},
                added("parts/0/inner", [{"name": "i", "value": "1"}]),
                {"parts": [{"name": "q"}]},
                {"parts": [{"name": "q"}]},
                None,
                id="item-with-added-items",
            ),
            pytest.param(
                {"parts": [part(inner=[{"name": "i", "value": "1"}, {"name": "j"}])]},
                added("parts/0/inner/0/value", "2"),
                {"parts": [part(inner=[{"name": "j"}])]},
                {"parts": [part(inner=[{"name": "j"}])]},
                None,
                id="inner-item",
            ),
            pytest.param(
                {"deep": {"parts": [part(tags=["x"]), {"name": "q"}]}},
                added("deep/parts/0/tags/-", "y"),
                {"deep": {"parts": [{"name": "q"}]}},
                {"deep": {"parts": [{"name": "q"}]}},
                None,
                id="item-with-a-set",
            ),
            pytest.param(
                {"zones": {"z": {"a": "1", "b": "1"}, "y": {"a": "1"}}},
                added("zones/z/a", "2"),
                {"zones": {"y": {"a": "1"}}},
                {"zones": {"y": {"a": "1"}}},
                None,
                id="key-of-a-map",
            ),
            pytest.param(
                {"free": {"x": {"y": {"a": 1}}, "z": 1}},
                added("free/x/y/a", 2),
                {"free": {"z": 1}},
                {"free": {"z": 1}},
                None,
                id="without-a-schema",
            ),
            pytest.param(
                {"parts": [part(value="1", note="1")]},
                added("parts/0/value", "2"),
                {"parts": [part()]},
                {"parts": [part(value="2")]},
                {"f:parts": {_KEY: {"f:value": {}}}},
                id="field-of-an-item-that-stays",
            ),
            pytest.param(
                {"deep": {"tags": ["x"]}, "size": 1},
                added("deep/tags/-", "y"),
                {"size": 1},
                {"deep": {"tags": ["y"]}, "size": 1},
                {"f:deep": {"f:tags": {'v:"y"': {}}}},
                id="set",
            ),
            pytest.param(
                {"plain": [{"a": "1", "b": "1"}], "size": 1},
                added("plain/0/a", "2"),
                {"size": 1},
                {"plain": [{"a": "2", "b": "1"}], "size": 1},
                {"f:plain": {}},
                id="atomic-list",
            ),
        ],
    )
    def test_what_another_client_has_edited(
        self,
        place: Place,
        path: str,
        *,
        first: JSONObject,
        edit: JSONObject,
        second: JSONObject,
        expected: JSONObject,
        editors: JSONObject | None,
    ) -> None:
        """An item goes as a whole; a field, an atomic list and an item of a set stay."""
        place.applied(path, custom(first), "operator")
        place.patched(path, [edit], JSON_PATCH, fieldManager="editor")
        left = place.applied(path, custom(second), "operator", force="true")
        defaulted = {"defaulted": [{"name": "default"}]}
        assert left["spec"] == {**expected, **defaulted}
        assert owned(left).get("editor") == editors

    def test_an_item_that_another_manager_has_applied_keeps_what_is_edited(
        self, place: Place, path: str
    ) -> None:
        place.applied(path, custom({"parts": [part(value="1", note="1")]}), "operator")
        place.applied(path, custom({"parts": [part()]}), "other")
        place.patched(path, [added("parts/0/value", "2")], JSON_PATCH, fieldManager="editor")
        left = place.applied(path, custom({"size": 1}), "operator")
        assert left["spec"]["parts"] == [part(value="2")]
        assert owned(left) == {
            "operator": {"f:size": {}},
            "other": {"f:parts": {_KEY: {".": {}, "f:name": {}}}},
            "editor": {"f:parts": {_KEY: {"f:value": {}}}},
        }

    def test_an_applied_empty_map_goes_if_only_an_empty_list_is_left_in_it(
        self, place: Place, path: str
    ) -> None:
        """An empty keyed list has no fields, so the map has none either."""
        place.applied(
            path, custom({"deep": {"parts": [part()], "tags": []}, "size": 1}), "operator"
        )
        left = place.applied(path, custom({"deep": {}, "size": 1}), "operator")
        assert "deep" not in left["spec"]
        assert owned(left) == {"operator": {"f:deep": {}, "f:size": {}}}

    @pytest.mark.parametrize(
        ("first", "field", "kind"),
        [
            pytest.param({"parts": [part(value="1")]}, "parts", "array", id="list"),
            pytest.param({"zones": {"z": {"a": "1", "b": "1"}}}, "zones", "object", id="map"),
        ],
    )
    def test_a_field_that_loses_all_its_items_is_null_and_refused(
        self, place: Place, path: str, first: JSONObject, field: str, kind: str
    ) -> None:
        place.applied(path, custom({**first, "size": 1}), "operator")
        pointer = {"parts": "parts/0/value", "zones": "zones/z/a"}[field]
        edited = place.patched(path, [added(pointer, "2")], JSON_PATCH, fieldManager="editor")
        refused = place.apply(path, custom({"size": 1}), "operator")
        assert refused.status == 422
        (cause,) = refused.json["details"]["causes"]
        assert cause["field"] == f"spec.{field}"
        assert f'in body must be of type {kind}: "null"' in cause["message"]
        assert place.get(path) == edited

    @pytest.mark.parametrize(
        ("field", "left"),
        [
            pytest.param("nullable", None, id="nullable"),
            pytest.param("defaulted", [{"name": "default"}], id="defaulted"),
        ],
    )
    def test_a_field_that_loses_all_its_items_may_be_null_or_defaulted(
        self, place: Place, path: str, field: str, left: Any
    ) -> None:
        first = {field: [part(value="1")], "size": 1}
        place.applied(path, custom(first), "operator")
        place.patched(path, [added(f"{field}/0/value", "2")], JSON_PATCH, fieldManager="editor")
        emptied = place.applied(path, custom({"size": 1}), "operator")
        assert emptied["spec"][field] == left
        assert owned(emptied) == {"operator": {"f:size": {}}}
        again = place.applied(path, custom(first), "operator")
        assert part(value="1") in again["spec"][field]
        assert set(owned(again)) == {"operator"}

    def test_a_map_that_is_replaced_by_a_value_has_no_fields_with_owners(
        self, place: Place, path: str
    ) -> None:
        place.applied(path, custom({"free": {"x": {"a": 1, "b": 1}}}), "operator")
        place.patched(path, {"spec": {"free": {"x": {"a": 2}}}}, MERGE, fieldManager="editor")
        replaced = place.applied(path, custom({"free": {"x": "text"}}), "operator", force="true")
        assert owned(replaced) == {"operator": {"f:free": {"f:x": {}}}}
        place.applied(path, custom({"free": {"x": {"a": 1}}}), "other", force="true")
        fields: JSONObject = {"f:free": {"f:x": {".": {}, "f:a": {}}}}
        assert owned(place.get(path)) == {"other": fields}
