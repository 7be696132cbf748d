"""Access to the embedded API server: TLS, tokens, threads, connections."""

from __future__ import annotations

import contextlib
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from pyinformer.errors import InvalidArgumentError, LifecycleError
from pyinformer.testing import APIServer, Token
from tests.testing.wire import ALL_PODS, PODS, Wire, pod


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        yield running


def _status(server: APIServer, token: str | None, path: str = ALL_PODS, **query: Any) -> int:
    with Wire(server.url, token=token) as wire:
        return wire.get(path, **query).status


def test_tls_without_its_package_says_which_extra_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "trustme", None)

    with pytest.raises(InvalidArgumentError, match=r"pip install 'pyinformer\[testing\]'"):
        APIServer(tls=True)


def test_the_file_of_the_authority_is_written_once() -> None:
    """Another client may be reading it."""
    with APIServer(tls=True) as server:
        assert server.ca_file is not None
        os.utime(server.ca_file, (1.0, 1.0))
        assert server.ca_file.stat().st_mtime == 1.0


def test_tls_is_verified_against_the_servers_own_authority() -> None:
    with APIServer(tls=True) as server:
        assert server.url.startswith("https://127.0.0.1:")
        assert server.ca_file is not None
        context = ssl.create_default_context(cafile=str(server.ca_file))
        with Wire(server.url, context=context) as wire:
            assert wire.get(ALL_PODS).status == 200
        strange = Wire(server.url, context=ssl.create_default_context())
        with strange, pytest.raises(ssl.SSLCertVerificationError):
            strange.get(ALL_PODS)
        file = server.ca_file
    assert not file.exists()


def test_a_tls_stream_can_be_cut() -> None:
    with APIServer(tls=True) as secure:
        context = ssl.create_default_context(cafile=str(secure.ca_file))
        with Wire(secure.url, context=context) as wire, wire.watch(ALL_PODS) as stream:
            secure.wait_for_watches(1)
            secure.drop_connections()
            with contextlib.suppress(OSError):  # how ssl reports a reset depends on its version
                assert stream.line() == b""
            secure.wait_for_watches(0)


def test_a_kubeconfig_names_server_authority_and_token(tmp_path: Path) -> None:
    with APIServer(tls=True, tokens=[Token(value="secret")]) as server:
        path = server.write_kubeconfig(tmp_path / "config")
        assert path.stat().st_mode & 0o077 == 0
        config = yaml.safe_load(path.read_text())
        assert yaml.safe_load(server.kubeconfig("other"))["users"][0]["user"]["token"] == "other"
    assert config["clusters"][0]["cluster"]["server"] == server.url
    assert "certificate-authority-data" in config["clusters"][0]["cluster"]
    assert config["users"][0]["user"] == {"token": "secret"}
    assert config["current-context"] == config["contexts"][0]["name"]


def test_a_kubeconfig_of_an_open_server_has_no_credentials(server: APIServer) -> None:
    config = yaml.safe_load(server.kubeconfig())
    assert config["users"][0]["user"] == {}
    assert "certificate-authority-data" not in config["clusters"][0]["cluster"]


@pytest.mark.parametrize("token", [None, "wrong"])
def test_a_missing_or_wrong_token_is_401(token: str | None) -> None:
    with APIServer(tokens=[Token(value="right")]) as server:
        with Wire(server.url, token=token) as wire:
            refused = wire.get(ALL_PODS)
        assert (refused.status, refused.json["reason"]) == (401, "Unauthorized")
        assert _status(server, "right") == 200


def test_a_token_expires_with_its_lifetime_or_on_demand() -> None:
    tokens = [Token(value="short", lifetime_seconds=0.0), Token(value="long")]
    with APIServer(tokens=tokens) as server:
        assert _status(server, "short") == 401
        assert _status(server, "long") == 200
        server.expire_token("long")
        assert _status(server, "long") == 401
        server.add_token(Token(value="long", lifetime_seconds=60.0))
        assert _status(server, "long") == 200


def test_an_open_watch_outlives_its_token() -> None:
    with (
        APIServer(tokens=[Token(value="t")]) as server,
        Wire(server.url, token="t") as wire,
        wire.watch(ALL_PODS) as stream,
    ):
        server.wait_for_watches(1)
        server.expire_token("t")
        server.create(pod("a"))
        assert stream.named(1) == [("ADDED", "a")]


def test_a_forbidden_request_is_403_with_upstreams_message() -> None:
    reader = Token(value="t", user="x", verbs=("get", "watch"), resources=("pods", "jobs.batch"))
    with APIServer(tokens=[reader]) as server, Wire(server.url, token="t") as wire:
        refused = wire.get(ALL_PODS)
        assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
        assert refused.json["message"] == (
            'pods is forbidden: User "x" cannot list resource "pods" in API group "" at the'
            " cluster scope"
        )
        named = wire.get("/apis/apps/v1/namespaces/n/deployments/d").json["message"]
        assert named == (
            'deployments.apps "d" is forbidden: User "x" cannot get resource "deployments" in'
            ' API group "apps" in the namespace "n"'
        )
        with wire.watch(ALL_PODS, timeoutSeconds=1) as stream:
            assert stream.status == 200
        assert wire.get("/apis/batch/v1/namespaces/n/jobs/j").status == 404
        assert wire.get("/api/v1").status == 200


def test_a_token_can_be_bound_to_namespaces() -> None:
    with APIServer(tokens=[Token(value="t", namespaces=("default",))]) as server:
        assert _status(server, "t", PODS) == 200
        assert _status(server, "t", ALL_PODS) == 403
        assert _status(server, "t", "/api/v1/namespaces/other/pods") == 403


def test_rights_change_while_the_server_runs(server: APIServer) -> None:
    assert _status(server, None) == 200
    server.add_token(Token(value="t", verbs=("list",)))
    assert _status(server, None) == 401
    assert _status(server, "t") == 200
    assert _status(server, "t", watch="1") == 403


def test_requests_are_recorded_with_their_parameters(server: APIServer) -> None:
    with Wire(server.url) as wire:
        wire.get(PODS, limit=5, labelSelector="a=b")
        wire.get("/apis/apps/v1/namespaces/n/deployments/d")
        wire.get("/readyz")
    listed, got, health = server.requests
    assert (listed.method, listed.path, listed.status) == ("GET", PODS, 200)
    assert listed.query == {"limit": "5", "labelSelector": "a=b"}
    assert (listed.verb, listed.resource, listed.namespace) == ("list", "pods", "default")
    assert listed.user_agent == "wire/1"
    assert listed.accept_encoding == "identity"
    assert listed.accept == ""
    assert (got.verb, got.resource, got.name) == ("get", "deployments.apps", "d")
    assert got.status == 404
    assert (health.verb, health.resource) == ("get", "")
    server.clear_requests()
    assert server.requests == ()


def test_credentials_are_not_recorded(server: APIServer) -> None:
    assert _status(server, "secret") == 200
    assert "secret" not in repr(server.requests)


def test_a_watch_is_unfinished_until_it_ends(server: APIServer) -> None:
    with Wire(server.url) as wire, wire.watch(ALL_PODS) as stream:
        asked = server.wait_for_request(lambda r: r.verb == "watch" and r.status == 200)
        assert not asked.is_finished
        server.end_watches()
        stream.rest()
        server.wait_for_request(lambda request: request.is_finished)


def test_waiting_for_a_request_times_out_and_lists_what_arrived(server: APIServer) -> None:
    assert _status(server, None) == 200
    with pytest.raises(TimeoutError, match="there were: list /api/v1/pods"):
        server.wait_for_request(lambda request: request.verb == "watch", timeout_seconds=0.01)


def test_a_server_that_stops_accepting_keeps_its_streams(server: APIServer) -> None:
    with Wire(server.url) as wire, wire.watch(ALL_PODS) as stream:
        server.wait_for_watches(1)
        server.stop_accepting()
        with Wire(server.url) as refused, pytest.raises(ConnectionRefusedError):
            refused.get(ALL_PODS)
        server.create(pod("a"))
        assert stream.named(1) == [("ADDED", "a")]
        server.accept_again()
        assert _status(server, None) == 200


@pytest.mark.parametrize("reset", [True, False])
def test_connections_are_dropped_and_new_ones_accepted(server: APIServer, reset: bool) -> None:
    with Wire(server.url) as wire, wire.watch(ALL_PODS) as stream:
        server.wait_for_watches(1)
        server.drop_connections(reset=reset)
        if reset:
            with pytest.raises(ConnectionResetError):
                stream.line()
        else:
            assert stream.line() == b""
        server.wait_for_watches(0)
    assert _status(server, None) == 200


async def test_control_methods_work_inside_a_running_loop(server: APIServer) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{server.url}{ALL_PODS}?watch=1") as response,
    ):
        server.wait_for_watches(1)
        server.create(pod("a"))
        assert (await response.content.readline()).startswith(b'{"type":"ADDED"')
        server.restart(keep_history=True)
        with pytest.raises(aiohttp.ClientError):
            await response.content.readline()


def test_control_methods_are_safe_from_many_threads(server: APIServer) -> None:
    def write(name: str) -> None:
        for _ in range(50):
            server.create(pod(name))
            server.patch("v1", "pods", name, {"metadata": {"labels": {"x": "1"}}})
            server.delete("v1", "pods", name)

    start = int(server.resource_version)
    threads = [threading.Thread(target=write, args=(f"p{number}",)) for number in range(4)]
    with Wire(server.url) as wire, wire.watch(ALL_PODS, resourceVersion=start) as stream:
        for thread in threads:
            thread.start()
        versions = [
            int(stream.event()[1]["metadata"]["resourceVersion"]) for _ in range(4 * 50 * 3)
        ]
        for thread in threads:
            thread.join(100)
    assert versions == list(range(start + 1, start + 601))


def test_a_server_starts_again_after_its_stop_on_the_same_port() -> None:
    server = APIServer()
    with pytest.raises(LifecycleError, match="before start"):
        _ = server.url
    with server:
        url = server.url
        server.create(pod("a"))
    server.stop()
    with Wire(url) as refused, pytest.raises(ConnectionRefusedError):
        refused.get(ALL_PODS)
    with server, Wire(url) as wire:
        assert wire.get(ALL_PODS).names == ["a"]


def test_stopping_ends_watches_stalls_and_the_thread() -> None:
    with APIServer() as server, Wire(server.url) as wire, wire.watch(ALL_PODS) as stream:
        server.wait_for_watches(1)
        server.stop()
        assert stream.line() == b""
    assert not any(thread.name == "pyinformer-apiserver" for thread in threading.enumerate())


def test_a_port_that_is_taken_is_an_error_and_leaves_no_thread(server: APIServer) -> None:
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(OSError, match="address already in use"):
        APIServer(port=port).start()
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("pyinformer-apiserver") == 1


def test_an_empty_window_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="watch_cache_size"):
        APIServer(watch_cache_size=0)


def test_the_package_loads_nothing_heavy_and_its_test_kit_only_what_is_used() -> None:
    code = (
        "import sys, pyinformer; assert 'pyinformer.testing' not in sys.modules;"
        "import pyinformer.testing; assert 'aiohttp' not in sys.modules;"
        "assert 'APIServer' in dir(pyinformer.testing);"
        "from pyinformer.testing import APIServer; assert 'aiohttp' in sys.modules;"
        "assert 'trustme' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


def test_a_kubeconfig_over_another_file_is_its_owners_alone(tmp_path: Path) -> None:
    path, target = tmp_path / "config", tmp_path / "target"
    with APIServer(tokens=[Token(value="t")]) as server:
        path.write_text("old")
        path.chmod(0o644)
        server.write_kubeconfig(path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert "token" in path.read_text()

        target.write_text("another program's")
        path.unlink()
        path.symlink_to(target)
        server.write_kubeconfig(path)
        assert target.read_text() == "another program's"
        assert not path.is_symlink()
        assert [one.name for one in tmp_path.iterdir()].count("config") == 1
        assert len(list(tmp_path.iterdir())) == 2

        with pytest.raises(FileNotFoundError):
            server.write_kubeconfig(tmp_path / "nowhere" / "config")


def test_the_administrators_token_is_another_at_each_start() -> None:
    with APIServer(rbac=True) as one, APIServer(rbac=True) as other:
        assert one.kubeconfig().split("token:")[1] != other.kubeconfig().split("token:")[1]
