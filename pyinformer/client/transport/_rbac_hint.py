"""Describe the RBAC rule that a refused request needs."""

# Pure: it knows no event loop.

from __future__ import annotations

import json
from typing import Final

from pyinformer.client.transport._request_path import RequestPath

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_MAY_CREATE: Final = frozenset({"patch", "update"})
_CREATION: Final = b"cannot create resource"
_CACHE_VERBS: Final = ("list", "watch")  # a cache needs both, and mostly lacks both
_CONVERSATIONS: Final = frozenset({"attach", "exec", "portforward"})
_CONVERSATION_VERBS: Final = ("create", "get")  # of the GET that is upgraded; create from 1.35 on
_READING: Final = b"cannot get resource"


def needed_rule(method: str, path: str, *, watch: bool = False, refusal: bytes = b"") -> str:
    """Return the RBAC rule that allows a request, as a Role has it, and where it belongs.

    Args:
        method: the HTTP method.
        path: from the server's root, without a query: `/api/v1/namespaces/shop/pods`.
        watch: whether it is a watch.
        refusal: the body of the response. Only there is it said that a patch or an update was
            refused because it would have created the object, or which of the two rights to a
            command in a container is missing.

    Returns:
        Such as `"list" is missing; needs: apiGroups: [""], resources: ["pods"], verbs: ["list",
        "watch"] in namespace shop`.
    """
    found = RequestPath.of(path)
    if found is None:
        verb = method.lower()
        return _hint(verb, f"nonResourceURLs: {_json_list(path)}", (verb,), "in a ClusterRole")
    # A log is followed.
    verb = _verb(method, has_name=bool(found.name), watch=watch and not found.subresource)
    is_conversation = found.resource == "pods" and found.subresource in _CONVERSATIONS
    if verb in _MAY_CREATE and _CREATION in refusal:
        verb = "create"
    if is_conversation and refusal and _READING not in refusal:  # which says no more than that
        verb = "create"
    kinds = "/".join(filter(None, (found.resource, found.subresource)))
    where = f"in namespace {found.namespace}" if found.namespace else "in a ClusterRole"
    rule = f"apiGroups: {_json_list(found.group)}, resources: {_json_list(kinds)}"
    verbs = _CACHE_VERBS if verb in _CACHE_VERBS else (verb,)
    return _hint(verb, rule, _CONVERSATION_VERBS if is_conversation else verbs, where)


def _verb(method: str, *, has_name: bool, watch: bool) -> str:
    if method == "GET":
        return "watch" if watch else "get" if has_name else "list"
    return "deletecollection" if method == "DELETE" and not has_name else _VERBS.get(method, "get")


def _hint(verb: str, rule: str, verbs: tuple[str, ...], where: str) -> str:
    return f'"{verb}" is missing; needs: {rule}, verbs: {_json_list(*verbs)} {where}'


def _json_list(*words: str) -> str:
    return json.dumps(list(words))
