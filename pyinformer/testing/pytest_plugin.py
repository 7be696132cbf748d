"""Fixtures for tests that need an API server: `apiserver` and `kube_apiserver`.

In go an option, an ini value or a variable that allows the real server to be built; out come
servers. All of it is synchronous, so it works beside any plugin for asynchronous tests, and nothing
of the library is imported before a fixture is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pyinformer.testing import APIServer, KubeAPIServer

_OPTION: Final = "--pyinformer-build-kube-apiserver"
_INI: Final = "pyinformer_build_kube_apiserver"
_VARIABLE: Final = "PYINFORMER_BUILD_KUBE_APISERVER"
_HELP: Final = (
    "build a real kube-apiserver and etcd for the kube_apiserver fixture if none is found"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option and the ini value that allow a build."""
    group = parser.getgroup("pyinformer")
    group.addoption(_OPTION, action="store_true", default=False, help=_HELP)
    parser.addini(_INI, type="bool", default=False, help=_HELP)


@pytest.fixture(scope="session")
def kube_apiserver_build(request: pytest.FixtureRequest) -> bool:
    """Whether the real server may be built: by option, ini value or variable.

    For tests that start servers of their own: `KubeAPIServer(build=kube_apiserver_build)`.
    """
    config = request.config
    asked = os.environ.get(_VARIABLE, "").lower() in {"1", "true", "yes", "on"}
    return asked or bool(config.getoption(_OPTION)) or bool(config.getini(_INI))


@pytest.fixture(scope="session")
def kube_apiserver_session(
    request: pytest.FixtureRequest,
    kube_apiserver_build: bool,  # noqa: FBT001 - fixtures are asked for by parameters
) -> Iterator[KubeAPIServer]:
    """A real kube-apiserver for the whole session, for fixtures of a wide scope."""
    from pyinformer.testing import KubeAPIServer

    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")

    def show(line: str) -> None:
        # A build takes minutes: the lines belong on the terminal, not into the test's output.
        if reporter is not None and capture is not None:
            with capture.global_and_fixture_disabled():
                reporter.write_line(f"kube-apiserver: {line}")

    with KubeAPIServer(build=kube_apiserver_build, progress=show) as server:
        yield server


@pytest.fixture
def kube_apiserver(kube_apiserver_session: KubeAPIServer) -> Iterator[KubeAPIServer]:
    """The session's real kube-apiserver: tests use names and namespaces of their own.

    Its synchronous calls keep connections alive during the test, and leave none behind.
    """
    yield kube_apiserver_session
    kube_apiserver_session.close_connections()


@pytest.fixture
def apiserver() -> Iterator[APIServer]:
    """An embedded API server of the test's own, empty."""
    from pyinformer.testing import APIServer

    with APIServer() as server:
        yield server
