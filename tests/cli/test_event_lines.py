"""Events as lines, for people and for programs: what changed, and no secret."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from pyinformer.cli.output import JsonRendering, Layout, TextRendering
from pyinformer.objects import Added, Deleted, JSONObject, KubeObject, Updated
from tests.cli.cluster_objects import hold

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NOT_SHOWN = "(not shown; --show-secrets shows it)"


def _object(kind: str = "ConfigMap", **parts: Any) -> JSONObject:
    metadata = {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "7"}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {**metadata, **parts.pop("metadata", {})},
        **parts,
    }


def _text(*, shows_secrets: bool = False, is_wide: bool = False) -> TextRendering:
    return TextRendering(
        layout=Layout(is_wide=is_wide),
        what="configmaps.v1 in default",
        shows_secrets=shows_secrets,
        styled=lambda text, _: text,
        now=lambda: 1_800_000_000.0,
    )


def _changes(old: JSONObject, new: JSONObject, **options: Any) -> list[str]:
    lines = _text(**options).event(Updated(hold(old), hold(new))).splitlines()
    assert lines[0].endswith("MODIFIED  default/x")
    return [line.strip() for line in lines[1:]]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        pytest.param({"a": "1"}, {"a": "2"}, 'data.a: "1" -> "2"', id="changed"),
        pytest.param({}, {"a.b": "2"}, "data['a.b']: added \"2\"", id="added"),
        pytest.param({"a": "1"}, {}, 'data.a: removed "1"', id="removed"),
        pytest.param({"a": "\x1b[2J"}, {"a": ""}, 'data.a: "\\u001b[2J" -> ""', id="control"),
        pytest.param({"a\x9b": ""}, {}, "data['a\\x9b']: removed \"\"", id="control-in-a-name"),
        pytest.param(
            {}, {}, "only metadata.resourceVersion or metadata.managedFields", id="nothing"
        ),
    ],
)
def test_an_update_is_printed_as_its_paths(old: JSONObject, new: JSONObject, line: str) -> None:
    assert _changes(_object(data=old), _object(data=new)) == [line]


def test_many_paths_are_counted_unless_it_is_wide() -> None:
    old, new = _object(data={}), _object(data={f"k{number}": "" for number in range(30)})

    assert _changes(old, new)[-1] == "and 10 more"
    assert len(_changes(old, new, is_wide=True)) == 30


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        pytest.param(
            {"data": {"p": "b25l"}}, {"data": {"p": "dHdv"}}, "data.p: changed", id="changed"
        ),
        pytest.param({"data": {}}, {"data": {"p": "dHdv"}}, "data.p: added", id="added"),
        pytest.param(
            {"stringData": {"p": "one"}}, {"stringData": {}}, "stringData.p: removed", id="gone"
        ),
    ],
)
def test_a_secret_changes_without_its_values(old: JSONObject, new: JSONObject, line: str) -> None:
    before, after = _object("Secret", **old), _object("Secret", **new)

    assert _changes(before, after) == [f"{line} {_NOT_SHOWN}"]
    assert _NOT_SHOWN not in _changes(before, after, shows_secrets=True)[0]


def test_the_last_applied_annotation_is_not_printed() -> None:
    old = _object(metadata={"annotations": {_LAST_APPLIED: "HIDDEN 1"}})
    new = _object(metadata={"annotations": {_LAST_APPLIED: "HIDDEN 2"}})

    assert _changes(old, new) == [f"metadata.annotations['{_LAST_APPLIED}']: changed {_NOT_SHOWN}"]


def test_an_added_part_of_a_secret_shows_names_only() -> None:
    (line,) = _changes(_object("Secret"), _object("Secret", data={"p": "dHdv"}))

    assert "dHdv" not in line
    assert '"p"' in line


def test_a_deletion_line_names_what_is_uncertain() -> None:
    obj = hold(_object())

    assert _text().event(Deleted(obj)).endswith("DELETED   default/x\n")
    unsure = Deleted(obj, final_state_unknown=True, may_still_exist=True)
    assert _text().event(unsure).endswith("(found gone by a list; or it does not match any more)\n")


def test_a_change_of_the_servers_history_is_printed() -> None:
    event = Updated(hold(_object()), hold(_object(data={"a": ""})), may_go_back=True)

    assert "this state may be older" in _text().event(event)
    assert _lines([], event)[-1]["mayGoBack"] is True


def test_an_empty_state_is_printed_as_such() -> None:
    assert list(_text().initial([])) == ["there are no configmaps.v1 in default\n"]


def _lines(initial: list[KubeObject], *events: Any, shows_secrets: bool = False) -> list[Any]:
    rendering = JsonRendering(what="configmaps.v1", shows_secrets=shows_secrets)
    texts = [*rendering.initial(initial), *(rendering.event(event) for event in events)]
    assert all(text.count("\n") == 1 and text[:-1].isprintable() for text in texts)
    return [json.loads(text) for text in texts]


def test_json_output_has_a_line_for_each_event_and_one_after_the_initial_list() -> None:
    old, new = hold(_object(data={"a": "1"})), hold(_object(data={"a": "\x9b2"}))

    lines = _lines([old], Added(new), Updated(old, new), Deleted(new, may_still_exist=True))

    assert [line["type"] for line in lines] == ["ADDED", "SYNCED", "ADDED", "MODIFIED", "DELETED"]
    assert (lines[0]["initial"], "initial" in lines[2]) == (True, False)
    assert lines[1] == {"type": "SYNCED", "resource": "configmaps.v1", "objects": 1}
    assert lines[3]["changedPaths"] == ["data.a"]
    assert lines[3]["object"]["data"] == {"a": "\x9b2"}
    assert lines[4]["mayStillExist"] is True


def test_json_output_shows_no_secret() -> None:
    body = _object("Secret", data={"p": "dHdv"}, metadata={"annotations": {_LAST_APPLIED: "HIDE"}})
    obj, before = hold(body), copy.deepcopy(body)

    (hidden, _) = _lines([obj])
    (shown, _) = _lines([obj], shows_secrets=True)

    assert hidden["object"]["data"] == {"p": "(redacted)"}
    assert "HIDE" not in json.dumps(hidden)
    assert shown["object"]["data"] == before["data"]


def test_of_many_long_paths_some_are_shown_in_part() -> None:
    old, new = (hold(_object(data={"k" * 9_000: [value] * 1_500})) for value in (0, 1))

    (_, line) = _lines([], Updated(old, new))

    assert (len(line["changedPaths"]), line["moreChangedPaths"]) == (1_000, 500)
    assert all(len(path) <= 1_024 for path in line["changedPaths"])
    assert max(map(len, _text().event(Updated(old, new)).splitlines())) < 2_000


def test_an_unreadable_object_is_named() -> None:
    broken = hold(_object())
    text = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":1e999}}'
    broken = KubeObject(broken.key, broken.metadata, None, text, broken.gvk)

    (line, _) = _lines([broken])

    assert line["object"]["metadata"]["name"] == "x"
    assert "cannot" in line["object"]["problem"] or line["object"]["problem"]


@pytest.mark.parametrize("levels", [970, 9_994])
def test_a_deeply_nested_object_is_printed_or_named(levels: int) -> None:
    broken = hold(_object())
    value = b'{"a":' * levels + b"1" + b"}" * levels
    text = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":%s}' % value
    broken = KubeObject(broken.key, broken.metadata, None, text, broken.gvk)
    rendering = JsonRendering(what="configmaps.v1", shows_secrets=True)

    line = rendering.event(Added(broken))

    assert '"metadata":{"name":"x"' in line
