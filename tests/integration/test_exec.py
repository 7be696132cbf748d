"""Commands in containers: what both servers refuse alike, and a real one with a kubelet."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from pyinformer.client import ExecResult
from pyinformer.errors import APIStatusError, BadRequestError, ForbiddenError
from tests.client.cluster.exec_serving import V4, V5, exec_serving, exited, message
from tests.integration.accounts import ACCOUNT, as_the_account
from tests.integration.objects import PODS, pod_on, unique
from tests.integration.servers import RealServer
from tests.waiting import pause, until

if TYPE_CHECKING:
    from aiohttp import web

    from pyinformer.testing import KubeAPIServer
    from tests.client.cluster.exec_serving import ExecServer
    from tests.integration.servers import Server

_WEBSOCKETS = ["ExtendWebSocketsToKubelet"]
_TWO = {"containers": [{"name": name, "image": "example.com/x:1"} for name in "xy"]}


@pytest.mark.parametrize(
    ("name", "container", "status", "message"),
    [
        pytest.param("none", None, 404, 'pods "none" not found', id="no-pod"),
        pytest.param(
            "two",
            None,
            400,
            "a container name must be specified for pod two, choose one of: [x y]",
            id="no-container-named",
        ),
        pytest.param(
            "two", "z", 400, "container z is not valid for pod two", id="no-such-container"
        ),
        pytest.param("two", "x", 400, "pod two does not have a host assigned", id="no-node"),
    ],
)
async def test_both_servers_refuse_a_command_alike(
    server: Server, name: str, container: str | None, status: int, message: str
) -> None:
    namespace = server.namespace()
    server.api.create(PODS.make("two", namespace, spec=_TWO))
    async with server.connect() as cluster:
        with pytest.raises(APIStatusError) as caught:
            await cluster.exec(f"{namespace}/{name}", ["ls"], container=container)
    assert (caught.value.status, caught.value.message) == (status, message)


def _role(server: Server, namespace: str, name: str, *verbs: str) -> None:
    metadata = {"name": name, "namespace": namespace}
    rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": [*verbs]}
    api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    server.api.create({**api, "kind": "Role", "metadata": metadata, "rules": [rule]})
    binding = {"metadata": metadata, "roleRef": ref, "subjects": [subject]}
    server.api.create({**api, "kind": "RoleBinding", **binding})


async def test_a_command_needs_two_rights_and_the_missing_one_is_named(strict: Server) -> None:
    namespace = strict.namespace()
    strict.api.create(PODS.make("two", namespace, spec=_TWO))
    async with as_the_account(strict, namespace) as cluster:

        async def refused(kind: type[APIStatusError], text: str) -> APIStatusError:
            """Run a command until it is refused so; a real server takes a moment for new roles."""
            async with asyncio.timeout(100):
                while True:
                    with pytest.raises(APIStatusError) as caught:
                        await cluster.exec(f"{namespace}/two", ["ls"], container="x")
                    if isinstance(caught.value, kind) and text in str(caught.value):
                        return caught.value
                    await pause(0.05)

        await refused(ForbiddenError, '"get" is missing')
        await asyncio.to_thread(_role, strict, namespace, "reader", "get")
        found = await refused(ForbiddenError, '"create" is missing')
        assert found.message == 'pods "two" is forbidden: '
        assert found.needed == (
            '"create" is missing; needs: apiGroups: [""], resources: ["pods/exec"], verbs:'
            f' ["create", "get"] in namespace {namespace}'
        )
        await asyncio.to_thread(_role, strict, namespace, "writer", "create")
        await refused(BadRequestError, "does not have a host assigned")


@pytest.mark.real
@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", [V5, V4])
async def test_a_real_server_passes_a_command_on_to_a_kubelet(
    kube_apiserver: KubeAPIServer, protocol: str
) -> None:
    """A kubelet of a script: to one that speaks WebSockets, a server of 1.36 passes them on."""

    async def script(socket: web.WebSocketResponse, kubelet: ExecServer) -> None:
        if protocol == V5:
            await until(lambda: message(255, b"\x00") in kubelet.received)
        await socket.send_bytes(message(1, b"".join(kubelet.received)[1:3]))
        await socket.send_bytes(exited(3))

    server = RealServer(kube_apiserver)
    namespace = server.namespace()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    async with exec_serving(script, protocols=[protocol], tls=tls) as kubelet:
        node = unique("node")
        await asyncio.to_thread(_make_node, kube_apiserver, node, kubelet.url, _WEBSOCKETS)
        await asyncio.to_thread(kube_apiserver.create, pod_on(node, "web", namespace))
        async with server.connect() as cluster:
            stdin = "in" if protocol == V5 else None
            found = await cluster.exec(f"{namespace}/web", ["sh", "-c", "a b"], stdin=stdin)
    assert found == ExecResult(3, b"in" if stdin else b"")
    (request,) = kubelet.requests
    assert request.path.startswith(f"/exec/{namespace}/web/")
    assert request.query.getall("command") == ["sh", "-c", "a b"]


@pytest.mark.real
@pytest.mark.timeout(300)
@pytest.mark.parametrize("features", [_WEBSOCKETS, []], ids=["refused", "reported"])
async def test_a_kubelet_that_a_real_server_cannot_reach_is_an_error(
    kube_apiserver: KubeAPIServer, features: list[str]
) -> None:
    """It refuses the conversation, or begins it and reports the error there."""
    server = RealServer(kube_apiserver)
    namespace, node = server.namespace(), unique("node")
    await asyncio.to_thread(_make_node, kube_apiserver, node, "https://127.0.0.1:1", features)
    await asyncio.to_thread(kube_apiserver.create, pod_on(node, "web", namespace))
    async with server.connect() as cluster:
        for stdin in (None, "in"):
            with pytest.raises(APIStatusError, match="connection refused") as caught:
                await cluster.exec(f"{namespace}/web", ["ls"], stdin=stdin)
            assert caught.value.status >= 500


def _make_node(api: KubeAPIServer, name: str, url: str, features: list[str]) -> None:
    """Make a node whose kubelet is at an address of loopback."""
    host, _, port = url.removeprefix("https://").partition(":")
    api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    status: dict[str, Any] = {
        "addresses": [{"type": "InternalIP", "address": host}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": int(port)}},
        "declaredFeatures": features,
    }
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
    path = f"/api/v1/nodes/{name}/status"
    api.request("PATCH", path, body=body, content_type="application/merge-patch+json")
