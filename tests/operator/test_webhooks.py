"""Webhooks of a running operator: the port as the API server and strangers see it."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import ssl
import tracemalloc
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

import aiohttp
import anyio
import pytest
import trustme

import pyinformer
from pyinformer.admission import Review, Webhooks
from pyinformer.errors import ConfigurationError, InvalidArgumentError, LifecycleError
from pyinformer.leaderelection import LeaderElection
from pyinformer.telemetry import MetricsRegistry
from pyinformer.testing import APIServer, Fault
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_MAPS: Final = ("v1", "configmaps")
_JSON: Final = {"Content-Type": "application/json"}


def _app(folder: Path | str, *, metrics: Any = None, **how: Any) -> pyinformer.Operator:
    """Return an operator whose hooks are reached on loopback."""
    reached = Webhooks(
        url="https://127.0.0.1:9443", certificates=folder, host="127.0.0.1", port=0, **how
    )
    app = pyinformer.Operator("webhook-test", metrics=metrics, webhooks=reached)

    @app.reconcile(*_MAPS)
    async def reconcile(request: Any, obj: Any, cluster: Any) -> None:
        """Do nothing."""

    @app.validate(*_MAPS)
    def check(obj: pyinformer.KubeObject, review: Review) -> None:
        known = app.lister(*_MAPS).get(obj.key)
        review.warn("known" if known else "new")

    return app


def _certificates(folder: Path) -> trustme.CA:
    authority = trustme.CA()
    _renew(authority, folder)
    authority.cert_pem.write_to_path(folder / "ca.crt")
    return authority


def _renew(authority: trustme.CA, folder: Path) -> None:
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(folder / "tls.key")
    leaf.cert_chain_pems[0].write_to_path(folder / "tls.crt")


def _body(name: str = "a", **changes: Any) -> bytes:
    metadata = {"namespace": "default", "name": name}
    request = {
        "uid": "u",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata},
        **changes,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


class _Client:
    """Sends requests as the API server does."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self.url = f"https://127.0.0.1:{port}"

    async def post(
        self, path: str = "/validate/configmaps", body: Any = None, **how: Any
    ) -> tuple[int, str]:
        """Return the status and the text of an answer."""
        data = _body() if body is None else body
        how = {"headers": _JSON, "method": "POST", **how}
        method = how.pop("method")
        async with self._session.request(method, self.url + path, data=data, **how) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def _served(
    app: pyinformer.Operator, authority: trustme.CA, **how: Any
) -> AsyncIterator[tuple[_Client, pyinformer.OperatorRun]]:
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    with APIServer() as server:
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "known"}})
        async with (
            pyinformer.connect(server=server.url) as cluster,
            app.running(cluster, **how) as run,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0)) as session,
        ):
            assert run.webhook_port is not None
            yield _Client(session, run.webhook_port), run


async def test_a_hook_is_asked_over_tls_and_reads_the_caches(tmp_path: Path) -> None:
    authority = _certificates(tmp_path)
    async with _served(_app(tmp_path), authority) as (client, _):
        status, text = await client.post(path="/validate/configmaps?timeout=5s")
        assert (status, json.loads(text)["response"]) == (
            200,
            {"uid": "u", "allowed": True, "warnings": ["new"]},
        )
        _, text = await client.post(body=_body("known"))
        assert json.loads(text)["response"]["warnings"] == ["known"]


@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        ({"path": "/validate/pods"}, 404, "no webhook has this path"),
        ({"path": "/"}, 404, "no webhook"),
        ({"method": "GET"}, 405, "only POST"),
        ({"headers": {"Content-Type": "text/plain"}}, 415, "only application/json"),
        ({"headers": {**_JSON, "Content-Encoding": "gzip"}}, 415, "only plain bodies"),
        ({"body": b""}, 400, "no body"),
        ({"body": b"{"}, 400, "not JSON"),
        ({"path": "/validate/configmaps?timeout=x"}, 200, "allowed"),
    ],
)
async def test_what_is_no_review_is_answered_with_a_reason(
    tmp_path: Path, how: dict[str, Any], status: int, words: str
) -> None:
    authority = _certificates(tmp_path)
    async with _served(_app(tmp_path), authority) as (client, _):
        found, text = await client.post(**how)
        assert found == status
        assert words in text
        assert (await client.post())[0] == 200


async def test_a_body_is_bounded(tmp_path: Path) -> None:
    authority = _certificates(tmp_path)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b"x" * (1 << 20)

    async with _served(_app(tmp_path), authority) as (client, _):
        assert (await client.post(body=io.BytesIO(b"x" * (1 + (8 << 20)))))[0] == 413
        assert (await client.post(body=pieces()))[0] == 413


async def test_of_a_request_only_the_object_is_kept_while_its_hook_runs(tmp_path: Path) -> None:
    authority = _certificates(tmp_path)
    app, size, kept = _app(tmp_path), 6 << 20, list[int]()

    @app.validate("v1", "pods")
    async def measure(obj: pyinformer.KubeObject, review: Review) -> None:
        kept.append(tracemalloc.get_traced_memory()[0])

    metadata = {"namespace": "default", "name": "a", "annotations": {"a": "x" * size}}
    body = _body(object={"apiVersion": "v1", "kind": "Pod", "metadata": metadata})

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1 << 20):
            yield body[start : start + (1 << 20)]

    async with _served(app, authority) as (client, _):
        assert (await client.post("/validate/pods"))[0] == 200
        tracemalloc.start()
        try:
            assert (await client.post("/validate/pods", body=pieces()))[0] == 200
        finally:
            tracemalloc.stop()
    assert kept[-1] < 1.5 * size


async def test_a_new_certificate_is_shown_to_new_connections(tmp_path: Path) -> None:
    authority = _certificates(tmp_path)
    async with _served(_app(tmp_path), authority) as (client, run):
        port = int(client.url.rpartition(":")[2])
        before = await asyncio.to_thread(_certificate_at, port)
        _renew(authority, tmp_path)

        async def is_renewed() -> bool:
            return await asyncio.to_thread(_certificate_at, port) != before

        with anyio.fail_after(60):
            while not await is_renewed():
                assert (await client.post())[0] == 200
        assert run.webhook_port == port


def _certificate_at(port: int) -> bytes | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain) as secured,
    ):
        return secured.getpeercert(binary_form=True)


async def test_reviews_are_counted_by_path_and_status(tmp_path: Path) -> None:
    authority, metrics = _certificates(tmp_path), MetricsRegistry()
    app = _app(tmp_path, metrics=metrics)
    async with _served(app, authority) as (client, _):
        await client.post()
        await client.post(body=b"{")
        await client.post("/no-hook")
        counted = _figures(metrics, "controller_runtime_webhook_requests_total")
        assert counted == {"200": 1.0, "400": 1.0, "500": 0.0}
        flight = _figures(metrics, "controller_runtime_webhook_requests_in_flight")
        assert flight == {"": 0.0}
    assert not _figures(metrics, "controller_runtime_webhook_requests_in_flight")


def _figures(metrics: MetricsRegistry, name: str) -> dict[str, float]:
    series = (one for each in metrics.collect() if each.spec.name == name for one in each.series)
    return {one.labels.get("code", ""): cast("float", one.value) for one in series}


async def test_strangers_at_the_port_do_not_stop_reviews(tmp_path: Path) -> None:
    authority = _certificates(tmp_path)
    async with _served(_app(tmp_path), authority) as (client, _):
        port = int(client.url.rpartition(":")[2])
        silent = await asyncio.to_thread(
            lambda: [socket.create_connection(("127.0.0.1", port)) for _ in range(400)]
        )
        try:
            silent[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert (await client.post())[0] == 200
        finally:
            for one in silent:
                one.close()


@pytest.mark.every_loop
@pytest.mark.slow
async def test_connections_without_a_request_are_ended_after_ten_seconds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = _certificates(tmp_path)
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    async with _served(_app(tmp_path), authority) as (client, _):
        port = int(client.url.rpartition(":")[2])
        silent = [await asyncio.open_connection("127.0.0.1", port, ssl=context) for _ in range(3)]
        assert (await client.post())[0] == 200
        for reader, writer in silent:
            with suppress(OSError):
                assert await reader.read() == b""
            writer.transport.abort()
        assert (await client.post())[0] == 200
    assert [one for one in caplog.records if one.name == "pyinformer.admission"] == []


async def test_silent_bodies_hold_nothing(tmp_path: Path) -> None:
    """A body that is announced, and does not come, takes no room."""
    authority = _certificates(tmp_path)
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    head = (
        "POST /validate/configmaps HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        f"Content-Length: {8 << 20}\r\n\r\n"
    )
    async with _served(_app(tmp_path), authority) as (client, _):
        port = int(client.url.rpartition(":")[2])
        writers = []
        for _ in range(300):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(head.encode())
            writers.append(writer)
        for _ in range(2):
            assert (await client.post())[0] == 200
        for writer in writers:
            writer.transport.abort()


async def test_a_review_that_is_answered_is_not_pushed_out(tmp_path: Path) -> None:
    """Silent connections make room for others of their kind."""
    authority = _certificates(tmp_path)
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    app = _app(tmp_path)
    released, waiting = anyio.Event(), list[str]()

    @app.validate("v1", "pods", timeout_seconds=30)
    async def slow(obj: pyinformer.KubeObject, review: Review) -> None:
        waiting.append(review.uid)
        await released.wait()

    async with _served(app, authority) as (client, _):
        port = int(client.url.rpartition(":")[2])
        asking = asyncio.create_task(client.post("/validate/pods"))
        await until(lambda: waiting)
        writers = []
        for _ in range(300):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writers.append(writer)
        released.set()
        assert (await asking)[0] == 200
        for writer in writers:
            writer.transport.abort()


async def test_the_last_reviews_can_read_the_caches(tmp_path: Path) -> None:
    """Connections end with their next answer, and caches are open until then."""
    authority = _certificates(tmp_path)
    async with _served(_app(tmp_path), authority) as (client, run):
        await client.post()
        closing = asyncio.create_task(run.aclose())
        status, text = await client.post(body=_body("known"))
        assert (status, json.loads(text)["response"]["warnings"]) == (200, ["known"])
        await closing


async def test_a_second_start_leaves_the_first_alone(tmp_path: Path) -> None:
    authority = _certificates(tmp_path)
    async with _served(_app(tmp_path), authority) as (client, run):
        with pytest.raises(LifecycleError, match="started before"):
            await run.start()
        assert (await client.post())[0] == 200


async def test_too_many_reviews_at_once_are_refused(tmp_path: Path) -> None:
    authority = _certificates(tmp_path)
    app = _app(tmp_path)
    released, waiting = anyio.Event(), list[str]()

    @app.validate("v1", "pods", timeout_seconds=30)
    async def slow(obj: pyinformer.KubeObject, review: Review) -> None:
        waiting.append(review.uid)
        await released.wait()

    async with _served(app, authority) as (client, _), asyncio.TaskGroup() as group:
        asking = [group.create_task(client.post("/validate/pods")) for _ in range(100)]
        await until(lambda: len(waiting) == 100)
        status, text = await client.post()
        assert (status, text) == (429, "too many reviews at once")
        released.set()
        assert [(await one)[0] for one in asking] == [200] * 100
        assert (await client.post())[0] == 200


async def test_only_clients_of_the_authority_may_ask(tmp_path: Path) -> None:
    authority = _certificates(tmp_path)
    clients = trustme.CA()
    clients.cert_pem.write_to_path(tmp_path / "clients.crt")
    app = _app(tmp_path, client_ca=tmp_path / "clients.crt")
    async with _served(app, authority) as (client, _):
        with pytest.raises(aiohttp.ClientError):
            await client.post()
        context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
        clients.issue_cert("apiserver").configure_cert(context)
        assert (await client.post(ssl=context))[0] == 200


async def test_a_hook_waits_for_the_caches(tmp_path: Path) -> None:
    authority = _certificates(tmp_path)
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    with APIServer() as server:
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "known"}})
        server.faults.add(Fault(resource="configmaps", hang=True, times=None))
        async with (
            pyinformer.connect(server=server.url) as cluster,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        ):
            run = _app(tmp_path).running(cluster)
            starting = asyncio.create_task(run.start())
            await until(lambda: run.webhook_port)
            client = _Client(session, run.webhook_port or 0)
            status, text = await client.post("/validate/configmaps?timeout=1s")
            assert (status, text) == (503, "the caches have not synced yet")
            asking = asyncio.create_task(client.post(body=_body("known")))
            server.faults.clear()
            server.faults.release()
            status, text = await asking
            assert json.loads(text)["response"]["warnings"] == ["known"]
            await starting
            await run.aclose()


async def test_no_certificate_is_an_error_at_the_start(tmp_path: Path) -> None:
    with APIServer() as server:
        async with pyinformer.connect(server=server.url) as cluster:
            with pytest.raises(ConfigurationError, match=r"tls\.crt"):
                async with _app(tmp_path).running(cluster):
                    pytest.fail("it has no certificate")


@pytest.mark.parametrize("is_elected", [False, True], ids=["alone", "elected"])
async def test_an_operator_may_have_nothing_but_hooks(tmp_path: Path, *, is_elected: bool) -> None:
    authority = _certificates(tmp_path)
    how = {"leader_election": LeaderElection(namespace="default")} if is_elected else {}
    webhooks = Webhooks(url="https://127.0.0.1", certificates=tmp_path, host="127.0.0.1", port=0)
    app = pyinformer.Operator("hooks", webhooks=webhooks, **how)  # type: ignore[arg-type]
    app.validate(*_MAPS)(lambda _obj, review: review.warn("seen"))
    assert "configmaps" not in app.required_rbac(service_account="default/hooks")
    async with _served(app, authority) as (client, run):
        _, text = await client.post()
        assert json.loads(text)["response"]["warnings"] == ["seen"]
        await until(lambda: run.health.ready().is_ok)


async def test_a_port_in_use_is_an_error_at_the_start(tmp_path: Path) -> None:
    _certificates(tmp_path)
    with APIServer() as server, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        reached = Webhooks(url="https://a", certificates=tmp_path, host="127.0.0.1", port=port)
        app = pyinformer.Operator("a", webhooks=reached)
        app.reconcile(*_MAPS)(lambda _request, _obj, _cluster: None)
        app.validate(*_MAPS)(lambda _obj, _review: None)
        async with pyinformer.connect(server=server.url) as cluster:
            with pytest.raises(ConfigurationError, match="Address already in use; choose another"):
                await app.running(cluster).start()


async def test_hooks_and_webhooks_need_each_other(tmp_path: Path) -> None:
    app = pyinformer.Operator("a")
    app.reconcile(*_MAPS)(lambda _request, _obj, _cluster: None)
    app.validate(*_MAPS)(lambda _obj, _review: None)
    without = pyinformer.Operator("a", webhooks=Webhooks(service="a/b"))
    without.reconcile(*_MAPS)(lambda _request, _obj, _cluster: None)
    with APIServer() as server:
        async with pyinformer.connect(server=server.url) as cluster:
            with pytest.raises(InvalidArgumentError, match="webhooks: must be given"):
                app.running(cluster)
            with pytest.raises(InvalidArgumentError, match="webhooks: must be left out"):
                without.running(cluster)
            async with app.running(cluster, serves_webhooks=False) as run:
                assert run.webhook_port is None
                with pytest.raises(LifecycleError, match="hooks"):
                    app.validate("v1", "pods")(lambda _obj, _review: None)
    with pytest.raises(InvalidArgumentError, match="webhooks"):
        app.webhook_configurations()


async def test_a_run_with_webhooks_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    _certificates(tmp_path)
    with APIServer() as server:
        async with pyinformer.connect(server=server.url) as cluster:
            run = _app(tmp_path).running(cluster)
            with anyio.move_on_after(0.05):
                await run.start()
            await run.aclose()
            again = _app(tmp_path).running(cluster)
            task = asyncio.create_task(again.start())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await again.aclose()
