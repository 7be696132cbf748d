"""Servers for the foreign clients, and the clients themselves, or a skip that says what is missing.

The tests marked `real` ask the same of a real kube-apiserver: what they promise is then no opinion
of ours. They skip where none was built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import KubeAPIServerError
from pyinformer.testing import APIServer, Token
from tests.foreign import clients
from tests.integration.servers import ADMIN, EmbeddedServer, RealServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.servers import Server

_BOTH = [
    pytest.param("embedded", id="embedded"),
    pytest.param("real", id="real", marks=[pytest.mark.real, pytest.mark.timeout(300)]),
]


@pytest.fixture
def embedded() -> Iterator[EmbeddedServer]:
    """An embedded server of the test's own."""
    with APIServer(tls=True, tokens=[Token(value=ADMIN)], strict_namespaces=True) as api:
        yield EmbeddedServer(api)


@pytest.fixture(params=_BOTH)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """The embedded server, or the real one as the control."""
    if request.param == "embedded":
        yield request.getfixturevalue("embedded")
        return
    try:
        api = request.getfixturevalue("kube_apiserver_session")
    except KubeAPIServerError as error:
        pytest.skip(f"no kube-apiserver to compare with (make test-real builds one): {error}")
    yield RealServer(api)
    api.close_connections()


@pytest.fixture
def kubeconfig(server: Server, tmp_path: Path) -> Path:
    """A kubeconfig of the server."""
    return server.api.write_kubeconfig(tmp_path / "kubeconfig")


@pytest.fixture(scope="session")
def client_go() -> Path:
    """The compiled client-go program."""
    return _found(clients.client_go())


@pytest.fixture(scope="session")
def helm() -> Path:
    """The compiled program that renders charts."""
    return _found(clients.helm())


@pytest.fixture(scope="session")
def official_python() -> Path:
    """An interpreter that imports the official client."""
    return _found(clients.official_python())


def _found(found: Path | str) -> Path:
    if isinstance(found, str):
        pytest.skip(found)
    return found
