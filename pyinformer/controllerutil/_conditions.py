"""Status conditions: what is true of an object right now, as `status.conditions` holds it.

What enters is a list as the server or a program wrote it; what leaves is a new list, and the one
that entered is not changed. Invariant: `lastTransitionTime` moves when the status does and at no
other time, so that writing the same condition again is no change at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from pyinformer._clock import wall_time
from pyinformer.apimachinery import InvalidArgumentError, InvalidTypeError, JSONObject, JSONValue
from pyinformer.controllerutil._timestamps import timestamp

Conditions: TypeAlias = Sequence[Mapping[str, JSONValue]] | None
"""`obj.at("status.conditions", default=None)`, or the list of a body."""

ConditionStatus: TypeAlias = Literal["True", "False", "Unknown"] | bool
"""The three texts that Kubernetes knows; True and False stand for theirs."""

# As the API conventions' schema of metav1.Condition has them; a server refuses the whole status
# for one condition that breaks them.
_TYPE: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_MAX_TYPE: Final = 316
_MAX_REASON: Final = 1024
_MAX_MESSAGE: Final = 32_768


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
        await cluster.status(database, {"conditions": conditions})

    Args:
        conditions: those that there are; None for none. They are not changed.
        condition_type: such as `Ready`; there is one condition of each type.
        status: "True", "False" or "Unknown", or a bool.
        reason: one word in camel case for programs: why.
        message: a sentence for people; cut at 32,768 characters.
        observed_generation: the `metadata.generation` that this was decided for. None keeps
            what the condition has.
        wall_clock: seconds since 1970; asked only if the status changes.

    Returns:
        A new list, in the old order, a new type last; equal to `conditions` if this one says the
        same already. Fields that are not known here are kept.

    Raises:
        InvalidArgumentError: a value that every API server refuses.
        InvalidTypeError: `conditions` is no list of conditions, or the message no text.

    Source:
        k8s.io/apimachinery pkg/api/meta/conditions.go, SetStatusCondition.
    """
    word = _checked_status(status)
    _check("condition_type", condition_type, _TYPE, _MAX_TYPE)
    _check("reason", reason, _REASON, _MAX_REASON)
    if not isinstance(message, str):
        raise InvalidTypeError("message", f"must be text, not {type(message).__name__}")
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


def find_condition(conditions: Conditions, condition_type: str) -> JSONObject | None:
    """Return a copy of the condition of one type, or None.

    Raises:
        InvalidTypeError: `conditions` is no list of conditions.
    """
    found = (each for each in _copies(conditions) if each.get("type") == condition_type)
    return next(found, None)


def is_condition_true(
    conditions: Conditions, condition_type: str, *, generation: int | None = None
) -> bool:
    """Return whether a condition is there and "True".

    Args:
        conditions: those that there are; None for none.
        condition_type: such as `Ready`.
        generation: the object's `metadata.generation`: a condition that says that it was decided
            for an older one is not true. None does not look.
    """
    condition = find_condition(conditions, condition_type)
    if condition is None or condition.get("status") != "True":
        return False
    observed = condition.get("observedGeneration")
    return generation is None or not isinstance(observed, int) or observed >= generation


def _copies(conditions: Conditions) -> list[JSONObject]:
    given = () if conditions is None else conditions
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    if not is_list or not all(isinstance(each, Mapping) for each in given):
        raise InvalidTypeError("conditions", "is no list of dicts, as status.conditions has to be")
    return [dict(each) for each in given]


def _checked_status(status: ConditionStatus) -> str:
    word = str(status) if isinstance(status, bool) else status
    if word not in ("True", "False", "Unknown"):
        raise InvalidArgumentError("status", f"{status!r} is not True, False or 'Unknown'")
    return word


def _check(argument: str, text: str, pattern: re.Pattern[str], longest: int) -> None:
    if not isinstance(text, str) or not pattern.fullmatch(text) or len(text) > longest:
        shown = text[:_SHOWN] if isinstance(text, str) else text
        reason = (
            f"{shown!r} is not one word of letters and digits, such as 'AllReplicasUp', of at most"
            f" {longest} characters"
        )
        raise InvalidArgumentError(argument, reason)


_SHOWN: Final = 64
