"""The rights that an operator needs, from what it declares. No request is sent.

What a reconcile does beyond that cannot be known: `writes=` of the Operator declares it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from pyinformer.cache.informer import Scope
from pyinformer.errors import InvalidArgumentError
from pyinformer.leaderelection import LeaderElection, lease_accesses
from pyinformer.objects import Access, GroupVersionResource, check_text, roles_yaml
from pyinformer.operator._declarations import scope_of
from pyinformer.operator._installed_definitions import installer_accesses
from pyinformer.operator._reconciler import is_cluster_scoped
from pyinformer.sharding import Shard, group_accesses, shard_accesses

if TYPE_CHECKING:
    from collections.abc import Collection
    from collections.abc import Set as AbstractSet

    from pyinformer.operator._reconciler import Reconciler
    from pyinformer.sharding import Buckets

Written: TypeAlias = tuple[str, str] | tuple[str, str, *tuple[str, ...]]
"""What a reconcile writes beside what it owns: `("v1", "secrets")` for all writes, or with the
verbs, `("v1", "pods/eviction", "create")`."""

_READS: Final = ("get", "list", "watch")
_WRITES: Final = ("create", "delete", "patch", "update")
_VERBS: Final = frozenset((*_READS, *_WRITES, "deletecollection")) | {
    "approve", "bind", "escalate", "impersonate", "sign", "use", "*",
}  # fmt: skip
_CLUSTER_EVENTS: Final = "default"  # the namespace of Events about objects that are in none


@final
@dataclass(frozen=True, slots=True)
class DeclaredWrite:
    """An entry of `writes=`."""

    resource: GroupVersionResource
    subresource: str
    verbs: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What the rights of an operator are derived from."""

    reconcilers: Collection[Reconciler]
    """All that is registered."""
    followed: Collection[Scope]
    """What the caches follow, of reconciles and else."""
    writes: Sequence[DeclaredWrite]
    """What is declared beside it."""
    namespaces: AbstractSet[str] | None
    """The namespaces that are followed; None for all."""
    is_namespaced: Callable[[GroupVersionResource], bool | None] = lambda _: None
    """Whether a resource is namespaced, as the server says; None if that is not known."""
    election: LeaderElection | None = None
    """Which Lease; None without leader election. Its name is set."""
    sharding: Buckets | Shard | None = None
    """How replicas share the keys; None if they do not."""
    webhooks: Callable[[str], Sequence[Access]] = lambda _: ()
    """What the certificate of webhooks, and their configurations, need, by the namespace of the
    pod."""
    definitions: Sequence[str] = ()
    """The names of the definitions that it installs."""
    pod_namespace: str = ""
    """The namespace of the pod, if it is known; otherwise it is that of the service account."""

    def yaml(self, *, name: str, service_account: str | None) -> str:
        """Return the roles, with bindings if there is a service account.

        Raises:
            InvalidArgumentError: Kubernetes does not accept a name, or the namespace of the Lease
                is not known.
        """
        if service_account is not None:
            check_text("service_account", service_account)
        accesses = [
            *(
                self._access(scope.resource, _READS, name=scope.field_selector.name)
                for scope in self.followed
            ),
            *(one for each in self.reconcilers for one in self._of_reconciler(each)),
            *(self._access(each.resource, each.verbs, each.subresource) for each in self.writes),
            self._of_events(),
            *self._of_leases(service_account),
            *installer_accesses(self.definitions),
            *self.webhooks(self.pod_namespace or (service_account or "default").partition("/")[0]),
        ]
        return roles_yaml(accesses, name=name, service_account=service_account)

    def _of_reconciler(self, each: Reconciler) -> Iterator[Access]:
        name = each.scope.field_selector.name
        yield self._access(each.resource, ("patch", "update"), "status", name=name)
        yield self._access(each.resource, ("update",), "finalizers", name=name)
        has_finalizer = each.daemon is not None and each.daemon.finalizer is not None
        if each.takes_children or has_finalizer:  # the marks of an owner, and its finalizer
            yield self._access(each.resource, ("patch",), name=name)
        for owned in each.owns:
            yield self._access(scope_of(owned).resource, _WRITES)

    def _of_events(self) -> Access:
        """Return the right to record Events about the reconciled objects."""
        where = self.namespaces
        primaries = (each.resource for each in self.reconcilers)
        if where is not None and any(map(self._has_no_namespace, primaries)):
            where |= {_CLUSTER_EVENTS}
        # get: when the response to a create was lost
        return Access("events.k8s.io", "events", ("create", "get", "patch"), where)

    def _of_leases(self, service_account: str | None) -> Iterable[Access]:
        chosen = self.election or self.sharding
        if chosen is None:
            return ()
        namespace = chosen.namespace or (service_account or "").partition("/")[0]
        if not namespace:
            kind, what = (
                (type(chosen).__name__, "Leases of the replicas are")
                if self.election is None
                else ("LeaderElection", "Lease of the leader election is")
            )
            reason = (
                f"must be given: the {what} in the namespace of the pod; or name that:"
                f" {kind}(namespace=...)"
            )
            raise InvalidArgumentError("service_account", reason)
        if self.election is None:
            is_fixed = isinstance(self.sharding, Shard)
            return shard_accesses(namespace) if is_fixed else group_accesses(namespace)
        return lease_accesses(self.election.name or "", namespace)

    def _access(
        self,
        resource: GroupVersionResource,
        verbs: tuple[str, ...],
        subresource: str = "",
        *,
        name: str = "",
    ) -> Access:
        path = f"{resource.resource}/{subresource}" if subresource else resource.resource
        where = None if self._has_no_namespace(resource) else self.namespaces
        return Access(resource.group, path, verbs, where, name)

    def _has_no_namespace(self, resource: GroupVersionResource) -> bool:
        """Return whether the objects of a resource are in no namespace."""
        known = self.is_namespaced(resource)
        if known is not None:
            return not known
        return is_cluster_scoped(resource, self.reconcilers)


def checked_writes(writes: Sequence[Written]) -> tuple[DeclaredWrite, ...]:
    """Return the declared writes.

    Raises:
        InvalidArgumentError: an entry is invalid.
    """
    if isinstance(writes, str) or not isinstance(writes, Iterable):
        raise InvalidArgumentError("writes", f"must be a list of tuples, not {writes!r}")
    return tuple(map(_checked, writes))


def _checked(entry: Any) -> DeclaredWrite:  # noqa: ANN401 - what a user wrote
    shape = '("v1", "secrets") or ("v1", "secrets", "create", "patch")'
    is_valid = isinstance(entry, tuple) and len(entry) > 1
    if not is_valid or not all(isinstance(word, str) for word in entry):
        raise InvalidArgumentError("writes", f"must have entries like {shape}, got {entry!r}")
    api_version, path, *verbs = entry
    plural, slash, subresource = path.partition("/")
    if slash and (not subresource or "/" in subresource):
        raise InvalidArgumentError("writes", f"{path!r} must be like 'pods' or 'pods/eviction'")
    for verb in verbs:
        if verb not in _VERBS:
            reason = f"{verb!r} is not a verb of RBAC; verbs are {', '.join(sorted(_VERBS))}"
            raise InvalidArgumentError("writes", reason)
    resource = GroupVersionResource.of(api_version, plural)
    return DeclaredWrite(resource, subresource, tuple(verbs) or _WRITES)
