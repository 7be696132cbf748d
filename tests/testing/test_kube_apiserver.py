"""The real kube-apiserver and etcd, started and controlled by the kit.

Each test uses its own namespace on the session's server, unless it kills the server or needs other
flags.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
import ssl
import sys
import urllib.request
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from packaging.version import Version

from pyinformer.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeAPIServerError,
    NotFoundError,
    TransportError,
)
from pyinformer.objects import JSONObject
from pyinformer.testing.kube_apiserver import KubeAPIServer, StaticToken
from tests.programs import running
from tests.waiting import poll

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),  # the first one may build for minutes
]

_SERVE = """
import sys
from pathlib import Path
from pyinformer.cli._serve import ServedServer, serve
path = Path(sys.argv[1])
sys.exit(serve(ServedServer(real=True), kubeconfig_path=path, output=sys.stdout))
"""


@pytest.fixture
def namespace(kube_apiserver: KubeAPIServer) -> str:
    """A fresh namespace on the session's server."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    kube_apiserver.ensure_namespace(name)
    return name


@pytest.fixture
def own_server(kube_apiserver_build: bool) -> Iterator[KubeAPIServer]:
    """A server of the test's own: with another user, short-lived Events and no watch-list."""
    tokens = [StaticToken("bobs-token", "bob", ("dev",))]
    with KubeAPIServer(
        build=kube_apiserver_build, tokens=tokens, event_ttl_seconds=2, watch_list=False
    ) as server:
        yield server


def _config_map(name: str, namespace: str, **data: str) -> JSONObject:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _pod(name: str, namespace: str, *, node: str | None = None) -> JSONObject:
    spec: JSONObject = {"containers": [{"name": "main", "image": "example.com/nothing:1"}]}
    if node is not None:
        spec["nodeName"] = node
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _version(obj: JSONObject) -> int:
    return int(obj["metadata"]["resourceVersion"])


def _changes_since(position: int | str) -> str:
    """Name the ConfigMaps of one namespace; the server itself writes some in others."""
    return f"/api/v1/namespaces/default/configmaps?resourceVersion={position}"


def _watch(
    server: KubeAPIServer, path: str, timeout_seconds: int = 20
) -> Generator[tuple[str, JSONObject], None, None]:
    """Yield (type, object) of a watch; closing the iterator closes its connection."""
    context = ssl.create_default_context(cafile=str(server.ca_file))
    connection = http.client.HTTPSConnection(
        "127.0.0.1", server.port, timeout=timeout_seconds + 10, context=context
    )
    try:
        separator = "&" if "?" in path else "?"
        url = f"{path}{separator}watch=true&timeoutSeconds={timeout_seconds}"
        connection.request("GET", url, headers={"Authorization": f"Bearer {server.token}"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        for line in response:
            event = json.loads(line)
            yield event["type"], event["object"]
    finally:
        connection.close()


def test_pods_are_listed_over_verified_https(kube_apiserver: KubeAPIServer) -> None:
    context = ssl.create_default_context(cafile=str(kube_apiserver.ca_file))
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{kube_apiserver.url}/api/v1/pods",
        headers={"Authorization": f"Bearer {kube_apiserver.token}"},
    )

    with urllib.request.urlopen(request, context=context, timeout=30) as response:  # noqa: S310
        answer = json.load(response)

    assert answer["kind"] == "PodList"
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(request, timeout=30)  # noqa: S310 - our own server


def test_objects_are_created_updated_and_deleted(
    kube_apiserver: KubeAPIServer, namespace: str
) -> None:
    created = kube_apiserver.create(_config_map("one", namespace, a="1"))
    with pytest.raises(ConflictError):
        kube_apiserver.create(_config_map("one", namespace))
    updated = kube_apiserver.update({**created, "data": {"a": "2"}})
    with pytest.raises(ConflictError):
        kube_apiserver.update({**created, "data": {"a": "3"}})
    kube_apiserver.patch("v1", "configmaps", "one", {"data": {"b": "3"}}, namespace)

    read = kube_apiserver.get("v1", "configmaps", "one", namespace)
    assert read["data"] == {"a": "2", "b": "3"}
    assert int(read["metadata"]["resourceVersion"]) > int(updated["metadata"]["resourceVersion"])
    assert kube_apiserver.list("v1", "configmaps", namespace) == [read]
    kube_apiserver.delete("v1", "configmaps", "one", namespace)
    with pytest.raises(NotFoundError):
        kube_apiserver.get("v1", "configmaps", "one", namespace)


def test_lists_select_by_label_and_field(kube_apiserver: KubeAPIServer, namespace: str) -> None:
    for name, app in (("one", "web"), ("two", "db")):
        obj = _config_map(name, namespace)
        obj["metadata"]["labels"] = {"app": app}
        kube_apiserver.create(obj)

    def names(**selectors: str) -> list[str]:
        found = kube_apiserver.list("v1", "configmaps", namespace, **selectors)
        return [item["metadata"]["name"] for item in found]

    assert names(label_selector="app in (web)") == ["one"]
    assert names(field_selector="metadata.name=two") == ["two"]


def test_a_scheduled_pod_is_gone_at_once_when_deleted(
    kube_apiserver: KubeAPIServer, namespace: str
) -> None:
    """No kubelet would end its grace period, so the kit deletes without one."""
    created = kube_apiserver.create(_pod("pod", namespace, node="node-1"))
    assert created["status"]["phase"] == "Pending"

    kube_apiserver.delete("v1", "pods", "pod", namespace)

    assert kube_apiserver.list("v1", "pods", namespace) == []


def test_a_status_is_written_with_the_rest(kube_apiserver: KubeAPIServer, namespace: str) -> None:
    """The real server accepts a status only through the subresource."""
    created = kube_apiserver.create({**_pod("pod", namespace), "status": {"phase": "Running"}})
    assert created["status"]["phase"] == "Running"

    updated = kube_apiserver.update({**created, "status": {"phase": "Failed"}})
    assert updated["status"]["phase"] == "Failed"
    changes = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Succeeded"}}
    patched = kube_apiserver.patch("v1", "pods", "pod", changes, namespace)
    assert (patched["status"]["phase"], patched["metadata"]["labels"]) == ("Succeeded", {"a": "b"})


def test_a_deleted_object_can_be_created_again_as_it_was(
    kube_apiserver: KubeAPIServer, namespace: str
) -> None:
    first = kube_apiserver.create(_config_map("one", namespace, a="1"))
    with pytest.raises(ConflictError):
        kube_apiserver.delete("v1", "configmaps", "one", namespace, uid="another")
    kube_apiserver.delete("v1", "configmaps", "one", namespace, uid=first["metadata"]["uid"])

    second = kube_apiserver.create(first)

    assert second["data"] == first["data"]
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


def test_a_namespace_that_does_not_exist_is_refused(kube_apiserver: KubeAPIServer) -> None:
    with pytest.raises(NotFoundError, match="absent"):
        kube_apiserver.create(_config_map("one", "absent"))


@pytest.mark.parametrize("namespaced", [True, False])
def test_a_custom_resource_is_served_once_registered(
    kube_apiserver: KubeAPIServer, namespace: str, namespaced: bool
) -> None:
    group = f"{namespace}.example.com"
    kube_apiserver.register(f"{group}/v1", "Widget", "widgets", namespaced=namespaced)
    kube_apiserver.register(f"{group}/v1", "Widget", "widgets", namespaced=namespaced)
    metadata = {"name": "w", **({"namespace": namespace} if namespaced else {})}
    created = kube_apiserver.create(
        {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": metadata, "spec": {"any": [1]}}
    )

    assert created["spec"] == {"any": [1]}
    assert kube_apiserver.list(f"{group}/v1", "widgets") == [created]


def test_a_watch_delivers_changes(kube_apiserver: KubeAPIServer, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps?sendInitialEvents=true"
    query = "&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = _watch(kube_apiserver, path + query)
    kube_apiserver.create(_config_map("one", namespace))

    seen = [next(e for e in events if e[1]["metadata"].get("name") != "kube-root-ca.crt")]
    seen.append(next(events))
    kube_apiserver.delete("v1", "configmaps", "one", namespace)
    seen.append(next(events))
    events.close()

    assert [kind for kind, _ in seen] == ["ADDED", "BOOKMARK", "DELETED"]
    assert seen[1][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_killed_server_comes_back_with_its_data(own_server: KubeAPIServer) -> None:
    url = own_server.url
    created = own_server.create(_config_map("one", "default"))
    own_server.kill()
    with pytest.raises(TransportError):
        own_server.list("v1", "configmaps")

    own_server.restart()

    assert own_server.url == url
    assert own_server.get("v1", "configmaps", "one", "default") == created


def test_a_position_from_before_the_restart_is_gone(own_server: KubeAPIServer) -> None:
    """The new process's watch cache begins at its own first list."""
    position = own_server.create(_config_map("one", "default"))["metadata"]["resourceVersion"]
    own_server.create(_config_map("two", "default"))
    own_server.restart()

    events = _watch(own_server, _changes_since(position))
    kind, status = next(events)
    events.close()

    assert kind == "ERROR"
    assert status["code"] == 410


def test_a_restored_server_is_where_it_was_and_counts_on_from_there(
    own_server: KubeAPIServer,
) -> None:
    """Later writes are gone, and their resource versions are used again."""
    kept = own_server.create(_config_map("kept", "default"))
    saved = own_server.save()
    lost = [own_server.create(_config_map(f"lost-{n}", "default")) for n in range(60)]
    own_server.delete("v1", "configmaps", "kept", "default")

    own_server.restore(saved)

    names = {one["metadata"]["name"] for one in own_server.list("v1", "configmaps", "default")}
    assert {"kept", *(one["metadata"]["name"] for one in lost)} & names == {"kept"}
    assert own_server.get("v1", "configmaps", "kept", "default") == kept
    again = own_server.create(_config_map("again", "default"))
    assert _version(again) < _version(lost[-1])


def test_a_save_loses_nothing_and_breaks_nothing(own_server: KubeAPIServer) -> None:
    """The last write is only in etcd's log when the copy is taken."""
    position = own_server.create(_config_map("first", "default"))["metadata"]["resourceVersion"]
    events = _watch(own_server, _changes_since(position))
    last = own_server.create(_config_map("last", "default"))
    saved = own_server.save()
    own_server.create(_config_map("later", "default"))
    seen = [next(events)[1]["metadata"]["name"] for _ in range(2)]
    events.close()

    own_server.restore(saved)

    assert seen == ["last", "later"]
    assert own_server.get("v1", "configmaps", "last", "default") == last


def test_a_bumped_revision_is_higher_than_all_and_expires_watches(
    own_server: KubeAPIServer,
) -> None:
    last = own_server.create(_config_map("last", "default"))
    saved = own_server.save()
    lost = own_server.create(_config_map("lost", "default"))

    own_server.restore(saved, bump_revision=10_000)

    assert own_server.get("v1", "configmaps", "last", "default") == last
    assert _version(own_server.create(_config_map("next", "default"))) > _version(lost) + 9_000
    events = _watch(own_server, _changes_since(_version(lost)))
    assert next(events)[1]["code"] == 410
    events.close()


def test_replicas_serve_one_etcd(kube_apiserver_build: bool) -> None:
    with KubeAPIServer(build=kube_apiserver_build, replicas=2) as server:
        first, second = (server.client(replica=number) for number in range(2))
        created = first.create(_config_map("one", "default"))
        assert second.get("v1", "configmaps", "one", "default") == created

        server.kill(0)
        second.create(_config_map("two", "default"))
        server.restart(0)

        names = {one["metadata"]["name"] for one in first.list("v1", "configmaps", "default")}
        assert {"one", "two"} <= names


def test_events_go_away_after_their_time(own_server: KubeAPIServer) -> None:
    target = {"kind": "Pod", "namespace": "default", "name": "p"}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": target,
        "reason": "Testing",
        "type": "Normal",
    }
    position = own_server.create(event)["metadata"]["resourceVersion"]

    # The server writes Events of its own, about its service addresses.
    path = "/api/v1/namespaces/default/events?fieldSelector=metadata.name%3De"
    events = _watch(own_server, f"{path}&resourceVersion={position}", 60)
    kind, gone = next(events)
    events.close()

    assert (kind, gone["metadata"]["name"]) == ("DELETED", "e")


def test_watch_list_is_refused_when_switched_off(own_server: KubeAPIServer) -> None:
    query = {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "1",
    }
    with pytest.raises(InvalidError, match="sendInitialEvents"):
        own_server.request("GET", "/api/v1/configmaps", query=query)


def test_a_user_may_do_what_rbac_grants(own_server: KubeAPIServer) -> None:
    bob = own_server.client("bobs-token")
    with pytest.raises(ForbiddenError, match="bob"):
        bob.list("v1", "configmaps", "default")

    rbac = "rbac.authorization.k8s.io"
    metadata = {"name": "read", "namespace": "default"}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    role = {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    own_server.create(role)
    own_server.create({
        "apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "read"},
        "subjects": [{"apiGroup": rbac, "kind": "Group", "name": "dev"}],
    })  # fmt: skip

    def is_allowed() -> bool:
        try:
            bob.list("v1", "configmaps", "default")
        except ForbiddenError:
            return False
        return True

    assert poll(is_allowed, timeout_seconds=100)
    with pytest.raises(ForbiddenError):
        bob.list("v1", "secrets", "default")


def test_an_unknown_flag_fails_with_the_message_of_the_server(
    kube_apiserver_build: bool,
) -> None:
    server = KubeAPIServer(build=kube_apiserver_build, extra_args=["--no-such-flag"])

    with pytest.raises(KubeAPIServerError, match="unknown flag: --no-such-flag"):
        server.start()


@pytest.mark.covers("controller-runtime pkg/envtest: should set a working KubeConfig")
def test_serve_writes_a_kubeconfig_and_removes_it_at_the_end(
    kube_apiserver: KubeAPIServer, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    with running([sys.executable, "-c", _SERVE, str(path)]) as program:
        assert program.stdout is not None
        first = program.stdout.readline()
        assert str(path) in first
        assert "server: https://127.0.0.1:" in path.read_text()
        program.send_signal(signal.SIGINT)
        last = program.stdout.readlines()[-1]

    assert (program.returncode, last) == (0, "stopped\n")
    assert not path.exists()


def test_the_server_has_the_version_of_a_release(kube_apiserver: KubeAPIServer) -> None:
    found = kube_apiserver.request("GET", "/version")

    assert re.fullmatch(r"v1\.\d+\.\d+", found["gitVersion"])
    assert Version(found["gitVersion"]) >= Version("1.25")
    assert (found["major"], found["minor"]) == tuple(found["gitVersion"][1:].split(".")[:2])


def test_a_privileged_pod_is_accepted(kube_apiserver: KubeAPIServer, namespace: str) -> None:
    body = _pod("privileged", namespace)
    body["spec"]["containers"][0]["securityContext"] = {"privileged": True}

    assert kube_apiserver.create(body)["spec"]["containers"][0]["securityContext"]["privileged"]


def test_more_services_fit_than_in_a_small_range(
    kube_apiserver: KubeAPIServer, namespace: str
) -> None:
    for number in range(300):
        kube_apiserver.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": f"s{number}", "namespace": namespace},
                "spec": {"ports": [{"port": 80}]},
            }
        )

    assert len(kube_apiserver.list("v1", "services", namespace)) == 300


def test_a_pod_gets_the_priority_of_its_class(
    kube_apiserver: KubeAPIServer, namespace: str
) -> None:
    classed = _pod("a", namespace)
    classed["spec"]["priorityClassName"] = "system-node-critical"
    unknown = _pod("b", namespace)
    unknown["spec"]["priorityClassName"] = "urgent"

    assert kube_apiserver.create(classed)["spec"]["priority"] == 2_000_001_000
    assert kube_apiserver.create(_pod("c", namespace))["spec"]["priority"] == 0
    with pytest.raises(ForbiddenError, match="no PriorityClass with name urgent was found"):
        kube_apiserver.create(unknown)


def test_a_flag_replaces_that_of_the_kit(kube_apiserver_build: bool) -> None:
    flags = ["--disable-admission-plugins=", "--service-cluster-ip-range=10.1.0.0/16"]
    with KubeAPIServer(build=kube_apiserver_build, extra_args=flags) as server:
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
        created = server.create({**service, "spec": {"ports": [{"port": 80}]}})

        assert created["spec"]["clusterIP"].startswith("10.1.")
        with pytest.raises(ForbiddenError, match='serviceaccount "default" not found'):
            server.create(_pod("a", "default"))
