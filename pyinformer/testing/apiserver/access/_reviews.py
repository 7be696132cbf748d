"""Access reviews and token requests: resources that are created, answered, and not stored.

The verdicts of reviews are those by which requests are allowed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from pyinformer.objects import JSONObject, JSONValue
from pyinformer.testing.apiserver.access._access import Access, Caller, Token, user_info
from pyinformer.testing.apiserver.access._rbac import (
    GROUP,
    RequestAttributes,
    User,
    service_account,
)
from pyinformer.testing.apiserver.requests import Failure, failures
from pyinformer.testing.apiserver.resources import Registry, ResourceType
from pyinformer.testing.apiserver.storage import Record, Storage

_TOKEN_SECONDS: Final = 3600
_LEAST_TOKEN_SECONDS: Final = 600


def review(
    resource: ResourceType,
    body: JSONObject,
    caller: Caller | None,
    access: Access,
    *,
    namespace: str = "",
    now: float = 0.0,
) -> JSONObject:
    """Answer a review of a token or of access.

    Args:
        resource: the virtual resource of the review.
        body: the review that a client creates.
        caller: the caller; None on a server without tokens and roles.
        access: decides.
        namespace: the namespace of the URL; empty if the review has none.
        now: monotonic seconds.

    Raises:
        Failure: 400 for a review without a token, 422 for one that is not complete,
            or of another namespace.
    """
    spec: JSONObject = body.get("spec") or {}
    answer: JSONObject = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {"namespace": namespace} if namespace else {},
        "spec": spec,
    }
    match resource.kind:
        case "TokenReview":
            return {**answer, "status": _token_status(str(spec.get("token") or ""), access, now)}
        case "SelfSubjectReview":
            del answer["spec"]
            return {**answer, "status": {"userInfo": user_info(caller)}}
        case "SelfSubjectRulesReview":
            if not spec.get("namespace"):
                raise Failure(400, "no namespace on request")
            rules = access.rules(caller, str(spec.get("namespace") or ""))
            return {**answer, "spec": {}, "status": _rules(rules)}
        case "SelfSubjectAccessReview":
            _check_access_review(resource, body, is_self=True)
        case "SubjectAccessReview" | "LocalSubjectAccessReview":
            _check_access_review(resource, body, is_self=False)
            _check_namespace(spec, namespace)
            groups = tuple(map(str, spec.get("groups") or ()))
            caller = None if caller is None else Caller(User(str(spec.get("user")), groups))
    verdict = access.judge(caller, _attributes(spec))
    reason: JSONObject = {"reason": verdict.reason} if verdict.reason else {}
    return {**answer, "status": {"allowed": verdict.is_allowed, **reason}}


def _token_status(token: str, access: Access, now: float) -> JSONObject:
    if not token:
        raise Failure(400, "token is required for TokenReview in authentication")
    user = access.user_of(token, now=now)
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    info: JSONObject = {"username": user.name, "groups": list(user.groups)}
    return {"authenticated": True, "user": info}


def _check_access_review(resource: ResourceType, body: JSONObject, *, is_self: bool) -> None:
    """Refuse an access review of nothing, of two things, of no user, or with metadata.

    Source:
        pkg/apis/authorization/validation/validation.go.
    """
    spec, causes = body.get("spec") or {}, []
    if (spec.get("resourceAttributes") is None) == (spec.get("nonResourceAttributes") is None):
        sentence = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(("FieldValueInvalid", "spec", f"Invalid value: {sentence}"))
    if not is_self and not spec.get("user") and not spec.get("groups"):
        sentence = 'Invalid value: "": at least one of user or group must be specified'
        causes.append(("FieldValueInvalid", "spec.user", sentence))
    given = {name for name, value in (body.get("metadata") or {}).items() if value}
    if given - ({"namespace"} if resource.namespaced else set()):
        causes.append(("FieldValueInvalid", "metadata", "Invalid value: must be empty"))
    if causes:
        raise failures.invalid(resource.kind, resource.group, "", causes)


def _check_namespace(spec: JSONObject, namespace: str) -> None:
    """Refuse a LocalSubjectAccessReview of another namespace than its own."""
    if namespace and spec.get("nonResourceAttributes"):
        sentence = "Invalid value: disallowed on this kind of request"
        cause = ("FieldValueInvalid", "spec.nonResourceAttributes", sentence)
        raise failures.invalid("", "authorization.k8s.io", "", [cause])
    wanted = (spec.get("resourceAttributes") or {}).get("namespace", "")
    if namespace and wanted != namespace:
        sentence = f'Invalid value: "{wanted}": must match metadata.namespace'
        cause = ("FieldValueInvalid", "spec.resourceAttributes.namespace", sentence)
        raise failures.invalid("", "authorization.k8s.io", "", [cause])


def account_token(
    account: Record,
    body: JSONObject,
    access: Access,
    *,
    now: float,
    timestamp: Callable[[float], str],
) -> JSONObject:
    """Create a token of a service account, which is valid as long as the account exists.

    Args:
        account: the stored account.
        body: the TokenRequest.
        access: stores the token.
        now: monotonic seconds.
        timestamp: returns the wall time after a number of seconds, as Kubernetes writes it.

    Raises:
        Failure: 400 for another kind or namespace, 422 for another name, or for less than ten
            minutes.
    """
    _check_of_account(body, account.namespace)
    spec: JSONObject = body.get("spec") or {}
    seconds = int(spec.get("expirationSeconds") or _TOKEN_SECONDS)
    _check_token(account.name, (body.get("metadata") or {}).get("name"), seconds)
    value = f"{account.namespace}.{account.name}.{secrets.token_urlsafe(24)}"
    user = service_account(account.namespace, account.name)
    token = Token(
        value=value, user=user.name, groups=user.groups[:-1], verbs=(), lifetime_seconds=seconds
    )
    access.add_account(token, account.uid, now=now)
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": account.name,
            "namespace": account.namespace,
            "uid": account.uid,
            "creationTimestamp": timestamp(0.0),
        },
        "spec": {"audiences": spec.get("audiences") or [], "expirationSeconds": seconds},
        "status": {"token": value, "expirationTimestamp": timestamp(float(seconds))},
    }


def _check_of_account(body: JSONObject, namespace: str) -> None:
    kind, metadata = body.get("kind"), body.get("metadata") or {}
    if kind not in (None, "", "TokenRequest"):
        message = f'{kind} in version "v1" cannot be handled as a TokenRequest: unknown conversion'
        raise Failure(400, message)
    if metadata.get("namespace") not in (None, "", namespace):
        message = (
            "the namespace of the provided object does not match the namespace sent on the request"
        )
        raise Failure(400, message)


def _check_token(account: str, name: JSONValue, seconds: int) -> None:
    kind, group = "TokenRequest", "authentication.k8s.io"
    if name and name != account:
        sentence = f'Invalid value: "{name}": must match the service account name if specified'
        cause = ("FieldValueInvalid", "metadata.name", sentence)
        raise failures.invalid(kind, group, account, [cause])
    if seconds < _LEAST_TOKEN_SECONDS:
        sentence = f"Invalid value: {seconds}: may not specify a duration less than 10 minutes"
        cause = ("FieldValueInvalid", "spec.expirationSeconds", sentence)
        raise failures.invalid(kind, group, "", [cause])


def read_objects(
    storage: Storage, registry: Registry, plural: str, namespace: str
) -> list[JSONObject]:
    """Return the current roles, bindings or service accounts of a namespace."""
    group = "" if plural == "serviceaccounts" else GROUP
    resource = registry.find(group, "v1", plural)
    if resource is None:
        return []
    records, _ = storage.state(resource)
    return [record.to_dict() for record in records if record.namespace == namespace]


def _attributes(spec: JSONObject) -> RequestAttributes:
    path: JSONObject | None = spec.get("nonResourceAttributes")
    if path:
        return RequestAttributes(verb=str(path.get("verb", "")), path=str(path.get("path", "")))
    wanted: JSONObject = spec.get("resourceAttributes") or {}
    return RequestAttributes(
        verb=str(wanted.get("verb", "")),
        group=str(wanted.get("group", "")),
        plural=str(wanted.get("resource", "")),
        subresource=str(wanted.get("subresource", "")),
        namespace=str(wanted.get("namespace", "")),
        name=str(wanted.get("name", "")),
    )


def _rules(rules: list[JSONObject]) -> JSONObject:
    return {
        "resourceRules": [rule for rule in rules if rule.get("resources")],
        "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
        "incomplete": False,
    }
