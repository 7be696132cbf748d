"""The rights that informers need, list and watch and no more, as YAML that grants them.

The server is not asked. Without discovery a resource without namespaces may be cluster-scoped, or
followed everywhere; both need a ClusterRole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pyinformer.apimachinery import GroupVersionResource
from pyinformer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

_GROUP: Final = "rbac.authorization.k8s.io"
_VERBS: Final = ("list", "watch")
_NAMESPACES: Final = GroupVersionResource.of("v1", "namespaces")
# What YAML reads as a plain string; everything else is quoted.
_PLAIN: Final = re.compile(r"[a-z][a-z0-9.-]*[a-z0-9]")
_WORDS_OF_YAML: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off"})
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9:]*[a-z0-9])?")


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
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            "name", f"must be a name that Kubernetes accepts for a role, got {name!r}"
        )
    account = _account(service_account)
    documents: list[str] = []
    for namespace, resources in sorted(_by_place(needs).items()):
        documents.append(_role(name, namespace, resources))
        if account:
            documents.append(_binding(name, namespace, *account))
    return "---\n".join(documents)


def _account(service_account: str | None) -> tuple[str, str] | None:
    if service_account is None:
        return None
    namespace, _, name = service_account.partition("/")
    if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
        reason = f"must be 'namespace/name', as in 'shop/watcher', got {service_account!r}"
        raise InvalidArgumentError("service_account", reason)
    return namespace, name


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


def _role(name: str, namespace: str, targets: Iterable[_Target]) -> str:
    groups: dict[str, list[str]] = {}
    names: dict[tuple[str, str], list[str]] = {}
    for group, resource, only in sorted(targets):
        if only:
            names.setdefault((group, resource), []).append(only)
        else:
            groups.setdefault(group, []).append(resource)
    lines = [*_head("ClusterRole" if not namespace else "Role", name, namespace), "rules:"]
    for group, resources in groups.items():
        lines += _rule(group, resources)
    for (group, resource), those in names.items():
        lines += _rule(group, [resource], those)
    return "".join(f"{line}\n" for line in lines)


def _rule(group: str, resources: list[str], names: Sequence[str] = ()) -> Iterator[str]:
    yield f"- apiGroups: {json.dumps([group])}"
    yield f"  resources: {json.dumps(resources)}"
    if names:
        yield f"  resourceNames: {json.dumps(names)}"
    yield f"  verbs: {json.dumps(_VERBS)}"


def _binding(name: str, namespace: str, account_namespace: str, account: str) -> str:
    role = "Role" if namespace else "ClusterRole"
    lines = [
        *_head(f"{role}Binding", name, namespace),
        "roleRef:",
        f"  apiGroup: {_GROUP}",
        f"  kind: {role}",
        f"  name: {_scalar(name)}",
        "subjects:",
        "- kind: ServiceAccount",
        f"  namespace: {_scalar(account_namespace)}",
        f"  name: {_scalar(account)}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _head(kind: str, name: str, namespace: str) -> Iterator[str]:
    yield f"apiVersion: {_GROUP}/v1"
    yield f"kind: {kind}"
    yield "metadata:"
    if namespace:
        yield f"  namespace: {_scalar(namespace)}"
    yield f"  name: {_scalar(name)}"


def _scalar(word: str) -> str:
    is_plain = _PLAIN.fullmatch(word) and word not in _WORDS_OF_YAML
    return word if is_plain else json.dumps(word)
