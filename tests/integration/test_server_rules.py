"""Rules in CEL, of definitions and of policies: both servers refuse, warn and allow alike.

No client of ours stands between test and wire; each test passes on the real server, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.objects import unique
from tests.integration.places import Place
from tests.integration.test_server_writes import config_map
from tests.testing.wire import pod
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server
    from tests.testing.wire import Answer

RULED = "ruled.example.com/v1"
_GROUP = "admissionregistration.k8s.io/v1"
_STRING: JSONObject = {"type": "string"}
_ITEM: JSONObject = {
    "type": "object",
    "properties": {"name": _STRING, "level": {"type": "integer"}},
    "required": ["name"],
    "x-kubernetes-validations": [{"rule": "self.level >= oldSelf.level", "message": "it grows"}],
}
_SPEC: JSONObject = {
    "type": "object",
    "x-kubernetes-validations": [
        {"rule": "self.size < 10"},
        {
            "rule": "self.size != 5",
            "message": "not five",
            "reason": "FieldValueForbidden",
            "fieldPath": ".size",
        },
        {"rule": "self.size != 6 || self.mode == 'x'"},
        {"rule": "self.size != 7", "reason": "FieldValueDuplicate", "message": "again"},
        {"rule": "self.size != 8", "reason": "FieldValueRequired", "message": "more"},
        {
            "rule": "!has(self.mode) || self.mode != 'y'",
            "messageExpression": "'it is ' + self.mode",
        },
        {"rule": "self.size >= oldSelf.size", "message": "it cannot shrink"},
        {"rule": "!has(self.ratio) || self.ratio / 2.0 < 1.0", "message": "ratio"},
        {"rule": "!has(self.since) || self.since < timestamp('2030-01-01T00:00:00Z')"},
        {
            "rule": "!oldSelf.hasValue() || self.__namespace__ == oldSelf.value().__namespace__",
            "optionalOldSelf": True,
            "message": "it cannot move",
        },
        {"rule": "self.x__dash__y != 'bad'", "message": "x-y"},
        {"rule": "self.words.all(w, w.split('-').size() < 3)", "message": "hyphens"},
    ],
    "required": ["size"],
    "properties": {
        "size": {"type": "integer"},
        "mode": _STRING,
        "ratio": {"type": "number"},
        "since": {"type": "string", "format": "date-time"},
        "namespace": {"type": "string", "default": "here"},
        "x-y": {"type": "string", "default": "good"},
        "words": {
            "type": "array",
            "maxItems": 9,
            "default": [],
            "items": {
                "type": "string",
                "maxLength": 9,
                "x-kubernetes-validations": [{"rule": "self.size() < 4"}],
            },
        },
        "labels": {
            "type": "object",
            "maxProperties": 9,
            "additionalProperties": {
                "type": "string",
                "maxLength": 9,
                "x-kubernetes-validations": [{"rule": "self != 'bad'"}],
            },
        },
        "items": {
            "type": "array",
            "maxItems": 9,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": _ITEM,
        },
    },
}
_SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"spec": _SPEC},
    "x-kubernetes-validations": [
        {"rule": "self.metadata.name != 'forbidden'", "message": "another name"}
    ],
}


@pytest.fixture
def ruled(server: Server, place: Place) -> str:
    """The path of a collection whose kind has rules."""
    server.api.register(RULED, "Ruled", "ruleds", schema=_SCHEMA)
    return place.path("ruleds", api_version=RULED)


def _object(name: str, **spec: Any) -> JSONObject:
    return {"apiVersion": RULED, "kind": "Ruled", "metadata": {"name": name}, "spec": spec}


def _said(answer: Answer) -> str:
    assert answer.status == 422, answer.json
    head, _, said = answer.json["message"].partition(" is invalid: ")
    assert head.startswith("Ruled.ruled.example.com "), head
    return str(said)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"size": 11}, "spec: Invalid value: failed rule: self.size < 10"),
        ({"size": 5}, "spec.size: Forbidden: not five"),
        (
            {"size": 6},
            (
                'spec: Invalid value: "object": no such key: mode evaluating rule: self.size != 6'
                " || self.mode == 'x'"
            ),
        ),
        ({"size": 7}, "spec: Duplicate value"),
        ({"size": 8}, "spec: Required value: more"),
        ({"size": 1, "mode": "y"}, "spec: Invalid value: it is y"),
        ({"size": 1, "ratio": 2}, "spec: Invalid value: ratio"),
        (
            {"size": 1, "since": "2031-01-01T00:00:00Z"},
            (
                "spec: Invalid value: failed rule: !has(self.since) || self.since <"
                " timestamp('2030-01-01T00:00:00Z')"
            ),
        ),
        ({"size": 1, "x-y": "bad"}, "spec: Invalid value: x-y"),
        ({"size": 1, "words": ["a-b-c"]}, 'spec.words[0]: Invalid value: "a-b-c"'),
        ({"size": 1, "words": ["éééé"]}, 'spec.words[0]: Invalid value: "éééé"'),
        (
            {"size": 1, "labels": {"k-1": "bad"}},
            "spec.labels[k-1]: Invalid value: \"bad\": failed rule: self != 'bad'",
        ),
        (
            {"size": 11, "mode": "y"},
            "[spec: Invalid value: failed rule: self.size < 10, spec: Invalid value: it is y]",
        ),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, dict) else "",
)
def test_a_rule_of_a_definition_refuses(
    place: Place, ruled: str, spec: JSONObject, said: str
) -> None:
    answer = place.send("POST", ruled, _object(unique("ruled"), **spec))
    assert said in _said(answer)


def test_what_fulfils_the_rules_is_stored(place: Place, ruled: str) -> None:
    spec = {"size": 1, "ratio": 1, "since": "2020-01-01T00:00:00Z", "words": ["ééé", "a-b"]}
    place.created(ruled, _object(unique("ruled"), **spec, labels={"k": "v"}))


def test_a_rule_reads_the_name(place: Place, ruled: str) -> None:
    answer = place.send("POST", ruled, _object("forbidden", size=1))
    assert "another name" in _said(answer)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size": 2}, "spec: Invalid value: it cannot shrink"),
        ({"namespace": "there"}, "spec: Invalid value: it cannot move"),
        ({"items": [{"name": "a", "level": 1}]}, "spec.items[0]: Invalid value: it grows"),
        ({"items": [{"name": "b", "level": 1}]}, None),  # another one: nothing to compare it with
        ({"size": 4}, None),
    ],
    ids=str,
)
def test_a_rule_compares_with_the_old_value(
    place: Place, ruled: str, change: JSONObject, said: str | None
) -> None:
    name = unique("ruled")
    place.created(ruled, _object(name, size=3, items=[{"name": "a", "level": 2}]))
    answer = place.patch(f"{ruled}/{name}", {"spec": change})
    if said is None:
        assert answer.status == 200, answer.json
    else:
        assert said in _said(answer)


def test_what_broke_a_rule_before_may_stay(server: Server, place: Place) -> None:
    kind = ("kept.example.com/v1", "Kept", "kepts")
    label: JSONObject = {"type": "object", "properties": {"a": _STRING, "b": _STRING}}
    server.api.register(*kind, schema={"type": "object", "properties": {"spec": label}})
    path, name = place.path("kepts", api_version=kind[0]), unique("ruled")
    body = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": name}}
    place.created(path, {**body, "spec": {"a": "bad"}})
    ruled = {**_STRING, "x-kubernetes-validations": [{"rule": "self != 'bad'"}]}
    label = {"type": "object", "properties": {"a": ruled, "b": _STRING}}
    definition = ("apiextensions.k8s.io/v1", "customresourcedefinitions", "kepts.kept.example.com")
    if server.name == "embedded":
        schema = {"type": "object", "properties": {"spec": label}}
        server.api.register(*kind, schema=schema)
    else:
        found = server.api.get(*definition)["spec"]["versions"]
        found[0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = label
        server.api.patch(*definition, {"spec": {"versions": found}})

    def is_in_force() -> bool:
        tried = {**body, "metadata": {"name": unique("ruled")}, "spec": {"a": "bad"}}
        return place.send("POST", path, tried, dryRun="All").status == 422

    assert poll(is_in_force, timeout_seconds=100)
    place.patched(f"{path}/{name}", {"spec": {"b": "new"}})


def _policy(name: str, **spec: Any) -> JSONObject:
    rules = [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps", "pods/eviction"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }
    ]
    return {
        "apiVersion": _GROUP,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": rules}, **spec},
    }


def _binding(place: Place, name: str, *actions: str, **spec: Any) -> JSONObject:
    chosen = {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}
    return {
        "apiVersion": _GROUP,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": actions or ["Deny"],
            "matchResources": {"namespaceSelector": chosen},
            **spec,
        },
    }


@pytest.fixture
def policies(server: Server) -> Iterator[list[JSONObject]]:
    """What is created is deleted again: a policy would bind the other tests of the server, too."""
    made: list[JSONObject] = []
    yield made
    for one in made:
        plural = {"Policy": "policies", "Binding": "policybindings"}
        end = next(text for kind, text in plural.items() if one["kind"].endswith(kind))
        name = one["metadata"]["name"]
        server.api.delete(_GROUP, f"validatingadmission{end}", name)


def _enforced(server: Server, place: Place, made: list[JSONObject], *bodies: JSONObject) -> None:
    """Create policies, and wait until the server follows them."""
    probe = unique("ruled")
    sentinel = _policy(
        probe,
        validations=[{"expression": f"object == null || object.metadata.name != '{probe}'"}],
    )
    for one in (*bodies, sentinel, _binding(place, probe)):
        server.api.create(one)
        made.append(one)
    path = place.path("configmaps")

    def is_followed() -> bool:
        return place.send("POST", path, config_map({}, probe), dryRun="All").status == 422

    assert poll(is_followed, timeout_seconds=100)


def _map(name: str, **data: str) -> JSONObject:
    return config_map(data, name)


def test_a_policy_refuses_creations_changes_and_deletions(
    server: Server, place: Place, policies: list[JSONObject]
) -> None:
    name, path = unique("ruled"), place.path("configmaps")
    rules = [
        {"expression": "object == null || !has(object.data.bad)", "message": "no bad ones"},
        {
            "expression": (
                "object == null || oldObject == null || object.data.a == oldObject.data.a"
            ),
            "messageExpression": "'a of ' + oldObject.metadata.name + ' is fixed'",
            "reason": "Forbidden",
        },
        {"expression": "request.operation != 'DELETE' || !has(oldObject.data.kept)"},
    ]
    _enforced(server, place, policies, _policy(name, validations=rules), _binding(place, name))
    said = f"is forbidden: ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request:"

    refused = place.send("POST", path, _map("x", bad="1"))
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")
    assert refused.json["message"] == f'configmaps "x" {said} no bad ones'
    said = said.removeprefix("is forbidden: ")
    assert refused.json["details"]["causes"] == [{"message": f"{said} no bad ones"}]

    made = unique("ruled")
    place.created(path, _map(made, a="1", kept="1"))
    refused = place.patch(f"{path}/{made}", {"data": {"a": "2"}})
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
    assert refused.json["message"].endswith(f"denied request: a of {made} is fixed")

    refused = place.send("DELETE", f"{path}/{made}")
    assert refused.status == 422
    expression = "request.operation != 'DELETE' || !has(oldObject.data.kept)"
    assert refused.json["message"].endswith(f"denied request: failed expression: {expression}")

    place.patched(f"{path}/{made}", {"data": {"kept": None}})
    assert place.send("DELETE", f"{path}/{made}").status == 200


def test_a_policy_warns_or_looks_at_others_only(
    server: Server, place: Place, policies: list[JSONObject]
) -> None:
    warns, other, path = unique("ruled"), unique("ruled"), place.path("configmaps")
    rules = [{"expression": "false", "message": "it is noticed"}]
    elsewhere = _binding(place, other)
    elsewhere["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": {"no": "such"}}}
    _enforced(
        server,
        place,
        policies,
        _policy(warns, validations=rules),
        _binding(place, warns, "Warn", "Audit"),
        _policy(other, validations=rules),
        elsewhere,
    )
    answer = place.send("POST", path, _map(unique("ruled")))
    said = f"Validation failed for ValidatingAdmissionPolicy '{warns}' with binding '{warns}':"
    assert answer.status == 201
    assert f"{said} it is noticed" in "".join(answer.headers.values()), answer.headers


def test_conditions_variables_and_params_are_read(
    server: Server, place: Place, policies: list[JSONObject]
) -> None:
    name, path = unique("ruled"), place.path("configmaps")
    place.created(path, _map("limits", most="2"))
    policy = _policy(
        name,
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        matchConditions=[{"name": "counted", "expression": "object != null && has(object.data)"}],
        variables=[
            {"name": "most", "expression": "int(params.data.most)"},
            {"name": "none", "expression": "object.data.no_such_key"},
        ],
        validations=[{"expression": "size(object.data) <= variables.most", "message": "too many"}],
    )
    reference = {"name": "limits", "parameterNotFoundAction": "Deny"}
    _enforced(server, place, policies, policy, _binding(place, name, paramRef=reference))
    assert place.send("POST", path, _map(unique("ruled"), a="1", b="2")).status == 201
    refused = place.send("POST", path, _map(unique("ruled"), a="1", b="2", c="3"))
    assert refused.json["message"].endswith("denied request: too many")
    assert place.send("POST", path, config_map({}, unique("ruled"))).status == 201


@pytest.mark.parametrize("ignores", [False, True], ids=["fail", "ignore"])
def test_an_expression_that_fails_refuses_unless_failures_are_ignored(
    server: Server, place: Place, policies: list[JSONObject], *, ignores: bool
) -> None:
    name, path = unique("ruled"), place.path("configmaps")
    rules = [{"expression": "object.data.missing == 'x'", "message": "never seen"}]
    policy = _policy(name, validations=rules, failurePolicy="Ignore" if ignores else "Fail")
    _enforced(server, place, policies, policy, _binding(place, name))
    answer = place.send("POST", path, _map(unique("ruled"), a="1"))
    if ignores:
        assert answer.status == 201, answer.json
    else:
        said = "expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
        assert answer.status == 422
        assert answer.json["message"].endswith(f"denied request: {said}")


def test_an_eviction_is_asked_about(
    server: Server, place: Place, policies: list[JSONObject]
) -> None:
    name, pods = unique("ruled"), place.path("pods")
    rules = [{"expression": "request.subResource != 'eviction'", "message": "not now"}]
    _enforced(server, place, policies, _policy(name, validations=rules), _binding(place, name))
    place.created(pods, pod("web", namespace=place.namespace))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}
    refused = place.send("POST", f"{pods}/web/eviction", eviction)
    assert refused.json["message"].endswith("denied request: not now")
    assert place.get(f"{pods}/web")["metadata"].get("deletionTimestamp") is None
