"""Evaluate roles and bindings.

Nothing is cached: a changed Role applies to the next request. Verdicts have the wording of a real
server.

Source:
    k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/rbac.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyinformer.objects import JSONObject

GROUP: Final = "rbac.authorization.k8s.io"
AUTHENTICATED: Final = "system:authenticated"
MASTERS: Final = "system:masters"
_ACCOUNT: Final = "system:serviceaccount:"

Read: TypeAlias = Callable[[str, str], Sequence[JSONObject]]
"""Returns the stored objects of a plural and a namespace ("" for cluster-scoped ones)."""


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request.

    Attributes:
        name: `jane`, or `system:serviceaccount:shop:deployer`.
        groups: the groups of the user, which bindings may name.
    """

    name: str
    groups: tuple[str, ...] = ()


ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))
UNIDENTIFIED: Final = User(ANONYMOUS.name, (MASTERS,))
"""The user of each request to a server without tokens and roles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAttributes:
    """What a request asks for, in the terms of roles.

    Attributes:
        verb: such as `list`; the lower-case method for a path outside the resource API.
        plural: the resource; "" for such a path.
        path: the path outside the resource API.
    """

    verb: str
    group: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request is allowed, and the reason as a real server words it (may be "")."""

    is_allowed: bool
    reason: str = ""


def service_account(namespace: str, name: str) -> User:
    """Return the user of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"{_ACCOUNT}{namespace}:{name}", groups)


def account_of(user: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account behind a user name, or None."""
    if not user.startswith(_ACCOUNT):
        return None
    namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
    return namespace, name


def decide(user: User, attributes: RequestAttributes, read: Read) -> Verdict:
    """Return whether any rule of the user's roles allows a request."""
    if MASTERS in user.groups:
        return Verdict(is_allowed=True)
    missing: list[str] = []
    for words, rule in _rules(user, attributes.namespace, read, missing):
        if _allows(rule, attributes):
            return Verdict(is_allowed=True, reason=f"RBAC: allowed by {words}")
    if not missing:
        return Verdict(is_allowed=False)
    return Verdict(is_allowed=False, reason=f"rbac: RBAC: {_joined(missing)}")


def rules_of(user: User, namespace: str, read: Read) -> list[JSONObject]:
    """Return every rule that applies to a user in a namespace."""
    everything: JSONObject = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    masters = [everything] if MASTERS in user.groups else []
    return [*masters, *(rule for _, rule in _rules(user, namespace, read, []))]


def _rules(
    user: User, namespace: str, read: Read, missing: list[str]
) -> Iterator[tuple[str, JSONObject]]:
    """Yield the rules of all bindings of a user, each with the wording of its grant."""
    places = [("ClusterRoleBinding", "")] + ([("RoleBinding", namespace)] if namespace else [])
    for kind, where in places:
        for binding in read(f"{kind.lower()}s", where):
            words = _subject(user, binding, where)
            if words is None:
                continue
            reference: JSONObject = binding.get("roleRef") or {}
            role_kind, name = str(reference.get("kind")), str(reference.get("name"))
            role = _role(role_kind, name, where, read)
            if role is None:
                missing.append(f'{role_kind.lower()}.{GROUP} "{name}" not found')
                continue
            called = binding["metadata"]["name"] + (f"/{where}" if where else "")
            for rule in role.get("rules") or ():
                yield f'{kind} "{called}" of {role_kind} "{name}" to {words}', rule


def _role(kind: str, name: str, namespace: str, read: Read) -> JSONObject | None:
    found = read(f"{kind.lower()}s", "" if kind == "ClusterRole" else namespace)
    return next((role for role in found if role["metadata"]["name"] == name), None)


def _subject(user: User, binding: JSONObject, namespace: str) -> str | None:
    """Return the wording of the subject by which a binding includes a user, or None."""
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), str(subject.get("name"))
        if kind == "User" and name == user.name:
            return f'User "{name}"'
        if kind == "Group" and name in user.groups:
            return f'Group "{name}"'
        where = subject.get("namespace") or namespace
        if kind == "ServiceAccount" and user.name == f"{_ACCOUNT}{where}:{name}":
            return f'ServiceAccount "{name}/{where}"'
    return None


def _allows(rule: JSONObject, attributes: RequestAttributes) -> bool:
    if not _has(rule, "verbs", attributes.verb):
        return False
    if not attributes.plural:
        return any(_covers(str(url), attributes.path) for url in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames") or ()
    return (
        _has(rule, "apiGroups", attributes.group)
        and _has_resource(rule.get("resources") or (), attributes)
        and (not names or attributes.name in names)
    )


def _has(rule: JSONObject, field: str, wanted: str) -> bool:
    found = rule.get(field) or ()
    return wanted in found or "*" in found


def _has_resource(resources: Sequence[object], attributes: RequestAttributes) -> bool:
    if not attributes.subresource:
        return "*" in resources or attributes.plural in resources
    wanted = (f"{attributes.plural}/{attributes.subresource}", f"*/{attributes.subresource}", "*")
    return any(one in resources for one in wanted)


def _covers(url: str, path: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url[:-1]))


def _joined(errors: Sequence[str]) -> str:
    different = list(dict.fromkeys(errors))
    return different[0] if len(different) == 1 else f"[{', '.join(different)}]"


def default_objects() -> list[JSONObject]:
    """Return the default roles and bindings of a real server that tests need."""
    return [one for name, rules, groups in _DEFAULTS for one in _bound(name, rules, groups)]


def _bound(name: str, rules: list[JSONObject], groups: tuple[str, ...]) -> list[JSONObject]:
    metadata: JSONObject = {
        "name": name,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    }
    shared: JSONObject = {"apiVersion": f"{GROUP}/v1", "metadata": metadata}
    subjects = [{"kind": "Group", "apiGroup": GROUP, "name": group} for group in groups]
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
    return [
        {**shared, "kind": "ClusterRole", "rules": rules},
        {
            **shared,
            "kind": "ClusterRoleBinding",
            "roleRef": reference,
            "subjects": subjects,
        },
    ]


_HEALTH: Final = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY: Final = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_HEALTH]
_SELF_REVIEWS: Final = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
_DEFAULTS: Final[tuple[tuple[str, list[JSONObject], tuple[str, ...]], ...]] = (
    (
        "cluster-admin",
        [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
        ],
        (MASTERS,),
    ),
    ("system:discovery", [{"verbs": ["get"], "nonResourceURLs": _DISCOVERY}], (AUTHENTICATED,)),
    (
        "system:basic-user",
        [
            {
                "verbs": ["create"],
                "apiGroups": ["authorization.k8s.io"],
                "resources": _SELF_REVIEWS,
            },
            {
                "verbs": ["create"],
                "apiGroups": ["authentication.k8s.io"],
                "resources": ["selfsubjectreviews"],
            },
        ],
        (AUTHENTICATED,),
    ),
    (
        "system:public-info-viewer",
        [{"verbs": ["get"], "nonResourceURLs": _HEALTH}],
        (AUTHENTICATED, "system:unauthenticated"),
    ),
)
