"""`pyinformer doctor RESOURCE`: a server with faults on the way to it, and the rules by table."""

from __future__ import annotations

import base64
import errno
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, cast

import pytest
import trustme
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.cli.doctor._credential_expiry import Certificate, certificate_of, token_expiry
from pyinformer.cli.doctor._facts import (
    LoginFacts,
    ResourceFacts,
    Right,
    ServerFacts,
    WatchTimes,
)
from pyinformer.cli.doctor._memory import memory_by_mode
from pyinformer.cli.doctor._network import NetworkFacts, clock_ahead, measure_network
from pyinformer.cli.doctor._resources import ResourceChecks
from pyinformer.cli.doctor._server_findings import (
    missing_role,
    resource_findings,
    server_findings,
    size,
)
from pyinformer.client.cluster import Cluster
from pyinformer.client.transport import ClusterConfig, status_error
from pyinformer.objects import GroupVersionResource
from pyinformer.operator.diagnosis import Severity
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import cluster_of, pod
from tests.cache.reflector.samples import bookmark
from tests.cache.reflector.scripted import ScriptedBody, ScriptedConnection
from tests.cli.command_line import here
from tests.virtual_time import elapse
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pyinformer.client.transport import Body, ConnectionProtocol
    from pyinformer.operator.diagnosis import DiagnosisFinding
    from tests.cache.reflector.scripted import Pieces

_PODS: Final = GroupVersionResource("", "v1", "pods")
_METRICS: Final = GroupVersionResource("metrics.k8s.io", "v1beta1", "nodes")
_DAY: Final = 86400.0
_SLOW: Final = {
    (code, "warn")
    for code in (
        *("network_lookup", "network_connect", "network_tls", "network_request"),
        *("latency", "list"),
    )
}
_NOW: Final = 1_000_000_000.0


def _doctor(*arguments: str, **environ: str) -> tuple[int, dict[str, Any]]:
    """Run the command, and return its exit status and its JSON."""
    patient = ("doctor", "-o", "json", "--timeout-seconds", "100", *arguments)
    done = here(*patient, **environ)
    assert done.stdout, done.stderr
    return done.exit_code, json.loads(done.stdout)


def _bad(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is not well, apart from times: a busy machine is slow."""
    found = [one for part in report["parts"] for one in part["findings"]]
    bad = [(one["code"], one["severity"]) for one in found if one["severity"] != "ok"]
    return [one for one in bad if one not in _SLOW]


def _codes(report: dict[str, Any], part: int) -> list[str]:
    return [one["code"] for one in report["parts"][part]["findings"]]


def test_a_healthy_server_is_well_in_every_check(tmp_path: Path) -> None:
    with APIServer(tls=True, rbac=True, final_bookmark_lead_seconds=4.9) as api:
        api.ensure_namespace("default")
        api.create(pod("a"))
        path = api.write_kubeconfig(tmp_path / "kubeconfig")
        status, report = _doctor("pods.v1", "nodes", "--kubeconfig", str(path))

    assert (status, _bad(report)) == (0, [])
    assert _codes(report, 0) == [
        *("configuration", "token_expiry", "network_lookup", "network_connect", "network_tls"),
        *("network_request", "server_certificate", "clock", "latency", "version"),
    ]
    assert _codes(report, 1) == ["rights", "list", "memory", "watch_list", "bookmarks"]
    assert _codes(report, 2) == ["rights", "list", "watch_list", "bookmarks"]
    assert "token" not in json.dumps(report["parts"][0]["findings"][0])


def test_missing_rights_are_printed_as_the_role_that_grants_them(tmp_path: Path) -> None:
    with APIServer(tls=True, rbac=True, final_bookmark_lead_seconds=4.9) as api:
        api.ensure_namespace("shop")
        token = api.token_for_service_account("watcher", "shop")
        path = api.write_kubeconfig(tmp_path / "kubeconfig", token=token)
        status, report = _doctor("v1/pods", "-n", "shop", "--kubeconfig", str(path))
        shown = here("doctor", "v1/pods", "-n", "shop", "--kubeconfig", str(path))
        (finding,) = (one for one in report["parts"][1]["findings"] if one["code"] == "rights")
        for document in yaml.safe_load_all(finding["manifest"]):
            api.create(document)
            metadata = {"name": "informer", "namespace": "shop"}
            subject = {"kind": "ServiceAccount", "name": "watcher", "namespace": "shop"}
            api.create(
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "RoleBinding",
                    "metadata": metadata,
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": document["kind"],
                        "name": "informer",
                    },
                    "subjects": [subject],
                }
            )
        granted, after = _doctor("v1/pods", "-n", "shop", "--kubeconfig", str(path))

    assert status == 1
    assert _bad(report) == [("rights", "trouble"), ("list", "trouble")]
    assert "         kind: Role" in shown.stdout.splitlines()
    assert (granted, _bad(after)) == (0, [])


def test_a_server_without_watch_lists_and_bookmarks_has_findings_and_no_trouble() -> None:
    with APIServer(watch_list=False, bookmark_interval_seconds=3600.0) as api:
        api.faults.add(Fault(verb="watch", match=_wants_bookmarks, body=b"", times=None))
        status, report = _doctor("v1/pods", "--server", api.url, "--idle-seconds", "1")

    assert status == 0
    assert _bad(report) == [("watch_list", "warn"), ("bookmarks", "warn")]
    assert report["parts"][1]["findings"][-1]["code"] == "idle_cut"


def _wants_bookmarks(request: Any) -> bool:
    return "allowWatchBookmarks" in dict(request.query)


def test_a_proxy_that_cuts_silent_watches_is_found() -> None:
    def is_silent(request: Any) -> bool:
        return not _wants_bookmarks(request)

    with APIServer(final_bookmark_lead_seconds=4.9) as api:
        api.faults.add(Fault(verb="watch", match=is_silent, cut_after_bytes=0))
        status, report = _doctor("v1/pods", "--server", api.url, "--idle-seconds", "100")

    assert (status, _bad(report)) == (0, [("idle_cut", "warn")])


class Arriving(NamedTuple):
    """When a response arrives, in seconds from the request."""

    head: float
    line: float | None
    """When a bookmark does; None for none."""
    end: float


@dataclass
class TimedServer(ScriptedConnection):
    """A server whose watches arrive at certain virtual times."""

    watch: Arriving
    watch_list: Arriving | None
    """None for a server that refuses it."""

    async def request(self, *_: object, **__: object) -> bytes:
        """Answer a review of rights."""
        return b'{"status": {"allowed": true}}'

    @asynccontextmanager
    async def answer(self, path: str, query: dict[str, str]) -> AsyncIterator[Body]:
        """Answer a list or a watch."""
        del path
        is_load = "sendInitialEvents" in query
        times = self.watch_list if is_load else self.watch
        if "watch" not in query:
            pieces = self._list()
        elif times is None:
            raise status_error(422, {}, b"", request="watch-list pods.v1")
        else:
            await elapse(times.head)
            pieces = self._watch(times, bookmark("7", ends_initial_events=is_load) + b"\n")
        try:
            yield ScriptedBody(pieces)
        finally:
            await pieces.aclose()

    @staticmethod
    async def _list() -> Pieces:
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}
        yield json.dumps({**body, "items": []}).encode()

    @staticmethod
    async def _watch(times: Arriving, line: bytes) -> Pieces:
        at = times.head
        if times.line is not None:
            await elapse(times.line - at)
            at = times.line
            yield line
        await elapse(times.end - at)


_HELD: Final = [("watch_held", "warn")]
_NO_WATCH_LIST: Final = ("watch_list", "warn")
_PROMPT_LIST: Final = Arriving(0.0, 0.1, 9.0)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("watch", "watch_list", "expected"),
    [
        pytest.param(Arriving(5, 5, 5), Arriving(9, 9, 9), _HELD, id="response-held"),
        pytest.param(Arriving(5.1, 5.1, 5.1), None, _HELD, id="response-held-no-watch-list"),
        pytest.param(Arriving(5, None, 5), None, _HELD, id="response-held-no-bookmark"),
        pytest.param(Arriving(0, 5, 5), Arriving(0, 9, 9), _HELD, id="body-held"),
        pytest.param(Arriving(0, 5, 5.1), None, _HELD, id="body-held-no-watch-list"),
        pytest.param(Arriving(0, None, 5), Arriving(0, 9, 9), _HELD, id="only-watch-list-ends"),
        pytest.param(Arriving(0, None, 5), _PROMPT_LIST, [], id="quiet"),
        pytest.param(Arriving(0, 3, 5), None, [_NO_WATCH_LIST], id="no-watch-list"),
        pytest.param(
            Arriving(0, None, 5), None, [_NO_WATCH_LIST, ("bookmarks", "warn")], id="no-bookmarks"
        ),
        pytest.param(Arriving(6, 9, 11), None, [_NO_WATCH_LIST], id="slow-server"),
        pytest.param(Arriving(5, None, 5), _PROMPT_LIST, [], id="head-comes-with-an-event"),
        pytest.param(
            Arriving(0, None, 5),
            Arriving(20, 20, 20),
            [_NO_WATCH_LIST, ("bookmarks", "warn")],
            id="watch-list-is-not-answered",
        ),
    ],
)
async def test_a_proxy_that_holds_watches_back_is_found_and_a_quiet_server_is_not(
    watch: Arriving, watch_list: Arriving | None, expected: list[tuple[str, str]]
) -> None:
    server = TimedServer(watch=watch, watch_list=watch_list)
    cluster = Cluster(server.config, connection=cast("ConnectionProtocol", server))
    checks = ResourceChecks(
        cluster, _PODS, namespaces=None, timeout_seconds=10.0, idle_seconds=None
    )
    await checks.read()
    await checks.watch()

    found = resource_findings(checks.facts)
    assert _found(found) == expected
    if expected == _HELD:
        (held,) = (one for one in found if one.code == "watch_held")
        assert "proxy_buffering off" in held.cure
        assert {one.code for one in found}.isdisjoint({"watch_list", "bookmarks"})


def test_a_held_watch_is_shown_by_the_times_at_which_it_arrived() -> None:
    times = WatchTimes(
        requested_seconds=5.0, opened_seconds=5.02, line_seconds=5.03, ended_seconds=5.03
    )
    (found,) = resource_findings(_facts(watch_seconds=5.03, watch_times=times))
    assert found.evidence == (
        "the response to a watch of 5.0 s was opened after 5.0 s, and its first line arrived after"
        " 5.0 s: something on the way, or the server, holds it back, and caches learn of changes"
        " only by listing again"
    )


def test_a_held_watch_list_does_not_hide_a_watch_that_fails() -> None:
    times = WatchTimes(requested_seconds=9.0, opened_seconds=9.0, ended_seconds=9.0)
    found = resource_findings(_facts(watch_error="504", watch_list_times=times))
    assert _found(found) == [("watch_held", "warn"), ("watch", "trouble")]


async def test_a_list_that_is_not_answered_in_time_is_in_trouble() -> None:
    with APIServer() as api:
        api.faults.add(Fault(verb="list", resource="pods", hang=True, times=None))
        async with cluster_of(api) as cluster:
            checks = ResourceChecks(
                cluster, _PODS, namespaces=None, timeout_seconds=0.3, idle_seconds=None
            )
            await checks.read()
            await checks.watch()  # nothing to watch from
        api.faults.release()

    assert "0.3 s" in checks.facts.list_error
    assert ("list", "trouble") in _found(resource_findings(checks.facts))


def test_a_resource_that_is_not_served_is_not_asked() -> None:
    with APIServer(final_bookmark_lead_seconds=4.9) as api:
        status, report = _doctor("podz", "v1/podz", "../x", "--server", api.url)

    assert status == 2
    assert [part["error"] != "" for part in report["parts"]] == [False, True, True, True]
    assert report["parts"][1]["error"] == "the server does not serve 'podz'; it serves pods"


def test_without_a_configuration_nothing_is_asked(tmp_path: Path) -> None:
    done = here("doctor", "pods", "--kubeconfig", str(tmp_path / "missing"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("pyinformer doctor: ")


def test_an_unresolvable_host_and_a_refused_port_are_found_at_their_step() -> None:
    host, unresolved = _doctor("pods", "--server", "http://server.invalid:1")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port, refused = _doctor("pods", "--server", f"http://127.0.0.1:{closed.getsockname()[1]}")

    assert (host, port) == (1, 1)
    assert _bad(unresolved) == [("network_lookup", "trouble")]
    assert _bad(refused) == [("network_connect", "trouble")]
    assert unresolved["parts"][1]["error"] == "the server was not reached: see the findings above"


def test_a_mixture_of_resources_and_programs_is_refused() -> None:
    done = here("doctor", "pods", "http://127.0.0.1:1")
    assert done.exit_code == 2
    assert "not both" in done.stderr


def test_a_program_without_a_scheme_is_refused_with_its_url() -> None:
    done = here("doctor", "localhost:8081")
    assert done.exit_code == 2
    assert "http://localhost:8081" in done.stderr


@contextmanager
def _listening(context: ssl.SSLContext | None, answer: bytes) -> Iterator[int]:
    """Answer each connection with the same bytes, in a thread, until the block is left."""
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as held:
        server.settimeout(100.0)

        def serve() -> None:
            while True:
                try:
                    stream = held.enter_context(server.accept()[0])
                    stream.settimeout(100.0)
                    if context is not None:
                        stream = held.enter_context(context.wrap_socket(stream, server_side=True))
                    if not stream.recv(65536):
                        continue
                    stream.sendall(answer)
                    stream.shutdown(socket.SHUT_RDWR)
                except ssl.SSLError:
                    continue  # the client does not trust the certificate
                except OSError:
                    if server.fileno() < 0 or is_over.is_set():
                        return

        is_over = threading.Event()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            is_over.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _kubeconfig(
    path: Path, server: str, authority: trustme.CA, user: dict[str, Any] | None = None
) -> str:
    data = base64.b64encode(authority.cert_pem.bytes()).decode()
    cluster = {"name": "c", "cluster": {"server": server, "certificate-authority-data": data}}
    document = {
        "clusters": [cluster],
        "users": [{"name": "u", "user": user or {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(path)


def _jwt(expires_at: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires_at}).encode()).decode()
    return f"a.{claims.rstrip('=')}.c"


def _user(path: Path, kind: str) -> dict[str, Any]:
    """Return the user of a kubeconfig."""
    in_a_minute = datetime.now(UTC) + timedelta(seconds=60)
    if kind == "token-file":
        file = path / "token"
        file.write_text(_jwt(1e9), encoding="utf-8")
        return {"tokenFile": str(file)}
    if kind == "exec":
        status = {"token": "t", "expirationTimestamp": in_a_minute.strftime("%Y-%m-%dT%H:%M:%SZ")}
        version = "client.authentication.k8s.io/v1"
        answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}
        called = {"apiVersion": version, "command": "echo", "args": [json.dumps(answer)]}
        return {"exec": {**called, "interactiveMode": "Never"}}
    if kind.startswith("certificate"):
        issued = trustme.CA().issue_cert("a", not_after=in_a_minute)
        pem, key = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
        if kind == "certificate":
            parts = {"client-certificate-data": pem, "client-key-data": key}
            return {name: base64.b64encode(one).decode() for name, one in parts.items()}
        (path / "cert").write_bytes(pem)
        (path / "key").write_bytes(key)
        return {"client-certificate": str(path / "cert"), "client-key": str(path / "key")}
    return {"token": _jwt(4e9)} if kind == "token" else {"username": "u", "password": "p"}


@pytest.mark.parametrize(
    ("kind", "code", "severity", "words"),
    [
        ("token-file", "token_expiry", "trouble", "the token file"),
        ("exec", "token_expiry", "warn", "a login of an exec plug-in"),
        ("certificate", "client_certificate", "trouble", "expires in"),
        ("certificate-file", "client_certificate", "trouble", "expires in"),
        ("token", "token_expiry", "ok", "the token of the kubeconfig"),
        ("password", "token_expiry", "ok", "do not say when they expire"),
    ],
)
def test_each_kind_of_credentials_is_read_for_its_expiry(
    tmp_path: Path, kind: str, code: str, severity: str, words: str
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{closed.getsockname()[1]}"
        path = _kubeconfig(tmp_path / "kubeconfig", url, trustme.CA(), _user(tmp_path, kind))
        _, report = _doctor("--kubeconfig", path)

    (found,) = (one for one in report["parts"][0]["findings"] if one["code"] == code)
    assert found["severity"] == severity
    assert words in f"{found['fact']} {found['evidence']}"


def test_a_server_that_never_answers_is_found_at_its_step(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        path = _kubeconfig(tmp_path / "kubeconfig", url, trustme.CA())
        _, report = _doctor("--kubeconfig", path, "--timeout-seconds", "0.5")

    ((code, severity),) = _bad(report)  # a busy machine may not get as far as TLS in this time
    assert (code[:8], severity) == ("network_", "trouble")


def _server_context(authority: trustme.CA, *, expires: datetime) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    begins = datetime.now(UTC) - timedelta(days=60)
    authority.issue_cert("127.0.0.1", not_before=begins, not_after=expires).configure_cert(context)
    return context


_ANSWER: Final = b"HTTP/1.1 401 Unauthorized\r\n%sContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("fault", ["expired", "wrong-authority"])
def test_a_certificate_that_is_not_trusted_is_named_with_its_expiry(
    tmp_path: Path, fault: str
) -> None:
    authority = trustme.CA()
    trusted = authority if fault == "expired" else trustme.CA()
    life = timedelta(days=-3 if fault == "expired" else 3)
    context = _server_context(authority, expires=datetime.now(UTC) + life)
    with _listening(context, b"") as port:
        url = f"https://127.0.0.1:{port}"
        path = _kubeconfig(tmp_path / "kubeconfig", url, trusted)
        status, report = _doctor("--kubeconfig", path)

    certificate = ("server_certificate", "trouble" if fault == "expired" else "warn")
    assert status == 1
    assert _bad(report) == [certificate, ("network_tls", "trouble")]
    cure = "renew" if fault == "expired" else "certificate-authority-data"
    assert cure in _findings(report, "network_tls")["cure"]


async def test_a_certificate_that_is_not_verified_is_not_judged() -> None:
    context = _server_context(trustme.CA(), expires=datetime.now(UTC) - timedelta(days=3))
    with _listening(context, _ANSWER % b"") as port:
        config = ClusterConfig(server=f"https://127.0.0.1:{port}", verify_tls=False)
        network = await measure_network(config, config.ssl_context(), timeout_seconds=100)

    assert (network.error, network.certificate) == ("", None)


def test_clocks_that_differ_and_refused_credentials_are_found(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = _server_context(authority, expires=datetime.now(UTC) + timedelta(days=300))
    with _listening(context, _ANSWER % b"Date: Sat, 01 Jan 2000 00:00:00 GMT\r\n") as port:
        path = _kubeconfig(tmp_path / "kubeconfig", f"https://127.0.0.1:{port}", authority)
        status, report = _doctor("--kubeconfig", path)

    assert status == 1
    assert _bad(report) == [("clock", "trouble"), ("requests", "trouble")]


def _http(status: str, body: bytes, *headers: str) -> bytes:
    """Return a response that closes its connection."""
    length = f"Content-Length: {len(body)}"
    lines = (f"HTTP/1.1 {status}", *headers, length, "Connection: close", "", "")
    return "\r\n".join(lines).encode() + body


def _status(code: int, reason: str) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": reason}).encode()


def _findings(report: dict[str, Any], code: str) -> dict[str, Any]:
    """Return the one finding of a code about the server."""
    (found,) = (one for one in report["parts"][0]["findings"] if one["code"] == code)
    return dict(found)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(
            _http("404 Not Found", b"default backend - 404"), "default backend - 404", id="404-page"
        ),
        pytest.param(_http("403 Forbidden", b"<html>no</html>"), "403", id="403-page"),
        pytest.param(_http("200 OK", b"{}"), "names no version", id="empty-object"),
        pytest.param(_http("200 OK", b'{"a":[1]}'), "names no version", id="other-object"),
        pytest.param(_http("200 OK", b"1"), "names no version", id="no-object"),
    ],
)
def test_an_address_where_no_api_server_answers_is_in_trouble(answer: bytes, words: str) -> None:
    with _listening(None, answer) as port:
        status, report = _doctor("pods", "--server", f"http://127.0.0.1:{port}/k8s/clusters/c-x")

    assert (status, _bad(report)) == (1, [("requests", "trouble")])
    found = _findings(report, "requests")
    assert words in found["evidence"]
    assert "the path" in found["cure"]
    assert report["parts"][1]["error"] == "the server was not reached: see the findings above"


@pytest.mark.parametrize(
    ("status_line", "cure"),
    [
        pytest.param("429 Too Many Requests", "many requests", id="429"),
        pytest.param("503 Service Unavailable", "the API server runs", id="503"),
        pytest.param("502 Bad Gateway", "the API server runs", id="502"),
    ],
)
def test_an_overload_and_a_balancer_without_a_server_are_no_wrong_address(
    status_line: str, cure: str
) -> None:
    with _listening(None, _http(status_line, b"no healthy upstream")) as port:
        status, report = _doctor("--server", f"http://127.0.0.1:{port}")

    assert (status, _bad(report)) == (1, [("requests", "trouble")])
    assert cure in _findings(report, "requests")["cure"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(_http("404 Not Found", _status(404, "NotFound")), id="404"),
        pytest.param(_http("403 Forbidden", _status(403, "Forbidden")), id="403"),
        pytest.param(_http("200 OK", b'{"kind":"APIGroupList","groups":[]}'), id="groups"),
    ],
)
def test_an_api_server_that_shows_no_version_is_well(answer: bytes) -> None:
    with _listening(None, answer) as port:
        status, report = _doctor("--server", f"http://127.0.0.1:{port}")
    assert (status, _bad(report)) == (0, [])
    assert "version" not in _codes(report, 0)


_ALERT: Final = b"\x15\x03\x01\x00\x02\x02"  # a fatal one; its number follows


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(b"", "ended the handshake", id="end-of-file"),
        pytest.param(_ALERT + b"\x46", "TLS 1.2", id="protocol-version"),
        pytest.param(_ALERT + b"\x28", "refused the handshake", id="handshake-failure"),
        pytest.param(_ALERT + b"\x74", "client certificate", id="certificate-required"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS", id="plain-http"),
    ],
)
def test_a_failed_handshake_has_the_cure_of_its_cause(
    tmp_path: Path, answer: bytes, words: str
) -> None:
    with _listening(None, answer) as port:
        path = _kubeconfig(tmp_path / "kubeconfig", f"https://127.0.0.1:{port}", trustme.CA())
        status, report = _doctor("--kubeconfig", path)

    assert (status, _bad(report)) == (1, [("network_tls", "trouble")])
    found = _findings(report, "network_tls")
    assert words in found["cure"]
    assert "certificate-authority-data" not in found["cure"]


@pytest.mark.parametrize(
    ("scheme", "status", "words"),
    [
        pytest.param("https", "407 Proxy Authentication Required", "user and password", id="tls"),
        pytest.param("http", "407 Proxy Authentication Required", "user and password", id="plain"),
        pytest.param("https", "403 Forbidden", "the proxy refuses", id="forbidden"),
        pytest.param("https", "502 Bad Gateway", "the proxy refuses", id="no-server"),
    ],
)
def test_a_proxy_that_refuses_is_blamed_for_it(
    tmp_path: Path, scheme: str, status: str, words: str
) -> None:
    with _listening(None, _http(status, b"")) as port:
        path = tmp_path / "kubeconfig"
        _kubeconfig(path, f"{scheme}://api.example.com:6443", trustme.CA(), {"username": "u"})
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        document["clusters"][0]["cluster"]["proxy-url"] = f"http://127.0.0.1:{port}"
        document["users"][0]["user"] = {}
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        code, report = _doctor("--kubeconfig", str(path))

    assert (code, _bad(report)) == (1, [("requests", "trouble")])
    found = _findings(report, "requests")
    assert status.partition(" ")[0] in found["evidence"]
    assert words in found["cure"]


_CERTIFICATE = Certificate(subject="CN=a", begins_at=_NOW - _DAY, expires_at=_NOW + 300 * _DAY)
_NETWORK = NetworkFacts(host="a", port=443)
_SERVER = ServerFacts(
    source="a", server="https://a", login=LoginFacts(kind="none"), network=_NETWORK
)


def _token(left: float, **more: Any) -> LoginFacts:
    return LoginFacts(kind="a token", has_token=True, token_expires_at=_NOW + left, **more)


def _issued(left: float) -> LoginFacts:
    certificate = replace(_CERTIFICATE, expires_at=_NOW + left)
    return LoginFacts(kind="a client certificate", certificate=certificate)


@pytest.mark.parametrize(
    ("login", "expected"),
    [
        (LoginFacts(kind="none"), []),
        (LoginFacts(kind="exec", error="no such command"), [("credentials_missing", "trouble")]),
        (LoginFacts(kind="a token", has_token=True), []),
        (_token(2 * _DAY), []),
        (_token(3600.0), [("token_expiry", "warn")]),
        (_token(-1.0), [("token_expiry", "trouble")]),
        (_token(3600.0, is_renewed=True, file_age_seconds=60.0), []),
        (_token(60.0, is_renewed=True), [("token_expiry", "warn")]),
        (_token(-1.0, is_renewed=True), [("token_expiry", "trouble")]),
        (_issued(300 * _DAY), []),
        (_issued(10 * _DAY), [("client_certificate", "warn")]),
        (_issued(_DAY), [("client_certificate", "trouble")]),
        (_issued(-_DAY), [("client_certificate", "trouble")]),
    ],
)
def test_the_expiry_of_credentials_is_graded(
    login: LoginFacts, expected: list[tuple[str, str]]
) -> None:
    assert _found(server_findings(replace(_SERVER, login=login), _NOW)) == expected


def _found(findings: list[DiagnosisFinding]) -> list[tuple[str, str]]:
    return [(one.code, one.severity.value) for one in findings if one.severity is not Severity.OK]


def test_a_certificate_of_the_future_blames_the_clock() -> None:
    certificate = replace(_CERTIFICATE, begins_at=_NOW + 60.0)
    facts = replace(_SERVER, network=NetworkFacts(host="a", port=1, certificate=certificate))
    (*_, found) = server_findings(facts, _NOW)
    assert (found.fact, found.cure) == ("is not valid yet", "correct the clock of this host")


def test_slow_steps_and_a_proxy_are_named() -> None:
    network = NetworkFacts(host="p", port=1, is_proxy=True, seconds={"lookup": 0.1, "connect": 2.0})
    found = server_findings(replace(_SERVER, network=network), _NOW)
    assert _found(found) == [("network_connect", "warn")]
    assert "p:1 (a proxy)" in found[-1].evidence


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("v1.37.1", "tested with 1.37"),
        ("v1.20.0", "it lists in pages"),
        ("v1.99.0-eks", "stable APIs only"),
        ("other", "its version is other"),
        ("v0.0.0-master", "its version is v0.0.0-master"),
    ],
)
def test_each_version_of_a_server_is_named_with_what_it_means(version: str, words: str) -> None:
    (*_, found) = server_findings(replace(_SERVER, version=version, request_seconds=2.0), _NOW)
    assert words in found.evidence


@pytest.mark.parametrize(
    ("date", "asked", "answered", "expected"),
    [
        ("Sun, 09 Sep 2001 01:46:40 GMT", _NOW + 0.5, _NOW + 0.6, 0.0),
        ("Sun, 09 Sep 2001 01:46:40 GMT", _NOW - 0.5, _NOW + 5.0, 0.0),
        ("Sun, 09 Sep 2001 01:46:40 GMT", _NOW + 11.0, _NOW + 12.0, 10.0),
        ("Sun, 09 Sep 2001 01:46:40 GMT", _NOW - 11.0, _NOW - 10.0, -10.0),
        ("", 0.0, 0.0, None),
        ("soon", 0.0, 0.0, None),
    ],
)
def test_the_difference_of_clocks_is_what_is_certain(
    date: str, asked: float, answered: float, expected: float | None
) -> None:
    assert clock_ahead(date, asked, answered) == expected


def _facts(**changed: Any) -> ResourceFacts:
    return ResourceFacts(**{"resource": _PODS, "namespaces": None, **changed})


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (_facts(), []),
        (_facts(rights_error="403"), [("rights", "warn")]),
        (_facts(list_error="500"), [("list", "trouble")]),
        (_facts(list_seconds=6.0, list_version="7"), [("list", "warn")]),
        (_facts(list_seconds=1.0, list_version="7", page_objects=500, more=None), []),
        (_facts(list_seconds=1.0), [("list_version", "trouble")]),
        (_facts(resource=_METRICS, list_seconds=1.0), [("list_version", "warn")]),
        (
            _facts(page_objects=500, more=999_500, memory={"strip_managed_fields": 5000.0}),
            [("memory", "warn")],
        ),
        (_facts(watch_list_error="422"), [("watch_list", "warn")]),
        (_facts(watch_error="reset"), [("watch", "trouble")]),
        (_facts(watch_seconds=5.0), [("bookmarks", "warn")]),
        (_facts(watch_seconds=5.0, watch_list_seconds=0.1), []),
        (
            _facts(idle_seconds=60.0, idle_wanted_seconds=300.0, idle_error="x"),
            [("idle_cut", "warn")],
        ),
        (_facts(idle_seconds=300.0, idle_wanted_seconds=300.0), []),
    ],
)
def test_what_was_found_of_a_resource_is_graded(
    facts: ResourceFacts, expected: list[tuple[str, str]]
) -> None:
    found = resource_findings(facts)
    assert _found(found) == expected
    assert all(one.evidence and one.cure for one in found if one.severity is not Severity.OK)


def test_missing_rights_in_namespaces_need_a_role_in_each() -> None:
    rights = tuple(
        Right(verb=verb, namespace=namespace, is_allowed=namespace == "b")
        for namespace in ("a", "b", "c")
        for verb in ("list", "watch")
    )
    facts = ResourceFacts(resource=_PODS, namespaces=("a", "b", "c"), rights=rights)
    roles = list(yaml.safe_load_all(missing_role(facts)))
    assert [(one["kind"], one["metadata"]["namespace"]) for one in roles] == [
        ("Role", "a"),
        ("Role", "c"),
    ]


def test_a_smaller_mode_takes_less_memory() -> None:
    managed = [{"manager": "m", "fieldsV1": {f"f:{number}": {} for number in range(50)}}]
    spec = {"containers": [{"name": f"c{number}", "image": "i"} for number in range(30)]}
    items = [
        json.dumps(
            {
                **(one := pod(f"a{number}")),
                "metadata": {**one["metadata"], "managedFields": managed},
                "spec": spec,
            }
        ).encode()
        for number in range(150)
    ]
    found = memory_by_mode(_PODS, "Pod", items)

    small_to_large = ("metadata", "compact", "strip_managed_fields", "raw")
    assert sorted(small_to_large, key=lambda mode: found[mode]) == [*small_to_large]
    assert found["decoded"] > found["strip_managed_fields"]
    assert memory_by_mode(_PODS, "Pod", []) == {}


@given(st.text() | st.from_regex(r"Bearer [\w-]*\.[\w-]*\.[\w-]*"))
def test_no_token_makes_the_doctor_fail(header: str) -> None:
    assert token_expiry(header) is None or isinstance(token_expiry(header), float)


@pytest.mark.parametrize(
    ("claims", "expected"), [('{"exp": 5}', 5.0), ('{"exp": "x"}', None), ("[", None), ("{}", None)]
)
def test_the_expiry_of_a_token_is_read_without_its_signature(
    claims: str, expected: float | None
) -> None:
    payload = base64.urlsafe_b64encode(claims.encode()).decode().rstrip("=")
    assert token_expiry(f"Bearer a.{payload}.c") == expected


@given(st.binary())
def test_no_certificate_makes_the_doctor_fail(encoded: bytes) -> None:
    assert certificate_of(encoded) is None


@pytest.mark.parametrize(
    ("count", "text"),
    [(7, "7 B"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB"), (5 << 30, "5.0 GiB")],
)
def test_sizes_have_the_unit_that_people_use(count: int, text: str) -> None:
    assert size(count) == text


async def test_what_was_measured_in_time_does_not_change_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resumed = threading.Event()

    def slow(*_: object, **__: object) -> NoReturn:
        resumed.wait()
        raise OSError(errno.ECONNRESET, "reset")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    config = ClusterConfig(server="https://127.0.0.1:9")
    network = await measure_network(config, ssl.create_default_context(), timeout_seconds=0.05)
    before = replace(network)
    resumed.set()
    await until(lambda: not _threads_of_the_doctor())
    assert network == before
    assert network.is_timeout
    assert network.step == "lookup"


def _threads_of_the_doctor() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if "doctor" in one.name]


async def test_a_server_that_hangs_is_told_from_a_wrong_certificate() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = ClusterConfig(server=f"https://127.0.0.1:{silent.getsockname()[1]}")
        context = ssl.create_default_context()
        # Under load it may end in an earlier step, which has the same flag.
        network = await measure_network(config, context, timeout_seconds=0.2)
    assert network.is_timeout

    network.step = "tls"
    cures = list[str]()
    for network.is_timeout in (True, False):
        found = server_findings(replace(_SERVER, network=network), 0.0)
        cures += (one.cure for one in found if one.code == "network_tls")
    assert [cure.partition(",")[0] for cure in cures] == [
        "look at the API server",
        "correct certificate-authority-data",
    ]


async def test_a_name_with_a_dot_at_its_end_is_checked_as_requests_do() -> None:
    with APIServer(tls=True) as api:
        config = ClusterConfig(
            server=api.url, ca_file=str(api.ca_file), tls_server_name="localhost."
        )
        network = await measure_network(config, config.ssl_context(), timeout_seconds=100)
    assert (network.error, network.step) == ("", "request")


@pytest.mark.parametrize("zone", ["", "%25lo", "%251"])
async def test_an_address_with_a_zone_is_measured(zone: str) -> None:
    heard: list[bytes] = []
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this host has no IPv6")
    if zone == "%25lo" and "lo" not in {name for _, name in socket.if_nameindex()}:
        pytest.skip("this host's loopback interface has another name")

    def serve() -> None:
        stream, _ = listener.accept()
        with stream:
            heard.append(stream.recv(65536))
            stream.sendall(_http("404 Not Found", b""))

    with listener:
        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        config = ClusterConfig(server=f"http://[::1{zone}]:{port}")
        network = await measure_network(config, None, timeout_seconds=100)
        thread.join()
    assert (network.error, network.step) == ("", "request")
    assert f"Host: [::1]:{port}".encode() in heard[0]


async def test_an_address_that_does_not_answer_is_named_and_another_one_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the connections of the library do, which try the next address soon."""
    with APIServer() as api, socket.create_server(("127.0.0.2", 0)) as taken:
        port = int(api.url.rpartition(":")[2])
        taken.close()

        def found(*_: object, **__: object) -> list[Any]:
            """Return an address at which nothing listens, and that of the server."""
            return [
                (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))
                for address in ("127.0.0.2", "127.0.0.1")
            ]

        with monkeypatch.context() as patched:
            patched.setattr(socket, "getaddrinfo", found)
            config = ClusterConfig(server=f"http://api.test:{port}")
            network = await measure_network(config, None, timeout_seconds=100)

    assert (network.error, network.step) == ("", "request")
    assert network.dead_addresses == ("127.0.0.2",)
    (finding,) = _found(server_findings(replace(_SERVER, network=network), _NOW))
    assert finding == ("network_addresses", "warn")


async def test_a_name_lookup_that_hangs_does_not_delay_the_exit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends, began, threads = threading.Event(), threading.Event(), list[threading.Thread]()

    def hang(*_: object, **__: object) -> list[Any]:
        """Resolve nothing until the end of the test."""
        threads.append(threading.current_thread())
        began.set()
        ends.wait()
        raise OSError("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    config = ClusterConfig(server="http://api.invalid:6443")
    network = await measure_network(config, None, timeout_seconds=0.2)
    found = network.step, network.error
    began.wait()
    ends.set()
    threads[0].join()

    assert found == ("lookup", "no answer after 0.2 s")
    assert [one.daemon for one in threads] == [True]
