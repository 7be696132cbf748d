"""Describe the RBAC rule that a refused request needs."""

from __future__ import annotations

import json
from typing import Final

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_MAY_CREATE: Final = frozenset({"patch", "update"})
_CREATION: Final = b"cannot create resource"
_CACHE_VERBS: Final = ("list", "watch")  # a cache needs both, and mostly lacks both


def needed_rule(method: str, path: str, *, watch: bool = False, refusal: bytes = b"") -> str:
    """Return the RBAC rule that allows a request, as a Role has it, and where it belongs.

    Args:
        method: the HTTP method.
        path: from the server's root, without a query: `/api/v1/namespaces/shop/pods`.
        watch: whether it is a watch.
        refusal: the body of the response. Only there is it said that a patch or an update was
            refused because it would have created the object.

    Returns:
        Such as `"list" is missing; needs: apiGroups: [""], resources: ["pods"], verbs: ["list",
        "watch"] in namespace shop`.
    """
    steps = path.strip("/").split("/")
    group, rest = _group_and_rest(steps)
    if not rest:
        verb = method.lower()
        return _hint(verb, f"nonResourceURLs: {_json_list(path)}", (verb,), "in a ClusterRole")
    namespace, rest = _namespace_and_rest(rest)
    resource, name, below = rest[0], rest[1:2], rest[2:]
    verb = _verb(method, has_name=bool(name), watch=watch and not below)  # a log is followed
    if verb in _MAY_CREATE and _CREATION in refusal:
        verb = "create"
    kinds = "/".join((resource, *below[:1]))
    where = f"in namespace {namespace}" if namespace else "in a ClusterRole"
    rule = f"apiGroups: {_json_list(group)}, resources: {_json_list(kinds)}"
    return _hint(verb, rule, _CACHE_VERBS if verb in _CACHE_VERBS else (verb,), where)


def _group_and_rest(steps: list[str]) -> tuple[str, list[str]]:
    if steps[0] == "api":
        return "", steps[2:]
    return (steps[1], steps[3:]) if steps[0] == "apis" and len(steps) > 1 else ("", [])


def _namespace_and_rest(rest: list[str]) -> tuple[str, list[str]]:
    # Shorter paths are about namespaces themselves, and so are their status and finalizers.
    is_inside = rest[0] == "namespaces" and rest[2:] and rest[2] not in {"status", "finalize"}
    return (rest[1], rest[2:]) if is_inside else ("", rest)


def _verb(method: str, *, has_name: bool, watch: bool) -> str:
    if method == "GET":
        return "watch" if watch else "get" if has_name else "list"
    return "deletecollection" if method == "DELETE" and not has_name else _VERBS.get(method, "get")


def _hint(verb: str, rule: str, verbs: tuple[str, ...], where: str) -> str:
    return f'"{verb}" is missing; needs: {rule}, verbs: {_json_list(*verbs)} {where}'


def _json_list(*words: str) -> str:
    return json.dumps(list(words))
