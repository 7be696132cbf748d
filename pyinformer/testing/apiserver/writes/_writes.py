"""Create, update, patch, apply and delete objects, as upstream's registry does.

Server-owned metadata (uid, timestamps, generation, resourceVersion) never comes from a client, and
an update that changes nothing keeps its resource version. Each write happens under the storage's
lock; refusals are Failures.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from pyinformer.objects import JSONObject, JSONValue
from pyinformer.testing.apiserver.managed_fields import Author, Managed, field_managers, field_sets
from pyinformer.testing.apiserver.patches import Edit
from pyinformer.testing.apiserver.requests import Reviewer, WriteParameters, failures
from pyinformer.testing.apiserver.resources import Registry, ResourceType
from pyinformer.testing.apiserver.storage import (
    EventExpiry,
    PodCommands,
    PodLogs,
    Record,
    Storage,
    is_same_json,
    key_of,
    make_record,
)
from pyinformer.testing.apiserver.writes import (
    _apply_rules,
    _approvals,
    _content_validation,
    _decoding,
    _definitions,
    _metadata_validation,
    _pods,
    _registry_strategy,
    _reviewing,
    _schema_validation,
    _server_set_fields,
)
from pyinformer.testing.apiserver.writes._definitions import DEFINITIONS
from pyinformer.testing.apiserver.writes._prune_and_default import pruned, without_nulls

_SERVER = "kube-apiserver"  # the field manager of what the server itself changes
_SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_SCALE_VERSION = "autoscaling/v1"
_LONGEST_PREFIX = 58  # of a generated name; with its suffix, as long as a DNS label
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # upstream's alphabet, which cannot spell words
_CREATED_BY_UPDATE = frozenset(
    (
        "services",
        "events",
        "endpoints",
        "limitranges",
        "leases.coordination.k8s.io",
        "events.events.k8s.io",
        "roles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
    )
)
"""Resources whose update creates an absent object, with any resource version."""


class Writes:
    """Creates, changes and deletes objects in a storage.

    Args:
        storage: holds the objects.
        leases: the leases of Events.
        registry: the served resources; CustomResourceDefinitions change it.
        rng: the generator of uids and generated names.
        monotonic: the clock of leases.
        timestamp: returns the wall time after a number of seconds, as Kubernetes writes it.
        strict_namespaces: whether the namespace of a new object must exist.
    """

    def __init__(
        self,
        storage: Storage,
        leases: EventExpiry,
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
        self.logs: PodLogs = PodLogs()
        """What containers have written; the logs of a pod end with it."""
        self.commands: PodCommands = PodCommands()
        """What runs commands in containers."""

    def expire(self, *, everything: bool) -> int:
        """Delete the Events whose lease has ended, or all Events, in one revision per lease.

        Returns:
            The number of deleted objects.
        """
        with self._storage.lock:
            leases = self._leases
            groups = leases.take_all() if everything else leases.take_expired(self._monotonic())
            return sum(len(self._storage.remove(group)) for group in groups)

    def create(
        self, resource: ResourceType, namespace: str, body: JSONObject, options: WriteParameters
    ) -> Record:
        """Create an object.

        Args:
            resource: its resource.
            namespace: the namespace of the URL; "" if cluster-scoped.
            body: the object; it is not changed.
            options: the options; `whole` writes the status, too, which clients write separately.

        Raises:
            Failure: 400, 404 (namespace), 409 (exists) or 422.
        """
        body = without_nulls(resource, body)
        metadata = _registry_strategy.identity(resource, namespace, body)
        _registry_strategy.check_unversioned(metadata)
        with self._storage.lock:
            wanted = {**body, "metadata": metadata}
            body = _reviewing.mutated(resource, None, wanted, options)
            metadata = _registry_strategy.identity(resource, namespace, body)
            created = self._new(resource, namespace, body, metadata, options)
            seen = created if body is wanted else _as_wanted(resource, wanted)
            seen = seen if body.get("status") else _registry_strategy.without_status(seen)
            managed = self._creator(resource, seen, options)
            self._allocate(resource, created, options)
            created = _registry_strategy.owned_by(created, managed)
            _reviewing.check(resource, None, created, options)
            return self._put(resource, created, options)

    def put(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        body: JSONObject,
        options: WriteParameters,
        *,
        subresource: str = "",
    ) -> tuple[Record, bool]:
        """Replace an object as a client does; of some resources, an absent object is created.

        Returns:
            The result of `update`, and whether the object is new.

        Raises:
            Failure: 400, 404, 409 or 422.
        """
        _registry_strategy.check_named(body.get("metadata"), name)
        metadata: JSONObject = body["metadata"]
        may_create = resource.qualified_name in _CREATED_BY_UPDATE and not subresource
        with self._storage.lock:
            if may_create and self._storage.get(resource, key_of(namespace, name)) is None:
                _registry_strategy.check_absent_uid(resource, namespace, name, metadata)
                fresh = {key: value for key, value in metadata.items() if key != "resourceVersion"}
                new = {**body, "metadata": fresh}
                _registry_strategy.check_name(
                    _registry_strategy.identity(resource, namespace, new), name
                )
                return self.create(resource, namespace, new, options), True
            return self.update(
                resource, namespace, name, body, options, subresource=subresource
            ), False

    def update(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        body: JSONObject,
        options: WriteParameters,
        *,
        subresource: str = "",
    ) -> Record:
        """Replace an object.

        Args:
            resource: its resource.
            namespace: its namespace; "" if cluster-scoped.
            name: its name.
            body: the new object; a resourceVersion or uid in it is a precondition.
            options: the options; `whole` replaces spec and status together.
            subresource: "", or the part that is written, such as "status".

        Returns:
            The stored object. If the update removed the last finalizer of an object that is being
            deleted: the new content under the old resource version.

        Raises:
            Failure: 400, 404, 409 or 422.
        """
        body = without_nulls(resource, body)
        metadata = _registry_strategy.identity(resource, namespace, body)
        _registry_strategy.check_name(metadata, name)
        with self._storage.lock:
            old = self._existing(resource, namespace, name)
            _registry_strategy.check_unconditional(resource, metadata, name, whole=options.whole)
            _registry_strategy.check_update(resource, old, metadata)
            before = old.to_dict()
            if not options.whole:
                _metadata_validation.check_deletion_unchanged(
                    resource, before["metadata"], metadata
                )
            wanted = {**body, "metadata": metadata}
            if subresource == "approval":
                wanted = _approvals.approved(before, wanted, self._timestamp(0.0))
            after = _next(resource, before, wanted, options, subresource)
            given = None if options.whole or subresource else metadata.get("managedFields")
            stored = {**before, "metadata": field_managers.with_owners(before["metadata"], given)}
            managed = self._owners(resource, stored, after, options, subresource)
            changed = _reviewing.mutated(resource, before, wanted, options, subresource)
            if changed is not wanted:
                _registry_strategy.check_update(resource, old, changed["metadata"])
                after = _next(resource, before, changed, options, subresource)
            owned = _registry_strategy.owned_by(after, managed)
            return self._replace(old, before, owned, options, subresource)

    def patch(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        edit: Edit,
        options: WriteParameters,
        *,
        subresource: str = "",
    ) -> Record:
        """Apply an edit to an object; otherwise as `update`.

        Raises:
            Failure: 400, 404, 409 or 422.
        """
        with self._storage.lock:
            old = self._existing(resource, namespace, name)
            body = edit(old.to_dict())
            _registry_strategy.check_patched(resource, old, body)
            return self.update(resource, namespace, name, body, options, subresource=subresource)

    def apply(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        wanted: JSONObject,
        options: WriteParameters,
        *,
        subresource: str = "",
    ) -> tuple[Record, bool]:
        """Apply a configuration: set its fields, and remove fields that its author dropped.

        Args:
            resource: its resource.
            namespace: its namespace; "" if cluster-scoped.
            name: its name.
            wanted: the configuration; a resourceVersion or uid in it is a precondition.
            options: the options; `force` takes fields from their owners.
            subresource: "", "status" or "scale".

        Returns:
            The stored object, and whether it is new.

        Raises:
            Failure: 400, 404 (namespace, or the object of a status), 409 (conflicts) or 422.
        """
        metadata = _apply_rules.check_configuration(resource, namespace, name, wanted)
        wanted = _decoding.decode_applied(resource, wanted)
        claims = _apply_rules.claims(resource, wanted, subresource, whole=options.whole)
        _apply_rules.check_unambiguous(resource, name, metadata.get("namespace", ""), claims)
        with self._storage.lock:
            old = self._storage.get(resource, key_of(namespace, name))
            if old is None and subresource:
                raise failures.not_found(resource, name)
            before = {} if old is None else old.to_dict()
            live, now = field_managers.content(before), self._timestamp(0.0)
            managed = field_managers.read(before)
            if old is not None and not managed:
                managed = field_managers.before_first_apply(
                    live, resource.shape, api_version=resource.api_version, now=now
                )
            outcome = field_managers.applied(
                managed,
                live,
                claims,
                resource.shape,
                Author(operation="Apply", name=options.manager, subresource=subresource),
                api_version=resource.api_version,
                now=now,
            )
            if old is None:
                _apply_rules.check_new_uid(resource, name, metadata)
                body = _registry_strategy.typed(
                    resource, claims, {**claims["metadata"], **metadata}
                )
                body = _reviewing.mutated(resource, None, body, options)
                created = self._new(resource, namespace, body, body["metadata"], options)
                self._allocate(resource, created, options)
                created = _registry_strategy.owned_by(created, outcome.managed)
                _reviewing.check(resource, None, created, options)
                return self._put(resource, created, options), True
            conflicts = outcome.conflicts
            if options.manager == _apply_rules.KUBECTL:
                conflicts = _apply_rules.left_by_client_side_apply(resource, before, conflicts)
            if conflicts and not options.force:
                raise failures.apply_conflict(_owners_of(conflicts, subresource))
            _registry_strategy.check_uid(resource, old, metadata)
            deletion = wanted.get("metadata") or {}
            _metadata_validation.check_deletion_unchanged(resource, before["metadata"], deletion)
            _registry_strategy.check_update(resource, old, metadata)
            content = _apply_rules.stored(resource, outcome.content)
            content = _reviewing.mutated_content(resource, before, content, options, subresource)
            after = _registry_strategy.replaced(
                resource, before, content, subresource, options.whole
            )
            if options.manager == _apply_rules.KUBECTL:
                after = _apply_rules.with_last_applied(after, wanted)
            _server_set_fields.refill(resource, after, before)
            owned = _registry_strategy.owned_by(after, outcome.managed)
            return self._replace(old, before, owned, options, subresource), False

    def delete(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        options: JSONObject,
        *,
        at_once: bool = False,
        dry_run: bool = False,
        reviewer: Reviewer | None = None,
    ) -> tuple[Record, bool]:
        """Delete an object, or mark it for deletion if finalizers or a kubelet hold it.

        Args:
            resource: its resource.
            namespace: its namespace; "" if cluster-scoped.
            name: its name.
            options: DeleteOptions; preconditions and gracePeriodSeconds count.
            at_once: wait only for the finalizers in the metadata.
            dry_run: only return what would happen.
            reviewer: may refuse it.

        Returns:
            The object's last state, and whether it is gone.

        Raises:
            Failure: 404 or 409.
        """
        with self._storage.lock:
            old = self._existing(resource, namespace, name)
            _registry_strategy.check_dependents(options)
            _registry_strategy.check_delete(resource, old, options.get("preconditions") or {})
            terms = WriteParameters(dry_run=dry_run, reviewer=reviewer)
            before = old.to_dict()
            _reviewing.check(resource, before, None, terms)
            before = _registry_strategy.held_for_dependents(before, options)
            if resource.qualified_name == DEFINITIONS and not dry_run:
                return self._delete_definition(old, before), False
            grace = 0 if at_once else _registry_strategy.grace_seconds(resource, before, options)
            held = bool(before["metadata"].get("finalizers")) or (
                before["kind"] == "Namespace" and not at_once
            )
            if not grace and not held:
                if before["kind"] == "Pod" and not at_once:  # its kubelet stops it first
                    self._put(resource, self._doomed(before, 0), terms)
                return old if dry_run else self._remove(resource, old.key), True
            left = before["metadata"].get("deletionGracePeriodSeconds", 0)
            if "deletionTimestamp" in before["metadata"] and grace >= left:
                if before == old.to_dict():
                    return old, False
                return self._put(resource, before, terms), False
            return self._put(resource, self._doomed(before, grace), terms), False

    def bind(
        self,
        pods: ResourceType,
        namespace: str,
        name: str,
        binding: JSONObject,
        options: WriteParameters,
    ) -> None:
        """Assign a pod to a node.

        Raises:
            Failure: 400, 404, 409 or 500.
        """
        with self._storage.lock:
            pod = self._existing(pods, namespace, name)
            _pods.check_of_pod("Binding", binding, name)
            _reviewing.check(
                pods, None, _reviewing.named(binding, namespace, name), options, "binding"
            )
            after = _pods.bound(pod.to_dict(), binding, self._timestamp(0.0))
            self._put(pods, after, options)

    def begin_deletion(
        self, resource: ResourceType, record: Record, *, since: str, grace_seconds: int
    ) -> None:
        """Mark an object as being deleted since a time, as `delete` does now."""
        with self._storage.lock:
            body = self._doomed(record.to_dict(), grace_seconds)
            body["metadata"]["deletionTimestamp"] = since
            self._put(resource, body, WriteParameters(whole=True))

    def evict(
        self,
        pods: ResourceType,
        namespace: str,
        name: str,
        eviction: JSONObject,
        options: WriteParameters,
    ) -> None:
        """Delete a pod, if the disruption budget that protects it allows that.

        Raises:
            Failure: 400, 404, 409, 429 or 500.
        """
        with self._storage.lock:
            pod = self._existing(pods, namespace, name).to_dict()
            _pods.check_of_pod("Eviction", eviction, name)
            _reviewing.check(
                pods, None, _reviewing.named(eviction, namespace, name), options, "eviction"
            )
            if _pods.counts_for_budgets(pod):
                self._spend_budget(pod, namespace, options)
            deletion = eviction.get("deleteOptions") or {}
            self.delete(pods, namespace, name, deletion, dry_run=options.dry_run)

    def _spend_budget(self, pod: JSONObject, namespace: str, options: WriteParameters) -> None:
        resource = self._registry.find("policy", "v1", "poddisruptionbudgets")
        if resource is None:
            return
        stored, _ = self._storage.state(resource)
        bodies = [one.to_dict() for one in stored if one.namespace == namespace]
        found = [one for one in bodies if _pods.protects(one, pod)]
        _pods.check_budgets(found)
        for budget in found:
            if _pods.is_free(budget, pod):
                continue
            after = _pods.spent(budget, pod["metadata"]["name"], self._timestamp(0.0))
            name = budget["metadata"]["name"]
            by_server = replace(options, manager=_SERVER, reviewer=None)
            self.update(resource, namespace, name, after, by_server, subresource="status")

    def delete_all(
        self,
        resource: ResourceType,
        records: Sequence[Record],
        options: JSONObject,
        *,
        dry_run: bool = False,
        reviewer: Reviewer | None = None,
    ) -> None:
        """Delete the objects of these names that still exist, one revision each.

        Raises:
            Failure: 409.
        """
        with self._storage.lock:
            for record in records:
                if self._storage.get(resource, record.key) is not None:
                    self.delete(
                        resource,
                        record.namespace,
                        record.name,
                        options,
                        dry_run=dry_run,
                        reviewer=reviewer,
                    )

    def _new(
        self,
        resource: ResourceType,
        namespace: str,
        body: JSONObject,
        metadata: JSONObject,
        options: WriteParameters,
    ) -> JSONObject:
        """Return a new object with all server-set fields but managedFields."""
        self._check_namespace(resource, namespace, str(metadata.get("name") or ""))
        self._check_served(resource, str(metadata.get("name") or ""))
        rng = self._rng if options.reviewer is None else options.reviewer.rng
        name = metadata["name"] = _name(rng, resource, metadata)
        old = self._storage.get(resource, key_of(namespace, name))
        if old is not None:
            is_doomed = "deletionTimestamp" in old.to_dict()["metadata"]
            raise failures.already_exists(resource, name, is_being_deleted=is_doomed)
        new = {
            "uid": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
            "creationTimestamp": self._timestamp(0.0),
        }
        given = metadata if options.whole else {}
        metadata |= {field: given.get(field) or value for field, value in new.items()}
        for forbidden in _metadata_validation.NOT_TAKEN:
            metadata.pop(forbidden, None)
        if resource.has_generation:
            metadata["generation"] = 1
        if not options.whole:
            _metadata_validation.check_name(resource, name)
            _metadata_validation.check_metadata(resource, name, {}, metadata)
            _metadata_validation.check_size(resource, name, body)
        created = _registry_strategy.typed(resource, body, metadata)
        if resource.has_status and not options.whole and resource.qualified_name != "nodes":
            created.pop("status", None)  # kubelets create their nodes with a status
        if not options.whole:
            _schema_validation.check_object(resource, {}, created)
        _server_set_fields.apply(resource, created)
        if not options.whole:
            _content_validation.check_content(resource, {}, created)
            _definitions.check_definition(resource, created)
        return created

    def _creator(
        self, resource: ResourceType, body: JSONObject, options: WriteParameters
    ) -> list[JSONValue]:
        """Return the managedFields of a new object, faster than `_owners` would."""
        content = field_managers.content(body)
        shape, now = resource.shape, self._timestamp(0.0)
        author = Author(operation="Update", name=options.manager, api_version=resource.api_version)
        if not resource.has_status:
            return field_managers.created(content, shape, author, now=now)
        entries = field_managers.created(
            _registry_strategy.without_status(content), shape, author, now=now
        )
        if options.whole and "status" in content:
            status = {"status": content["status"]}
            author = replace(author, subresource="status")
            entries += field_managers.created(status, shape, author, now=now)
        return entries

    def _owners(
        self,
        resource: ResourceType,
        before: JSONObject,
        after: JSONObject,
        options: WriteParameters,
        subresource: str = "",
    ) -> Managed:
        """Return the owners of fields after any write but an apply.

        An object that has none keeps none until it is applied.
        """
        managed = field_managers.read(before)
        if not managed:
            return managed
        old = field_managers.content(before)
        new = field_managers.content(after)
        author = Author(
            operation="Update",
            name=options.manager,
            api_version=resource.api_version,
            subresource=subresource,
        )
        now = self._timestamp(0.0)
        if subresource or not resource.has_status:
            return field_managers.updated(managed, old, new, resource.shape, author, now=now)
        middle = _registry_strategy.with_status_of(new, old)
        managed = field_managers.updated(managed, old, middle, resource.shape, author, now=now)
        if not options.whole:
            return managed
        author = replace(author, subresource="status")
        return field_managers.updated(managed, middle, new, resource.shape, author, now=now)

    def _replace(
        self,
        old: Record,
        before: JSONObject,
        after: JSONObject,
        options: WriteParameters,
        subresource: str = "",
    ) -> Record:
        resource = old.resource
        if not old.written and is_same_json(after, before):  # else it is written again
            _reviewing.check(resource, before, after, options, subresource)
            return old
        _registry_strategy.check_finalizers(resource, before, after)
        _approvals.check_conditions(resource, before, after)
        if not options.whole:
            _metadata_validation.check_metadata(
                resource, old.name, before["metadata"], after["metadata"]
            )
            _metadata_validation.check_size(resource, old.name, after)
            _content_validation.check_content(resource, before, after)
            _schema_validation.check_object(resource, before, after)
            _definitions.check_definition(resource, after)
        _registry_strategy.bump_generation(resource, before, after)
        _reviewing.check(resource, before, after, options, subresource)
        if _registry_strategy.is_free_to_go(before, after):
            if not options.dry_run:
                self._remove(resource, old.key)
            return make_record(resource, after)
        return self._put(resource, after, options)

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

    def _put(self, resource: ResourceType, body: JSONObject, options: WriteParameters) -> Record:
        if options.dry_run:
            return make_record(resource, body)
        metadata = body["metadata"]
        if not options.whole:
            _metadata_validation.check_stored_size(make_record(resource, body))
        old = self._storage.get(resource, key_of(metadata.get("namespace", ""), metadata["name"]))
        record = self._storage.put(resource, body)
        if resource.qualified_name == DEFINITIONS:
            self._serve(body, {} if old is None else old.to_dict())
        if not resource.is_watch_cached:
            self._leases.attach(resource, record.key, self._monotonic())
        return record

    def _remove(self, resource: ResourceType, key: str) -> Record:
        if not resource.is_watch_cached:
            self._leases.detach(resource, key)
        gone = self._storage.remove([(resource, key)])[0]
        if resource.qualified_name == "pods":
            self.logs.end_pod(gone.uid)
        if resource.qualified_name == DEFINITIONS:
            for custom in _server_set_fields.custom_resources(gone.to_dict()):
                self._registry.remove(custom)
                self._storage.drop(custom)
        elif resource.list_shape == "custom":
            self._end_definition(resource)
        return gone

    def _serve(self, definition: JSONObject, before: JSONObject) -> None:
        """Serve the versions of a definition, and no longer those that it had before."""
        resources = _server_set_fields.custom_resources(definition)
        for custom in resources:
            self._registry.add(custom)
            if before and definition["spec"] != before["spec"]:
                self._storage.read_again(custom, partial(pruned, custom))
        for custom in _server_set_fields.custom_resources(before):
            if custom not in resources:
                self._registry.remove(custom)
                for subscription in self._storage.subscriptions(custom):
                    subscription.end()

    def _delete_definition(self, old: Record, before: JSONObject) -> Record:
        """Delete the objects of a definition; it ends with the last of them."""
        body = before
        if not _definitions.is_terminating(body):
            body = _definitions.doomed(body, self._timestamp(0.0))
        doomed = self._put(old.resource, body, WriteParameters())
        for custom in _server_set_fields.custom_resources(body):
            for record in self._storage.state(custom)[0]:
                self.delete(custom, record.namespace, record.name, {})
        for custom in _server_set_fields.custom_resources(body)[:1]:
            self._end_definition(custom)
        return doomed

    def _end_definition(self, custom: ResourceType) -> None:
        """Remove the definition of a resource if it is deleted and was waiting for its objects."""
        definition = self._definition_of(custom)
        if definition is None or not _definitions.is_terminating(definition.to_dict()):
            return
        body = definition.to_dict()
        if any(self._storage.state(one)[0] for one in _server_set_fields.custom_resources(body)):
            return
        body = _definitions.released(body)
        if body["metadata"].get("finalizers"):
            self._put(definition.resource, body, WriteParameters())
        else:
            self._remove(definition.resource, definition.key)

    def _definition_of(self, custom: ResourceType) -> Record | None:
        definitions = self._registry.find_kind(
            "apiextensions.k8s.io/v1", "CustomResourceDefinition"
        )
        if custom.list_shape != "custom" or definitions is None:
            return None
        return self._storage.get(definitions, custom.qualified_name)

    def _allocate(self, resource: ResourceType, body: JSONObject, options: WriteParameters) -> None:
        """Set in place what the server decides for a new object, and what no manager owns."""
        _server_set_fields.allocate(resource, body, self._storage.revision)
        if not options.whole:
            self._prioritize(resource, body)

    def _prioritize(self, resource: ResourceType, body: JSONObject) -> None:
        """Give a new pod the priority of its class, as the admission plug-in Priority does."""
        if resource.qualified_name != "pods":
            return
        spec = body["spec"]
        name = str(spec.get("priorityClassName") or "")
        value, policy = _SYSTEM_PRIORITIES.get(name, 0), "PreemptLowerPriority"
        if name and name not in _SYSTEM_PRIORITIES:
            classes = self._registry.find_kind("scheduling.k8s.io/v1", "PriorityClass")
            found = None if classes is None else self._storage.get(classes, name)
            if found is None:
                pod = str(body["metadata"]["name"])
                raise failures.forbidden(
                    resource, pod, f"no PriorityClass with name {name} was found"
                )
            chosen = found.to_dict()
            value, policy = chosen.get("value", 0), chosen.get("preemptionPolicy", policy)
        body["spec"] = {"priority": value, "preemptionPolicy": policy, **spec}

    def _check_served(self, resource: ResourceType, name: str) -> None:
        """Refuse a new object whose definition is being deleted."""
        definition = self._definition_of(resource)
        if definition is not None and _definitions.is_terminating(definition.to_dict()):
            raise failures.definition_terminating(resource, name)

    def _existing(self, resource: ResourceType, namespace: str, name: str) -> Record:
        record = self._storage.get(resource, key_of(namespace, name))
        if record is None:
            raise failures.not_found(resource, name)
        return record

    def _check_namespace(self, resource: ResourceType, namespace: str, name: str) -> None:
        """Refuse a new object in a namespace that does not exist or is being deleted."""
        namespaces = self._registry.find("", "v1", "namespaces")
        if not namespace or namespaces is None:
            return
        found = self._storage.get(namespaces, namespace)
        if found is None:
            if self._strict_namespaces:
                raise failures.not_found(namespaces, namespace)
        elif b'"deletionTimestamp"' in found.item and (
            "deletionTimestamp" in found.to_dict()["metadata"]
        ):
            raise failures.terminating(resource, namespace, name)


def _name(rng: random.Random, resource: ResourceType, metadata: JSONObject) -> str:
    if metadata.get("name"):
        return str(metadata["name"])
    prefix = str(metadata.get("generateName") or "")
    if not prefix:
        sentence = "Required value: name or generateName is required"
        cause = ("FieldValueRequired", "metadata.name", sentence)
        raise failures.invalid(resource.kind, resource.group, "", [cause])
    return prefix[:_LONGEST_PREFIX] + "".join(rng.choices(_SUFFIX_ALPHABET, k=5))


def _next(
    resource: ResourceType,
    before: JSONObject,
    wanted: JSONObject,
    options: WriteParameters,
    subresource: str,
) -> JSONObject:
    """Return the next state of an object that is replaced."""
    after = _registry_strategy.replaced(resource, before, wanted, subresource, options.whole)
    if resource.list_shape == "built-in":
        _server_set_fields.refill(resource, after, before)
    return after


def _as_wanted(resource: ResourceType, wanted: JSONObject) -> JSONObject:
    """Return a new object as its client wanted it: what webhooks change has no owner."""
    found = _registry_strategy.typed(resource, wanted, dict(wanted["metadata"]))
    _server_set_fields.apply(resource, found)
    return found


def _owners_of(
    conflicts: Sequence[field_managers.Conflict], subresource: str
) -> list[tuple[str, str]]:
    """Return the owners and the fields of conflicts; those of a scale have its version."""
    found: list[tuple[str, str]] = []
    for one in conflicts:
        version = _SCALE_VERSION if subresource == "scale" else one.author.api_version
        owner = replace(one.author, api_version=version)
        found.append((str(owner), field_sets.path_text(one.path)))
    return found
