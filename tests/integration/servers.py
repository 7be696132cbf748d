"""The two servers behind one interface, so that a test works with either.

It has what the two do differently: namespaces, users, connections, and dying. Everything else goes
through `api`, whose calls are the same for both.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

import pyinformer
from pyinformer.client.transport import StaticCredentials
from pyinformer.errors import APIStatusError, UnauthorizedError
from pyinformer.testing import Token
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer, KubeAPIServer

ADMIN = "the-administrators-token"
WIDGETS = "suite.example.com/v1"

SERVERS = (
    pytest.param("embedded", id="embedded"),
    pytest.param("real", id="real", marks=[pytest.mark.real, pytest.mark.timeout(300)]),
)
"""What the fixtures of conftest.py are parametrized with."""

_CLIENTS = (*SERVERS, pytest.param("aiohttp", id="embedded-aiohttp"))
EITHER_CLIENT = pytest.mark.parametrize("server", _CLIENTS, indirect=True)
EITHER_CLIENT_OBSERVED = pytest.mark.parametrize("observed", _CLIENTS, indirect=True)

_numbers = itertools.count()


class Server(ABC):
    """A server under test."""

    name: str
    api: APIServer | KubeAPIServer
    token: str
    options = pyinformer.client.ConnectionOptions()
    """Of every connection to it."""

    def namespace(self) -> str:
        """Make a namespace that no other test knows."""
        name = f"suite-{secrets.token_hex(4)}-{next(_numbers)}"
        self.api.ensure_namespace(name)
        return name

    def serve_widgets(self) -> None:
        """Serve custom resources of both scopes."""
        self.api.register(WIDGETS, "Widget", "widgets")
        self.api.register(WIDGETS, "Planet", "planets", namespaced=False)

    @property
    def port(self) -> int:
        """Where it listens on loopback."""
        port = urlsplit(self.api.url).port
        assert port
        return port

    def config(
        self, *, token: str | None = None, url: str | None = None
    ) -> pyinformer.client.ClusterConfig:
        """Describe the way to it, perhaps as another user, perhaps through a proxy."""
        return pyinformer.client.ClusterConfig(
            server=url or self.api.url,
            ca_file=str(self.api.ca_file),
            credentials=StaticCredentials.bearer(token or self.token),
        )

    @asynccontextmanager
    async def connect(
        self, *, token: str | None = None, url: str | None = None
    ) -> AsyncIterator[pyinformer.Cluster]:
        """Connect a cluster."""
        config = self.config(token=token, url=url)
        async with pyinformer.connect(config=config, options=self.options) as cluster:
            yield cluster

    @abstractmethod
    def restart(self) -> None:
        """Kill it without a farewell, and start it again; its watch history is gone."""

    @abstractmethod
    def save(self) -> Callable[[int], None]:
        """Back up all data; what is returned restores it, its revision moved on by a number."""

    @abstractmethod
    def revision(self) -> int:
        """Return the resource version of the newest write, whatever it was to."""

    @abstractmethod
    def user(self, namespace: str, plural: str, verbs: Sequence[str]) -> str:
        """Return the token of a user who may do just that, on one core resource."""

    @abstractmethod
    def allow(self, token: str, namespace: str, plural: str, verbs: Sequence[str]) -> None:
        """Give a user more rights, on one core resource."""

    @abstractmethod
    def end(self, token: str) -> None:
        """End a user's token, and wait until it is refused."""

    @abstractmethod
    def ended_user(self, namespace: str) -> str:
        """Return a token that was valid and has ended."""


class EmbeddedServer(Server):
    """The server in a thread of this process."""

    name = "embedded"
    token = ADMIN

    def __init__(self, api: APIServer) -> None:
        self.api: APIServer = api

    def restart(self) -> None:
        """Cut every connection and forget the watch windows."""
        self.api.restart(keep_history=False)

    def save(self) -> Callable[[int], None]:
        """Keep the objects."""
        saved = self.api.save()
        return lambda bump: self.api.restore(saved, bump_revision=bump)

    def revision(self) -> int:
        """Read it."""
        return int(self.api.resource_version)

    def user(self, namespace: str, plural: str, verbs: Sequence[str]) -> str:
        """Add a token."""
        value = secrets.token_hex(8)
        self.allow(value, namespace, plural, verbs)
        return value

    def allow(self, token: str, namespace: str, plural: str, verbs: Sequence[str]) -> None:
        """Replace the token's rights."""
        self.api.add_token(
            Token(value=token, verbs=verbs, resources=(plural,), namespaces=(namespace,))
        )

    def end(self, token: str) -> None:
        """Let it expire."""
        self.api.expire_token(token)

    def ended_user(self, namespace: str) -> str:
        """Add a token and let it expire."""
        value = self.user(namespace, "pods", ("*",))
        self.end(value)
        return value


class RealServer(Server):
    """kube-apiserver; users are service accounts with a Role."""

    name = "real"

    def __init__(self, api: KubeAPIServer) -> None:
        self.api: KubeAPIServer = api
        self.token = api.token
        self._accounts: dict[str, tuple[str, str]] = {}

    def restart(self) -> None:
        """SIGKILL, and a new process with the same etcd."""
        self.api.restart()

    def save(self) -> Callable[[int], None]:
        """Copy etcd's data; a restore kills and restarts both programs."""
        saved = self.api.save()
        return lambda bump: self.api.restore(saved, bump_revision=bump)

    def revision(self) -> int:
        """Ask for it."""
        listed = self.api.request("GET", "/api/v1/namespaces", query={"limit": "1"})
        return int(listed["metadata"]["resourceVersion"])

    def user(self, namespace: str, plural: str, verbs: Sequence[str]) -> str:
        """Make a service account, and bind it to a Role."""
        token = self._account(namespace)
        self.allow(token, namespace, plural, verbs)
        return token

    def allow(self, token: str, namespace: str, plural: str, verbs: Sequence[str]) -> None:
        """Bind the account to one more Role, and wait until the authorizer knows it."""
        home, account = self._accounts[token]
        role: JSONObject = {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "Role",
            "metadata": {"name": f"{account}-{plural}", "namespace": namespace},
        }
        rules = [{"apiGroups": [""], "resources": [plural], "verbs": list(verbs)}]
        self.api.create({**role, "rules": rules})
        reference = {"apiGroup": _RBAC, "kind": "Role", "name": role["metadata"]["name"]}
        subjects = [{"kind": "ServiceAccount", "name": account, "namespace": home}]
        self.api.create({**role, "kind": "RoleBinding", "roleRef": reference, "subjects": subjects})
        attributes = {"namespace": namespace, "resource": plural, "verb": verbs[0]}
        assert poll(lambda: self._may(token, attributes), timeout_seconds=100)

    def end(self, token: str) -> None:
        """Delete the account behind it, and wait until the authenticator knows it."""
        namespace, account = self._accounts[token]
        self.api.delete("v1", "serviceaccounts", account, namespace)
        assert poll(lambda: self._is_refused(token), timeout_seconds=100)

    def ended_user(self, namespace: str) -> str:
        """Make a service account, and delete it."""
        token = self._account(namespace)
        self.end(token)
        return token

    def _account(self, namespace: str) -> str:
        account = f"user-{next(_numbers)}"
        metadata = {"name": account, "namespace": namespace}
        self.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer = self.api.request("POST", path, body=_TOKEN_REQUEST)
        token = str(answer["status"]["token"])
        self._accounts[token] = (namespace, account)
        return token

    def _may(self, token: str, attributes: JSONObject) -> bool:
        review: JSONObject = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        with contextlib.suppress(APIStatusError):
            answer = self.api.client(token).request("POST", path, body=review)
            return bool(answer["status"]["allowed"])
        return False

    def _is_refused(self, token: str) -> bool:
        try:
            self.api.client(token).request("GET", "/api/v1/pods")
        except UnauthorizedError:
            return True
        except APIStatusError:
            return False
        return False


_RBAC = "rbac.authorization.k8s.io"
_TOKEN_REQUEST: JSONObject = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenRequest",
    "spec": {"expirationSeconds": 3600},
}
