"""Bearer tokens: who asks, and what they may do.

What enters is a request's Authorization header and what it wants; what leaves is nothing, or the
401 or 403 of a real server. A server without tokens lets everybody do everything.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pyinformer.testing._failure import Failure
from pyinformer.testing._routing import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One bearer token and the rights of its user.

    Attributes:
        value: the token itself.
        user: the name in 403 messages.
        verbs: what it may do: get, list, watch, create, update, patch, delete,
            deletecollection; "*" is everything.
        resources: on what: `pods`, `deployments.apps`; "*" is everything.
        namespaces: where; None is everywhere, and requests across namespaces need None.
        lifetime_seconds: how long it is valid after the server learned of it; None is for ever.
    """

    value: str
    user: str = "tester"
    verbs: Collection[str] = ("*",)
    resources: Collection[str] = ("*",)
    namespaces: Collection[str] | None = None
    lifetime_seconds: float | None = None


class Access:
    """The tokens a server knows; any thread may change them."""

    def __init__(self, tokens: Iterable[Token], *, now: float) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, tuple[Token, float]] = {}
        self._is_open = True
        for token in tokens:
            self.add(token, now=now)

    def add(self, token: Token, *, now: float) -> None:
        """Learn a token, or its new rights; from then on requests need one."""
        with self._lock:
            self._is_open = False
            lifetime = token.lifetime_seconds
            expires = float("inf") if lifetime is None else now + lifetime
            self._tokens[token.value] = (token, expires)

    def expire(self, value: str) -> None:
        """Make a token invalid from now on; unknown ones are ignored."""
        with self._lock:
            self._tokens.pop(value, None)

    def first(self) -> str | None:
        """Return the token that was learned first, for kubeconfigs."""
        with self._lock:
            return next(iter(self._tokens), None)

    def authenticate(self, header: str, *, now: float) -> Token | None:
        """Find who asks.

        Returns:
            The token, or None if the server asks for none.

        Raises:
            Failure: 401.
        """
        with self._lock:
            if self._is_open:
                return None
            scheme, _, value = header.partition(" ")
            token, expires = self._tokens.get(value.strip(), (None, 0.0))
        if token is None or scheme.lower() != "bearer" or now >= expires:
            raise Failure(401, "Unauthorized")
        return token


def authorize(token: Token | None, route: Route) -> None:
    """Check that a token may do what a request wants.

    Raises:
        Failure: 403.
    """
    if token is None or not route.plural:
        return
    name = f"{route.plural}.{route.group}" if route.group else route.plural
    if (
        _allows(token.verbs, route.verb)
        and _allows(token.resources, name)
        and (token.namespaces is None or route.namespace in token.namespaces)
    ):
        return
    where = f'in the namespace "{route.namespace}"' if route.namespace else "at the cluster scope"
    quoted = f' "{route.name}"' if route.name else ""
    plural = f"{route.plural}/{route.subresource}" if route.subresource else route.plural
    details = {"name": route.name} if route.name else {}
    if route.group:
        details["group"] = route.group
    raise Failure(
        403,
        f'{name}{quoted} is forbidden: User "{token.user}" cannot {route.verb} resource'
        f' "{plural}" in API group "{route.group}" {where}',
        details={**details, "kind": route.plural},
    )


def _allows(allowed: Collection[str], wanted: str) -> bool:
    return "*" in allowed or wanted in allowed
