"""Where outages are played: a server that can be away and can lose its history, and a namespace.

Most outages are played on the embedded server and on a real kube-apiserver. The real one is behind
a proxy that refuses connections. A kube-apiserver cannot be made to answer with a chosen HTTP
status, to send a chosen ERROR event, to be silent, to end its watches at once, or to break off at a
chosen byte, so these outages are played on the embedded server only.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from pyinformer.testing import APIServer, Fault, FaultProxy, KubeAPIServer, Token
from tests.integration.servers import ADMIN, EmbeddedServer, RealServer
from tests.kopf_proofs.operators import Operator
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.servers import Server

    AnyAPI = APIServer | KubeAPIServer
    Servers = Callable[[], AbstractContextManager[Server]]

_OF_THE_SERVER = 1  # kube-apiserver itself watches the ConfigMaps of kube-system
_WATCHES = (
    r'apiserver_longrunning_requests{{.*resource="{}",scope="namespace".*verb="WATCH".*}} (\d+)'
)


@contextmanager
def embedded_server() -> Iterator[Server]:
    """Run an embedded server."""
    with APIServer(tls=True, tokens=[Token(value=ADMIN)], strict_namespaces=True) as api:
        yield EmbeddedServer(api)


def real_servers(first: KubeAPIServer, *, build: bool) -> Servers:
    """Return what gives a stage a running kube-apiserver at first, and then new ones.

    Args:
        first: the running one.
        build: whether programs that are missing may be built.
    """
    unused = [first]

    @contextmanager
    def servers() -> Iterator[Server]:
        if unused:
            api = unused.pop()
            yield RealServer(api)
            api.close_connections()
            return
        with KubeAPIServer(build=build) as api:
            yield RealServer(api)

    return servers


@dataclass(frozen=True)
class Stage:
    """Where an outage is played.

    Attributes:
        with_line: whether `pyinformer.kopf` is installed in this process.
        wait_seconds: after how long an outcome is what it is.
        servers: runs a server, if the outage can be played on either.
    """

    with_line: bool
    wait_seconds: float
    servers: Servers = embedded_server

    def wait(self, condition: Callable[[], bool]) -> bool:
        """Wait until a condition holds, and return whether it does."""
        return poll(condition, timeout_seconds=self.wait_seconds)

    @contextmanager
    def site(self) -> Iterator[Site]:
        """Run a server, and make a namespace on it."""
        with ExitStack() as stack:
            server = stack.enter_context(self.servers())
            if isinstance(server.api, APIServer):
                yield Site(server, None)
                return
            yield Site(server, stack.enter_context(FaultProxy(server.api)))


@final
class Site:
    """A server, and one namespace on it that its operators serve.

    Args:
        server: either server.
        proxy: the way of the operators to it; None is the server itself.

    Attributes:
        server: either server.
        namespace: the namespace.
    """

    def __init__(self, server: Server, proxy: FaultProxy | None) -> None:
        self.server = server
        self.api: APIServer | KubeAPIServer = server.api
        self.namespace = server.namespace()
        self._proxy = proxy

    def operator(self, *, token: Callable[[], str] | None = None, **options: Any) -> Operator:
        """Return an operator of the namespace; see `Operator`."""
        where: dict[str, Any] = {"clusterwide": False, "namespaces": [self.namespace]}
        return Operator(
            self.api,
            token=token or (lambda: self.server.token),
            url=None if self._proxy is None else self._proxy.url,
            **(where | options),
        )

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """Break every connection of the operators, and refuse new ones until the end."""
        if self._proxy is None:
            assert isinstance(self.api, APIServer)
            with unreachable(self.api):
                yield
            return
        self._proxy.refuse()
        yield
        self._proxy.accept()

    def forget(self) -> None:
        """Let the watch history expire: of a kube-apiserver it is gone after a restart."""
        if isinstance(self.api, APIServer):
            self.api.compact()
        else:
            self.api.restart()

    def open_watches(self, resource: str) -> int:
        """Return how many watches of a resource, such as ConfigMaps, operators have opened."""
        if isinstance(self.api, APIServer):
            return open_watches(self.api, resource)
        metrics = self.api.client().request_text("GET", "/metrics")
        found: list[str] = re.findall(_WATCHES.format(resource), metrics)
        return sum(map(int, found)) - _OF_THE_SERVER


@contextmanager
def unreachable(api: APIServer) -> Iterator[None]:
    """Break every connection, and refuse new ones until the end of the block."""
    api.faults.add(Fault(refuse=True, times=None))
    api.drop_connections()
    yield
    api.faults.clear()


def open_watches(api: APIServer, resource: str) -> int:
    """Return how many watches of a resource are open."""
    of_it = [one for one in api.requests if one.verb == "watch" and one.resource == resource]
    return sum(not one.is_finished for one in of_it)
