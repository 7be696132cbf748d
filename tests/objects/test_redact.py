"""redacted: no value of a Secret, no copy of what was applied, wherever in an output it stands."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from pyinformer.errors import InvalidObjectError
from pyinformer.objects import (
    REDACTED,
    GroupVersionResource,
    ObjectCodec,
    diff,
    redacted,
    redacted_change,
)

HIDDEN = "aHVudGVyMg=="
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LAST_HANDLED = "kopf.zalando.org/last-handled-configuration"


def secret(**changes: Any) -> dict[str, Any]:
    """Return a Secret that hides its value in every place that is known."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "s",
            "annotations": {LAST_APPLIED: json.dumps({"data": {"key": HIDDEN}}), "team": "a"},
            "managedFields": [{"fieldsV1": {"f:data": {"f:key": {}}}}],
        },
        "data": {"key": HIDDEN},
        "stringData": {"plain": HIDDEN},
        "type": "Opaque",
        **changes,
    }


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(secret(), id="object"),
        pytest.param([secret(), secret()], id="list"),
        pytest.param({"kind": "List", "items": [secret()]}, id="mixed-list"),
        pytest.param({"type": "ADDED", "object": secret()}, id="watch-event"),
        pytest.param({"kind": "SecretList", "items": [secret(kind=None)]}, id="list-of-a-kind"),
        pytest.param(
            {"type": "ADDED", "object": {"kind": "SecretList", "items": [secret(kind=None)]}},
            id="list-in-an-event",
        ),
        pytest.param({"kind": "Bundle", "spec": {"objects": [[secret()]]}}, id="nested"),
        pytest.param(secret(data=HIDDEN, stringData=[HIDDEN]), id="malformed"),
    ],
)
def test_no_value_of_a_secret_is_left(shown: Any) -> None:
    before = copy.deepcopy(shown)

    assert HIDDEN not in json.dumps(redacted(shown))
    assert shown == before


def test_names_and_other_fields_are_not_redacted() -> None:
    assert redacted(secret()) == {
        **secret(),
        "metadata": {
            **secret()["metadata"],
            "annotations": {LAST_APPLIED: REDACTED, "team": "a"},
        },
        "data": {"key": REDACTED},
        "stringData": {"plain": REDACTED},
    }


def test_the_kind_of_a_patch_is_given_as_an_argument() -> None:
    assert redacted({"data": {"key": HIDDEN}}, kind="Secret") == {"data": {"key": REDACTED}}
    assert redacted({"data": {"key": "shown"}}, kind="ConfigMap") == {"data": {"key": "shown"}}


@pytest.mark.parametrize(
    "name",
    [
        LAST_APPLIED,
        LAST_HANDLED,
        "kapp.k14s.io/original",
        "objectset.rio.cattle.io/applied",
        "x.io/last-applied",
    ],
)
def test_last_applied_annotations_are_hidden_in_every_kind(name: str) -> None:
    pod = {"kind": "Pod", "metadata": {"annotations": {name: HIDDEN}, "name": "a"}}
    template = {"kind": "Deployment", "spec": {"template": pod}}

    assert HIDDEN not in json.dumps([redacted(pod), redacted(template)])


@pytest.mark.parametrize("kind", ["Secret", None])
@pytest.mark.parametrize("field", ["data", "stringData"])
def test_a_copy_of_a_secret_is_hidden_under_any_name(kind: str | None, field: str) -> None:
    """An operator gives kopf a prefix and a key of its own; a tool may copy a copy."""
    essence = json.dumps({"type": "Opaque", field: {"key": HIDDEN}}, indent=1)
    names = {"mine.dev/essence": essence, "x": json.dumps({"metadata": {"copy": essence}})}
    shown = redacted({"kind": kind, "metadata": {"annotations": names}}, kind="Secret")

    assert shown["metadata"]["annotations"] == dict.fromkeys(names, REDACTED)


def test_other_annotations_of_secrets_stay_visible() -> None:
    words = {"a.io/data": "data", "b": '{"database": "x"}', "c": "data: none"}
    shown = redacted(secret(metadata={"annotations": words}))

    assert shown["metadata"]["annotations"] == words


def test_a_cached_object_is_shown_by_its_body() -> None:
    codec: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("v1", "secrets"))
    raw = json.dumps(secret()).encode()

    assert redacted(codec.decode(raw, 0, len(raw)))["data"] == {"key": REDACTED}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(secret(), secret(data={"key": "bmV3"}), id="value"),
        pytest.param(secret(), secret(data=None), id="null"),
        pytest.param(secret(), {"kind": "Secret"}, id="whole"),
        pytest.param({"items": [secret()]}, {"items": [secret(data={"key": "bmV3"})]}, id="item"),
        pytest.param(secret(data=HIDDEN), secret(data=["bmV3"]), id="malformed"),
    ],
)
def test_changes_of_secrets_show_no_value(old: dict[str, Any], new: dict[str, Any]) -> None:
    kind = "SecretList" if "items" in old else "Secret"
    changes = [redacted_change(change, kind=kind) for change in diff(old, new)]

    assert changes
    assert [str(change) for change in changes] == [str(change) for change in diff(old, new)]
    text = repr([(change.old, change.new) for change in changes])
    assert HIDDEN not in text
    assert "bmV3" not in text


def test_a_change_of_an_annotation_copy_shows_no_value() -> None:
    old = {"metadata": {"annotations": {LAST_APPLIED: HIDDEN, "team": "a"}}}
    new = {"metadata": {"annotations": {LAST_APPLIED: "other", "team": "b"}}}

    shown = [redacted_change(change, kind="Pod") for change in diff(old, new)]

    assert [(c.old, c.new) for c in shown] == [(REDACTED, REDACTED), ("a", "b")]


def test_deeply_nested_objects_are_redacted() -> None:
    deep: Any = secret()
    for _ in range(20_000):
        deep = {"spec": [deep]}

    shown: Any = redacted(deep)
    for _ in range(20_000):
        shown = shown["spec"][0]

    assert shown["data"] == {"key": REDACTED}


_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "data", "items", "object", "spec"]), inner)
    ),
    max_leaves=12,
)


@given(_json)
def test_an_object_without_secrets_is_shown_unchanged(value: Any) -> None:
    assert redacted({"spec": value}) == {"spec": value}


@given(st.lists(st.sampled_from(["spec", "items", "object", "x", 0]), max_size=6))
def test_a_secret_is_hidden_at_any_place(path: list[str | int]) -> None:
    whole: Any = secret()
    for step in path:
        whole = [whole] if isinstance(step, int) else {step: whole, "kind": "Thing"}

    assert HIDDEN not in json.dumps(redacted(whole))


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_a_transform_that_fails_does_not_repeat_the_object(kind: str) -> None:
    def quote(body: dict[str, Any]) -> dict[str, Any]:
        raise ValueError(f"cannot use {body['data']['key']}")

    codec: ObjectCodec[None] = ObjectCodec(
        GroupVersionResource.of("v1", f"{kind.lower()}s"), transform=quote
    )
    raw = json.dumps(secret(kind=kind)).encode()
    problem = codec.decode(raw, 0, len(raw)).problem

    assert f"transform failed: ValueError at {__file__}:" in problem
    assert HIDDEN not in problem


class Weak(Struct):
    """A part of a spec that checks itself."""

    key: str

    def __post_init__(self) -> None:
        raise ValueError(f"{self.key} is too weak")


def test_a_type_that_refuses_a_value_does_not_put_it_into_the_text() -> None:
    body = json.dumps(secret(kind="ConfigMap")).encode()
    obj = ObjectCodec(GroupVersionResource.of("v1", "configmaps")).decode(body, 0, len(body))
    for read in (lambda: obj.at("data", Weak), lambda: obj.as_type(Holder)):
        with pytest.raises(InvalidObjectError, match="ValueError, whose words") as raised:
            read()
        assert HIDDEN not in str(raised.value)
        assert f"{HIDDEN} is too weak" in raised.value.reason


class Holder(Struct):
    """A model with such a part."""

    data: Weak
