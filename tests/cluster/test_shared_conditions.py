"""What changed in a list of conditions is merged into a newer one; other lists are sent whole."""

from __future__ import annotations

from copy import deepcopy

import pytest

from pyinformer.apimachinery import JSONObject, JSONValue
from pyinformer.cluster._conditions import StatusChange
from pyinformer.cluster._patches import merge_patch


def listed(**states: JSONValue) -> list[JSONValue]:
    return [{"type": name, "status": state} for name, state in states.items()]


def changed(before: JSONValue, after: JSONValue) -> StatusChange:
    """Return the change from one list of conditions to another."""
    old: JSONObject = {"status": {} if before is None else {"conditions": before}}
    new: JSONObject = {"status": {} if after is None else {"conditions": after}}
    return StatusChange.of(merge_patch(old, new), old)


@pytest.mark.parametrize(
    ("before", "after", "newest", "merged"),
    [
        pytest.param(None, listed(A=1), None, listed(A=1), id="first"),
        pytest.param(None, listed(A=1), listed(B=1), listed(B=1, A=1), id="beside-another"),
        pytest.param(
            listed(A=1, B=1), listed(A=2, B=1), listed(B=2, A=1), listed(B=2, A=2), id="changed"
        ),
        pytest.param(listed(A=1), listed(A=2), listed(A=3), listed(A=2), id="by-both"),
        pytest.param(listed(A=1, B=1), listed(A=2, B=1), None, listed(A=2), id="all-removed"),
        pytest.param(listed(A=1), [], listed(A=2, B=1), listed(B=1), id="removed"),
        pytest.param(listed(A=1), None, listed(A=1, B=1), listed(B=1), id="removed-with-its-list"),
        pytest.param(listed(A=1), None, listed(A=1), None, id="removed-as-the-last"),
        pytest.param(listed(A=1), [], listed(A=1), [], id="emptied"),
        pytest.param(None, [], listed(B=1), listed(B=1), id="an-empty-list"),
        pytest.param(None, [], None, [], id="a-first-empty-list"),
        pytest.param(listed(A=1), listed(A=2), ["x"], listed(A=2), id="into-another-list"),
    ],
)
def test_the_changed_conditions_are_merged_into_the_newest(
    before: JSONValue, after: JSONValue, newest: JSONValue, merged: JSONValue
) -> None:
    given = deepcopy((before, after, newest))
    change = changed(before, after)

    assert change.has_conditions
    assert change.onto({"status": {"conditions": newest}}) == {"status": {"conditions": merged}}
    assert (before, after, newest) == given


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, ["A"], id="texts"),
        pytest.param(["A"], None, id="texts-removed"),
        pytest.param(None, [{"type": "A"}, {"type": "A"}], id="one-type-twice"),
        pytest.param([{"type": "A"}, {"type": "A"}], listed(A=1), id="one-type-twice-before"),
        pytest.param(None, [{"type": "A"}, {"name": "B"}], id="no-type"),
        pytest.param(None, [{"type": 1}], id="a-number-as-type"),
        pytest.param(None, {"A": {"type": "A"}}, id="an-object"),
    ],
)
def test_what_is_not_a_list_of_conditions_is_sent_whole(
    before: JSONValue, after: JSONValue
) -> None:
    change = changed(before, after)

    assert not change.has_conditions
    assert change.onto({"status": {"conditions": listed(B=1)}}) == change.patch
    assert change.patch["status"]["conditions"] == after


@pytest.mark.parametrize(
    "after", [listed(B=1, A=1), [{**one, "x": None} for one in listed(B=1, A=1)]]
)
def test_an_order_and_a_null_are_not_changes(after: list[JSONValue]) -> None:
    assert changed(listed(A=1, B=1), after).patch == {}


def test_a_condition_that_differs_from_one_of_two_states_is_changed() -> None:
    """From what the caller sees, or from what it has written since."""
    patch: JSONObject = {"status": {"conditions": listed(A=1, B=1, C=1), "phase": "x"}}
    seen, known = listed(A=1, B=2, C=1), listed(A=2, B=1, C=1, D=1)
    before = ({"status": {"conditions": one}} for one in (seen, known))

    change = StatusChange.of(patch, *before)

    written = dict.fromkeys(("A", "B", "D"))
    assert change.written == {"status": {"conditions": written, "phase": "x"}}
    newest: JSONObject = {"status": {"conditions": listed(A=3, B=3, C=3, D=3)}}
    assert change.onto(newest)["status"]["conditions"] == listed(A=1, B=1, C=3)
