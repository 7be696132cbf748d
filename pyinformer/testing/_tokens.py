"""What a test does to the users of an embedded server: tokens come, and end.

What enters are users by name and group, or service accounts; what leaves are bearer tokens, from
any thread and without HTTP.
"""

from __future__ import annotations

import contextlib
import secrets
from abc import abstractmethod
from collections.abc import Sequence

from pyinformer._clock import monotonic
from pyinformer.apimachinery import ConflictError, JSONObject, LifecycleError
from pyinformer.testing import _clock
from pyinformer.testing._access import Access, Token
from pyinformer.testing._resources import Registry
from pyinformer.testing._reviews import account_token
from pyinformer.testing._storage import Storage


class TokenControl:
    """Makes and ends tokens; `APIServer` inherits it."""

    _access: Access
    _storage: Storage
    _registry: Registry

    @abstractmethod
    def create(self, obj: JSONObject, *, namespace: str | None = None) -> JSONObject:
        """Create an object."""

    def add_token(self, token: Token) -> None:
        """Learn a bearer token, or new rights of a known one; from then on requests need one."""
        self._access.add(token, now=monotonic())

    @property
    def token(self) -> str | None:
        """The bearer token that the server knew first, the administrator's; None without tokens."""
        return self._access.first()

    def token_for(self, user: str, groups: Sequence[str] = ()) -> str:
        """Return a new bearer token of a user who may do what roles allow, and nothing else.

        Args:
            user: such as `jane`.
            groups: such as `developers`; `system:authenticated` is always there.

        Raises:
            LifecycleError: the server evaluates no roles: `APIServer(rbac=True)`.
        """
        self._check_roles()
        value = secrets.token_urlsafe(16)
        self.add_token(Token(value=value, user=user, groups=tuple(groups), verbs=()))
        return value

    def token_for_service_account(self, name: str, namespace: str = "default") -> str:
        """Return a new bearer token of a service account, which is created if it is not there.

        Raises:
            LifecycleError: the server evaluates no roles: `APIServer(rbac=True)`.
        """
        self._check_roles()
        with contextlib.suppress(ConflictError):
            metadata = {"name": name, "namespace": namespace}
            self.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        resource = self._registry.find("", "v1", "serviceaccounts")
        account = None if resource is None else self._storage.get(resource, f"{namespace}/{name}")
        if account is None:
            message = f"the service account {name} was deleted while its token was made"
            raise LifecycleError(message)
        now, timestamp = monotonic(), _clock.timestamp
        answer = account_token(account, {}, self._access, now=now, timestamp=timestamp)
        return str(answer["status"]["token"])

    def _check_roles(self) -> None:
        if not self._access.has_roles:
            message = "this API server evaluates no roles: make it as APIServer(rbac=True)"
            raise LifecycleError(message)

    def expire_token(self, value: str) -> None:
        """Answer 401 to a token from now on; open watches stay."""
        self._access.expire(value)
