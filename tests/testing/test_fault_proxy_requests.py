"""The fault proxy that reads requests: what each fault does to an answer, seen by http.client."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import ssl
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import trustme

from pyinformer.testing import (
    APIServer,
    Fault,
    FaultLab,
    FaultProxy,
    KubeAPIServer,
    ServerAddress,
    TimedFault,
    Token,
)
from pyinformer.testing.histories import FaultRecord
from tests.client.transport.serving import serving
from tests.testing.wire import ALL_PODS, PODS, WATCH_LIST, Wire, pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyinformer.testing import Connector
    from tests.client.transport.serving import Request

TOKEN = "the-administrators-token"
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer(tls=True, tokens=[Token(value=TOKEN)], bookmark_interval_seconds=0.01) as api:
        yield api


@pytest.fixture
def proxy(server: APIServer) -> Iterator[FaultProxy]:
    with FaultProxy(server, reads_requests=True) as running:
        yield running


@pytest.fixture
def wire(proxy: FaultProxy) -> Iterator[Wire]:
    with connected(proxy) as client:
        yield client


def connected(proxy: FaultProxy, token: str | None = None) -> Wire:
    """Return a client that trusts the proxy."""
    context = ssl.create_default_context(cafile=str(proxy.ca_file))
    return Wire(proxy.url, token=token or proxy.token, context=context)


def test_requests_pass_and_are_recorded(proxy: FaultProxy, wire: Wire) -> None:
    assert wire.request("POST", PODS, pod()).status == 201
    assert wire.get(ALL_PODS, limit=5).names == ["a"]
    assert wire.get(f"{PODS}/b").json["reason"] == "NotFound"
    assert [(one.verb, one.resource, one.status) for one in proxy.requests] == [
        ("create", "pods", 201),
        ("list", "pods", 200),
        ("get", "pods", 404),
    ]
    assert all("authorization" not in one.headers for one in proxy.requests)


@pytest.mark.parametrize("asked", [0, 2])
def test_a_fault_is_logged_with_the_requests_that_it_has_met(
    proxy: FaultProxy, wire: Wire, asked: int
) -> None:
    log: list[FaultRecord] = []
    lab = FaultLab(proxy=proxy, log=log.append)
    for name in ("status", "delay"):
        fault = TimedFault(name=name, at_seconds=0.0, lasts_seconds=1.0)
        number = lab.begin(fault)
        for _ in range(asked):
            wire.get(ALL_PODS)
        lab.end(number)

    assert [(one.name, one.phase, one.requests) for one in log] == [
        ("status", "began", None),
        ("status", "healed", asked),
        ("delay", "began", None),
        ("delay", "healed", None),
    ]


def test_a_watch_passes_line_by_line(server: APIServer, wire: Wire) -> None:
    with wire.watch(ALL_PODS) as stream:
        server.create(pod("a"))
        assert stream.named(1) == [("ADDED", "a")]
        server.create(pod("b"))
        assert stream.named(1) == [("ADDED", "b")]


@pytest.mark.parametrize("status", [429, 500, 503, 504])
@pytest.mark.parametrize("retry_after_seconds", [None, 3])
def test_a_status_with_and_without_retry_after(
    proxy: FaultProxy, wire: Wire, status: int, retry_after_seconds: int | None
) -> None:
    proxy.faults.add(Fault(verb="list", status=status, retry_after_seconds=retry_after_seconds))

    answer = wire.get(ALL_PODS)

    assert answer.status == status
    assert answer.headers.get("retry-after") == (retry_after_seconds and "3")
    assert wire.get(ALL_PODS).status == 200


def test_watches_are_refused_while_lists_work_and_the_reverse(
    proxy: FaultProxy, wire: Wire
) -> None:
    proxy.faults.add(Fault(verb="watch", status=503, times=None))
    assert [wire.get(ALL_PODS).status, wire.get(ALL_PODS, watch=1).status] == [200, 503]
    proxy.heal()
    proxy.faults.add(Fault(verb="list", status=403, times=None))
    with wire.watch(ALL_PODS) as stream:
        assert [wire.get(ALL_PODS).status, stream.status] == [403, 200]


def test_only_leases_or_only_discovery_fail(proxy: FaultProxy, wire: Wire) -> None:
    leases = "/apis/coordination.k8s.io/v1/leases"
    proxy.faults.add(Fault(resource="leases.coordination.k8s.io", status=500, times=None))
    assert [wire.get(leases).status, wire.get(ALL_PODS).status] == [500, 200]
    proxy.heal()
    proxy.faults.add(Fault(resource="", status=503, times=None))
    assert [wire.get("/api").status, wire.get("/apis/apps/v1").status] == [503, 503]
    assert wire.get(ALL_PODS).status == 200


def test_three_forms_of_410(server: APIServer, proxy: FaultProxy, wire: Wire) -> None:
    for name in ("a", "b"):
        server.create(pod(name))
    proxy.faults.add(
        Fault(verb="watch", status=410, reason="Expired"),
        Fault(verb="watch", body=EXPIRED),
        Fault(verb="list", parameter="continue", status=410, reason="Expired"),
    )

    assert wire.get(ALL_PODS, watch=1).status == 410
    with wire.watch(ALL_PODS) as stream:
        assert stream.event()[0] == "ERROR"
        assert stream.line() == b""
    page = wire.get(ALL_PODS, limit=1)
    assert page.status == 200
    token = page.json["metadata"]["continue"]
    gone = wire.get(ALL_PODS, limit=1, **{"continue": token})
    assert (gone.status, gone.json["reason"]) == (410, "Expired")


def test_a_token_is_refused_until_it_is_renewed(proxy: FaultProxy, wire: Wire) -> None:
    renewed = proxy.expire_token()

    assert renewed == proxy.token != TOKEN
    assert [wire.get(ALL_PODS).status, wire.get(ALL_PODS).status] == [401, 401]
    with connected(proxy) as later:
        assert later.get(ALL_PODS).status == 200
        proxy.expire_token()
        assert later.get(ALL_PODS).status == 401


def test_a_server_without_tokens_has_none_that_expires() -> None:
    with APIServer() as open_server, FaultProxy(open_server, reads_requests=True) as proxy:
        assert proxy.expire_token() is None
        assert proxy.renew_certificate() is None
        assert proxy.ca_file is None
        with Wire(proxy.url) as wire:
            assert wire.get(ALL_PODS).status == 200


AUTHORITY = trustme.CA()
BELOW = AUTHORITY.create_child_ca()


def asked_through(folder: Path, trusted: trustme.Blob) -> Any:
    """Ask a server for something, by a proxy that trusts a certificate."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    BELOW.issue_cert("127.0.0.1").configure_cert(tls)
    trusted.write_to_path(folder / "trusted.pem")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    def ask(url: str) -> Any:
        address = ServerAddress(url=url, ca_file=folder / "trusted.pem")
        with FaultProxy(address, reads_requests=True) as proxy, connected(proxy) as client:
            return client.get("/version")

    async def main() -> Any:
        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls) as server:
            port = server.sockets[0].getsockname()[1]
            return await asyncio.to_thread(ask, f"https://127.0.0.1:{port}")

    return asyncio.run(main())


def test_the_server_behind_is_verified_as_by_connections(tmp_path: Path) -> None:
    """An authority in the middle of a chain suffices, as for kubectl."""
    assert asked_through(tmp_path, BELOW.cert_pem).status == 200


def test_an_authority_that_did_not_sign_the_server_behind_is_named(tmp_path: Path) -> None:
    """No fault has caused it, so it must not look like one."""
    found = asked_through(tmp_path, trustme.CA().cert_pem)
    assert found.status == 502
    message = found.json["message"]
    assert message.startswith("the fault proxy cannot reach the server: ")
    assert "certificate verify failed: unable to get local issuer certificate" in message


def test_a_new_certificate_needs_new_trust(
    server: APIServer, proxy: FaultProxy, wire: Wire
) -> None:
    with wire.watch(ALL_PODS) as stream:
        renewed = proxy.renew_certificate()
        server.create(pod("a"))
        assert stream.named(1) == [("ADDED", "a")], "open connections stay"

    with pytest.raises(ssl.SSLCertVerificationError):
        wire.get(ALL_PODS)
    assert proxy.ca_file is not None
    assert proxy.ca_file.read_bytes() == renewed
    with connected(proxy) as later:
        assert later.get(ALL_PODS).status == 200


def test_a_chunk_is_cut_inside(server: APIServer, proxy: FaultProxy, wire: Wire) -> None:
    server.create(pod())
    proxy.faults.add(Fault(verb="list", cut_after_bytes=10, cut="chunk"))

    with pytest.raises(http.client.IncompleteRead) as broken:
        wire.get(ALL_PODS)

    in_the_chunk = broken.value.__cause__
    assert isinstance(in_the_chunk, http.client.IncompleteRead)
    assert len(in_the_chunk.partial) == 10
    assert in_the_chunk.expected


def test_a_body_of_several_gzip_members(server: APIServer, proxy: FaultProxy) -> None:
    server.create(pod("a"))
    proxy.faults.add(Fault(verb="list", gzip_members=True, frames=(b"\n",)))
    with connected(proxy) as wire:
        answer = wire.get(ALL_PODS)

    assert answer.headers["content-encoding"] == "gzip"
    assert answer.body.count(b"\x1f\x8b\x08") >= 2
    assert [one["metadata"]["name"] for one in json.loads(gzip.decompress(answer.body))["items"]]


@pytest.mark.parametrize(
    ("edit", "initial", "later"),
    [
        (None, [("ADDED", "a"), ("BOOKMARK", "")], [("ADDED", n) for n in "xyz"]),
        ("no-initial-events", [("BOOKMARK", "")], [("ADDED", n) for n in "xyz"]),
        ("no-end-bookmark", [("ADDED", "a")], []),
        ("drop-event", [("ADDED", "a"), ("BOOKMARK", "")], [("ADDED", n) for n in "yz"]),
        (
            "repeat-event",
            [("ADDED", "a"), ("BOOKMARK", "")],
            [("ADDED", n) for n in "xyxz"],
        ),
    ],
)
def test_a_watch_list_is_edited(
    server: APIServer, proxy: FaultProxy, edit: Any, initial: object, later: list[tuple[str, str]]
) -> None:
    server.create(pod("a"))
    proxy.faults.add(Fault(verb="watch", edit=edit))

    with connected(proxy) as wire, wire.watch(ALL_PODS, **WATCH_LIST) as stream:
        assert isinstance(initial, list)
        assert stream.named(len(initial)) == initial
        for name in "xyz":
            server.create(pod(name))
        seen: list[tuple[str, str]] = []
        while len(seen) < len(later):
            seen += [one for one in stream.named(1) if one[0] != "BOOKMARK"]

        assert seen == later


def test_bookmarks_are_swallowed(server: APIServer, proxy: FaultProxy, wire: Wire) -> None:
    """The server sends one every 10 ms, and the one at the end of the state passes."""
    proxy.faults.add(Fault(verb="watch", edit="no-bookmarks"))
    with connected(proxy) as other, other.watch(ALL_PODS, **WATCH_LIST) as edited:
        assert edited.named(1) == [("BOOKMARK", "")]
        with wire.watch(ALL_PODS, **WATCH_LIST) as plain:
            assert plain.named(20) == [("BOOKMARK", "")] * 20
        server.create(pod("a"))
        assert edited.named(1) == [("ADDED", "a")]


@pytest.mark.parametrize(("edit", "names"), [("no-items", []), ("stale-list", ["b"])])
def test_a_list_lies(
    server: APIServer, proxy: FaultProxy, wire: Wire, edit: Any, names: list[str]
) -> None:
    server.create(pod("b"))
    server.create(pod("a"))
    proxy.faults.add(Fault(verb="list", edit=edit))

    lie, truth = wire.get(ALL_PODS), wire.get(ALL_PODS)

    assert lie.names == names
    assert truth.names == ["a", "b"]
    assert lie.json["metadata"] == truth.json["metadata"]


@pytest.mark.parametrize("edit", ["older-list", "rewound-list"])
def test_a_list_goes_back_to_the_first_of_the_fault(
    server: APIServer, proxy: FaultProxy, wire: Wire, edit: Any
) -> None:
    """Its objects have older versions; only the one that claims to be current has a newer one."""
    server.create(pod("a"))
    server.create(pod("gone"))
    proxy.faults.add(Fault(verb="list", edit=edit, times=3))

    first = wire.get(ALL_PODS)
    server.patch("v1", "pods", "a", {"metadata": {"labels": {"new": "yes"}}}, "default")
    server.delete("v1", "pods", "gone", "default")
    server.create(pod("b"))
    lie = wire.get(ALL_PODS, resourceVersion="0")
    other = wire.get(PODS)
    truth = wire.get(ALL_PODS)

    assert first.json["items"] == lie.json["items"]
    assert lie.names == ["a", "gone"]
    assert truth.names == other.names == ["a", "b"], "another list has its own first"
    claimed = first if edit == "rewound-list" else truth
    assert lie.json["metadata"] == claimed.json["metadata"]
    proxy.heal()
    proxy.faults.add(Fault(verb="list", edit=edit))
    assert wire.get(ALL_PODS).names == ["a", "b"], "what was first is forgotten at the end"


@pytest.mark.parametrize("edit", ["no-items", "drop-event", "older-list"])
def test_what_is_not_such_a_body_passes_unchanged(
    server: APIServer, proxy: FaultProxy, wire: Wire, edit: Any
) -> None:
    proxy.faults.add(Fault(edit=edit, times=None))

    assert wire.get("/version").json
    assert wire.get(ALL_PODS).names == []
    assert wire.get("/healthz").body == b"ok"
    assert server.requests


def test_an_edit_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no-bookmarks"):
        Fault(edit="nonsense")  # type: ignore[arg-type]


def test_a_server_that_dies_is_seen_as_such(server: APIServer, proxy: FaultProxy) -> None:
    with connected(proxy) as wire, wire.watch(ALL_PODS) as stream:
        server.stop()

        with pytest.raises((OSError, http.client.HTTPException)):
            stream.rest()
        with pytest.raises((OSError, http.client.HTTPException)):
            wire.get(ALL_PODS)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "POST"])
async def test_a_request_that_the_server_breaks_is_not_repeated(method: str) -> None:
    """The server may have carried it out: a second one would do so again."""

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target == "/broken":
            writer.transport.abort()
        else:
            writer.write(_EMPTY)

    async with serving(answer) as server:
        address = ServerAddress(url=server.url)
        with FaultProxy(address, reads_requests=True) as proxy, _plain(proxy) as client:
            assert await asyncio.to_thread(_send, client, method, "/") == 200
            with pytest.raises((OSError, http.client.HTTPException)):
                await asyncio.to_thread(_send, client, method, "/broken")
    assert [one.target for one in server.requests] == ["/", "/broken"]


@pytest.mark.parametrize(("method", "body"), [("GET", b""), ("PUT", b"{}")])
async def test_a_request_has_the_headers_of_its_client_only(method: str, body: bytes) -> None:
    """Not those of an HTTP library, and not the cookies of an earlier client."""

    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(_EMPTY.replace(b"\r\n\r\n", b"\r\nSet-Cookie: server=a; Path=/\r\n\r\n"))

    async with serving(answer) as server:
        url = server.url.replace("127.0.0.1", "localhost")  # only names have cookies
        with FaultProxy(ServerAddress(url=url), reads_requests=True) as proxy:
            for _ in range(2):
                with _plain(proxy) as client:
                    assert await asyncio.to_thread(_send, client, method, "/", body) == 200
    length = {"content-length": str(len(body))} if body else {}
    headers = {"host": url.removeprefix("http://"), "accept": "text/plain", **length}
    assert [one.headers for one in server.requests] == [headers, headers]


_EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def _plain(proxy: FaultProxy) -> closing[http.client.HTTPConnection]:
    """Return a client that sends no headers of its own."""
    return closing(http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=100))


def _send(client: http.client.HTTPConnection, method: str, path: str, body: bytes = b"") -> int:
    """Send a request, read the answer, and return its status."""
    client.putrequest(method, path, skip_accept_encoding=True)
    client.putheader("Accept", "text/plain")
    if body:
        client.putheader("Content-Length", str(len(body)))
    client.endheaders(body)
    answer = client.getresponse()
    answer.read()
    return answer.status


async def test_the_cluster_fixture_connects_by_way_of_a_proxy(
    proxy: FaultProxy, cluster: Connector
) -> None:
    async with cluster(proxy) as connected_cluster:
        await connected_cluster.create(pod(namespace="default"))
    assert proxy.requests[-1].verb == "create"


@pytest.mark.real
@pytest.mark.timeout(300)
def test_kubectl_sees_the_faults_of_a_real_server(
    kube_apiserver: KubeAPIServer, tmp_path: Path
) -> None:
    """Its own client, its own TLS: it lists, is refused, logs in again, and sees the stale list."""
    kube_apiserver.ensure_namespace("proxied")
    for name in ("a", "b"):
        metadata = {"name": name, "namespace": "proxied"}
        kube_apiserver.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def kubectl(proxy: FaultProxy, *args: str) -> subprocess.CompletedProcess[str]:
        config = proxy.write_kubeconfig(tmp_path / "config")
        command = ["kubectl", f"--kubeconfig={config}", "-n", "proxied", *args]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)

    with FaultProxy(kube_apiserver, reads_requests=True) as proxy:
        listed = kubectl(proxy, "get", "configmaps", "-o", "name")
        assert listed.stdout.split() == ["configmap/a", "configmap/b"], listed.stderr
        proxy.faults.add(Fault(verb="list", resource="configmaps", edit="stale-list"))
        assert kubectl(proxy, "get", "configmaps", "-o", "name").stdout.split() == ["configmap/a"]
        proxy.faults.add(Fault(verb="list", status=403, reason="Forbidden", message="as scripted"))
        refused = kubectl(proxy, "get", "configmaps")
        assert "as scripted" in refused.stderr
        proxy.expire_token()
        assert kubectl(proxy, "get", "configmaps", "-o", "name").stdout.split() == [
            "configmap/a",
            "configmap/b",
        ]
