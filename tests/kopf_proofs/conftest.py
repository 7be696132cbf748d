"""What the tests of this folder share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer.testing import APIServer, Token
from tests.integration.servers import ADMIN, SERVERS, EmbeddedServer, RealServer
from tests.kopf_proofs.line import installed_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.servers import Server


@pytest.fixture
def line() -> Iterator[None]:
    """Install the line for one test."""
    with installed_line():
        yield


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Either server."""
    if request.param == "real":
        api = request.getfixturevalue("kube_apiserver_session")
        yield RealServer(api)
        api.close_connections()
        return
    with APIServer(tls=True, tokens=[Token(value=ADMIN)], strict_namespaces=True) as api:
        yield EmbeddedServer(api)
