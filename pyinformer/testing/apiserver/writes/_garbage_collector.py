"""Garbage collection and the emptying of namespaces, as a cluster's controllers do them.

It runs under the storage's lock until there is nothing left to do, so no reader sees it half done.

Source:
    k8s.io/kubernetes/pkg/controller/garbagecollector/garbagecollector.go, attemptToDeleteItem;
    k8s.io/kubernetes/pkg/controller/namespace/deletion/namespaced_resources_deleter.go, Delete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyinformer.objects import JSONObject
from pyinformer.testing.apiserver.requests import WriteParameters
from pyinformer.testing.apiserver.resources import Registry, ResourceType
from pyinformer.testing.apiserver.storage import Record, Storage, key_of
from pyinformer.testing.apiserver.writes._writes import Writes

_FOREGROUND: Final = "foregroundDeletion"
_ORPHAN: Final = "orphan"
_NAMESPACES: Final = "namespaces"
_POLICIES: Final = {_ORPHAN: "Orphan", _FOREGROUND: "Foreground"}
_AS_COLLECTOR: Final = WriteParameters(manager="kube-controller-manager", whole=True)


def concerns(record: Record) -> bool:
    """Return whether a new version of an object may need garbage collection."""
    return b'"ownerReferences"' in record.item or b'"deletionTimestamp"' in record.item


@dataclass(frozen=True, slots=True)
class _Item:
    """An object that has owners, or that is being deleted."""

    record: Record
    body: JSONObject

    @property
    def metadata(self) -> JSONObject:
        metadata: JSONObject = self.body["metadata"]
        return metadata

    @property
    def owners(self) -> list[JSONObject]:
        return [one for one in self.metadata.get("ownerReferences") or () if isinstance(one, dict)]

    @property
    def finalizers(self) -> list[str]:
        return [str(one) for one in self.metadata.get("finalizers") or ()]

    @property
    def is_doomed(self) -> bool:
        return "deletionTimestamp" in self.metadata

    def waits_for(self, finalizer: str) -> bool:
        return self.is_doomed and finalizer in self.finalizers


class GarbageCollector:
    """Deletes objects whose owners are gone, and empties deleted namespaces.

    Args:
        storage: holds the objects.
        registry: the served resources; owners of other kinds are assumed to exist.
        writes: carries out the decisions.
    """

    def __init__(self, storage: Storage, registry: Registry, writes: Writes) -> None:
        self._storage = storage
        self._registry = registry
        self._writes = writes

    def collect(self) -> int:
        """Collect until there is nothing left to do.

        Returns:
            The number of objects that were deleted, or marked for deletion.
        """
        deleted = 0
        with self._storage.lock:
            is_at_rest = False
            while not is_at_rest:
                revision = self._storage.revision
                for item in list(self._items()):
                    deleted += self._attend(item)
                is_at_rest = revision == self._storage.revision
        return deleted

    def _items(self) -> Iterator[_Item]:
        for resource in self._registry.all():
            for record in self._storage.state(resource)[0]:
                if concerns(record):
                    yield _Item(record, record.to_dict())

    def _attend(self, item: _Item) -> int:
        record = item.record
        if self._storage.get(record.resource, record.key) is not record:
            return 0  # an earlier step has changed it: the next round handles it
        if item.waits_for(_ORPHAN):
            for dependent in self._dependents(item):
                self._disown(dependent, {record.uid})
            self._release(item, _ORPHAN)
            return 0
        if item.waits_for(_FOREGROUND):
            if not any(self._blocks(dependent, item) for dependent in self._dependents(item)):
                self._release(item, _FOREGROUND)
            return 0
        if item.is_doomed and record.resource.qualified_name == _NAMESPACES:
            return self._empty(item)
        return 0 if item.is_doomed or not item.owners else self._judge(item)

    def _empty(self, namespace: _Item) -> int:
        """Delete the objects in a namespace, then the namespace, unless finalizers hold them."""
        name, deleted, is_empty = namespace.record.name, 0, True
        for resource in self._registry.all():
            for record in self._storage.state(resource)[0] if resource.namespaced else ():
                if record.namespace != name:
                    continue
                if (
                    b'"deletionTimestamp"' in record.item
                    and _Item(record, record.to_dict()).is_doomed
                ):
                    is_empty = False
                    continue
                _, is_gone = self._writes.delete(resource, name, record.name, {}, at_once=True)
                is_empty = is_empty and is_gone
                deleted += 1
        if is_empty:
            self._writes.delete(namespace.record.resource, "", name, {}, at_once=True)
        return deleted

    def _judge(self, item: _Item) -> int:
        """Delete an object that has owners, unless one of them stays."""
        if not all(self._can_be_looked_up(item, reference) for reference in item.owners):
            return 0  # it is unknown whether the owner exists, so nothing is done
        found = [(reference, self._owner(item, reference)) for reference in item.owners]
        gone = {
            str(reference.get("uid"))
            for reference, owner in found
            if owner is None or owner.waits_for(_FOREGROUND)
        }
        if len(gone) < len({str(reference.get("uid")) for reference, _ in found}):
            if gone:
                self._disown(item, gone)
            return 0
        # An owner waits for this object, which in turn waits for its dependents.
        dependents = self._dependents(item) if any(owner for _, owner in found) else []
        for dependent in dependents:
            if dependent.waits_for(_FOREGROUND):  # owners in a cycle would wait for each other
                self._unblock(dependent, item)
        kept = next((_POLICIES[one] for one in item.finalizers if one in _POLICIES), "Background")
        record = item.record
        options: JSONObject = {
            "propagationPolicy": "Foreground" if dependents else kept,
            "preconditions": {"uid": record.uid},
        }
        place = record.resource, record.namespace, record.name
        self._writes.delete(*place, options, at_once=True)
        return 1

    def _resource(self, reference: JSONObject) -> ResourceType | None:
        kind, api_version = str(reference.get("kind")), str(reference.get("apiVersion"))
        return self._registry.find_kind(api_version, kind)

    def _can_be_looked_up(self, item: _Item, reference: JSONObject) -> bool:
        """Return whether the owner's kind is served, and namespaced only if the item is."""
        resource = self._resource(reference)
        return resource is not None and bool(item.record.namespace or not resource.namespaced)

    def _owner(self, item: _Item, reference: JSONObject) -> _Item | None:
        """Return the owner that a reference names; None if it does not exist."""
        resource = self._resource(reference)
        if resource is None:
            return None
        namespace = item.record.namespace if resource.namespaced else ""
        owner = self._storage.get(resource, key_of(namespace, str(reference.get("name"))))
        if owner is None or owner.uid != reference.get("uid"):
            return None
        return _Item(owner, owner.to_dict())

    def _dependents(self, owner: _Item) -> list[_Item]:
        uid = owner.record.uid
        return [
            item
            for item in self._items()
            if any(reference.get("uid") == uid for reference in item.owners)
        ]

    def _blocks(self, dependent: _Item, owner: _Item) -> bool:
        return any(
            reference.get("uid") == owner.record.uid and reference.get("blockOwnerDeletion") is True
            for reference in dependent.owners
        )

    def _disown(self, item: _Item, uids: set[str]) -> None:
        kept = [one for one in item.owners if str(one.get("uid")) not in uids]
        self._update(item, {**item.metadata, "ownerReferences": kept})

    def _unblock(self, item: _Item, owner: _Item) -> None:
        uid = owner.record.uid
        references = [
            {**one, "blockOwnerDeletion": False} if one.get("uid") == uid else one
            for one in item.owners
        ]
        self._update(item, {**item.metadata, "ownerReferences": references})

    def _release(self, item: _Item, finalizer: str) -> None:
        kept = [one for one in item.finalizers if one != finalizer]
        self._update(item, {**item.metadata, "finalizers": kept})

    def _update(self, item: _Item, metadata: JSONObject) -> None:
        record = item.record
        body = {**item.body, "metadata": metadata}
        place = record.resource, record.namespace, record.name
        self._writes.update(*place, body, _AS_COLLECTOR)
