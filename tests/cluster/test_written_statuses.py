"""What this process wrote to a status is laid over an older object; what is kept has a bound."""

from __future__ import annotations

import msgspec
import pytest

from pyinformer.apimachinery import GroupVersionKind, JSONObject, JSONValue, KubeObject, ObjectMeta
from pyinformer.cluster._written_statuses import WrittenStatuses

_GVK = GroupVersionKind.of("example.com/v1", "Widget")
OLD: JSONObject = {"phase": "Ready", "parts": {"a": 1, "b": 2}, "theirs": 1}


def widget(status: JSONValue, version: str, uid: str = "u") -> KubeObject:
    """Return an object as the server has it."""
    body = {"status": status}
    meta = ObjectMeta("default", "a", uid, version)
    return KubeObject("default/a", meta, None, msgspec.json.encode(body), _GVK)


@pytest.mark.parametrize(
    ("patch", "stored", "seen"),
    [
        pytest.param({"phase": "New"}, {"phase": "New"}, {**OLD, "phase": "New"}, id="changed"),
        pytest.param({"phase": "New"}, {"phase": "new"}, {**OLD, "phase": "new"}, id="spelling"),
        pytest.param(
            {"phase": None}, {"theirs": 2}, {"parts": OLD["parts"], "theirs": 1}, id="removed"
        ),
        pytest.param(
            {"parts": {"a": None, "c": 3}},
            {"parts": {"b": 9, "c": 3}},
            {**OLD, "parts": {"b": 2, "c": 3}},
            id="in-an-object",
        ),
        pytest.param({"new": {"x": 1}}, {"phase": "New"}, OLD, id="not-stored"),
        pytest.param({"parts": {"a": 5}}, {"parts": 7}, {**OLD, "parts": 7}, id="another-type"),
        pytest.param(None, None, {}, id="whole-status-removed"),
    ],
)
def test_an_older_object_is_seen_with_what_was_written_since(
    patch: JSONValue, stored: JSONValue, seen: JSONObject
) -> None:
    """Fields that this process did not write stay as the object shows them."""
    written = WrittenStatuses()
    written.patched(widget(stored, "10"), patch)

    assert written.seen_in(widget(OLD, "9")) == seen


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(widget(OLD, "10"), id="same-version"),
        pytest.param(widget(OLD, "11"), id="newer"),
        pytest.param(widget(OLD, "9", uid="other"), id="another-object"),
        pytest.param(widget(OLD, ""), id="no-version"),
        pytest.param(widget(OLD, "abc"), id="version-without-order"),
    ],
)
def test_an_object_of_which_no_older_state_is_known_is_seen_as_it_is(obj: KubeObject) -> None:
    written = WrittenStatuses()
    written.patched(widget({"phase": "New"}, "10"), {"phase": "New"})

    assert written.seen_in(obj) is None


def test_a_removed_object_that_is_written_again_has_none_of_its_old_fields() -> None:
    written = WrittenStatuses()
    written.patched(widget({}, "10"), {"parts": None})
    written.patched(widget({"parts": {"c": 3}}, "11"), {"parts": {"c": 3}})

    assert written.seen_in(widget(OLD, "9")) == {**OLD, "parts": {"c": 3}}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in-order", "swapped"])
def test_the_newest_response_counts_whichever_arrives_last(order: tuple[int, int]) -> None:
    written = WrittenStatuses()
    writes = [
        (widget({"phase": "New"}, "10"), {"phase": "New"}),
        (widget({"phase": "Old", "note": "x"}, "11"), {"phase": "Old", "note": "x"}),
    ]
    for number in order:
        written.patched(*writes[number])

    assert written.seen_in(widget(OLD, "9")) == {**OLD, "phase": "Old", "note": "x"}


def test_written_statuses_are_bounded_in_number_and_bytes() -> None:
    written = WrittenStatuses(limit=2, limit_bytes=1_000)
    for uid in "abc":
        written.replaced(widget({"phase": "New"}, "10", uid=uid))
    known = [uid for uid in "abc" if written.seen_in(widget(OLD, "9", uid=uid)) is not None]
    assert known == ["b", "c"]

    written.replaced(widget({"note": "x" * 980}, "10", uid="d"))
    written.replaced(widget({"note": "x" * 1_000}, "10", uid="e"))
    known = [uid for uid in "abcde" if written.seen_in(widget(OLD, "9", uid=uid)) is not None]
    assert known == ["d"]


def test_names_of_fields_do_not_add_up() -> None:
    """Those of a map may be others at each write; then only the last write is known."""
    written = WrittenStatuses()
    written.patched(widget({}, "10"), {"phase": None})
    written.patched(widget({}, "11"), {f"{number:0500}": 1 for number in range(150)})
    assert written.seen_in(widget(OLD, "9")) == OLD

    written.patched(widget({}, "12"), {"parts": None})
    assert written.seen_in(widget(OLD, "9")) == {"phase": "Ready", "theirs": 1}


def test_a_status_that_is_too_large_to_be_kept_leaves_no_older_one() -> None:
    written = WrittenStatuses(limit_bytes=100)
    written.replaced(widget({"phase": "New"}, "10"))
    written.replaced(widget({"note": "x" * 100}, "11"))

    assert written.seen_in(widget(OLD, "9")) is None


@pytest.mark.parametrize("levels", [300, 510, 100_000])
def test_a_status_that_is_too_deep_to_be_compared_fails_no_write(levels: int) -> None:
    deep: JSONObject = {}
    for _ in range(levels):
        deep = {"a": deep}
    written = WrittenStatuses()
    written.patched(widget({"phase": "New"}, "10"), deep)

    assert written.seen_in(widget(OLD, "9")) in (OLD, None)
