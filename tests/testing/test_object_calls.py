"""The synchronous calls over HTTPS, against the embedded server, and one that dies as they connect.

The same calls against the real server are in `test_kube_apiserver.py`.
"""

from __future__ import annotations

import contextlib
import gc
import socket
import ssl
import struct
import threading
import warnings
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from pyinformer.errors import (
    ConflictError,
    InvalidArgumentError,
    KubeAPIServerError,
    NotFoundError,
    TransportError,
)
from pyinformer.objects import JSONObject
from pyinformer.testing import APIServer
from pyinformer.testing.kube_apiserver import _object_calls
from pyinformer.testing.kube_apiserver._sync_client import SyncClient

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


@pytest.fixture
def server() -> Iterator[APIServer]:
    """An embedded server with TLS."""
    with APIServer(tls=True, strict_namespaces=True) as server:
        yield server


@pytest.fixture
def client(server: APIServer) -> Iterator[SyncClient]:
    """A client of that server."""
    context = ssl.create_default_context(cafile=str(server.ca_file))
    client = SyncClient(port=urlsplit(server.url).port or 0, token="any", context=context)
    yield client
    client.close()


def _pod(name: str, namespace: str = "default", **metadata: object) -> JSONObject:
    spec = {"containers": [{"name": "main", "image": "example.com/nothing:1"}]}
    metadata = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_a_status_is_written_with_the_rest(client: SyncClient) -> None:
    created = client.create({**_pod("pod"), "status": {"phase": "Running"}})
    assert created["status"]["phase"] == "Running"

    updated = client.update({**created, "status": {"phase": "Failed"}})
    changes = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Succeeded"}}
    patched = client.patch("v1", "pods", "pod", changes)

    assert updated["status"]["phase"] == "Failed"
    assert patched == client.get("v1", "pods", "pod")
    assert (patched["status"]["phase"], patched["metadata"]["labels"]) == ("Succeeded", {"a": "b"})


def test_lists_select_and_name_the_kind_of_their_items(client: SyncClient) -> None:
    client.ensure_namespace("web")
    client.create(_pod("one", labels={"app": "web"}))
    client.create(_pod("two", "web", labels={"app": "web"}))
    client.create(_pod("three", "web"))

    def names(**selection: str) -> list[str]:
        return [pod["metadata"]["name"] for pod in client.list("v1", "pods", **selection)]

    assert sorted(names()) == ["one", "three", "two"]
    assert names(namespace="web", label_selector="app=web") == ["two"]
    assert names(field_selector="metadata.name=one") == ["one"]
    assert {(pod["apiVersion"], pod["kind"]) for pod in client.list("v1", "pods")} == {
        ("v1", "Pod")
    }


def test_a_deleted_object_can_be_created_again_as_it_was(client: SyncClient) -> None:
    first = client.create(_pod("one"))
    with pytest.raises(ConflictError):
        client.delete("v1", "pods", "one", uid="another")
    client.delete("v1", "pods", "one", uid=first["metadata"]["uid"])

    assert client.create(first)["metadata"]["uid"] != first["metadata"]["uid"]


def test_an_object_goes_to_the_namespace_it_names_or_else_the_one_given(
    client: SyncClient,
) -> None:
    client.ensure_namespace("web")
    pod = _pod("one")
    del pod["metadata"]["namespace"]

    assert client.create(pod, namespace="web")["metadata"]["namespace"] == "web"
    assert client.create(pod)["metadata"]["namespace"] == "default"
    assert client.create(_pod("two"), namespace="web")["metadata"]["namespace"] == "default"
    assert pod["metadata"] == {"name": "one"}


def test_a_custom_resource_is_served_once_registered(client: SyncClient) -> None:
    with pytest.raises(InvalidArgumentError, match="not served"):
        client.list("example.com/v1", "widgets")
    client.register("example.com/v1", "Widget", "widgets", has_status=True)
    client.register("example.com/v1", "Widget", "widgets", has_status=True)

    widget = client.create({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"any": [1]}, "status": {"ready": True},
    })  # fmt: skip

    assert widget["status"] == {"ready": True}
    assert client.list("example.com/v1", "widgets") == [widget]


def test_a_definition_that_is_never_served_is_an_error(
    client: SyncClient, server: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is taken by a definition of another kind of object."""
    monkeypatch.setattr(_object_calls, "_SERVED_TIMEOUT_SECONDS", 0.2)
    client.register("example.com/v1", "Widget", "widgets")

    with pytest.raises(KubeAPIServerError, match=r"widgets of example\.com/v2 cannot be used"):
        client.register("example.com/v2", "Widget", "widgets")


def test_an_absent_namespace_or_object_is_named(client: SyncClient) -> None:
    with pytest.raises(NotFoundError, match="absent"):
        client.create(_pod("one", "absent"))
    with pytest.raises(NotFoundError, match="missing"):
        client.get("v1", "pods", "missing")


class Late(ssl.SSLContext):
    """Wraps a connected socket only after its peer has reset the connection."""

    reset = threading.Event()

    def wrap_socket(self, sock: socket.socket, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Wrap a socket."""
        with contextlib.suppress(OSError):
            sock.getpeername()
            assert self.reset.wait(timeout=100)
        return super().wrap_socket(sock, *args, **options)


def test_a_connection_that_is_reset_while_it_opens_leaves_no_socket() -> None:
    """When a server is killed, the reset comes between the connection and the handshake."""
    context = Late(ssl.PROTOCOL_TLS_CLIENT)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        resetting = threading.Thread(target=_reset, args=(listener, context.reset))
        resetting.start()
        client = SyncClient(port=listener.getsockname()[1], token="any", context=context)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(TransportError):
                client.request("GET", "/version")
            gc.collect()
        resetting.join()
    assert [str(one.message) for one in caught] == []


def _reset(listener: socket.socket, reset: threading.Event) -> None:
    accepted, _ = listener.accept()
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    accepted.close()
    reset.set()
