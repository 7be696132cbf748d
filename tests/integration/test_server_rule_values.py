"""What rules in CEL see of a value: both servers refuse and allow alike, and in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.objects import unique

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.places import Place
    from tests.integration.servers import Server

_VERSION = "valued.example.com/v1"
_STRING: JSONObject = {"type": "string", "maxLength": 20}
_RULES = "x-kubernetes-validations"
_ITEM: JSONObject = {
    "type": "object",
    "properties": {"k": _STRING, "v": _STRING},
    "required": ["k"],
}
_FIELDS: JSONObject = {
    "size": {"type": "integer"},
    "note": _STRING,
    "optional": {"type": "object", "nullable": True, "properties": {"x": _STRING}},
    "word": {**_STRING, _RULES: [{"rule": r"self.matches('^\\w+$')", "message": "a word"}]},
    "digits": {**_STRING, _RULES: [{"rule": r"self.matches('^[\\d-]+$')", "message": "digits"}]},
    "namespace": {**_STRING, "default": "here"},
    "tags": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "set", "items": _STRING},
    "pairs": {
        "type": "array",
        "maxItems": 9,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": _ITEM,
    },
    "trimmed": {**_STRING, _RULES: [{"rule": "self.trim() == self", "message": "trim"}]},
    "long": {
        "type": "string",
        "maxLength": 9000,
        _RULES: [{"rule": "self.size() < 2", "messageExpression": "self", "message": "shorter"}],
    },
}
_SPEC: JSONObject = {
    "type": "object",
    "properties": _FIELDS,
    _RULES: [
        {"rule": "!has(self.optional) || has(self.optional.x)", "message": "x of optional"},
        {"rule": "self.namespace == self.__namespace__", "message": "by both names"},
        {"rule": "!has(self.tags) || self.tags.indexOf('b') != 0", "message": "b is not first"},
        {"rule": "!has(self.size) || 10 / self.size > 0", "message": "few"},
        {"rule": "!has(oldSelf.tags) || self.tags == oldSelf.tags", "message": "fixed tags"},
        {"rule": "!has(oldSelf.pairs) || self.pairs == oldSelf.pairs", "message": "fixed pairs"},
    ],
}
_NAME: JSONObject = {
    **_STRING,
    "maxLength": 63,
    _RULES: [{"rule": "!self.startsWith('odd')", "message": "an odd name"}],
}
_SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"metadata": {"type": "object", "properties": {"name": _NAME}}, "spec": _SPEC},
}


@pytest.fixture
def valued(server: Server, place: Place) -> str:
    """The path of a collection whose kind has rules."""
    server.api.register(_VERSION, "Valued", "valueds", schema=_SCHEMA)
    return place.path("valueds", api_version=_VERSION)


def _object(name: str, **spec: Any) -> JSONObject:
    return {"apiVersion": _VERSION, "kind": "Valued", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"optional": None}, id="a-null-is-absent"),
        pytest.param({"optional": {"x": "1"}}, id="an-object-is-not"),
        pytest.param({"word": "a_1"}, id="a-word"),
        pytest.param({"digits": "1-2"}, id="digits"),
        pytest.param({"tags": ["a", "b"]}, id="an-index-in-a-list"),
        pytest.param({"trimmed": "\x1cx"}, id="a-character-that-is-not-a-space"),
    ],
)
def test_a_value_fulfils_the_rules(place: Place, valued: str, spec: JSONObject) -> None:
    place.created(valued, _object(unique("valued"), **spec))


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        pytest.param({"word": "été"}, 'spec.word: Invalid value: "été": a word', id="ascii-words"),
        pytest.param({"digits": "٣"}, 'spec.digits: Invalid value: "٣": digits', id="ascii-digits"),
        pytest.param({"tags": ["b"]}, "spec: Invalid value: b is not first", id="index"),
        pytest.param({"trimmed": "\u2003x"}, "trim", id="an-em-space"),
        pytest.param(
            {"size": 0},
            'spec: Invalid value: "object": division by zero evaluating rule: few',
            id="a-rule-that-fails-is-named-by-its-message",
        ),
        pytest.param({"long": "a long one"}, ": a long one", id="a-message-of-an-expression"),
        pytest.param({"long": 5200 * "x"}, ": shorter", id="a-message-beyond-5-kb"),
    ],
)
def test_a_value_breaks_a_rule(place: Place, valued: str, spec: JSONObject, cause: str) -> None:
    answer = place.send("POST", valued, _object(unique("valued"), **spec))
    assert answer.status == 422, answer.json
    assert cause in answer.json["message"]


def test_a_rule_of_the_name_refuses(place: Place, valued: str) -> None:
    answer = place.send("POST", valued, _object(unique("odd")))
    assert answer.status == 422, answer.json
    assert "an odd name" in answer.json["message"]
    assert answer.json["details"]["causes"][0]["field"] == "metadata.name"


def test_lists_without_an_order_are_equal_in_any_order(place: Place, valued: str) -> None:
    name = unique("valued")
    first, second = {"k": "a", "v": "1"}, {"k": "c", "v": "2"}
    place.created(valued, _object(name, tags=["a", "c"], pairs=[first, second]))
    spec = {"tags": ["c", "a"], "pairs": [second, first]}
    place.patched(f"{valued}/{name}", {"spec": spec})
    for change in ({"tags": ["c"]}, {"pairs": [{**second, "v": "3"}, first]}):
        answer = place.patch(f"{valued}/{name}", {"spec": change})
        assert answer.status == 422, answer.json
        assert f"fixed {next(iter(change))}" in answer.json["message"]
