"""Why a request is made: what happened, to which object, and which source saw it.

What enters are events and reminders; what leaves are small frozen records that a request carries
through the queue for logs and tests. No decision may be made by them: requests are merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.apimachinery import Added, Event, KubeObject, Updated, View
from pyinformer.sources._request import Reason

if TYPE_CHECKING:
    from typing import Literal


def reason_of_event(source: str, event: Event[View | None]) -> Reason:
    """Return why an event makes requests.

    Args:
        source: the source's name.
        event: what happened.
    """
    if isinstance(event, Updated):
        is_real = not is_reminder(event)
        return _reason(source, "updated" if is_real else "resync", event.new)
    if isinstance(event, Added):
        return _reason(source, "added", event.object)
    return _reason(source, "deleted", event.last_known)


def reason_of_initial(source: str, obj: KubeObject[View | None]) -> Reason:
    """Return why an object that existed from the beginning makes requests."""
    return _reason(source, "initial", obj)


def reason_of_resync(source: str, obj: KubeObject[View | None]) -> Reason:
    """Return why a reminder of an object makes requests."""
    return _reason(source, "resync", obj)


def reason_of_timer(source: str, key: str) -> Reason:
    """Return why a timer makes a request."""
    return Reason(source=source, event="timer", key=key, resource_version="")


def is_reminder(event: Updated[View | None]) -> bool:
    """Return whether an update says nothing new; in a new epoch, one version may say two things."""
    if event.may_go_back or event.is_resync:
        return event.is_resync
    # What has no resource version always says something new.
    before, after = event.old.metadata, event.new.metadata
    version = after.resource_version
    return bool(version) and version == before.resource_version and after.uid == before.uid


def _reason(
    source: str,
    event: Literal["added", "updated", "deleted", "initial", "resync"],
    obj: KubeObject[View | None],
) -> Reason:
    return Reason(
        source=source,
        event=event,
        key=obj._key,
        resource_version=obj.metadata.resource_version,
    )
