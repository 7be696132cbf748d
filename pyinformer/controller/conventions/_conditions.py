"""Status conditions: the entries of an object's `status.conditions`.

A new list is returned, and the given one is not changed. `lastTransitionTime` changes only with the
status, so setting the same condition again changes nothing.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from pyinformer._runtime.clock import wall_time
from pyinformer._runtime.tasks import check_callable
from pyinformer.controller.conventions._timestamps import timestamp
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import JSONObject, JSONValue, check_integer

Conditions: TypeAlias = Sequence[Mapping[str, JSONValue]] | None
"""`obj.at("status.conditions", default=None)`, or the list of a body."""

ConditionStatus: TypeAlias = Literal["True", "False", "Unknown"] | bool
"""The three texts of Kubernetes; a bool stands for two of them."""

# From the API conventions' schema of metav1.Condition; a server refuses the whole status for one
# invalid condition.
_TYPE: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_MAX_TYPE: Final = 316
_MAX_REASON: Final = 1024
_MAX_MESSAGE: Final = 32_768
_SHOWN: Final = 64  # characters of an invalid word


def set_condition(
    conditions: Conditions,
    condition_type: str,
    status: ConditionStatus,
    *,
    reason: str,
    message: str = "",
    observed_generation: int | None = None,
    wall_clock: Callable[[], float] = wall_time,
) -> list[JSONObject]:
    """Return the conditions with one of them set; write the result to `status.conditions`.

        conditions = set_condition(
            database.at("status.conditions", default=None), "Ready", True, reason="AllReplicasUp",
            observed_generation=database.metadata.generation,
        )
        status = database.at("status", dict, default={})
        await cluster.status(database, {**status, "conditions": conditions})

    The dict has the whole status: `cluster.status` removes what a dict leaves out. What a model
    does not know is kept: `cluster.status(database, DatabaseStatus(conditions=conditions))`.

    `cluster.status()` keeps the conditions that others have set since `database` was read; a status
    that is written otherwise, with `cluster.patch()` for example, needs `check_version=True`.

    Args:
        conditions: the present conditions; None for none. They are not changed.
        condition_type: such as `Ready`; each type has one condition.
        status: "True", "False" or "Unknown", or a bool.
        reason: why, as one word in camel case, for programs.
        message: a sentence for people; cut at 32,768 characters.
        observed_generation: the `metadata.generation` that this was decided for. None keeps
            the present value.
        wall_clock: Unix time in seconds; read only if the status changes.

    Returns:
        A new list, in the old order, a new type last; equal to `conditions` if this condition is
        unchanged. Unknown fields are kept.

    Raises:
        InvalidArgumentError: a value that every API server refuses.
        InvalidTypeError: `conditions` is not a list of conditions, or the message is not text.

    Source:
        k8s.io/apimachinery pkg/api/meta/conditions.go, SetStatusCondition.
    """
    word = _checked_status(status)
    _check("condition_type", condition_type, _TYPE, _MAX_TYPE)
    _check("reason", reason, _REASON, _MAX_REASON)
    if not isinstance(message, str):
        raise InvalidTypeError("message", f"must be text, not {type(message).__name__}")
    if observed_generation is not None:
        check_integer("observed_generation", observed_generation, least=0)
    check_callable(wall_clock, "wall_clock()", 0)
    copies = _copies(conditions)
    condition = next((each for each in copies if each.get("type") == condition_type), None)
    if condition is None:
        condition = {"type": condition_type}
        copies.append(condition)
    if condition.get("status") != word or not condition.get("lastTransitionTime"):
        condition["lastTransitionTime"] = timestamp(wall_clock())
    condition.update(status=word, reason=reason, message=message[:_MAX_MESSAGE])
    if observed_generation is not None:
        condition["observedGeneration"] = observed_generation
    return copies


def remove_condition(conditions: Conditions, condition_type: str) -> list[JSONObject]:
    """Return the conditions without that of one type; write the result to `status.conditions`.

    `cluster.status()` removes a condition that is left out, and keeps those that others have set.

    Args:
        conditions: the present conditions; None for none. They are not changed.
        condition_type: such as `Ready`; without a condition of this type, all are returned.

    Raises:
        InvalidTypeError: `conditions` is not a list of conditions.

    Source:
        k8s.io/apimachinery pkg/api/meta/conditions.go, RemoveStatusCondition.
    """
    return [each for each in _copies(conditions) if each.get("type") != condition_type]


def find_condition(conditions: Conditions, condition_type: str) -> JSONObject | None:
    """Return a copy of the condition of one type, or None.

    Raises:
        InvalidTypeError: `conditions` is not a list of conditions.
    """
    found = (each for each in _copies(conditions) if each.get("type") == condition_type)
    return next(found, None)


def is_condition_true(
    conditions: Conditions, condition_type: str, *, generation: int | None = None
) -> bool:
    """Return whether a condition exists and is "True".

    Args:
        conditions: the present conditions; None for none.
        condition_type: such as `Ready`.
        generation: the object's `metadata.generation`: a condition of an older generation is not
            true. None ignores the generation.

    Raises:
        InvalidArgumentError: the generation is not an integer.
        InvalidTypeError: `conditions` is not a list of conditions.
    """
    if generation is not None:
        check_integer("generation", generation, least=0)
    condition = find_condition(conditions, condition_type)
    if condition is None or condition.get("status") != "True":
        return False
    observed = condition.get("observedGeneration")
    return generation is None or not isinstance(observed, int) or observed >= generation


def _copies(conditions: Conditions) -> list[JSONObject]:
    given = () if conditions is None else conditions
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    if not is_list or not all(isinstance(each, Mapping) for each in given):
        raise InvalidTypeError("conditions", "must be a list of dicts, as status.conditions is")
    return [dict(each) for each in given]


def _checked_status(status: ConditionStatus) -> str:
    word = str(status) if isinstance(status, bool) else status
    if word not in ("True", "False", "Unknown"):
        raise InvalidArgumentError("status", f"must be True, False or 'Unknown', got {status!r}")
    return word


def _check(argument: str, text: str, pattern: re.Pattern[str], longest: int) -> None:
    if not isinstance(text, str) or not pattern.fullmatch(text) or len(text) > longest:
        shown = text[:_SHOWN] if isinstance(text, str) else text
        reason = (
            f"must be one word of letters and digits, such as 'AllReplicasUp', of at most {longest}"
            f" characters, got {shown!r}"
        )
        raise InvalidArgumentError(argument, reason)
