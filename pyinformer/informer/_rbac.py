"""The rights that informers need, list and watch and no more, as YAML that grants them.

The server is not asked. Without discovery a resource without namespaces may be cluster-scoped, or
followed everywhere; both need a ClusterRole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pyinformer.apimachinery import GroupVersionResource, JSONObject, roles_yaml

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

_VERBS: Final = ("list", "watch")
_NAMESPACES: Final = GroupVersionResource.of("v1", "namespaces")


class ResourceAccess(NamedTuple):
    """What one informer reads."""

    resource: GroupVersionResource
    """Which resource."""

    namespaces: AbstractSet[str] | None = None
    """Where; None for everywhere, and for a resource without namespaces."""

    chooses_namespaces: bool = False
    """Whether a selector on Namespaces says where, which is not known in advance."""

    object_name: str = ""
    """The one object that a field selector asks for by its name; empty for all."""


class _Target(NamedTuple):
    group: str
    resource: str
    name: str = ""


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
    rules = {namespace: _rules(targets) for namespace, targets in _by_place(needs).items()}
    return roles_yaml(rules, name=name, service_account=service_account)


def _by_place(needs: Iterable[ResourceAccess]) -> Mapping[str, set[_Target]]:
    """Return what is followed by namespace; cluster-scoped resources under an empty one."""
    cluster: set[_Target] = set()
    inside: dict[str, set[_Target]] = {}
    for need in needs:
        one = _Target(need.resource.group, need.resource.resource, need.object_name)
        if need.chooses_namespaces:
            cluster |= {one, _Target(_NAMESPACES.group, _NAMESPACES.resource)}
        elif need.namespaces is None:
            cluster.add(one)
        else:
            for namespace in need.namespaces:
                inside.setdefault(namespace, set()).add(one)
    places = {namespace: _without(found, cluster) - cluster for namespace, found in inside.items()}
    places[""] = _without(cluster, cluster)
    return {place: found for place, found in places.items() if found}


def _without(found: set[_Target], granted: set[_Target]) -> set[_Target]:
    """Drop rights for single objects where all objects of the resource are granted."""
    return {
        one
        for one in found
        if not (one.name and _Target(one.group, one.resource) in found | granted)
    }


def _rules(targets: Iterable[_Target]) -> list[JSONObject]:
    groups: dict[str, list[str]] = {}
    names: dict[tuple[str, str], list[str]] = {}
    for group, resource, only in sorted(targets):
        if only:
            names.setdefault((group, resource), []).append(only)
        else:
            groups.setdefault(group, []).append(resource)
    rules = [_rule(group, resources) for group, resources in groups.items()]
    for (group, resource), those in names.items():
        rules.append({**_rule(group, [resource]), "resourceNames": those})
    return rules


def _rule(group: str, resources: list[str]) -> JSONObject:
    return {"apiGroups": [group], "resources": resources, "verbs": [*_VERBS]}
