"""The namespaces that a `synced_informer` holds, and the objects that its field selector selects.

Fields are selected as a server does it, and a field that a server would refuse is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from pyinformer.apimachinery import FieldSelector, GroupVersionResource, JSONObject, check_seconds
from pyinformer.errors import InvalidArgumentError, NotCachedError
from pyinformer.store import Readiness
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage import make_record


@final
class Coverage:
    """The Readiness of a cache that holds some namespaces completely."""

    def __init__(self, namespaces: frozenset[str] | None, informer: str) -> None:
        self._namespaces = namespaces
        self._informer = informer

    @property
    def staleness(self) -> str:
        """Always empty."""
        return ""

    def covers(self, namespace: str | None) -> bool:
        """Return whether a namespace is held."""
        return self._namespaces is None or namespace in self._namespaces

    def check(self, namespace: str | None) -> None:
        """Raise if a namespace is not held."""
        if namespace is not None and not self.covers(namespace):
            raise NotCachedError(informer=self._informer, namespace=namespace)

    def within(self, max_age_seconds: float) -> Readiness:
        """Allow every age: the objects of a test are never stale."""
        check_seconds("max_age_seconds", max_age_seconds)
        return self


def selecting_fields(
    resource: GroupVersionResource, known: ResourceType | None, selector: FieldSelector
) -> Callable[[JSONObject], bool]:
    """Return a predicate of complete objects for a field selector.

    Args:
        resource: the resource.
        known: the resource as a server describes it; None allows every field.
        selector: the field selector.

    Raises:
        InvalidArgumentError: a server does not support this field.
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
