"""The approval of certificate signing requests: conditions that are written once.

Nothing is stored here.
"""

from __future__ import annotations

from typing import Final

from pyinformer.objects import JSONObject
from pyinformer.testing.apiserver.requests import failures
from pyinformer.testing.apiserver.resources import ResourceType

REQUESTS: Final = "certificatesigningrequests.certificates.k8s.io"
"""The resource that is approved."""

_LASTING: Final = ("Approved", "Denied")


def approved(before: JSONObject, body: JSONObject, now: str) -> JSONObject:
    """Return a body whose status is the old one with the new conditions, and with their times."""
    conditions = [
        {"lastUpdateTime": now, "lastTransitionTime": now, **one}
        for one in (body.get("status") or {}).get("conditions") or ()
    ]
    status = {**(before.get("status") or {}), "conditions": conditions}
    return {**body, "status": status}


def check_conditions(resource: ResourceType, before: JSONObject, after: JSONObject) -> None:
    """Refuse an update that takes an approval or a denial back.

    Raises:
        Failure: 422.
    """
    if resource.qualified_name != REQUESTS:
        return
    lost = [one for one in _LASTING if one in _types(before) and one not in _types(after)]
    causes = [
        (
            "FieldValueForbidden",
            "status.conditions",
            f'Forbidden: updates may not remove a condition of type "{one}"',
        )
        for one in lost
    ]
    if causes:
        raise failures.invalid(resource.kind, resource.group, before["metadata"]["name"], causes)


def _types(body: JSONObject) -> set[str]:
    return {str(one.get("type")) for one in (body.get("status") or {}).get("conditions") or ()}
