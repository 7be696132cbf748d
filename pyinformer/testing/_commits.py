"""How a write ends: what it stores or removes, and what hangs on that.

What enters is the next state of an object, decided elsewhere; what leaves is the stored Record.
Leases of Events begin and end here, and definitions of custom resources take effect. All of it
happens under the storage's lock.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from pyinformer.apimachinery import JSONObject
from pyinformer.testing import _defaults, _failure
from pyinformer.testing._leases import Leases
from pyinformer.testing._objects import Record, key_of, make_record
from pyinformer.testing._resources import Registry, ResourceType
from pyinformer.testing._storage import Storage
from pyinformer.testing._write_options import WriteOptions

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # upstream's: nothing that could spell a word


class Commits:
    """What the verbs of `Writes` have in common.

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

    def expire(self, *, everything: bool) -> int:
        """Delete the events whose lease has ended, or all of them, one revision per lease.

        Returns:
            How many objects are gone.
        """
        with self._storage.lock:
            leases = self._leases
            groups = leases.take_all() if everything else leases.take_expired(self._monotonic())
            return sum(len(self._storage.remove(group)) for group in groups)

    def _put(self, resource: ResourceType, body: JSONObject, options: WriteOptions) -> Record:
        if options.dry_run:
            return make_record(resource, body)
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

    def _check_namespace(self, resource: ResourceType, namespace: str, name: str) -> None:
        """Refuse what is to be created where nothing can be, or no longer."""
        namespaces = self._registry.find("", "v1", "namespaces")
        if not namespace or namespaces is None:
            return
        found = self._storage.get(namespaces, namespace)
        if found is None:
            if self._strict_namespaces:
                raise _failure.not_found(namespaces, namespace)
        elif b'"deletionTimestamp"' in found.item and (
            "deletionTimestamp" in found.to_dict()["metadata"]
        ):
            raise _failure.terminating(resource, namespace, name)

    def _name(self, resource: ResourceType, metadata: JSONObject) -> str:
        if metadata.get("name"):
            return str(metadata["name"])
        prefix = str(metadata.get("generateName") or "")
        if not prefix:
            sentence = "Required value: name or generateName is required"
            cause = ("FieldValueRequired", "metadata.name", sentence)
            raise _failure.invalid(resource.kind, resource.group, "", [cause])
        return prefix + "".join(self._rng.choices(_SUFFIX_ALPHABET, k=5))
