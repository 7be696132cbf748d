"""The life cycle of both programs: start, failure, kill, restart, stop, death of the parent.

The programs are replacements, so that this runs everywhere and in seconds. `test_kube_apiserver.py`
checks the real ones.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pyinformer.errors import (
    ConflictError,
    InvalidArgumentError,
    KubeAPIServerError,
    LifecycleError,
    NotFoundError,
    TransportError,
    UnauthorizedError,
)
from pyinformer.objects import JSONObject
from pyinformer.testing.kube_apiserver import KubeAPIServer, StaticToken
from tests.programs import running
from tests.waiting import poll

_FAKE = Path(__file__).parent / "fake_kube_apiserver.py"
_PARENT = """
import sys
from pyinformer.testing import KubeAPIServer
server = KubeAPIServer()
server.start()
print(server.pid, server.ca_file, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set KUBEBUILDER_ASSETS to the folder of the replacements."""
    programs = {
        "etcd": "mkdir -p etcd && echo $$ >> etcd/starts && exec sleep 600",
        "kube-apiserver": f'exec {sys.executable} {_FAKE} "$@"',
    }
    for name, command in programs.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{command}\n")
        program.chmod(0o700)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))


@pytest.fixture
def server() -> Iterator[KubeAPIServer]:
    """A started server of replacement programs, with a second user."""
    with KubeAPIServer(tokens=[StaticToken("bobs-token", "bob", ("dev", "ops"))]) as server:
        yield server


def _config_map(name: str, **data: str) -> JSONObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_objects_are_written_and_read(server: KubeAPIServer) -> None:
    server.create(_config_map("one", a="1"))
    server.update(_config_map("one", a="2"))
    server.patch("v1", "configmaps", "one", {"immutable": True}, "default")

    assert server.get("v1", "configmaps", "one", "default")["immutable"] is True
    assert [item["data"] for item in server.list("v1", "configmaps", "default")] == [{"a": "2"}]
    server.delete("v1", "configmaps", "one", "default")
    with pytest.raises(NotFoundError):
        server.get("v1", "configmaps", "one", "default")


def test_refusals_are_typed_and_carry_the_message_of_the_server(server: KubeAPIServer) -> None:
    server.create(_config_map("one"))

    with pytest.raises(ConflictError) as raised:
        server.create(_config_map("one"))

    assert raised.value.causes == ("SomeCause",)
    expected = "POST /api/v1/namespaces/default/configmaps: 409 AlreadyExists: no"
    assert str(raised.value) == expected


def test_an_unknown_kind_is_named(server: KubeAPIServer) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'Widget' of 'example.com/v1' is not served"):
        server.create({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {}})
    with pytest.raises(InvalidArgumentError, match=r"'widgets' of 'v1' is not served"):
        server.list("v1", "widgets")


def test_a_known_resource_is_not_registered_again(server: KubeAPIServer) -> None:
    server.register("v1", "ConfigMap", "configmaps")

    assert server.client().request("GET", "/api/v1")["resources"]


def test_ensure_namespace_twice_is_harmless(server: KubeAPIServer) -> None:
    server.ensure_namespace("web")
    server.ensure_namespace("web")

    assert server.get("v1", "namespaces", "web")["metadata"] == {"name": "web"}


def test_each_token_has_a_client_and_others_are_refused(server: KubeAPIServer) -> None:
    assert server.client("bobs-token").list("v1", "configmaps") == []
    with pytest.raises(UnauthorizedError):
        server.client("nobodys-token").list("v1", "configmaps")


def test_a_kubeconfig_names_server_and_user(server: KubeAPIServer, tmp_path: Path) -> None:
    path = server.write_kubeconfig(tmp_path / "config", token="bobs-token")
    config = yaml.safe_load(path.read_text())

    assert path.stat().st_mode & 0o077 == 0
    assert config["clusters"][0]["cluster"]["server"] == server.url
    assert config["users"][0]["user"] == {"token": "bobs-token"}
    assert config["current-context"] == config["contexts"][0]["name"]


def test_many_threads_write_at_once(server: KubeAPIServer) -> None:
    threads = [
        threading.Thread(target=server.create, args=(_config_map(f"c{number}"),))
        for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    assert len(server.list("v1", "configmaps", "default")) == 20


def test_a_killed_server_refuses_and_a_restarted_one_answers_at_the_same_address(
    server: KubeAPIServer,
) -> None:
    url, before = server.url, server.pid
    server.kill()

    assert server.pid is None
    with pytest.raises(TransportError):
        server.list("v1", "configmaps")
    server.restart()
    assert server.list("v1", "configmaps") == []
    assert server.url == url
    assert server.pid not in (None, before)


def test_replicas_are_killed_and_restarted_one_by_one() -> None:
    with KubeAPIServer(replicas=2) as server:
        first, second = (server.client(replica=number) for number in range(2))
        assert first.list("v1", "configmaps") == second.list("v1", "configmaps") == []
        ports, pid = server.ports, server.pid

        server.kill(0)
        with pytest.raises(TransportError):
            first.list("v1", "configmaps")
        assert second.list("v1", "configmaps") == []
        assert server.list("v1", "configmaps") == []
        server.restart(0)
        assert first.list("v1", "configmaps") == []
        assert server.ports == ports
        assert server.pid not in (None, pid)

        server.kill()
        with pytest.raises(TransportError):
            server.list("v1", "configmaps")


def test_a_replica_that_does_not_exist_is_refused(server: KubeAPIServer) -> None:
    for call in (server.kill, server.restart):
        with pytest.raises(InvalidArgumentError, match="is 1, and there are 1"):
            call(1)
    with pytest.raises(InvalidArgumentError, match="replicas"):
        KubeAPIServer(replicas=0)


def test_restored_data_is_what_was_saved_and_both_programs_are_new(server: KubeAPIServer) -> None:
    url, pid, starts = server.url, server.pid, server.ca_file.parents[1] / "etcd" / "starts"
    saved = server.save()
    before = starts.read_text().split()
    assert _is_alive(int(before[0]))
    starts.with_name("written-since").touch()

    for _ in range(2):
        server.restore(saved)

        after = starts.read_text().split()
        assert after[:-1] == before
        assert not _is_alive(int(before[0]))
        assert _is_alive(int(after[-1]))
        assert not starts.with_name("written-since").exists()
    assert server.list("v1", "configmaps") == []
    assert server.url == url
    assert server.pid != pid


def test_an_impossible_restore_is_refused_and_the_server_stays(server: KubeAPIServer) -> None:
    """The replacements have no etcdutl, as folders of other tools."""
    saved = server.save()
    pid = server.pid
    with pytest.raises(InvalidArgumentError, match="bump_revision"):
        server.restore(saved, bump_revision=-1)
    with pytest.raises(KubeAPIServerError, match="needs etcdutl: there is none beside"):
        server.restore(saved, bump_revision=1)
    with (
        KubeAPIServer() as other,
        pytest.raises(InvalidArgumentError, match="must be a result of save"),
    ):
        other.restore(saved)
    assert server.pid == pid


def test_an_etcd_that_has_ended_is_not_saved(server: KubeAPIServer) -> None:
    pid = int((server.ca_file.parents[1] / "etcd" / "starts").read_text())
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(KubeAPIServerError, match="etcd cannot be paused"):
        server.save()


def test_stop_ends_the_programs_and_removes_their_data(server: KubeAPIServer) -> None:
    pid, folder = server.pid, server.ca_file.parents[1]
    assert pid is not None
    assert folder.is_dir()

    server.stop()
    server.stop()

    assert not _is_alive(pid)
    assert not folder.exists()


def test_a_stopped_server_starts_again_with_fresh_data(server: KubeAPIServer) -> None:
    server.create(_config_map("one"))
    server.stop()
    server.start()

    assert server.list("v1", "configmaps", "default") == []


def test_every_call_before_start_and_after_stop_raises() -> None:
    server = KubeAPIServer()

    with pytest.raises(LifecycleError, match=r"call start\(\)"):
        _ = server.url
    with pytest.raises(LifecycleError, match=r"call start\(\)"):
        server.list("v1", "configmaps")


def test_start_twice_is_refused_and_harmless(server: KubeAPIServer) -> None:
    with pytest.raises(LifecycleError, match="already runs"):
        server.start()

    assert server.list("v1", "configmaps") == []


def test_a_server_that_ends_at_once_is_an_error_with_its_last_lines() -> None:
    server = KubeAPIServer(extra_args=["--fail=no such flag"])

    with pytest.raises(KubeAPIServerError) as raised:
        server.start()

    assert "kube-apiserver ended" in str(raised.value)
    assert "cannot run: no such flag" in str(raised.value)
    with pytest.raises(LifecycleError):
        _ = server.pid


def test_the_certificate_does_not_verify_without_its_authority(server: KubeAPIServer) -> None:
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(server.url, timeout=10)  # noqa: S310 - our own


def test_the_programs_do_not_outlive_a_killed_parent() -> None:
    with running([sys.executable, "-c", _PARENT]) as parent:
        assert parent.stdout is not None
        pid, _, certificate = parent.stdout.readline().strip().partition(" ")
        assert _is_alive(int(pid))
        parent.send_signal(signal.SIGKILL)

    assert poll(lambda: not _is_alive(int(pid)), timeout_seconds=100)
    assert poll(lambda: not Path(certificate).exists(), timeout_seconds=100)


def test_a_port_in_use_is_named_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = KubeAPIServer(port=port)
        with monkeypatch.context() as patch:
            patch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "nothing"))  # would be the next error

            with pytest.raises(KubeAPIServerError, match=rf"port {port} of 127\.0\.0\.1 .*in use"):
                server.start()

    with server:
        assert server.port == port
