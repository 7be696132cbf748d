"""Writes: what creating, updating, patching and deleting do, as upstream's registry does it.

What enters is a body as a client sent it, what leaves is the stored Record; refusals are Failures.
Server-owned metadata (uid, timestamps, generation, resourceVersion) never comes from a client, and
an update that changes nothing keeps its resource version. All of a write happens under the
storage's lock.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

from pyinformer.apimachinery import JSONObject
from pyinformer.testing import _defaults, _failure, _rules
from pyinformer.testing._failure import Failure
from pyinformer.testing._leases import Leases
from pyinformer.testing._objects import Record, key_of, make_record, merge_patch
from pyinformer.testing._resources import Registry, ResourceType
from pyinformer.testing._selection import Selection
from pyinformer.testing._storage import Storage

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # upstream's: nothing that could spell a word


class Writes:
    """The verbs that change objects.

    Args:
        storage: where objects live.
        leases: which events expire together.
        registry: what is served; definitions of custom resources change it.
        rng: for uids and generated names.
        monotonic: for leases.
        timestamp: wall time, so many seconds later, as Kubernetes writes it.
        strict_namespaces: whether objects need their namespace to exist.
    """

    def __init__(
        self,
        storage: Storage,
        leases: Leases,
        registry: Registry,
        *,
        rng: random.Random,
        monotonic: Callable[[], float],
        timestamp: Callable[[float], str],
        strict_namespaces: bool,
    ) -> None:
        self._storage = storage
        self._leases = leases
        self._registry = registry
        self._rng = rng
        self._monotonic = monotonic
        self._timestamp = timestamp
        self._strict_namespaces = strict_namespaces

    def create(
        self, resource: ResourceType, namespace: str, body: JSONObject, *, whole: bool
    ) -> Record:
        """Create an object.

        Args:
            resource: its resource.
            namespace: the namespace of the URL; "" if cluster-scoped.
            body: the object; it is not changed.
            whole: take the status too, which a client has to write separately.

        Raises:
            Failure: 400, 404 (namespace), 409 (exists) or 422.
        """
        metadata = _rules.identity(resource, namespace, body)
        if metadata.pop("resourceVersion", None):
            message = "resourceVersion should not be set on objects to be created"
            raise Failure(500, message, reason="")
        with self._storage.lock:
            self._check_namespace(namespace)
            name = metadata["name"] = self._name(resource, metadata)
            if self._storage.get(resource, key_of(namespace, name)) is not None:
                raise _failure.already_exists(resource, name)
            metadata["uid"] = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
            metadata["creationTimestamp"] = self._timestamp(0.0)
            metadata.pop("deletionTimestamp", None)
            created = _rules.typed(resource, body, metadata)
            if resource.has_status and not whole:
                created.pop("status", None)
            _defaults.apply(resource, created)
            if resource.has_generation:
                metadata["generation"] = 1
            return self._put(resource, created)

    def update(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        body: JSONObject,
        *,
        subresource: str = "",
        whole: bool = False,
    ) -> Record:
        """Replace an object.

        Args:
            resource: its resource.
            namespace: its namespace; "" if cluster-scoped.
            name: its name.
            body: the new object; a resourceVersion or uid in it is a precondition.
            subresource: "", "status" or "finalize".
            whole: replace spec and status together, which a client cannot.

        Returns:
            What is stored now; what was asked for, under the old resource version, if the update
            removed the last finalizer of an object that waited for it.

        Raises:
            Failure: 400, 404, 409 or 422.
        """
        metadata = _rules.identity(resource, namespace, body)
        if metadata.setdefault("name", name) != name:
            message = (
                f"the name of the object ({metadata['name']}) does not match the name on the"
                f" URL ({name})"
            )
            raise Failure(400, message)
        with self._storage.lock:
            old = self._existing(resource, namespace, name)
            _rules.check_unconditional(resource, metadata, name, whole=whole)
            _rules.check_update(resource, old, metadata)
            before = old.to_dict()
            after = _rules.replaced(
                resource, before, {**body, "metadata": metadata}, subresource, whole
            )
            if after == before:
                return old
            _rules.check_finalizers(resource, before, after)
            if _rules.is_free_to_go(before, after):
                self._remove(resource, old.key)
                return make_record(resource, after)
            _rules.bump_generation(before, after)
            return self._put(resource, after)

    def patch(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        patch: JSONObject,
        *,
        subresource: str = "",
        whole: bool = False,
    ) -> Record:
        """Apply a JSON merge patch; the rest is as for `update`.

        Raises:
            Failure: 400, 404, 409 or 422.
        """
        with self._storage.lock:
            old = self._existing(resource, namespace, name)
            body: JSONObject = merge_patch(old.to_dict(), patch)
            return self.update(
                resource, namespace, name, body, subresource=subresource, whole=whole
            )

    def delete(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        options: JSONObject,
        *,
        at_once: bool = False,
    ) -> tuple[Record, bool]:
        """Delete an object, or mark it if something has to happen first.

        Args:
            resource: its resource.
            namespace: its namespace; "" if cluster-scoped.
            name: its name.
            options: DeleteOptions; preconditions and gracePeriodSeconds count.
            at_once: wait for nothing but finalizers of the metadata.

        Returns:
            The object's last state, and whether it is gone.

        Raises:
            Failure: 404 or 409.
        """
        with self._storage.lock:
            old = self._existing(resource, namespace, name)
            _rules.check_delete(resource, old, options.get("preconditions") or {})
            before = old.to_dict()
            grace = 0 if at_once else _rules.grace_seconds(resource, before, options)
            held = bool(before["metadata"].get("finalizers")) or (
                before["kind"] == "Namespace" and not at_once
            )
            if not grace and not held:
                if before["kind"] == "Pod" and not at_once:
                    self._put(resource, self._doomed(before, 0))  # its kubelet is told first
                return self._remove(resource, old.key), True
            if "deletionTimestamp" in before["metadata"]:
                return old, False
            return self._put(resource, self._doomed(before, grace)), False

    def delete_collection(
        self, resource: ResourceType, selection: Selection, options: JSONObject
    ) -> list[Record]:
        """Delete every selected object, one revision each."""
        with self._storage.lock:
            records, _ = self._storage.state(resource)
            return [
                self.delete(resource, record.namespace, record.name, options)[0]
                for record in records
                if selection.matches(record)
            ]

    def expire(self, *, everything: bool) -> int:
        """Delete the events whose lease has ended, or all of them, one revision per lease.

        Returns:
            How many objects are gone.
        """
        with self._storage.lock:
            leases = self._leases
            groups = leases.take_all() if everything else leases.take_expired(self._monotonic())
            return sum(len(self._storage.remove(group)) for group in groups)

    def _put(self, resource: ResourceType, body: JSONObject) -> Record:
        record = self._storage.put(resource, body)
        if resource.qualified_name == _DEFINITIONS:
            for custom in _defaults.custom_resources(body):
                self._registry.add(custom)
        if not resource.is_watch_cached:
            self._leases.attach(resource, record.key, self._monotonic())
        return record

    def _remove(self, resource: ResourceType, key: str) -> Record:
        if not resource.is_watch_cached:
            self._leases.detach(resource, key)
        gone = self._storage.remove([(resource, key)])[0]
        if resource.qualified_name == _DEFINITIONS:
            for custom in _defaults.custom_resources(gone.to_dict()):
                self._registry.remove(custom)
                self._storage.drop(custom)
        return gone

    def _existing(self, resource: ResourceType, namespace: str, name: str) -> Record:
        record = self._storage.get(resource, key_of(namespace, name))
        if record is None:
            raise _failure.not_found(resource, name)
        return record

    def _check_namespace(self, namespace: str) -> None:
        namespaces = self._registry.find("", "v1", "namespaces")
        if namespace and self._strict_namespaces and namespaces is not None:
            self._existing(namespaces, "", namespace)

    def _name(self, resource: ResourceType, metadata: JSONObject) -> str:
        if metadata.get("name"):
            return str(metadata["name"])
        prefix = str(metadata.get("generateName") or "")
        if not prefix:
            sentence = "Required value: name or generateName is required"
            cause = ("FieldValueRequired", "metadata.name", sentence)
            raise _failure.invalid(resource.kind, resource.group, "", [cause])
        return prefix + "".join(self._rng.choices(_SUFFIX_ALPHABET, k=5))

    def _doomed(self, before: JSONObject, grace: int) -> JSONObject:
        metadata = {**before["metadata"], "deletionTimestamp": self._timestamp(float(grace))}
        if "generation" in metadata and "deletionTimestamp" not in before["metadata"]:
            metadata["generation"] += 1
        after = {**before, "metadata": metadata}
        if before["kind"] == "Namespace":
            after["status"] = {**before.get("status", {}), "phase": "Terminating"}
        else:
            metadata["deletionGracePeriodSeconds"] = grace
        return after
