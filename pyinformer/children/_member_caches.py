"""The caches in which the children of all owners are found, by the id of their set."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, final

from pyinformer.cache.informer import SharedInformer
from pyinformer.children._apply_set import PART_OF
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import GroupVersionResource, JSONObject, KubeObject

_INDEX: Final = "children of an apply set"


@final
class MemberCaches:
    """Finds children in the informers of what a function owns.

    Args:
        informers: one or several of each resource, with different selectors.
    """

    def __init__(self, informers: Iterable[SharedInformer[Any]]) -> None:
        self._informers: dict[GroupVersionResource, list[SharedInformer[Any]]] = {}
        for informer in informers:
            self._informers.setdefault(informer.scope.resource, []).append(informer)
            with suppress(InvalidArgumentError):  # another function has added the same index
                informer.add_index(_INDEX, _set_of)

    @property
    def resources(self) -> frozenset[GroupVersionResource]:
        """What can be a child."""
        return frozenset(self._informers)

    def check(self, argument: str, resource: GroupVersionResource, body: JSONObject) -> None:
        """Refuse a child that no informer would show again.

        Args:
            argument: for the error.
            resource: of the child.
            body: of the child, with its namespace.

        Raises:
            InvalidArgumentError: naming the cure.
        """
        if resource not in self._informers:
            call = f'owns=[("{resource.api_version}", "{resource.resource}")]'
            reason = f"is of {resource}, which the function does not own: register it with {call}"
            raise InvalidArgumentError(argument, reason)
        metadata = body["metadata"]
        namespace = metadata.get("namespace") or ""
        scopes = [one.scope for one in self._informers[resource]]
        within = [one for one in scopes if not namespace or one.covers(namespace)]
        if not within:
            reason = f"is in namespace {namespace!r}, which the operator does not follow"
            raise InvalidArgumentError(argument, reason)
        labels = metadata.get("labels") or {}
        if not any(one.label_selector.matches(labels) for one in within):
            selectors = " or ".join(str(one.label_selector) for one in within)
            reason = f"lacks the labels by which its kind is followed: {selectors}"
            raise InvalidArgumentError(argument, reason)

    def is_share(self, resource: GroupVersionResource) -> bool:
        """Return whether only the children of a share of the owners are cached."""
        return any(one.scope.uid_range is not None for one in self._informers[resource])

    def current(self, resource: GroupVersionResource, key: str) -> KubeObject[Any] | None:
        """Return an object as it is cached; None if it is not."""
        for informer in self._informers[resource]:
            found = informer.lister.get(key)
            if found is not None:
                return found
        return None

    def members(self, set_id: str) -> list[tuple[GroupVersionResource, Any]]:
        """Return the objects that are in a set by their label, each once and with its resource.

        Args:
            set_id: of their owner.
        """
        found = {
            (child.gvk.group_kind, child.key): (resource, child)
            for resource, informers in self._informers.items()
            for informer in informers
            for child in informer.lister.by_index(_INDEX, set_id)
        }
        return list(found.values())


def _set_of(obj: KubeObject[Any]) -> str | None:
    return obj.metadata.labels.get(PART_OF)
