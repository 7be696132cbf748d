"""The RBAC rules that informers need, only list and watch, as YAML.

No request is sent. Without discovery, a resource without a namespace may be cluster-scoped or
followed in all namespaces; both need a ClusterRole.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from pyinformer.objects import Access, GroupVersionResource, roles_yaml

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

_VERBS: Final = ("list", "watch")


class ResourceAccess(NamedTuple):
    """What one informer reads."""

    resource: GroupVersionResource
    """The resource."""

    namespaces: AbstractSet[str] | None = None
    """The namespaces; None for all of them, and for a cluster-scoped resource."""

    chooses_namespaces: bool = False
    """Whether a selector chooses the namespaces, which are then not known in advance."""

    object_name: str = ""
    """The one object that a field selector asks for by its name; empty for all."""


def rbac_yaml(needs: Iterable[ResourceAccess], *, name: str, service_account: str | None) -> str:
    """Return the roles that informers need, with bindings if there is a service account.

    Args:
        needs: what they follow.
        name: the name of all roles and bindings.
        service_account: gets the rights, as `namespace/name`; None for no bindings.

    Returns:
        YAML documents; empty if nothing is needed.

    Raises:
        InvalidArgumentError: Kubernetes does not accept a name.
    """
    accesses = (each for need in needs for each in _accesses(need))
    return roles_yaml(accesses, name=name, service_account=service_account)


def _accesses(need: ResourceAccess) -> Iterator[Access]:
    where = None if need.chooses_namespaces else need.namespaces
    group, resource = need.resource.group, need.resource.resource
    yield Access(group, resource, _VERBS, where, need.object_name)
    if need.chooses_namespaces:
        yield Access("", "namespaces", _VERBS)
