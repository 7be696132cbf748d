"""What this process wrote to a status is laid over an older object; what is kept has a bound."""

from __future__ import annotations

import msgspec
import pytest

from pyinformer.client.cluster._status_patch_bases import StatusPatchBases
from pyinformer.objects import GroupVersionKind, JSONObject, JSONValue, KubeObject, ObjectMeta

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
    written = StatusPatchBases()
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
    written = StatusPatchBases()
    written.patched(widget({"phase": "New"}, "10"), {"phase": "New"})

    assert written.seen_in(obj) is None


def test_a_removed_object_that_is_written_again_has_none_of_its_old_fields() -> None:
    written = StatusPatchBases()
    written.patched(widget({}, "10"), {"parts": None})
    written.patched(widget({"parts": {"c": 3}}, "11"), {"parts": {"c": 3}})

    assert written.seen_in(widget(OLD, "9")) == {**OLD, "parts": {"c": 3}}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in-order", "swapped"])
def test_the_newest_response_counts_whichever_arrives_last(order: tuple[int, int]) -> None:
    written = StatusPatchBases()
    writes = [
        (widget({"phase": "New"}, "10"), {"phase": "New"}),
        (widget({"phase": "Old", "note": "x"}, "11"), {"phase": "Old", "note": "x"}),
    ]
    for number in order:
        written.patched(*writes[number])

    assert written.seen_in(widget(OLD, "9")) == {**OLD, "phase": "Old", "note": "x"}


def test_written_statuses_are_bounded_in_number_and_bytes() -> None:
    written = StatusPatchBases(limit=2, limit_bytes=1_000)
    for uid in "abc":
        written.replaced(widget({"phase": "New"}, "10", uid=uid))
    known = [uid for uid in "abc" if written.seen_in(widget(OLD, "9", uid=uid)) is not None]
    assert known == ["b", "c"]

    written.replaced(widget({"note": "x" * 980}, "10", uid="d"))
    written.replaced(widget({"note": "x" * 1_000}, "10", uid="e"))
    known = [uid for uid in "abcde" if written.seen_in(widget(OLD, "9", uid=uid)) is not None]
    assert known == ["d"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in-order", "swapped"])
@pytest.mark.parametrize("newer", ["write", "status"])
def test_the_newest_status_may_be_in_the_response_to_another_write(
    order: tuple[int, int], newer: str
) -> None:
    written = StatusPatchBases()
    versions = ("11", "10") if newer == "write" else ("10", "11")
    both = [
        lambda: written.answered(widget({"phase": "write"}, versions[0]), 100),
        lambda: written.replaced(widget({"phase": "status"}, versions[1])),
    ]
    for number in order:
        both[number]()

    assert written.newest(widget(OLD, "9")) == ("11", {"phase": newer})
    assert written.newest(widget(OLD, "12")) == ("12", OLD)
    assert written.newest(widget(OLD, "9", uid="other")) == ("9", OLD)
    assert written.seen_in(widget(OLD, "9")) == {"phase": "status"}  # no fields of the other


def test_responses_to_other_writes_make_room_for_written_statuses() -> None:
    written = StatusPatchBases(limit=3, limit_bytes=1_000)
    written.replaced(widget({"phase": "New"}, "10", uid="a"))
    for uid in "bcd":
        written.answered(widget({"phase": "New"}, "10", uid=uid), 400)
    newest = {uid: written.newest(widget(OLD, "9", uid=uid)).version for uid in "abcd"}
    assert newest == {"a": "10", "b": "9", "c": "10", "d": "10"}

    written.answered(widget({}, "11", uid="d"), 400)  # in place of its earlier response
    written.answered(widget({}, "11", uid="e"), 1_001)
    written.replaced(widget({}, "11", uid="c"))
    newest = {uid: written.newest(widget(OLD, "9", uid=uid)).version for uid in "acde"}
    assert newest == {"a": "10", "c": "11", "d": "11", "e": "9"}
    for uid in "fgh":
        written.replaced(widget({}, "10", uid=uid))
    newest = {uid: written.newest(widget(OLD, "9", uid=uid)).version for uid in "acdfgh"}
    assert newest == {"a": "9", "c": "9", "d": "9", "f": "10", "g": "10", "h": "10"}


def test_names_of_fields_do_not_add_up() -> None:
    """Those of a map may be others at each write; then only the last write is known."""
    written = StatusPatchBases()
    written.patched(widget({}, "10"), {"phase": None})
    written.patched(widget({}, "11"), {f"{number:0500}": 1 for number in range(150)})
    assert written.seen_in(widget(OLD, "9")) == OLD

    written.patched(widget({}, "12"), {"parts": None})
    assert written.seen_in(widget(OLD, "9")) == {"phase": "Ready", "theirs": 1}


def test_a_status_that_is_too_large_to_be_kept_leaves_no_older_one() -> None:
    written = StatusPatchBases(limit_bytes=100)
    written.replaced(widget({"phase": "New"}, "10"))
    written.replaced(widget({"note": "x" * 100}, "11"))

    assert written.seen_in(widget(OLD, "9")) is None


def conditions(**states: str) -> JSONObject:
    return {"conditions": [{"type": name, "status": state} for name, state in states.items()]}


def test_only_the_conditions_that_were_written_are_seen_in_an_older_object() -> None:
    written = StatusPatchBases()
    stored = conditions(A="New", B="Theirs", C="Theirs")
    written.patched(widget(stored, "10"), {"conditions": {"A": None, "D": None}})

    assert written.seen_in(widget(conditions(D="Old", B="Old", A="Old"), "9")) == conditions(
        B="Old", A="New"
    )
    assert written.seen_in(widget({}, "9")) == conditions(A="New")
    assert written.newest(widget({}, "9")) == ("10", stored)
    assert written.newest(widget({}, "11")) == ("11", {})


def test_an_emptied_list_of_conditions_does_not_own_what_others_add_to_it() -> None:
    written = StatusPatchBases()
    written.patched(widget(conditions(), "10"), {"conditions": {"A": None}}, "mine")
    written.patched(widget(conditions(B="Theirs"), "11"), {"conditions": {"B": None}}, "theirs")

    assert written.seen_in(widget(conditions(A="Old"), "9"), "mine") == conditions()


@pytest.mark.parametrize("old", [{}, {"map": {}}, {"map": "a text"}])
def test_an_emptied_map_does_not_own_what_others_add_to_it(old: JSONObject) -> None:
    written = StatusPatchBases()
    written.patched(widget({"map": {}}, "10"), {"map": {}}, "mine")
    written.patched(widget({"map": {"b": 1}}, "11"), {"map": {"b": 1}}, "theirs")

    assert written.seen_in(widget(old, "9"), "mine") == {"map": {}}


def test_a_list_of_conditions_that_was_written_whole_is_known_by_its_types() -> None:
    """An apply has those of its manager alone."""
    written = StatusPatchBases()
    written.patched(widget(conditions(A="New", B="Theirs"), "10"), conditions(A="New"))

    assert written.seen_in(widget(conditions(B="Old"), "9")) == conditions(B="Old", A="New")


@pytest.mark.parametrize(
    ("old", "stored"),
    [
        pytest.param([{"type": "A"}], None, id="removed"),
        pytest.param(None, None, id="never-stored"),
        pytest.param([{"type": "A"}], [{"type": "A"}, {"type": "A"}], id="no-longer-by-type"),
        pytest.param(["text"], [{"type": "A"}], id="texts-before"),
        pytest.param({"A": 1}, {"A": 2}, id="an-object"),
    ],
)
def test_what_is_not_a_list_of_conditions_is_seen_as_it_is_stored(
    old: JSONValue, stored: JSONValue
) -> None:
    written = StatusPatchBases()
    written.patched(widget({"conditions": stored}, "10"), {"conditions": {"A": None}})

    seen = written.seen_in(widget({"conditions": old}, "9"))

    assert seen == ({} if stored is None else {"conditions": stored})


def test_what_another_writer_wrote_is_not_seen() -> None:
    """It is another client's, as far as this one knows; but both have the newest state."""
    written = StatusPatchBases()
    written.patched(widget({"phase": "New"}, "10"), {"phase": "New"}, "first")
    written.patched(widget({"phase": "New", "parts": 1}, "11"), {"parts": 1}, "second")

    assert written.seen_in(widget(OLD, "9"), "first") == {**OLD, "phase": "New"}
    assert written.seen_in(widget(OLD, "9"), "second") == {**OLD, "parts": 1}
    assert written.seen_in(widget(OLD, "10"), "first") is None
    assert written.seen_in(widget(OLD, "9")) is None
    assert written.newest(widget(OLD, "9")) == ("11", {"phase": "New", "parts": 1})


def test_the_writers_of_one_object_are_bounded() -> None:
    written = StatusPatchBases()
    for number in range(20):
        written.replaced(widget({"phase": "New"}, str(number + 10)), number)

    known = [one for one in range(20) if written.seen_in(widget(OLD, "9"), one) is not None]
    assert known == list(range(4, 20))


@pytest.mark.parametrize("levels", [300, 510, 100_000])
def test_a_status_that_is_too_deep_to_be_compared_fails_no_write(levels: int) -> None:
    deep: JSONObject = {}
    for _ in range(levels):
        deep = {"a": deep}
    written = StatusPatchBases()
    written.patched(widget({"phase": "New"}, "10"), deep)

    assert written.seen_in(widget(OLD, "9")) in (OLD, None)
