"""Validation of what some built-in kinds contain, as far as controllers get it wrong.

Source:
    pkg/apis/core/validation/validation.go and events.go; pkg/apis/coordination/validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pyinformer.objects import JSONObject
from pyinformer.testing.apiserver.requests import failures
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.writes._immutable_fields import (
    Cause,
    changes_of_immutables,
    immutable,
)
from pyinformer.testing.apiserver.writes._metadata_validation import why_not_key

_INVALID, _REQUIRED = "FieldValueInvalid", "FieldValueRequired"
_LONGEST_LABEL: Final = 63
_LEAST_SERIES: Final = 2
_TEXTS_OF_EVENT: Final = {
    "reportingInstance": (128, True),
    "action": (128, True),
    "reason": (128, True),
    "message": (1024, False),
}
"""The most bytes of a text, and whether it is required."""
_UNSET: Final = {
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "deprecatedSource": "source",
}
_KEPT: Final = {
    "regarding": "involvedObject",
    "reason": "reason",
    "note": "message",
    "action": "action",
    "related": "related",
    "reportingController": "reportingController",
    "reportingInstance": "reportingInstance",
    "type": "type",
    "eventTime": "eventTime",
}
"""The fields of an Event that no update may change, and their names in errors."""


def check_content(resource: ResourceType, before: JSONObject, after: JSONObject) -> None:
    """Refuse an object whose content its kind does not allow.

    Args:
        resource: its resource.
        before: the stored object; empty for a new one.
        after: the object.

    Raises:
        Failure: 422, with one cause per finding.
    """
    causes: list[Cause] = []
    if (check := _CHECKS.get(resource.qualified_name)) is not None:
        causes += check(before, after)
    if before:
        causes += changes_of_immutables(resource.qualified_name, before, after)
    if causes:
        name = str(after["metadata"].get("name") or "")
        raise failures.invalid(resource.kind, resource.group, name, causes)


def _lease(_: JSONObject, after: JSONObject) -> Iterator[Cause]:
    spec: JSONObject = after.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        sentence = f"Invalid value: {seconds}: must be greater than 0"
        yield _INVALID, "spec.leaseDurationSeconds", sentence
    if transitions is not None and transitions < 0:
        sentence = f"Invalid value: {transitions}: must be greater than or equal to 0"
        yield _INVALID, "spec.leaseTransitions", sentence


def _job(before: JSONObject, after: JSONObject) -> Iterator[Cause]:
    """Yield why the label that a Job gives its pods cannot have its name."""
    name = str(after["metadata"]["name"])
    is_labelled = not before and not (after.get("spec") or {}).get("manualSelector")
    if is_labelled and len(name) > _LONGEST_LABEL:
        sentence = f'Invalid value: "{name}": must be no more than {_LONGEST_LABEL} bytes'
        yield _INVALID, "spec.template.labels", sentence


def _core_event(_: JSONObject, after: JSONObject) -> Iterator[Cause]:
    named = (after.get("involvedObject") or {}).get("namespace")
    if named and named != after["metadata"]["namespace"]:
        yield _other_namespace(named)
    yield from _namespace_of_event(after, named)
    if after.get("eventTime"):
        yield from _reporter(after, "reportingComponent")


def _event(before: JSONObject, after: JSONObject) -> Iterator[Cause]:
    yield from _namespace_of_event(after, (after.get("regarding") or {}).get("namespace"))
    if after.get("eventTime"):
        yield from _reporter({**after, "message": after.get("note")}, "reportingController")
    else:
        yield _REQUIRED, "eventTime", "Required value"
    kind = after.get("type") or ""
    if kind not in ("Normal", "Warning"):
        yield _INVALID, "type", f'Invalid value: "": has invalid value: {kind}'
    for name, shown in _UNSET.items():
        if after.get(name):
            yield _INVALID, shown, 'Invalid value: "": needs to be unset'
    for name, shown in _KEPT.items() if before else ():
        if after.get(name) != before.get(name):
            yield immutable(shown, after.get(name))


def _namespace_of_event(event: JSONObject, about: str | None) -> Iterator[Cause]:
    """Yield why an Event about a cluster-scoped object is not in this namespace."""
    if not about and event["metadata"]["namespace"] != "default":
        yield _other_namespace("")


def _other_namespace(about: str) -> Cause:
    sentence = f'Invalid value: "{about}": does not match event.namespace'
    return _INVALID, "involvedObject.namespace", sentence


def _reporter(event: JSONObject, controller: str) -> Iterator[Cause]:
    """Yield what is wrong with the fields that came with eventTime."""
    name = str(event.get(controller) or "")
    if not name:
        yield _REQUIRED, controller, "Required value"
    if why := why_not_key(name):
        yield _INVALID, controller, f'Invalid value: "{name}": {why}'
    for field, (most, is_required) in _TEXTS_OF_EVENT.items():
        text = str(event.get(field) or "")
        if is_required and not text:
            yield _REQUIRED, field, "Required value"
        elif len(text.encode()) > most:
            yield _INVALID, field, f'Invalid value: "": can have at most {most} characters'
    series = event.get("series")
    if series is not None and (series.get("count") or 0) < _LEAST_SERIES:
        yield _INVALID, "series.count", f'Invalid value: "": should be at least {_LEAST_SERIES}'
    if series is not None and not series.get("lastObservedTime"):
        yield _REQUIRED, "series.lastObservedTime", "Required value"


_CHECKS: Final[Mapping[str, Callable[[JSONObject, JSONObject], Iterator[Cause]]]] = {
    "leases.coordination.k8s.io": _lease,
    "jobs.batch": _job,
    "events": _core_event,
    "events.events.k8s.io": _event,
}
