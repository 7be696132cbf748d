"""Authentication and authorization: bearer tokens, their own rights, roles, and impersonation.

Refusals are the 401 and 403 of a real server. A server without tokens and roles allows every
request.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyinformer.errors import InvalidSelectorError
from pyinformer.objects import FieldSelector, JSONObject, check_iterable, check_type
from pyinformer.testing.apiserver.access import _rbac
from pyinformer.testing.apiserver.access._rbac import (
    ANONYMOUS,
    AUTHENTICATED,
    UNIDENTIFIED,
    Read,
    RequestAttributes,
    User,
    Verdict,
)
from pyinformer.testing.apiserver.requests import Failure, Route

_SELECTING: Final = ("list", "watch", "deletecollection")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One bearer token and the rights of its user.

    Attributes:
        value: the token itself.
        user: the user name in bindings and in 403 messages.
        verbs: the allowed verbs: get, list, watch, create, update, patch, delete,
            deletecollection, impersonate; "*" is all, () leaves the decision to roles.
        resources: the allowed resources: `pods`, `deployments.apps`; "*" is all.
        namespaces: the allowed namespaces; None is all, and requests across namespaces need None.
        lifetime_seconds: how long it is valid after it is added; None is without a limit.
        groups: further groups of the user; `system:authenticated` is always one.
    """

    value: str
    user: str = "tester"
    verbs: Collection[str] = ("*",)
    resources: Collection[str] = ("*",)
    namespaces: Collection[str] | None = None
    lifetime_seconds: float | None = None
    groups: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Caller:
    """The user of a request, and the token if it grants rights itself."""

    user: User
    token: Token | None = None


def user_info(caller: Caller | None) -> JSONObject:
    """Return a user as reviews name it; None is that of a server without tokens and roles."""
    user = UNIDENTIFIED if caller is None else caller.user
    return {"username": user.name, "groups": list(user.groups)}


class Access:
    """The tokens and roles of a server; any thread may change the tokens.

    Args:
        tokens: the initial tokens.
        now: monotonic seconds.
        read: reads roles, bindings and service accounts; None does not evaluate roles.
    """

    def __init__(self, tokens: Iterable[Token], *, now: float, read: Read | None = None) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, tuple[Token, float]] = {}
        self._accounts: dict[str, str] = {}
        self._read = read
        self._is_open = read is None
        check_iterable("tokens", tokens, shown="a sequence of Tokens")
        for token in tokens:
            check_type("tokens", token, Token, shown="a sequence of Tokens")
            self.add(token, now=now)

    @property
    def has_roles(self) -> bool:
        """Whether roles are evaluated."""
        return self._read is not None

    def add(self, token: Token, *, now: float) -> None:
        """Add a token or replace its rights; from then on every request needs a token."""
        with self._lock:
            self._is_open = False
            lifetime = token.lifetime_seconds
            expires = float("inf") if lifetime is None else now + lifetime
            self._tokens[token.value] = (token, expires)

    def add_account(self, token: Token, uid: str, *, now: float) -> None:
        """Add the token of a service account, which is valid as long as the account exists."""
        if self._is_open:
            return
        self.add(token, now=now)
        with self._lock:
            self._accounts[token.value] = uid

    def expire(self, value: str) -> None:
        """Invalidate a token; unknown ones are ignored."""
        with self._lock:
            self._tokens.pop(value, None)

    def first(self) -> str | None:
        """Return the token that was added first, for kubeconfigs."""
        with self._lock:
            return next(iter(self._tokens), None)

    def identify(
        self, headers: Mapping[str, str], attributes: RequestAttributes, *, now: float
    ) -> Caller | None:
        """Return the user of a request, after impersonation.

        Args:
            headers: the headers of the request, by lower-case name.
            attributes: what the request asks for, which a refused impersonation names.
            now: monotonic seconds.

        Returns:
            None if the server does not authenticate.

        Raises:
            Failure: 401; or 400 or 403 for an impersonation.
        """
        if self._is_open:
            return None
        caller = self._authenticate(headers.get("authorization", ""), now=now)
        name = headers.get("impersonate-user", "")
        groups = [one for one in headers.get("impersonate-group", "").split(", ") if one]
        if name:
            return self._impersonate(caller, name, groups, attributes)
        if groups:
            quoted = ", ".join(f'"{group}"' for group in groups)
            who = (
                f'&user.DefaultInfo{{Name:"", UID:"", Groups:[]string{{{quoted}}},'
                " Extra:map[string][]string(nil)}"
            )
            raise Failure(400, f"requested {who} without impersonating a user name")
        return caller

    def user_of(self, value: str, *, now: float) -> User | None:
        """Return the user of a token; None if the token is not valid."""
        with self._lock:
            is_known = value in self._tokens
        try:
            return self._authenticate(f"Bearer {value}", now=now).user if is_known else None
        except Failure:
            return None

    def judge(self, caller: Caller | None, attributes: RequestAttributes) -> Verdict:
        """Return whether a caller may do something, and why."""
        if caller is None or (caller.token is not None and _grants(caller.token, attributes)):
            return Verdict(is_allowed=True)
        if self._read is not None:
            return _rbac.decide(caller.user, attributes, self._read)
        return Verdict(is_allowed=bool(attributes.path))  # every user may read discovery

    def authorize(self, caller: Caller | None, attributes: RequestAttributes) -> None:
        """Raise if a caller may not do something.

        Raises:
            Failure: 403.
        """
        verdict = self.judge(caller, attributes)
        if caller is not None and not verdict.is_allowed:
            raise _forbidden(caller.user, attributes, verdict)

    def rules(self, caller: Caller | None, namespace: str) -> list[JSONObject]:
        """Return every rule that applies to a caller in a namespace."""
        everything: JSONObject = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        if caller is None:
            return [everything]
        token = caller.token
        own = [everything] if token is not None and "*" in token.verbs else []
        return (
            own if self._read is None else own + _rbac.rules_of(caller.user, namespace, self._read)
        )

    def _authenticate(self, header: str, *, now: float) -> Caller:
        if not header and self._read is not None:
            return Caller(ANONYMOUS)
        with self._lock:
            scheme, _, value = header.partition(" ")
            token, expires = self._tokens.get(value.strip(), (None, 0.0))
            uid = self._accounts.get(value.strip())
        if token is None or scheme.lower() != "bearer" or now >= expires:
            raise Failure(401, "Unauthorized")
        if uid is not None and not self._has_account(token.user, uid):
            raise Failure(401, "Unauthorized")
        return Caller(User(token.user, (*token.groups, AUTHENTICATED)), token)

    def _has_account(self, user: str, uid: str) -> bool:
        place = _rbac.account_of(user)
        if place is None or self._read is None:
            return True
        namespace, name = place
        found = self._read("serviceaccounts", namespace)
        return any(
            (one["metadata"]["name"], one["metadata"]["uid"]) == (name, uid) for one in found
        )

    def _impersonate(
        self, caller: Caller, name: str, groups: list[str], attributes: RequestAttributes
    ) -> Caller:
        account = _rbac.account_of(name)
        if account is None:
            mode, user = "user-info", User(name, tuple(groups))
            wanted = [RequestAttributes(verb="impersonate", plural="users", name=name)]
        else:
            mode, user = "serviceaccount", _rbac.service_account(*account)
            where, called = account
            plural = "serviceaccounts"
            wanted = [
                RequestAttributes(verb="impersonate", plural=plural, namespace=where, name=called)
            ]
        wanted += [
            RequestAttributes(verb="impersonate", plural="groups", name=group) for group in groups
        ]
        if not all(self.judge(caller, one).is_allowed for one in wanted):
            verdict = (
                self.judge(caller, attributes)
                if caller.token is None
                else Verdict(is_allowed=False)
            )
            raise _forbidden(
                caller.user, attributes, verdict, f"impersonate-on:{mode}:{attributes.verb}"
            )
        known = tuple(groups) or user.groups
        if AUTHENTICATED not in known and name != ANONYMOUS.name:
            known = (*known, AUTHENTICATED)
        with self._lock:
            own = (token for token, _ in self._tokens.values() if token.user == name)
            return Caller(User(name, known), next(own, None))


def attributes_of(route: Route, query: Mapping[str, str]) -> RequestAttributes:
    """Return what a request asks for, in the terms of roles."""
    if not route.plural:
        return RequestAttributes(verb=route.verb, path="/" + "/".join(route.parts))
    name, namespace = route.name, route.namespace
    if route.verb in _SELECTING and not name:
        name = _selected_name(query.get("fieldSelector", ""))
    if (route.group, route.plural) == ("", "namespaces") and route.name:
        namespace = route.name
    return RequestAttributes(
        verb=route.verb,
        group=route.group,
        plural=route.plural,
        subresource=route.subresource,
        namespace=namespace,
        name=name,
    )


def _selected_name(text: str) -> str:
    """Return the single name that a field selector selects; "" if it selects several."""
    prefix = "metadata.name="
    if prefix not in text:
        return ""
    try:
        FieldSelector.parse(text)
    except InvalidSelectorError:
        return ""
    parts = [part.strip() for part in text.split(",")]
    return next(
        (p.removeprefix(prefix).removeprefix("=") for p in parts if p.startswith(prefix)), ""
    )


def _forbidden(
    user: User, attributes: RequestAttributes, verdict: Verdict, verb: str = ""
) -> Failure:
    verb = verb or attributes.verb
    because = f": {verdict.reason}" if verdict.reason else ""
    if not attributes.plural:
        message = f'forbidden: User "{user.name}" cannot {verb} path "{attributes.path}"{because}'
        return Failure(403, message, details={})
    what = f"{attributes.plural}.{attributes.group}" if attributes.group else attributes.plural
    where = (
        f'in the namespace "{attributes.namespace}"'
        if attributes.namespace
        else "at the cluster scope"
    )
    quoted = f' "{attributes.name}"' if attributes.name else ""
    plural = (
        f"{attributes.plural}/{attributes.subresource}"
        if attributes.subresource
        else attributes.plural
    )
    details: JSONObject = {"name": attributes.name} if attributes.name else {}
    if attributes.group:
        details["group"] = attributes.group
    message = (
        f'{what}{quoted} is forbidden: User "{user.name}" cannot {verb} resource'
        f' "{plural}" in API group "{attributes.group}" {where}{because}'
    )
    return Failure(403, message, details={**details, "kind": attributes.plural})


def _grants(token: Token, attributes: RequestAttributes) -> bool:
    """Return whether the token itself allows it, regardless of roles."""
    if not attributes.plural:
        return "*" in token.verbs and "*" in token.resources
    name = f"{attributes.plural}.{attributes.group}" if attributes.group else attributes.plural
    return (
        _allows(token.verbs, attributes.verb)
        and _allows(token.resources, name)
        and (token.namespaces is None or attributes.namespace in token.namespaces)
    )


def _allows(allowed: Collection[str], wanted: str) -> bool:
    return "*" in allowed or wanted in allowed
