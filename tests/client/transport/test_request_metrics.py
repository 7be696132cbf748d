"""Requests are counted under client-go's names, whatever becomes of them."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import trustme
import yaml

import pyinformer
from pyinformer import SharedInformer
from pyinformer.client import WriteOptions
from pyinformer.client.transport import (
    ClusterConfig,
    Connection,
    ConnectionOptions,
    ConnectionTimeouts,
    RequestMetrics,
    TokenFileCredentials,
    find_config,
)
from pyinformer.errors import (
    ForbiddenError,
    InformerError,
    RequestTimeoutError,
    ServerError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)
from pyinformer.telemetry.metrics import CATALOGUE, MetricsRegistry
from tests.client.transport.serving import CHUNKED, always, chunk, response, serving, silence
from tests.telemetry.metrics.reading import histogram, series, totals
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.client.transport.serving import Request

SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
UPSTREAM: dict[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = {
    "rest_client_requests_total": ("counter", ("code", "method", "host"), ()),
    "rest_client_request_retries_total": ("counter", ("code", "verb", "host"), ()),
    "rest_client_request_duration_seconds": ("histogram", ("verb", "host"), SECONDS),
    "rest_client_request_size_bytes": ("histogram", ("verb", "host"), SIZES),
    "rest_client_response_size_bytes": ("histogram", ("verb", "host"), SIZES),
    "rest_client_rate_limiter_duration_seconds": ("histogram", ("verb", "host"), SECONDS),
    "rest_client_dns_resolution_duration_seconds": ("histogram", ("host",), SECONDS[:-1]),
    "rest_client_exec_plugin_call_total": ("counter", ("code", "call_status"), ()),
    "rest_client_transport_ca_reload_total": ("counter", ("result", "reason"), ()),
}
"""Type, labels and buckets, as of component-base 0.37, metrics/prometheus/restclient/metrics.go."""

OURS = {
    "rest_client_request_failures_total",
    "rest_client_requests_in_flight",
    "rest_client_requests_waiting",
    "rest_client_retry_after_seconds",
    "rest_client_warnings_total",
    "rest_client_connections_open",
    "rest_client_connections_dialled_total",
    "rest_client_credential_renewals_total",
    "rest_client_lists_in_flight",
    "rest_client_lists_overdue_total",
}

REQUESTS = "rest_client_requests_total"
RETRIES = "rest_client_request_retries_total"
SECONDS_OF = "rest_client_request_duration_seconds"
FAILURES = "rest_client_request_failures_total"
LOOKUPS = "rest_client_dns_resolution_duration_seconds"


def test_the_names_labels_and_buckets_are_those_of_component_base() -> None:
    ours = {name: spec for name, spec in CATALOGUE.items() if name.startswith("rest_client_")}
    assert ours.keys() == UPSTREAM.keys() | OURS
    for name, (kind, labels, buckets) in UPSTREAM.items():
        spec = ours[name]
        assert (spec.type, spec.labels) == (kind, labels), name
        if kind == "histogram":
            assert spec.buckets == buckets, name
    assert all(ours[name].labels[:2] == ("name", "host") for name in OURS)


@asynccontextmanager
async def counted(
    server: str,
    *,
    config: ClusterConfig | None = None,
    http_client: Any = "direct",
    **timeouts: float,
) -> AsyncIterator[tuple[Connection, MetricsRegistry]]:
    """Make a connection that is counted in a registry."""
    registry = MetricsRegistry()
    config = config or ClusterConfig(server=server)
    metrics = RequestMetrics(registry.scope(), server, name="c")
    connection = Connection(
        config,
        options=ConnectionOptions(http_client=http_client),
        timeouts=ConnectionTimeouts(**timeouts),
        metrics=metrics,
    )
    try:
        yield connection, registry
    finally:
        await connection.aclose()


async def test_each_request_is_counted_by_method_status_and_the_configured_host() -> None:
    answers = [response(b'{"a":1}'), response(b"{}", status=403), response(status=500)]

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.pop(0))

    async with serving(answer) as server, counted(server.url) as (connection, registry):
        await connection.request("POST", "/a", body=b"12345")
        with pytest.raises(ForbiddenError):
            await connection.request("GET", "/a")
        with pytest.raises(ServerError):
            await connection.request("GET", "/a")
        found = totals(registry, REQUESTS)
        sizes = totals(registry, "rest_client_response_size_bytes", "verb")
        durations = totals(registry, SECONDS_OF, "verb")
        sent = totals(registry, "rest_client_request_size_bytes", "verb")
        host = urlsplit(server.url).netloc

    assert found == {
        ("200", "POST", host): 1,
        ("403", "GET", host): 1,
        ("500", "GET", host): 1,
    }
    assert durations == sent == {("POST",): 1, ("GET",): 2}
    assert sizes == {("POST",): 1, ("GET",): 0}  # errors have none
    assert totals(registry, RETRIES) == totals(registry, FAILURES) == {}


@pytest.mark.every_loop
@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
async def test_a_list_counts_its_bytes_and_a_watch_only_its_opening(http_client: str) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"x" * 100))
        if "watch" in request.target:
            await asyncio.Event().wait()
        writer.write(b"0\r\n\r\n")

    async with (
        serving(answer) as server,
        counted(server.url, http_client=http_client) as (connection, registry),
    ):
        async with connection.stream("/p", watch=False) as body:
            assert totals(registry, "rest_client_requests_in_flight") != {}
            while await body.read():
                pass
        async with connection.stream("/p", [("watch", "1")], watch=True) as body:
            await body.read()
            state = state_of(registry)
        await server.wait_until(lambda: server.open_connections <= 1)
        await until(lambda: state_of(registry)["rest_client_connections_open"] <= 1)

        assert totals(registry, REQUESTS, "code", "method") == {("200", "GET"): 2}
        assert totals(registry, SECONDS_OF, "verb") == {("GET",): 1}
        size = histogram(registry, "rest_client_response_size_bytes")
        assert (size.buckets[-1], size.sum) == (1, 100)
        assert state["rest_client_requests_in_flight"] == 0  # the watch is open
        assert state["rest_client_connections_open"] >= 1
        dialled = totals(registry, "rest_client_connections_dialled_total", "name")
        assert dialled == {("c",): 2}


def state_of(registry: MetricsRegistry) -> dict[str, float]:
    """Return the gauges of one cluster."""
    names = ("rest_client_requests_in_flight", "rest_client_connections_open")
    return {name: totals(registry, name)["c", *host] for name in names for host in hosts(registry)}


def hosts(registry: MetricsRegistry) -> set[tuple[str, ...]]:
    """Return the hosts of the open connections."""
    return set(series(registry, "rest_client_connections_open", "host"))


@pytest.mark.parametrize("watch", [False, True], ids=["list", "watch"])
async def test_a_refused_connection_has_no_code_but_a_reason(
    unused_tcp_port: int, *, watch: bool
) -> None:
    async with counted(f"http://127.0.0.1:{unused_tcp_port}") as (connection, registry):
        with pytest.raises(TransportError):
            async with connection.stream("/p", watch=watch):
                pass
    assert totals(registry, REQUESTS, "code", "method") == {("<error>", "GET"): 1}
    assert totals(registry, FAILURES, "reason") == {("connect",): 1}
    assert totals(registry, SECONDS_OF, "verb") == ({} if watch else {("GET",): 1})


@pytest.mark.parametrize(
    ("answer", "options", "reason"),
    [
        pytest.param(silence, {"headers_seconds": 0.01}, "timeout", id="no-answer"),
        pytest.param(always(b"ICE 1\r\n\r\n"), {}, "protocol", id="not-http"),
        pytest.param(always(response(b"x" * 9)[:-5]), {}, "lost", id="cut-off"),
    ],
)
async def test_a_request_without_a_complete_response_is_counted_by_its_reason(
    answer: Any, options: dict[str, Any], reason: str
) -> None:
    async def cut(request: Request, writer: asyncio.StreamWriter) -> None:
        await answer(request, writer)
        await writer.drain()
        writer.transport.abort() if reason == "lost" else None

    async with serving(cut) as server, counted(server.url, **options) as (connection, registry):
        with pytest.raises(InformerError):
            await connection.request("GET", "/a")
        assert totals(registry, FAILURES, "reason") == {(reason,): 1}


async def test_the_total_timeout_and_a_cancellation_are_told_apart() -> None:
    async with serving(silence) as server, counted(server.url) as (connection, registry):
        with pytest.raises(RequestTimeoutError):
            await connection.request("GET", "/a", timeout_seconds=0.01)
        task = asyncio.create_task(connection.request("GET", "/b"))
        await server.wait_until(lambda: any(one.target == "/b" for one in server.requests))
        task.cancel()
        await asyncio.wait({task})
        assert totals(registry, FAILURES, "reason") == {("timeout",): 1, ("cancelled",): 1}
        assert totals(registry, REQUESTS, "code", "method") == {("<error>", "GET"): 2}


@pytest.mark.covers("client-go transport: TestCARotationMetricsEmitted")
async def test_a_wrong_certificate_is_a_reason_and_a_new_one_a_reload(tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    file = tmp_path / "ca.pem"
    old.cert_pem.write_to_path(file)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    new.issue_cert("127.0.0.1").configure_cert(tls)
    async with serving(always(response()), tls=tls) as server:
        config = ClusterConfig(server=server.url, ca_file=str(file))
        async with counted(server.url, config=config) as (connection, registry):
            with pytest.raises(TransportError):
                await connection.request("GET", "/a")
            file.write_text("a part of a file")
            with pytest.raises(TransportError):
                await connection.request("GET", "/a")
            new.cert_pem.write_to_path(file)
            await connection.request("GET", "/a")

            assert totals(registry, FAILURES, "reason") == {("tls",): 2}
            assert totals(registry, "rest_client_transport_ca_reload_total") == {
                ("failure", "ca_parse_error"): 1,
                ("success", "updated"): 1,
            }


async def test_the_lookup_of_a_name_is_counted_whether_it_succeeds_or_not() -> None:
    unknown = f"{'x' * 64}.invalid"  # refused without asking a name server
    async with counted(f"http://{unknown}") as (connection, registry):
        with pytest.raises(TransportError, match="resolve"):
            async with connection.stream("/a", watch=True):
                pass
        assert totals(registry, LOOKUPS) == {(unknown,): 1}
        assert totals(registry, FAILURES, "reason") == {("dns",): 1}

    async with serving(always(response())) as server:
        named = server.url.replace("127.0.0.1", "localhost")
        async with counted(named) as (connection, registry):
            await connection.request("GET", "/a")
            assert totals(registry, LOOKUPS) == {("localhost",): 1}
        async with counted(server.url) as (connection, registry):
            await connection.request("GET", "/a")
            assert totals(registry, LOOKUPS) == {}


async def test_a_refused_token_is_read_again_and_its_request_counts_as_a_retry(
    tmp_path: Path,
) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        is_new = request.headers["authorization"] == "Bearer new"
        writer.write(response(status=200 if is_new else 401))

    async with serving(answer) as server:
        config = ClusterConfig(server=server.url, credentials=TokenFileCredentials(token))
        async with counted(server.url, config=config) as (connection, registry):
            await config.credentials.headers()
            token.write_text("new")
            await connection.request("GET", "/a")

            assert totals(registry, REQUESTS, "code") == {("401",): 1, ("200",): 1}
            assert totals(registry, RETRIES, "code") == {("200",): 1}
            renewals = totals(registry, "rest_client_credential_renewals_total", "name", "result")
            assert renewals == {("c", "success"): 2}

            token.unlink()
            config.credentials.invalidate()
            await connection.request("GET", "/a")  # with the last token
            renewals = totals(registry, "rest_client_credential_renewals_total", "result")
            assert renewals == {("success",): 2, ("failure",): 1}


@pytest.mark.covers("client-go plugin/pkg/client/auth/exec: TestCallsMetric")
@pytest.mark.parametrize(
    ("script", "call"),
    [
        pytest.param("exit 3", ("3", "plugin_execution_error"), id="exit-code"),
        pytest.param("kill -9 $$", ("-1", "plugin_execution_error"), id="signal"),
        pytest.param(None, ("1", "plugin_not_found_error"), id="missing"),
        pytest.param("echo no login", ("0", "no_error"), id="nonsense"),
    ],
)
async def test_a_run_of_an_exec_plugin_is_named_as_by_client_go(
    tmp_path: Path, script: str | None, call: tuple[str, str]
) -> None:
    """The first run gives a login, and the second, after a 401, is the one that fails."""
    plugin = tmp_path / "login"
    plugin.write_text(f"#!/bin/sh\necho '{LOGIN}'\n")
    plugin.chmod(0o700)
    registry = MetricsRegistry()
    async with serving(always(response(status=401))) as server:
        config = await find_config(_with_plugin(tmp_path, server.url, command=str(plugin)))
        if script is None:
            plugin.unlink()
        else:
            plugin.write_text(f"#!/bin/sh\n{script}\n")
        async with pyinformer.connect(config=config, metrics=registry) as cluster:
            with pytest.raises(UnauthorizedError):
                await cluster.request("GET", "/a")
            calls = totals(registry, "rest_client_exec_plugin_call_total", "code", "call_status")
    assert Counter(calls) == Counter({("0", "no_error"): 1}) + Counter({call: 1})


EXEC_VERSION = "client.authentication.k8s.io/v1"
LOGIN = json.dumps({"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": {"token": "t"}})


def _with_plugin(folder: Path, server: str, **spec: Any) -> str:
    """Write a kubeconfig whose user is a plug-in, and return its path."""
    spec = {"apiVersion": EXEC_VERSION, "interactiveMode": "Never", **spec}
    content = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"exec": spec}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(content))
    return str(path)


async def test_the_logins_of_a_plugin_are_counted_once_by_connections_that_share_them(
    tmp_path: Path,
) -> None:

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(status=401 if len(server.requests) == 1 else 200))

    async with serving(answer) as server:
        path = _with_plugin(tmp_path, server.url, command="echo", args=[LOGIN])
        config = await find_config(path)
        registry = MetricsRegistry()
        async with (
            pyinformer.connect(config=config, metrics=registry) as one,
            pyinformer.connect(config=config, metrics=registry) as other,
        ):
            for cluster in (one, other, one):
                await cluster.request("GET", "/a")
            calls = totals(registry, "rest_client_exec_plugin_call_total")
            renewals = totals(registry, "rest_client_credential_renewals_total", "result")

    assert calls == {("0", "no_error"): 2}  # when the kubeconfig was read, and after the 401
    assert renewals == {("success",): 1}


async def test_a_busy_server_and_the_rate_limit_are_counted_and_honoured() -> None:
    answers = [response(status=429, headers={"Retry-After": "0"}) for _ in range(2)]

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.pop(0) if answers else response())

    registry = MetricsRegistry()
    async with (
        serving(answer) as server,
        pyinformer.connect(server=server.url, name="n", metrics=registry) as cluster,
    ):
        await cluster.request("PUT", "/a", body=b"{}")
        assert totals(registry, REQUESTS, "code", "method") == {
            ("429", "PUT"): 2,
            ("200", "PUT"): 1,
        }
        assert totals(registry, RETRIES, "code", "verb") == {("429", "PUT"): 1, ("200", "PUT"): 1}
        limiter = totals(registry, "rest_client_rate_limiter_duration_seconds", "verb")
        assert limiter == {("PUT",): 3}
        assert totals(registry, "rest_client_retry_after_seconds", "name") == {("n",): 2}

        answers += [response(status=429, headers={"Retry-After": "60"})]
        with pytest.raises(TooManyRequestsError):
            await cluster.request("GET", "/a")
        assert totals(registry, RETRIES, "code", "verb") == {("429", "PUT"): 1, ("200", "PUT"): 1}


async def test_what_requests_wait_for_is_shown_while_they_wait() -> None:
    registry = MetricsRegistry()

    def waiting() -> dict[str, float]:
        found = totals(registry, "rest_client_requests_waiting", "reason")
        return {reason: count for (reason,), count in found.items() if count}

    options = ConnectionOptions(max_request_connections=1)
    writes = WriteOptions(writes_per_second=0.001)
    async with (
        serving(silence) as server,
        pyinformer.connect(
            server=server.url, options=options, write_options=writes, metrics=registry
        ) as cluster,
    ):
        calls = [cluster.request("GET", "/a") for _ in range(3)]
        calls += [cluster.request("PUT", "/a", body=b"{}") for _ in range(3)]
        tasks = [asyncio.create_task(call) for call in calls]
        await until(lambda: waiting() == {"connection": 3, "rate_limit": 2})
        assert totals(registry, "rest_client_requests_in_flight", "name") == {("",): 1}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert waiting() == {}


async def test_the_series_of_a_closed_cluster_vanish_and_those_of_another_remain() -> None:
    registry = MetricsRegistry()
    async with serving(always(response())) as server:
        async with pyinformer.connect(server=server.url, name="a", metrics=registry) as one:
            async with pyinformer.connect(server=server.url, name="b", metrics=registry) as other:
                for cluster in (one, other, other):
                    await cluster.request("GET", "/x")
                assert totals(registry, REQUESTS, "code") == {("200",): 3}
                state = totals(registry, "rest_client_connections_open", "name")
                assert state == {("a",): 1, ("b",): 1}
            assert totals(registry, REQUESTS, "code") == {
                ("200",): 3
            }  # client-go's label: the host
            assert totals(registry, "rest_client_connections_open", "name") == {("a",): 1}
        found = [one.spec.name for one in registry.collect()]
        assert not [name for name in found if name.startswith("rest_client_")]


async def test_two_clusters_of_one_name_and_server_share_no_state() -> None:
    registry = MetricsRegistry()
    async with serving(always(response())) as server:
        async with pyinformer.connect(server=server.url, metrics=registry) as one:
            async with (
                pyinformer.connect(server=server.url, metrics=registry) as other,
                SharedInformer(other, "v1", "pods"),
            ):
                await one.request("GET", "/x")
                await until(lambda: totals(registry, "rest_client_connections_open", "name")[("",)])
                waiting = totals(registry, "rest_client_requests_waiting", "name")
                assert waiting.keys() == {("",), ("#2",)}
                listing = totals(registry, "rest_client_lists_in_flight", "name")
                assert listing.keys() == {("#2",)}
                assert totals(registry, "informer_objects", "name").keys() == {("#2",)}
            assert totals(registry, "rest_client_connections_open", "name").keys() == {("",)}
        async with pyinformer.connect(server=server.url, metrics=registry):
            assert totals(registry, "rest_client_connections_open", "name").keys() == {("",)}


async def test_probes_and_elections_are_counted_with_the_cluster() -> None:
    async def lead(term: object) -> None:
        raise AssertionError(term)

    registry = MetricsRegistry()
    details = b'{"name":"lease","group":"coordination.k8s.io","kind":"leases"}'
    absent = b'{"kind":"Status","reason":"NotFound","details":' + details + b"}"
    async with (
        serving(always(response(absent, status=404))) as server,
        pyinformer.connect(server=server.url, metrics=registry) as cluster,
    ):
        assert isinstance(cluster.connection, Connection)
        assert await cluster.connection.probe(100.0)
        elector = pyinformer.leaderelection.LeaderElector(cluster, "lease", namespace="ns")
        task = asyncio.create_task(elector.run(lead))
        await until(lambda: totals(registry, REQUESTS, "method").get(("POST",)))
        task.cancel()
        await asyncio.wait({task})
        assert totals(registry, REQUESTS, "code", "method")["404", "GET"] >= 2
