"""Rules in CEL of definitions: both servers refuse and allow alike.

No client of ours stands between test and wire; each test passes on the real server, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.objects import unique
from tests.integration.places import Place
from tests.waiting import poll

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server
    from tests.testing.wire import Answer

RULED = "ruled.example.com/v1"
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
    fields: JSONObject = {"a": _STRING, "b": _STRING, "l": {"type": "array", "items": _STRING}}
    label: JSONObject = {"type": "object", "properties": fields}
    server.api.register(*kind, schema={"type": "object", "properties": {"spec": label}})
    path, name = place.path("kepts", api_version=kind[0]), unique("ruled")
    body = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": name}}
    place.created(path, {**body, "spec": {"a": "bad", "l": ["bad"]}})
    rules = [{"rule": "self != 'bad'"}]
    ruled = {**_STRING, "maxLength": 9, "x-kubernetes-validations": rules}
    fields |= {"a": ruled, "l": {"type": "array", "maxItems": 9, "items": ruled}}
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
