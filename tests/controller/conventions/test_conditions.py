"""Conditions keep their rules, above all that of the last transition."""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer import Controller, KubeObject, Request
from pyinformer.controller.conventions import (
    find_condition,
    is_condition_true,
    remove_condition,
    set_condition,
)
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.testing import World

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject

_AT_10 = "1970-01-01T00:00:10Z"
_AT_20 = "1970-01-01T00:00:20Z"


def _ready(
    conditions: list[JSONObject] | None = None,
    status: Any = True,
    *,
    at: float = 10.0,
    reason: str = "Up",
    message: str = "",
    generation: int | None = None,
) -> list[JSONObject]:
    return set_condition(
        conditions,
        "Ready",
        status,
        reason=reason,
        message=message,
        observed_generation=generation,
        wall_clock=lambda: at,
    )


@pytest.mark.covers("apimachinery pkg/api/meta: TestSetStatusCondition")
def test_a_new_condition_begins_now() -> None:
    assert _ready() == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Up",
            "message": "",
            "lastTransitionTime": _AT_10,
        }
    ]


@pytest.mark.covers("apimachinery pkg/api/meta: TestSetStatusCondition")
def test_the_transition_is_the_change_of_the_status() -> None:
    changed = _ready(_ready(), False, at=20.0)

    assert (changed[0]["status"], changed[0]["lastTransitionTime"]) == ("False", _AT_20)


@pytest.mark.covers("apimachinery pkg/api/meta: TestSetStatusCondition")
def test_a_new_reason_message_or_generation_is_not_a_transition() -> None:
    changed = _ready(_ready(), at=20.0, reason="Better", message="all up", generation=3)

    assert changed == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Better",
            "message": "all up",
            "observedGeneration": 3,
            "lastTransitionTime": _AT_10,
        }
    ]


@pytest.mark.covers("apimachinery pkg/api/meta: TestSetStatusCondition")
def test_setting_an_equal_condition_changes_nothing() -> None:
    before = _ready(generation=1)

    assert _ready(before, at=20.0, generation=1) == before


def test_the_given_conditions_are_not_modified() -> None:
    before = _ready()
    kept = copy.deepcopy(before)

    _ready(before, "Unknown", at=20.0)

    assert before == kept


def test_a_generation_that_is_not_given_stays() -> None:
    assert _ready(_ready(generation=4), False)[0]["observedGeneration"] == 4


def test_other_conditions_and_unknown_fields_stay_where_they_are() -> None:
    others: list[JSONObject] = [
        {"type": "Ready", "status": "True", "lastTransitionTime": _AT_10, "lastProbeTime": None},
        {"type": "Synced", "status": "False"},
    ]

    changed = _ready(others)

    assert changed[0]["lastProbeTime"] is None
    assert changed[0]["lastTransitionTime"] == _AT_10
    assert changed[1] == {"type": "Synced", "status": "False"}


def test_a_condition_without_a_transition_time_gets_one() -> None:
    assert _ready([{"type": "Ready", "status": "True"}])[0]["lastTransitionTime"] == _AT_10


def test_a_broken_clock_raises_nothing() -> None:
    assert _ready(at=float("nan"))[0]["lastTransitionTime"] == "1970-01-01T00:00:00Z"
    assert _ready(at=1e300)[0]["lastTransitionTime"] == "9999-12-31T23:59:59Z"


def test_a_message_is_cut_where_a_server_would_refuse_it() -> None:
    assert len(_ready(message="x" * 40_000)[0]["message"]) == 32_768


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        pytest.param({"status": "yes"}, "status", id="status"),
        pytest.param({"status": None}, "status", id="no-status"),
        pytest.param({"reason": ""}, "reason", id="no-reason"),
        pytest.param({"reason": "two words"}, "reason", id="sentence"),
    ],
)
def test_a_reason_or_status_that_servers_refuse_is_refused(
    change: dict[str, Any], argument: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{argument}: "):
        _ready(**change)


def test_a_condition_type_that_servers_refuse_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^condition_type: "):
        set_condition(None, "not ready", status=True, reason="Up")


@pytest.mark.covers("apimachinery pkg/api/meta: TestSetStatusCondition")
def test_a_condition_is_true_if_its_status_is_true() -> None:
    assert is_condition_true(_ready(), "Ready")
    assert not is_condition_true(_ready(status="Unknown"), "Ready")
    assert not is_condition_true(_ready(), "Synced")
    assert not is_condition_true(None, "Ready")


def test_a_condition_of_an_older_generation_is_not_true() -> None:
    assert is_condition_true(_ready(generation=2), "Ready", generation=2)
    assert not is_condition_true(_ready(generation=2), "Ready", generation=3)
    assert is_condition_true(_ready(), "Ready", generation=3), "it does not say which"


@pytest.mark.parametrize("wrong", [{"type": "Ready"}, "Ready", ["Ready"], 7])
def test_a_value_that_is_not_a_list_of_conditions_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidTypeError, match="conditions: "):
        set_condition(wrong, "Ready", True, reason="Up")
    with pytest.raises(InvalidTypeError, match="conditions: "):
        find_condition(wrong, "Ready")
    with pytest.raises(InvalidTypeError, match="conditions: "):
        remove_condition(wrong, "Ready")


def test_a_message_that_is_not_text_is_refused() -> None:
    wrong: Any = None
    with pytest.raises(InvalidTypeError, match="message: "):
        set_condition(None, "Ready", True, reason="Up", message=wrong)


@pytest.mark.covers("apimachinery pkg/api/meta: TestSetStatusCondition")
def test_a_condition_is_found_as_a_copy() -> None:
    conditions = _ready()
    found = find_condition(conditions, "Ready")
    assert found is not None

    found["status"] = "False"

    assert is_condition_true(conditions, "Ready")
    assert find_condition(conditions, "Synced") is None


@pytest.mark.covers("apimachinery pkg/api/meta: TestRemoveStatusCondition")
def test_a_condition_is_removed_and_the_given_list_is_not_changed() -> None:
    conditions = set_condition(_ready(), "Synced", False, reason="Lagging")

    left = remove_condition(conditions, "Ready")

    assert [each["type"] for each in left] == ["Synced"]
    assert [each["type"] for each in conditions] == ["Ready", "Synced"]


@pytest.mark.covers("apimachinery pkg/api/meta: TestRemoveStatusCondition")
@pytest.mark.parametrize(
    "conditions", [pytest.param(None, id="none"), pytest.param(_ready(), id="of-another-type")]
)
def test_removing_a_condition_that_is_not_there_changes_nothing(conditions: Any) -> None:
    assert remove_condition(conditions, "Synced") == (conditions or [])


@pytest.mark.parametrize("stored", [{}, {"ready": 3, "endpoint": "db.shop:5432"}])
def test_the_example_of_the_docstring_leaves_the_rest_of_the_status(
    stored: dict[str, Any],
) -> None:
    """Programs copy it: a status has other fields, and a dict that leaves them out removes them."""
    described = inspect.getdoc(set_condition) or ""
    lines = [line for line in described.partition("Args:")[0].splitlines() if line.startswith("  ")]
    program: dict[str, Any] = {"set_condition": set_condition}
    exec(  # noqa: S102 - the example
        "async def example(database, cluster):\n" + "\n".join(lines), program
    )
    database: JSONObject = {
        "apiVersion": "acme.io/v1",
        "kind": "Database",
        "metadata": {"name": "a", "namespace": "default"},
        **({"status": stored} if stored else {}),
    }

    async def reconcile(_: Request, obj: KubeObject | None) -> None:
        await program["example"](obj, world.cluster)

    with World([database]) as world:
        databases = world.factory.informer("acme.io/v1", "databases")
        outcome = world.reconcile(Controller("c", reconcile, databases), "default/a")
        status: Any = world.get("acme.io/v1", "databases", "a")["status"]

    assert outcome.error is None
    assert {name: value for name, value in status.items() if name != "conditions"} == stored
    assert [one["type"] for one in status["conditions"]] == ["Ready"]
