"""Roles and their bindings as YAML: what grants an account the rights that a program needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects._checks import check_text
from pyinformer.objects._json_decoders import JSONObject

if TYPE_CHECKING:
    from collections.abc import Collection
    from collections.abc import Set as AbstractSet

_GROUP: Final = "rbac.authorization.k8s.io"
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9:]*[a-z0-9])?")
_EVERYWHERE: Final = ""


class Access(NamedTuple):
    """What an account may do with one resource."""

    group: str
    """The API group; empty for the core group."""

    resource: str
    """The plural name, with a subresource if need be: `pods`, `databases/status`."""

    verbs: Collection[str]
    """The verbs of RBAC."""

    namespaces: AbstractSet[str] | None = None
    """Where; None for everywhere, and for a resource without namespaces."""

    object_name: str = ""
    """The one object that is meant; empty for all."""


class _Target(NamedTuple):
    group: str
    resource: str
    name: str = ""


_Grants: TypeAlias = "Mapping[_Target, set[str]]"


def check_role_name(name: str) -> None:
    """Refuse what cannot be the name of a role.

    Raises:
        InvalidArgumentError: Kubernetes does not accept the name.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        reason = f"must be a name that Kubernetes accepts for a role, got {name!r}"
        raise InvalidArgumentError("name", reason)


def roles_yaml(needs: Iterable[Access], *, name: str, service_account: str | None) -> str:
    """Return the least roles that grant rights, with bindings if there is a service account.

    A Role for each namespace, and a ClusterRole for what is needed everywhere; no right is granted
    twice.

    Args:
        needs: the rights, in any order.
        name: the name of all roles and bindings.
        service_account: gets the rights, as `namespace/name`; None for no bindings.

    Returns:
        YAML documents in the order of the namespaces; empty if nothing is needed.

    Raises:
        InvalidArgumentError: Kubernetes does not accept a name.
    """
    check_role_name(name)
    subject = _subject(service_account)
    documents: list[JSONObject] = []
    for namespace, grants in sorted(_by_place(needs).items()):
        kind = "Role" if namespace else "ClusterRole"
        documents.append({**_head(kind, name, namespace), "rules": _rules(grants)})
        if subject is not None:
            role = {"apiGroup": _GROUP, "kind": kind, "name": name}
            head = _head(f"{kind}Binding", name, namespace)
            documents.append({**head, "roleRef": role, "subjects": [subject]})
    from pyinformer.objects._kubernetes_yaml import dump_yaml_documents  # noqa: PLC0415 - few need it

    return dump_yaml_documents(documents).removeprefix("---\n")


def _by_place(needs: Iterable[Access]) -> Mapping[str, _Grants]:
    """Return what is granted by namespace; what is granted everywhere under an empty one."""
    found: dict[str, dict[_Target, set[str]]] = {}
    for need in needs:
        target = _Target(need.group, need.resource, need.object_name)
        for place in (_EVERYWHERE,) if need.namespaces is None else need.namespaces:
            found.setdefault(place, {}).setdefault(target, set()).update(need.verbs)
    everywhere = found.get(_EVERYWHERE, {})
    places = {
        place: _without(grants, everywhere if place else {}) for place, grants in found.items()
    }
    return {place: grants for place, grants in places.items() if grants}


def _without(grants: _Grants, granted: _Grants) -> _Grants:
    """Drop what is granted elsewhere, and rights for one object that all objects grant."""
    left: dict[_Target, set[str]] = {}
    for target, verbs in grants.items():
        every = _Target(target.group, target.resource)
        known = granted.get(target, set()) | granted.get(every, set())
        rest = verbs - known - (grants.get(every, set()) if target.name else set())
        if rest:
            left[target] = rest
    return left


def _rules(grants: _Grants) -> list[JSONObject]:
    """Return rules: one for the resources of a group with equal verbs, those of objects last."""
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    names: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for target, verbs in _ordered(grants):
        if target.name:
            names.setdefault((target.group, target.resource, verbs), []).append(target.name)
        else:
            resources.setdefault((target.group, verbs), []).append(target.resource)
    rules = [_rule(group, found, verbs) for (group, verbs), found in resources.items()]
    for (group, resource, verbs), those in names.items():
        rules.append({**_rule(group, [resource], verbs), "resourceNames": those})
    return rules


def _ordered(grants: _Grants) -> Iterator[tuple[_Target, tuple[str, ...]]]:
    for target, verbs in sorted(grants.items()):
        yield target, tuple(sorted(verbs))


def _rule(group: str, resources: list[str], verbs: tuple[str, ...]) -> JSONObject:
    return {"apiGroups": [group], "resources": resources, "verbs": [*verbs]}


def _subject(service_account: str | None) -> JSONObject | None:
    if service_account is None:
        return None
    check_text("service_account", service_account)
    namespace, _, name = service_account.partition("/")
    if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
        reason = f"must be 'namespace/name', as in 'shop/watcher', got {service_account!r}"
        raise InvalidArgumentError("service_account", reason)
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


def _head(kind: str, name: str, namespace: str) -> JSONObject:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {**where, "name": name}}
