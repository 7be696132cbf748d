"""Roles and their bindings as YAML: what grants an account the rights that the library needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pyinformer.apimachinery._json import JSONObject
from pyinformer.errors import InvalidArgumentError

_GROUP: Final = "rbac.authorization.k8s.io"
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9:]*[a-z0-9])?")


def check_role_name(name: str) -> None:
    """Refuse what cannot be the name of a role.

    Raises:
        InvalidArgumentError: Kubernetes does not accept the name.
    """
    if not _NAME.fullmatch(name):
        reason = f"must be a name that Kubernetes accepts for a role, got {name!r}"
        raise InvalidArgumentError("name", reason)


def roles_yaml(
    rules: Mapping[str, Sequence[JSONObject]], *, name: str, service_account: str | None
) -> str:
    """Return roles, with bindings if there is a service account.

    Args:
        rules: the rules of each role by its namespace; those of a ClusterRole under an empty one.
        name: the name of all roles and bindings.
        service_account: gets the rights, as `namespace/name`; None for no bindings.

    Returns:
        YAML documents in the order of the namespaces; empty without rules.

    Raises:
        InvalidArgumentError: Kubernetes does not accept a name.
    """
    check_role_name(name)
    subject = _subject(service_account)
    documents: list[JSONObject] = []
    for namespace, granted in sorted(rules.items()):
        kind = "Role" if namespace else "ClusterRole"
        documents.append({**_head(kind, name, namespace), "rules": list(granted)})
        if subject is not None:
            role = {"apiGroup": _GROUP, "kind": kind, "name": name}
            head = _head(f"{kind}Binding", name, namespace)
            documents.append({**head, "roleRef": role, "subjects": [subject]})
    import yaml  # noqa: PLC0415 - 15 ms of an import, for a text that few programs need

    return yaml.safe_dump_all(documents, sort_keys=False) if documents else ""


def _subject(service_account: str | None) -> JSONObject | None:
    if service_account is None:
        return None
    namespace, _, name = service_account.partition("/")
    if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
        reason = f"must be 'namespace/name', as in 'shop/watcher', got {service_account!r}"
        raise InvalidArgumentError("service_account", reason)
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


def _head(kind: str, name: str, namespace: str) -> JSONObject:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {**where, "name": name}}
