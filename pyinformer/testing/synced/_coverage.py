"""Which objects a `synced_informer` holds, and which questions it can answer.

What enters are its namespaces and its field selector; what leaves is a Readiness of the store, and
whether an object is selected. Invariant: fields are selected as a server would do it, of the object
as it was sent, and a field that it would refuse is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from pyinformer.apimachinery import (
    FieldSelector,
    GroupVersionResource,
    InvalidArgumentError,
    JSONObject,
    NotCachedError,
    check_seconds,
)
from pyinformer.store import Readiness
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage import make_record


@final
class Coverage:
    """What the cache can answer for; a Readiness of the store."""

    def __init__(self, namespaces: frozenset[str] | None, informer: str) -> None:
        self._namespaces = namespaces
        self._informer = informer

    @property
    def staleness(self) -> str:
        """Always empty."""
        return ""

    def covers(self, namespace: str | None) -> bool:
        """Tell whether a namespace is held."""
        return self._namespaces is None or namespace in self._namespaces

    def check(self, namespace: str | None) -> None:
        """Raise if a namespace is not held."""
        if namespace is not None and not self.covers(namespace):
            raise NotCachedError(informer=self._informer, namespace=namespace)

    def within(self, max_age_seconds: float) -> Readiness:
        """Allow every age: what a test holds is never old."""
        check_seconds("max_age_seconds", max_age_seconds)
        return self


def selecting_fields(
    resource: GroupVersionResource, known: ResourceType | None, selector: FieldSelector
) -> Callable[[JSONObject], bool]:
    """Return what tells whether an object, complete with its metadata, is selected.

    Args:
        resource: the resource.
        known: what a server knows of it; None takes every field of it to be selectable.
        selector: by fields.

    Raises:
        InvalidArgumentError: a server would not select by such a field.
    """
    served = known or ResourceType(
        resource.group, resource.version, "", resource.resource, field_labels=selector.paths
    )
    for path in selector.paths:
        if path not in served.selectable_fields:
            raise InvalidArgumentError("field_selector", f"{resource} is not selected by {path!r}")

    def selects(body: JSONObject) -> bool:
        return selector.matches(lambda path: make_record(served, body).fields.get(path, ""))

    return (lambda _: True) if selector.is_empty else selects
