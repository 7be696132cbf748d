"""`pyinformer migrate`: objects are stored again, and a definition can do without old versions."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.errors import APIStatusError, InvalidArgumentError, InvalidError
from pyinformer.testing import Fault
from tests.cli.command_line import here
from tests.waiting import poll

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer, KubeAPIServer
    from pyinformer.testing.apiserver.requests import RequestRecord

_DEFINITIONS = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
_SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _definition(group: str) -> JSONObject:
    """Return a definition that stores its objects in the old one of two versions."""
    old = {"name": "v1beta1", "served": True, "storage": True}
    old["schema"] = {"openAPIV3Schema": _SCHEMA}
    new = {**old, "name": "v1", "storage": False}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"databases.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Database", "plural": "databases"},
            "versions": [old, new],
        },
    }


def _move(server: APIServer | KubeAPIServer, group: str) -> None:
    """Make the new version the storage version."""
    versions = _versions(server, group)
    for version in versions:
        version["storage"] = version["name"] == "v1"
    server.patch(*_DEFINITIONS, f"databases.{group}", {"spec": {"versions": versions}})


def _versions(server: APIServer | KubeAPIServer, group: str) -> list[JSONObject]:
    found: list[JSONObject] = server.get(*_DEFINITIONS, f"databases.{group}")["spec"]["versions"]
    return found


def _database(api_version: str, name: str) -> JSONObject:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": api_version, "kind": "Database", "metadata": metadata, "size": 3}


@pytest.fixture
def server(apiserver: APIServer) -> APIServer:
    """Return a server with three objects, whose storage version has changed since."""
    apiserver.create(_definition("acme.io"))
    for name in ("a", "b", "c"):
        apiserver.create(_database("acme.io/v1", name))  # this server converts nothing
    _move(apiserver, "acme.io")
    assert _stored(apiserver) == ["v1beta1", "v1"]
    apiserver.clear_requests()
    return apiserver


def _stored(server: APIServer | KubeAPIServer, group: str = "acme.io") -> list[str]:
    found: list[str] = server.get(*_DEFINITIONS, f"databases.{group}")["status"]["storedVersions"]
    return found


def _writes(server: APIServer) -> list[str]:
    return [one.path for one in server.requests if one.method not in {"GET", "HEAD"}]


def _migrate(server: APIServer, *options: str) -> Any:
    return here("migrate", "databases.acme.io", "--server", server.url, *options)


def test_objects_are_written_once_and_the_old_version_is_removed(server: APIServer) -> None:
    before = server.get("acme.io/v1", "databases", "a")

    done = _migrate(server)

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "databases.acme.io: 3 objects stored as v1",
        "databases.acme.io: v1beta1 removed from status.storedVersions",
    ]
    assert _stored(server) == ["v1"]
    of_objects = "/apis/acme.io/v1/namespaces/default/databases/"
    assert [path for path in _writes(server) if path.startswith(of_objects)] == [
        f"{of_objects}{name}" for name in "abc"
    ]
    assert server.get("acme.io/v1", "databases", "a") == before


def test_a_second_run_writes_nothing(server: APIServer) -> None:
    _migrate(server)
    server.clear_requests()

    done = _migrate(server)

    assert (done.exit_code, done.stdout) == (0, "databases.acme.io: all objects are stored as v1\n")
    assert _writes(server) == []


def test_a_dry_run_stores_nothing(server: APIServer) -> None:
    done = _migrate(server, "--dry-run")

    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "databases.acme.io: 3 objects would be stored as v1",
        "databases.acme.io: v1beta1 would be removed from status.storedVersions",
    ]
    assert _stored(server) == ["v1beta1", "v1"]
    writes = [one for one in server.requests if one.method == "PATCH"]
    assert [one.query.get("dryRun") for one in writes] == ["All"] * 3


def test_a_refused_object_keeps_the_old_version(server: APIServer) -> None:
    def is_b(request: RequestRecord) -> bool:
        return request.method == "PATCH" and request.name == "b"

    server.faults.add(Fault(match=is_b, status=422, reason="Invalid", message="size\u202e is odd"))

    done = _migrate(server)

    assert done.exit_code == 1
    assert done.stdout == "databases.acme.io: 2 objects stored as v1, 1 refused\n"
    first, last = done.stderr.splitlines()
    assert first.startswith("default/b: ")
    assert r"size\u202e is odd" in first
    assert last == "pyinformer migrate: objects may still be stored as v1beta1"
    assert _stored(server) == ["v1beta1", "v1"]


def test_a_reason_that_holds_for_all_objects_is_not_repeated_for_thousands(
    server: APIServer,
) -> None:
    for number in range(20):
        server.create(_database("acme.io/v1", f"more-{number}"))
    server.faults.add(Fault(verb="patch", status=403, times=None, message="no right"))

    done = _migrate(server)

    assert done.exit_code == 1
    assert done.stdout == "databases.acme.io: 0 objects stored as v1, 10 refused\n"


def test_an_object_that_others_write_or_delete_is_tried_again_or_left(server: APIServer) -> None:
    def changing(request: RequestRecord) -> bool:
        """Let other clients be faster, in the server's thread."""
        return request.method == "PATCH" and request.name in {"a", "b"}

    server.faults.add(Fault(match=changing, status=409, times=2))
    server.faults.add(
        Fault(match=lambda one: one.method == "PATCH" and one.name == "c", status=404)
    )

    done = _migrate(server)

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "databases.acme.io: 2 objects stored as v1, 1 deleted meanwhile\n"
    )


def test_an_endless_conflict_is_a_refusal(server: APIServer) -> None:
    server.faults.add(
        Fault(
            match=lambda one: one.method == "PATCH" and one.name == "a",
            status=409,
            times=None,
            message="written by others",
        )
    )

    done = _migrate(server)

    assert done.exit_code == 1
    assert "default/a: " in done.stderr
    assert "written by others" in done.stderr


def test_a_conflict_at_the_definition_is_retried(server: APIServer) -> None:
    server.faults.add(Fault(match=lambda one: one.path.endswith("/status"), status=409, times=3))

    assert _migrate(server).exit_code == 0
    assert _stored(server) == ["v1"]


def test_a_definition_that_changes_meanwhile_keeps_its_versions(server: APIServer) -> None:
    moved: list[RequestRecord] = []

    def move(request: RequestRecord) -> bool:
        """Make another version the storage version, once the objects are written."""
        if request.path.endswith("/status") and not moved:
            moved.append(request)
            return True
        return False

    server.faults.add(Fault(match=move, status=409))
    found = copy.deepcopy(server.get(*_DEFINITIONS, "databases.acme.io"))
    found["metadata"]["generation"] = 7

    def is_second_read(request: RequestRecord) -> bool:
        return request.path.endswith("/databases.acme.io") and bool(moved)

    server.faults.add(Fault(match=is_second_read, body=json.dumps(found).encode()))

    done = _migrate(server)

    assert done.exit_code == 1
    assert done.stderr.endswith("has changed while its objects were written: run it again\n")
    assert _stored(server) == ["v1beta1", "v1"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("lakes.acme.io", '"lakes.acme.io" not found', id="unknown"),
        pytest.param("a/b/c", "is neither 'namespace/name' nor 'name'", id="malformed"),
    ],
)
def test_a_definition_that_does_not_exist_is_one_line(
    apiserver: APIServer, name: str, words: str
) -> None:
    done = here("migrate", name, "--server", apiserver.url)

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("pyinformer migrate: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.real
@pytest.mark.timeout(200)
def test_the_real_server_reads_what_was_migrated_without_the_old_version(
    kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    server, group = kube_apiserver_session, "migrated.acme.io"
    server.close_connections()
    kubeconfig = str(server.write_kubeconfig(tmp_path / "kubeconfig"))
    name = f"databases.{group}"
    server.create(_definition(group))
    try:
        assert poll(lambda: _is_created(server, group), timeout_seconds=60)
        _move(server, group)
        before = server.get(f"{group}/v1", "databases", "a")
        with pytest.raises(InvalidError, match=r"status.storedVersions\[0\]"):
            _drop(server, group)

        dry = here("migrate", name, "--dry-run", KUBECONFIG=kubeconfig)
        assert (dry.exit_code, dry.stderr) == (0, "")
        assert _stored(server, group) == ["v1beta1", "v1"]
        done = here("migrate", name, KUBECONFIG=kubeconfig)

        assert (done.exit_code, done.stderr) == (0, "")
        assert _stored(server, group) == ["v1"]
        _drop(server, group)
        after = server.get(f"{group}/v1", "databases", "a")
        assert after["metadata"].pop("resourceVersion") != before["metadata"].pop("resourceVersion")
        assert after == before
    finally:
        server.delete(*_DEFINITIONS, name)
        server.close_connections()


def _is_created(server: KubeAPIServer, group: str) -> bool:
    try:
        server.create(_database(f"{group}/v1beta1", "a"))
    except (APIStatusError, InvalidArgumentError):  # it is served a moment after it is established
        return False
    return True


def _drop(server: KubeAPIServer, group: str) -> None:
    left = [one for one in _versions(server, group) if one["storage"]]
    server.patch(*_DEFINITIONS, f"databases.{group}", {"spec": {"versions": left}})
