"""The pytest plugin: fixtures for API servers, and a check that no test changes shared objects.

The fixtures are `apiserver`, `fault_proxy` in front of it, `under_faults`, which judges a program
behind that, `kube_apiserver`, and `cluster`, which connects to each. Everything is synchronous, so
it works beside any plugin for asynchronous tests. This module is outside of the package, which is
imported when a fixture or a test needs it: pytest starts as fast as without it, and coverage
measures every line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pyinformer.cache.audit import DebugSession
    from pyinformer.testing import APIServer, Connector, FaultProxy, FaultRun, KubeAPIServer

_OPTION: Final = "--pyinformer-build-kube-apiserver"
_INI: Final = "pyinformer_build_kube_apiserver"
_VARIABLE: Final = "PYINFORMER_BUILD_KUBE_APISERVER"
_HELP: Final = (
    "build a real kube-apiserver and etcd for the kube_apiserver fixture if none is found"
)
_DETECTOR_INI: Final = "pyinformer_mutation_detector"
_DETECTOR_HELP: Final = (
    "'debug' (default) fails tests that change objects of an informer with sharing='decoded';"
    " 'off' leaves detectors as the program configures them"
)
_session: Final = pytest.StashKey["DebugSession"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option and the ini values."""
    group = parser.getgroup("pyinformer")
    group.addoption(_OPTION, action="store_true", default=False, help=_HELP)
    parser.addini(_INI, type="bool", default=False, help=_HELP)
    parser.addini(_DETECTOR_INI, type="string", default="debug", help=_DETECTOR_HELP)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse an unknown mode before the first test runs.

    Raises:
        pytest.UsageError: the ini value is neither `debug` nor `off`.
    """
    mode = config.getini(_DETECTOR_INI)
    if mode not in {"debug", "off"}:
        message = f"{_DETECTOR_INI} must be 'debug' or 'off', got {mode!r}"
        raise pytest.UsageError(message)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the debug session: detectors that are made later have their usual mode."""
    session = config.stash.get(_session, None)
    if session is not None:
        session.close()
        del config.stash[_session]


def _debugging(config: pytest.Config) -> DebugSession | None:
    """Return the debug session; None until the library is imported, or if the mode is off.

    `import pyinformer` loads no cache: the first one is made by the test that this must precede.
    """
    if config.getini(_DETECTOR_INI) == "off" or "pyinformer" not in sys.modules:
        return None
    if _session not in config.stash:
        from pyinformer.cache.audit import DebugSession

        config.stash[_session] = DebugSession()
    return config.stash[_session]


def _fail_if_changed(session: DebugSession | None, who: str) -> None:
    found = () if session is None else session.take()
    if found:
        lines = "\n".join(f"- {mutation}" for mutation in found)
        pytest.fail(f"{who} changed what readers of a cache share:\n{lines}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Debug the detectors of fixtures as well; a fixture that changes a shared object fails."""
    _debugging(item.config)
    result = yield
    _fail_if_changed(_debugging(item.config), "a fixture of this test")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail if the end of a fixture, or a task left running, changed a shared object."""
    result = yield
    _fail_if_changed(_debugging(item.config), "the end or a fixture of this test")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail the test during which a shared object was changed in place."""
    session = _debugging(item.config)
    try:
        result = yield
    except (Exception, pytest.fail.Exception) as error:
        for mutation in () if session is None else session.take():
            error.add_note(f"pyinformer: {mutation}")
        raise
    _fail_if_changed(session, "this test")
    return result


@pytest.fixture(scope="session")
def kube_apiserver_build(request: pytest.FixtureRequest) -> bool:
    """Whether the real server may be built: by option, ini value or environment variable.

    For tests that start their own servers: `KubeAPIServer(build=kube_apiserver_build)`.
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
        # A build takes minutes: its lines belong on the terminal, not in the test's output.
        if reporter is not None and capture is not None:
            with capture.global_and_fixture_disabled():
                reporter.write_line(f"kube-apiserver: {line}")

    with KubeAPIServer(build=kube_apiserver_build, progress=show) as server:
        yield server


@pytest.fixture
def kube_apiserver(kube_apiserver_session: KubeAPIServer) -> Iterator[KubeAPIServer]:
    """The session's real kube-apiserver: each test uses its own names and namespaces.

    Connections of its synchronous calls are kept during the test, and closed after it.
    """
    yield kube_apiserver_session
    kube_apiserver_session.close_connections()


@pytest.fixture
def apiserver() -> Iterator[APIServer]:
    """An embedded API server for this test only, empty."""
    from pyinformer.testing import APIServer

    with APIServer() as server:
        yield server


@pytest.fixture
def fault_proxy(apiserver: APIServer) -> Iterator[FaultProxy]:
    """A proxy in front of this test's embedded server, which breaks connections and requests."""
    from pyinformer.testing import FaultProxy

    with FaultProxy(apiserver, reads_requests=True) as proxy:
        yield proxy


@pytest.fixture
def under_faults(
    apiserver: APIServer, fault_proxy: FaultProxy, tmp_path: Path
) -> Callable[..., AbstractAsyncContextManager[FaultRun]]:
    """A factory of runs under faults, each judged at its end.

    `async with under_faults() as run` is FaultRun.begin on this test's server and proxy.
    """
    from pyinformer.testing import FaultRun

    return partial(FaultRun.begin, apiserver, fault_proxy, tmp_path / "history.jsonl")


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Connector:
    """A factory of clusters, connected to the test's embedded server or to a given one.

    `async with cluster() as connected`, `async with cluster(kube_apiserver) as connected`.
    """
    from pyinformer.testing import Connector

    return Connector(lambda: request.getfixturevalue("apiserver"))
