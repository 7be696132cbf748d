"""The status of an owner: what its function has returned, and a Ready condition from its children.

It is composed here and written once for each reconcile, by `Cluster.status`, which sends nothing if
nothing is new.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final, get_args

import msgspec

from pyinformer.client.cluster import Body, by_type, status_body, with_changed
from pyinformer.controller import find_condition, set_condition
from pyinformer.errors import InvalidObjectError, InvalidTypeError
from pyinformer.objects import JSONObject, KubeObject

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

Reason: TypeAlias = Literal[
    "BeingDeleted",
    "ChildFailed",
    "ChildRefused",
    "ChildrenNotReady",
    "ChildrenReady",
    "CleanupFailed",
    "DeadlineExceeded",
    "GivenUp",
    "Unreadable",
    "WaitingForChildren",
]

READY: Final = "Ready"
LATE: Final = "DeadlineExceeded"
_REASONS: Final = frozenset(get_args(Reason))
CONDITIONS: Final = "conditions"
OBSERVED: Final = "observedGeneration"


class Condition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One entry of `status.conditions`, as the API conventions of Kubernetes have it."""

    type: str
    """Such as `Ready`; each type has one condition."""
    status: str
    """`True`, `False` or `Unknown`."""
    last_transition_time: str
    """When the status became what it is."""
    reason: str = ""
    """Why, as one word for programs."""
    message: str = ""
    """A sentence for people."""
    observed_generation: int | None = None
    """The `metadata.generation` that it was decided for."""


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """A status with conditions, for models to inherit.

        class DatabaseStatus(pyinformer.children.Status, frozen=True):
            ready: int = 0

    Its fields are in camel case in JSON, as those that a subclass adds.
    """

    observed_generation: int | None = None
    """The `metadata.generation` that the operator has acted on."""
    conditions: list[Condition] = []
    """Each type once."""


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """What the Ready condition of an owner becomes."""

    is_ready: bool
    reason: Reason
    message: str


def composed(
    owner: KubeObject[object],
    given: Body | None,
    verdict: Verdict | None,
    *,
    fields: Collection[str],
    wall_clock: Callable[[], float],
) -> JSONObject:
    """Return the whole new status of an owner.

    Args:
        owner: as the reconcile knows it.
        given: the status that the function has returned; None if it has returned none: its fields
            stay as they are. Conditions that it lacks stay, and so does a Ready condition that it
            has set itself, with a reason of its own.
        verdict: about its children; None leaves the Ready condition as it is.
        fields: `conditions` and `observedGeneration`, if the status has them.
        wall_clock: Unix time in seconds.

    Raises:
        InvalidTypeError: the given status is none, or its conditions are not a list of them.
    """
    found = owner.at("status", dict, default={})
    status = dict(found) if given is None else status_body(owner, given)
    generation = owner.metadata.generation
    if OBSERVED in fields and generation:
        status[OBSERVED] = generation
    if CONDITIONS in fields:
        before, after = found.get(CONDITIONS), status.get(CONDITIONS)
        conditions = with_changed(before, by_type(after) or {})
        own = find_condition(after, READY)
        if verdict and (own is None or _is_ours(own)):  # else the function has set it
            conditions = set_condition(
                conditions,
                READY,
                verdict.is_ready,
                reason=verdict.reason,
                message=verdict.message,
                observed_generation=generation or None,
                wall_clock=wall_clock,
            )
        status[CONDITIONS] = conditions
    return status


def ready_condition(obj: KubeObject[object]) -> JSONObject:
    """Return the Ready condition of an object; empty without one."""
    return find_condition(obj.at("status.conditions", default=None), READY) or {}


def changes_more_than_text(old: KubeObject[object] | None, new: KubeObject[object] | None) -> bool:
    """Return whether a change is of more than the message of a Ready condition of ours.

    Args:
        old: the object before; None if it was not there.
        new: the object now; None if it is gone.
    """
    if old is None or new is None:
        return True
    try:
        before, after = ready_condition(old), ready_condition(new)
    except (InvalidObjectError, InvalidTypeError):
        return True  # any client may have written conditions that are none
    if not _is_ours(before) or before["reason"] != after.get("reason"):
        return True
    return before.get("message") == after.get("message") or _without_text(old) != _without_text(new)


def _is_ours(ready: JSONObject) -> bool:
    """Return whether a Ready condition is due to children; its reason may be of any type."""
    reason = ready.get("reason")
    return isinstance(reason, str) and reason in _REASONS


def _without_text(obj: KubeObject[object]) -> JSONObject:
    body = obj.to_dict()
    metadata, status = body["metadata"], body["status"]
    for name in ("managedFields", "resourceVersion"):
        metadata.pop(name, None)
    for one in status[CONDITIONS]:
        if one.get("type") == READY:
            one.pop("message", None)
    return body
