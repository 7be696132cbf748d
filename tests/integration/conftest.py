"""Each test of this folder runs on the embedded server and on a real kube-apiserver.

A test asks for `server`, or for one of its variants, and gets an EmbeddedServer of its own or a
RealServer that it shares with other tests, so it uses a namespace of its own. Only the runs on the
real server are marked `real`. Tests of what differs between the two HTTP clients that read watches
are marked EITHER_CLIENT, and run once more on the embedded server, over aiohttp.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.testing import APIServer, KubeAPIServer, StaticToken, Token
from tests.integration.accounts import embedded_with_roles
from tests.integration.asked import USER, Asked, Observed, audit_flags
from tests.integration.places import Place
from tests.integration.servers import ADMIN, SERVERS, EmbeddedServer, RealServer
from tests.testing.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.servers import Server

# A real watch cache grows while its events are fresh; this one has a fixed size.
_HISTORY = 100_000
INFORMERS = "the-token-of-the-informers"
_EMBEDDED_TTL_SECONDS = 6.0  # as long as six writes and a look may take on a busy machine
_REAL_TTL_SECONDS = 20.0  # with less, etcd would end the leases of Events while they are made


def _embedded(*, watch_list: bool = True, event_ttl_seconds: float | None = None) -> APIServer:
    return APIServer(
        tls=True,
        tokens=[Token(value=ADMIN)],
        strict_namespaces=True,
        watch_cache_size=_HISTORY,
        history_size=_HISTORY,
        watch_list=watch_list,
        event_ttl_seconds=event_ttl_seconds,
    )


def _over(param: str, server: EmbeddedServer) -> EmbeddedServer:
    if param == "aiohttp":
        server.options = pyinformer.client.ConnectionOptions(http_client="aiohttp")
    return server


@pytest.fixture(scope="session")
def other_kube_apiserver(kube_apiserver_build: bool) -> Iterator[KubeAPIServer]:
    """A second real server for the session: it refuses watch-lists, and its Events live shortly."""
    with KubeAPIServer(
        build=kube_apiserver_build, watch_list=False, event_ttl_seconds=_REAL_TTL_SECONDS
    ) as server:
        yield server


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """The server under test, as it comes."""
    if request.param != "real":
        with _embedded() as api:
            yield _over(request.param, EmbeddedServer(api))
    else:
        yield RealServer(request.getfixturevalue("kube_apiserver"))


@pytest.fixture
def place(server: Server) -> Iterator[Place]:
    """A namespace of the server under test, for plain requests."""
    context = ssl.create_default_context(cafile=str(server.api.ca_file))
    with Wire(server.api.url, token=server.token, context=context) as wire:
        yield Place(server, wire)


@pytest.fixture(params=SERVERS)
def strict(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that evaluates roles."""
    if request.param != "real":
        yield from embedded_with_roles()
    else:
        yield RealServer(request.getfixturevalue("kube_apiserver"))


@pytest.fixture(params=SERVERS)
def other_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server under test that refuses watch-lists, and whose Events live only seconds."""
    if request.param != "real":
        with _embedded(watch_list=False, event_ttl_seconds=_EMBEDDED_TTL_SECONDS) as api:
            yield EmbeddedServer(api)
    else:
        api_of_session: KubeAPIServer = request.getfixturevalue("other_kube_apiserver")
        yield RealServer(api_of_session)
        api_of_session.close_connections()


@pytest.fixture(scope="session")
def observed_kube_apiserver(
    kube_apiserver_build: bool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[KubeAPIServer, Path]]:
    """A third real server for the session: it is restored, and writes down what it is asked."""
    folder = tmp_path_factory.mktemp("audit")
    with KubeAPIServer(
        build=kube_apiserver_build,
        tokens=[StaticToken(INFORMERS, USER, ("system:masters",))],
        extra_args=audit_flags(folder),
    ) as server:
        yield server, folder


@pytest.fixture(params=SERVERS)
def observed(request: pytest.FixtureRequest) -> Iterator[Observed]:
    """A server under test that may be restored, and that records what informers ask."""
    if request.param != "real":
        with _embedded() as api:
            yield Observed(_over(request.param, EmbeddedServer(api)), Asked(api), ADMIN)
    else:
        api_of_session, folder = request.getfixturevalue("observed_kube_apiserver")
        yield Observed(RealServer(api_of_session), Asked(api_of_session, folder), INFORMERS)
        api_of_session.close_connections()
