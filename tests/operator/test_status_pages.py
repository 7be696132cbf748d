"""The pages of the health endpoint: what they show, to whom, and what they do with bad queries."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import signal
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import ClusterPool, Operator, SharedInformerFactory
from pyinformer.cache.reflector import ReflectorState
from pyinformer.controller import ControllerStatus
from pyinformer.errors import ClusterUnavailableError, InvalidArgumentError, TerminalError
from pyinformer.operator import Health, HealthServer
from pyinformer.operator._health_server import Document
from pyinformer.operator._local_request_check import PageRequest, is_loopback, why_foreign
from pyinformer.operator._status_pages import _informer
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import HURRIED, pod
from tests.controller.statuses import in_trouble
from tests.hostile import HOSTILE, assert_shown_safely
from tests.operator.inside import connections
from tests.operator.test_health_server import ask, connected, get
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from pyinformer import Cluster
    from pyinformer.objects import JSONObject


@pytest.fixture
def api() -> Iterator[APIServer]:
    """Return a server with one pod."""
    with APIServer() as made:
        made.create(pod("a"))
        yield made


async def fetched(url: str, target: str) -> tuple[int, str]:
    """Ask the endpoint for something, query included."""
    return await ask(int(url.rpartition(":")[2]), get(target))


async def test_a_page_is_text_or_json_and_gets_the_query() -> None:
    seen: list[Mapping[str, str]] = []

    def text(query: Mapping[str, str]) -> str:
        seen.append(query)
        return "fine"

    def record(_: Mapping[str, str]) -> JSONObject:
        return {"a": [1, None]}

    async with HealthServer({}, pages={"/text": text, "/json": record}) as server:
        assert await ask(server.port, get("/text?a=b%2Fc&d=&e")) == (200, "fine\n")
        status, body = await ask(server.port, get("/json"))
        assert (status, json.loads(body)) == (200, {"a": [1, None]})
        assert await ask(server.port, get("/json", "HEAD")) == (200, "")
        assert (await ask(server.port, get("/json", "POST")))[0] == 405
        assert await ask(server.port, get("/")) == (404, "not found; there are /text or /json\n")

    assert seen == [{"a": "b/c", "d": "", "e": ""}]


async def test_a_failing_page_shows_no_content_and_a_bad_query_names_the_problem() -> None:
    def fails(_: Mapping[str, str]) -> str:
        raise ValueError("a secret")

    def refuses(_: Mapping[str, str]) -> str:
        raise InvalidArgumentError("key", "is missing")

    async with HealthServer({}, pages={"/fails": fails, "/refuses": refuses}) as server:
        assert await ask(server.port, get("/fails")) == (500, "the page failed with ValueError\n")
        assert await ask(server.port, get("/refuses")) == (400, "key: is missing\n")


async def test_a_page_of_pieces_lets_the_loop_run_in_between() -> None:
    steps: list[str] = []

    def pieces() -> Iterator[bytes]:
        for number in range(3):
            ends_at = monotonic() + 0.002
            while monotonic() < ends_at:
                """Take longer than a step may."""
            steps.append("piece")
            asyncio.get_running_loop().call_soon(steps.append, "loop")
            yield b"%d" % number

    async with HealthServer({}, pages={"/a": lambda _: Document("text/x", pieces())}) as server:
        assert await ask(server.port, get("/a")) == (200, "012")
        assert await ask(server.port, get("/a", "HEAD")) == (200, "")

    assert steps[:6] == ["piece", "loop"] * 3


async def test_a_page_that_fails_after_some_pieces_is_an_error_as_a_whole() -> None:
    def pieces(error: Exception) -> Iterator[bytes]:
        yield b"half of a secret"
        raise error

    pages = {
        "/fails": lambda _: Document("text/x", pieces(ValueError("a secret"))),
        "/refuses": lambda _: Document("text/x", pieces(InvalidArgumentError("key", "is odd"))),
    }
    async with HealthServer({}, pages=pages) as server:
        assert await ask(server.port, get("/fails")) == (500, "the page failed with ValueError\n")
        assert await ask(server.port, get("/refuses")) == (400, "key: is odd\n")


async def test_a_page_is_not_finished_for_a_client_that_is_gone() -> None:
    made = 0
    has_begun = asyncio.Event()

    def pieces() -> Iterator[bytes]:
        nonlocal made
        while True:
            made += 1
            has_begun.set()
            yield b"more"

    async with HealthServer({}, pages={"/a": lambda _: Document("text/x", pieces())}) as server:
        async with connected(server.port) as (_, writer):
            writer.write(get("/a"))
            await has_begun.wait()
            writer.transport.abort()
        await until(lambda: not connections(server).open)
        before = made
        await ask(server.port, get("/"))
        assert made <= before


@pytest.mark.parametrize(
    ("peer", "is_local"),
    [
        pytest.param(("127.0.0.1", 1), True, id="v4"),
        pytest.param(("127.9.9.9", 1), True, id="v4-any"),
        pytest.param(("::1", 1, 0, 0), True, id="v6"),
        pytest.param(("::ffff:127.0.0.1", 1, 0, 0), True, id="mapped"),
        pytest.param(("127.0.0.6", 1), False, id="sidecar"),
        pytest.param(("::ffff:127.0.0.6", 1, 0, 0), False, id="mapped-sidecar"),
        pytest.param(("::ffff:10.0.0.1", 1, 0, 0), False, id="mapped-foreign"),
        pytest.param(("10.0.0.1", 1), False, id="pod"),
        pytest.param(("fe80::1%eth0", 1, 0, 2), False, id="link-local"),
        pytest.param("", False, id="unix"),
        pytest.param(None, False, id="unknown"),
    ],
)
def test_requests_of_the_same_host_are_accepted(peer: object, *, is_local: bool) -> None:
    assert is_loopback(peer) is is_local


_LOCAL = ("127.0.0.1", 1)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        pytest.param({"host": "localhost:8081"}, "", id="localhost"),
        pytest.param({"host": "LOCALHOST"}, "", id="capitals"),
        pytest.param({"host": "127.0.0.1:8081"}, "", id="v4"),
        pytest.param({"host": "[::1]:8081"}, "", id="v6"),
        pytest.param({"host": "0.0.0.0:8081"}, "", id="bound-address"),
        pytest.param({}, "Host", id="no-host"),
        pytest.param({"host": ""}, "Host", id="empty-host"),
        pytest.param({"host": "attacker.example:8081"}, "Host", id="rebinding"),
        pytest.param({"host": "localhost.attacker.example"}, "Host", id="subdomain"),
        pytest.param({"host": "attacker@localhost"}, "Host", id="user"),
        pytest.param({"host": "localhost/x"}, "Host", id="path"),
        pytest.param({"host": "localhost:x"}, "Host", id="port"),
        pytest.param({"host": "[::1"}, "Host", id="malformed"),
        pytest.param({"host": "10.0.0.7:8081"}, "Host", id="pod-ip"),
        pytest.param({"host": "localhost", "x-forwarded-for": "10.0.0.1"}, "proxy", id="for"),
        pytest.param({"host": "localhost", "forwarded": "for=10.0.0.1"}, "proxy", id="forwarded"),
        pytest.param({"host": "localhost", "via": "1.1 a"}, "proxy", id="via"),
        pytest.param({"host": "localhost", "true-client-ip": "10.0.0.1"}, "proxy", id="client-ip"),
        pytest.param({"host": "localhost", "x-envoy-attempt-count": "1"}, "proxy", id="envoy"),
        pytest.param({"host": "localhost", "l5d-client-id": "a"}, "proxy", id="linkerd"),
        pytest.param({"host": "localhost", "sec-fetch-site": "none"}, "", id="typed-address"),
        pytest.param({"host": "localhost", "sec-fetch-site": "same-origin"}, "", id="own-site"),
        pytest.param(
            {"host": "localhost", "sec-fetch-site": "cross-site"}, "another site", id="cross-site"
        ),
        pytest.param(
            {"host": "localhost", "sec-fetch-site": "same-site"}, "another site", id="other-port"
        ),
        pytest.param(
            {"host": "localhost:8081", "origin": "http://localhost:8081"}, "", id="own-origin"
        ),
        pytest.param(
            {"host": "localhost:8081", "origin": "https://attacker.example"},
            "another site",
            id="foreign-origin",
        ),
        pytest.param(
            {"host": "localhost:8081", "origin": "null"}, "another site", id="sandboxed-origin"
        ),
    ],
)
def test_requests_of_other_origins_are_refused(headers: Mapping[str, str], reason: str) -> None:
    request = PageRequest("GET", "/status", _LOCAL, tuple(headers.items()))
    found = why_foreign(request, bound_host="0.0.0.0")  # noqa: S104 - nothing listens
    assert (reason in found) if reason else not found


def test_two_host_headers_are_refused() -> None:
    headers = (("host", "localhost"), ("host", "attacker.example"))
    assert why_foreign(PageRequest("GET", "/", _LOCAL, headers), bound_host="127.0.0.1")


async def test_a_foreign_host_sees_probes_and_no_page() -> None:
    """A kubelet probes under the pod's address; an attacker's name reaches no page."""
    foreign = "GET {} HTTP/1.1\r\nHost: attacker.example:8081\r\n\r\n"
    async with HealthServer({"/readyz": lambda: ()}, pages={"/status": lambda _: "fine"}) as server:
        assert await ask(server.port, foreign.format("/readyz").encode()) == (200, "ok\n")
        status, words = await ask(server.port, foreign.format("/status").encode())
        assert (status, "fine" in words) == (403, False)
        assert await ask(server.port, get("/status")) == (200, "fine\n")


async def test_pages_are_for_the_same_host_on_every_listening_address() -> None:
    """Probes come from outside the pod; other callers must not read the program's state."""
    sidecar = ("127.0.0.6", 0)  # which forwards what comes from other hosts
    async with HealthServer({"/readyz": lambda: ()}, pages={"/status": lambda _: "fine"}) as server:
        status, words = await ask(server.port, get("/status"), local_address=sidecar)
        assert (status, words.partition(":")[0]) == (
            403,
            "this page is served to the same host only",
        )
        assert (await ask(server.port, get("/readyz"), local_address=sidecar))[0] == 200
    async with HealthServer({}, pages={"/status": lambda _: "fine"}, pages_for="all") as opened:
        assert await ask(opened.port, get("/status"), local_address=sidecar) == (200, "fine\n")


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="/a is also the path of a check"):
        HealthServer({"/a": lambda: ()}, pages={"/a": lambda _: ""})
    with pytest.raises(InvalidArgumentError, match="must be one of loopback, all"):
        HealthServer({}, pages_for="some")  # type: ignore[arg-type] # on purpose


async def test_the_status_of_a_program_is_json_of_its_records(api: APIServer) -> None:
    async with (
        pyinformer.connect(server=api.url) as cluster,
        SharedInformerFactory(cluster, options=HURRIED) as factory,
        Health(factory).server() as server,
    ):
        factory.informer("v1", "pods").add_event_handler(lambda _: None, name="audit")
        factory.informer("v1", "configmaps", namespaces="default")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        status, body = await fetched(server.url, "/status")
        text = await fetched(server.url, "/status?format=text")
        one = await fetched(server.url, "/status?informer=pods.v1")
        one_text = await fetched(server.url, "/status?informer=pods&format=text")
        unknown = await fetched(server.url, "/status?informer=nodes")
        odd = await fetched(server.url, "/status?format=xml")
        shown = str(factory.status())

    found: Any = json.loads(body)
    assert status == 200
    assert found["ready"]["is_ok"] is True
    assert found["live"] == {"is_ok": True, "reasons": [], "notes": []}
    assert [one["informer"] for one in found["informers"]] == [
        "pods.v1",
        "configmaps.v1 in default",
    ]
    assert found["informers"][0]["handlers"][0]["name"] == "audit"
    assert "journal" not in found["informers"][0]
    age = found["informers"][0]["age_seconds"]
    assert age == round(age, 3)
    assert found["watchdog"]["blocked"] == 0
    assert found["controllers"] == found["abandoned_handlers"] == []
    assert found["schema"] == 1
    assert found["program"]["python"] == platform.python_version()
    assert found["program"]["pyinformer"] == version("pyinformer")
    assert found["program"]["uptime_seconds"] >= 0
    (where,) = found["clusters"]
    assert where == {"name": "", "server": api.url, "source": "server=", "pool": None}
    assert text[0] == 200
    assert body.isascii()
    assert text[1].splitlines()[0].startswith("pods.v1: ")
    assert len(text[1].splitlines()) == len(shown.splitlines()) + 2 == 5
    assert text[1].splitlines()[-2:] == ["live: yes", "ready: yes"]
    assert json.loads(one[1])["informers"][0]["journal"][0]["what"].startswith("loading at nothing")
    assert " UTC: loaded by watch-list at " in one_text[1]
    words = "informer: none is called 'nodes'; there are: pods.v1, configmaps.v1 in default\n"
    assert unknown == (400, words)
    assert odd == (400, "format: must be json or text, got 'xml'\n")


async def test_clusters_of_informers_and_of_pools_are_shown_once(api: APIServer) -> None:
    @asynccontextmanager
    async def follow(cluster: Cluster) -> AsyncIterator[SharedInformerFactory]:
        async with SharedInformerFactory(cluster) as made:
            yield made

    def connect(name: str) -> Any:
        if name == "down":
            raise ValueError("no such cluster")
        return pyinformer.connect(server=api.url, name=name)

    async with ClusterPool(follow, connect=connect) as pool:
        factory = await pool.get("eu", timeout_seconds=100)
        factory.informer("v1", "pods")
        with pytest.raises(ClusterUnavailableError):
            await pool.get("down", timeout_seconds=100)
        health = Health(pool, factory)
        async with health.server() as server:
            found = json.loads((await fetched(server.url, "/status"))[1])
            one = await fetched(server.url, "/status?informer=eu: pods.v1".replace(" ", "%20"))
        notes = health.live().notes

    eu, down = found["clusters"]
    assert (eu["name"], eu["server"], eu["pool"]["state"]) == ("eu", api.url, "open")
    assert (down["name"], down["server"], down["pool"]["state"]) == ("down", None, "failed")
    assert down["pool"]["failed_attempts"] == 1
    (informer,) = found["informers"]
    assert (informer["informer"], informer["cluster"]) == ("eu: pods.v1", "eu")
    assert json.loads(one[1])["informers"][0]["informer"] == "eu: pods.v1"
    assert notes == ("cluster down: failed: ValueError: no such cluster",)


async def test_an_informer_of_very_many_namespaces_shows_those_that_are_not_followed() -> None:
    names = [f"n{number:03}" for number in range(150)]
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        new = SharedInformerFactory(cluster).informer("v1", "pods", namespaces=names).status()
    well = [replace(one, state=ReflectorState.WATCHING, has_synced=True) for one in new.namespaces]
    shown = _informer(replace(new, namespaces=(*well[:140], new.namespaces[140], *well[141:])))

    assert (shown["namespaces_total"], len(shown["namespaces"])) == (150, 100)
    assert [one["has_synced"] for one in shown["namespaces"][:2]] == [False, True]


async def test_explanations_are_given_of_one_informer_or_of_all(api: APIServer) -> None:
    async with (
        pyinformer.connect(server=api.url) as cluster,
        SharedInformerFactory(cluster, options=HURRIED) as factory,
        pyinformer.SharedInformer(cluster, "v1", "pods", namespaces="other") as alone,
        Health(factory, alone).server() as server,
    ):
        factory.informer("v1", "pods")
        factory.informer("v1", "configmaps")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        exact = await fetched(server.url, "/explain?informer=pods.v1&key=default/a")
        named = await fetched(server.url, "/explain?informer=pods&key=default/a")
        of_all = await fetched(server.url, "/explain?key=default/a")
        missing = await fetched(server.url, "/explain?informer=pods.v1")
        records = await fetched(server.url, "/explain?informer=pods.v1&key=default/a&format=json")
        odd = await fetched(server.url, "/explain?key=default/a&format=xml")
        no_key = await fetched(server.url, "/explain?key=a/b/c")

    assert exact[0] == 200
    assert exact[1].startswith("default/a in the cache of pods.v1:\nIt is cached at ")
    assert named[1].count("in the cache of pods.v1") == 2
    assert "only namespace other is followed" in named[1]
    assert of_all[1].count("in the cache of ") == 3
    names = "pods.v1, configmaps.v1, pods.v1 in other"
    words = (
        f"key: is missing, as in /explain?informer=pods.v1&key=default/web-1; there are: {names}\n"
    )
    assert missing == (400, words)
    (record,) = json.loads(records[1])["explanations"]
    assert record["sentences"][0].startswith("It is cached at ")
    assert odd == (400, "format: must be json or text, got 'xml'\n")
    assert no_key[0] == 400


def test_a_storm_is_shown_with_held_requests_and_verdicts() -> None:
    status = in_trouble("copies")

    class Copies:
        def status(self) -> ControllerStatus:
            return status

    lines = Health(Copies()).overview().splitlines()
    assert lines[:3] == [status.line(), "live: yes", "ready: yes"]
    assert any(each.startswith("note: controller copies: ") for each in lines)


async def test_an_operator_shows_its_caches_and_its_controllers(api: APIServer) -> None:
    app = Operator("pods")

    @app.reconcile("v1", "pods")
    async def reconcile(request: Any, given: Any, cluster: Any) -> None:
        if given is None:
            raise ValueError

    async with (
        pyinformer.connect(server=api.url) as cluster,
        app.running(cluster, health_port=0) as run,
    ):
        assert run.health_url is not None
        status = await fetched(run.health_url, "/status")
        text = await fetched(run.health_url, "/status?format=text")
        explained = await fetched(run.health_url, "/explain?key=default/a")
        page = await fetched(run.health_url, "/debug")

    assert (page[0], page[1].partition("\n")[0]) == (200, "<!doctype html>")
    (controller,) = json.loads(status[1])["controllers"]
    assert (controller["name"], controller["hot_total"]) == ("pods", 0)
    assert controller["failing_keys"] == []
    assert "controller pods: " in text[1]
    assert "It is cached at " in explained[1]


async def test_a_key_whose_reconcile_fails_is_explained(api: APIServer) -> None:
    app = Operator("pods")

    @app.reconcile("v1", "pods")
    async def reconcile(request: Any, given: Any, cluster: Any) -> None:
        raise OSError("the provider is down")

    async with (
        pyinformer.connect(server=api.url) as cluster,
        app.running(cluster, health_port=0) as run,
    ):
        await until(lambda: run.controllers[0].status().failing_keys)
        text = await fetched(run.health_url or "", "/explain?key=default/a")
        body = await fetched(run.health_url or "", "/explain?key=default/a&format=json")

    assert "pods fails with OSError" in text[1]
    assert "the provider is down" not in text[1]  # the words of an error may be a secret
    (failure,) = json.loads(body[1])["failures"]
    assert (failure["controller"], failure["request"]) == ("pods", "default/a")


async def test_a_key_that_was_given_up_is_explained_until_it_changes(api: APIServer) -> None:
    app = Operator("pods")

    @app.reconcile("v1", "pods")
    async def reconcile(request: Any, given: Any, cluster: Any) -> None:
        if given is None or "x" not in given.metadata.labels:
            raise TerminalError("no such host")

    async with (
        pyinformer.connect(server=api.url) as cluster,
        app.running(cluster, health_port=0) as run,
    ):
        (controller,) = run.controllers
        await until(lambda: controller.status().outcomes["terminal"])
        _, text = await fetched(run.health_url or "", "/explain?key=default/a")
        given_up = controller.status()
        (waits,) = given_up.waiting_keys
        found = (await cluster.get("v1", "pods", "default/a")).to_dict()
        metadata = {**found["metadata"], "labels": {"x": "y"}}
        await cluster.patch(found, {**found, "metadata": metadata})
        await until(lambda: controller.status().outcomes["success"])
        rest = controller.status()

        assert (rest.waiting, rest.given_up) == (0, 0)
        await cluster.delete(found, grace_period_seconds=0)
        await until(lambda: controller.status().outcomes["terminal"] >= 2)
        assert controller.status().waiting == 0, "what is gone does not change any more"

    assert "a change; it was given up: no such host" in text
    assert (waits.request, waits.is_given_up, given_up.given_up) == ("default/a", True, 1)


async def test_waits_of_one_key_on_two_clusters_are_both_explained(api: APIServer) -> None:
    """They have controllers of one name, as those of a fleet do."""

    async def reconcile(request: Any, obj: Any) -> pyinformer.Result:
        return pyinformer.Result(waiting_for=f"the {request.cluster} database")

    async with (
        pyinformer.connect(server=api.url, name="eu") as eu,
        pyinformer.connect(server=api.url, name="us") as us,
        SharedInformerFactory(eu) as of_eu,
        SharedInformerFactory(us) as of_us,
    ):
        controllers = [
            pyinformer.Controller("databases", reconcile, factory.informer("v1", "pods"))
            for factory in (of_eu, of_us)
        ]
        async with (
            controllers[0],
            controllers[1],
            Health(of_eu, of_us, *controllers).server() as server,
        ):
            for one in controllers:
                await until(lambda one=one: one.status().waiting_keys)  # type: ignore[misc]
            _, text = await fetched(server.url, "/explain?key=default/a")
            _, body = await fetched(server.url, "/explain?key=default/a&format=json")

    assert "waits for" in text
    waits = json.loads(body)["waits"]
    assert [(one["controller"], one["request"], one["waiting_for"]) for one in waits] == [
        ("databases", "eu:default/a", "the eu database"),
        ("databases", "us:default/a", "the us database"),
    ]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no SIGUSR1")
async def test_an_operator_logs_its_status_at_a_signal(
    api: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    before = signal.getsignal(signal.SIGUSR1)
    app = Operator("pods")
    reconciled = asyncio.Event()

    @app.reconcile("v1", "pods")
    async def reconcile(request: Any, given: Any, cluster: Any) -> None:
        reconciled.set()

    async with pyinformer.connect(server=api.url) as cluster:
        running = asyncio.create_task(app.run_async(cluster))
        await asyncio.wait_for(reconciled.wait(), 10)
        os.kill(os.getpid(), signal.SIGUSR1)
        told: list[str] = []

        def is_told() -> bool:
            lines = [one.getMessage() for one in caplog.records]
            told[:] = [line for line in lines if line.startswith("status of the operator")]
            return bool(told)

        await until(is_told)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 100)

    lines = told[0].splitlines()
    assert lines[1].startswith("pods.v1: ")
    assert any(line.startswith("controller pods: working") for line in lines)
    assert "the event loop was never blocked" in lines
    assert signal.getsignal(signal.SIGUSR1) == before


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_server_texts_cannot_forge_lines_of_a_page_or_log(
    api: APIServer, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pyinformer")
    words = " ".join(HOSTILE[:-4])  # without lone surrogates, which no server sends
    message = words.encode("utf-8", "ignore").decode()
    api.faults.add(Fault(status=status, reason=message, message=message, times=None))
    async with (
        pyinformer.connect(server=api.url) as cluster,
        SharedInformerFactory(cluster, options=HURRIED) as factory,
    ):
        pods = factory.informer("v1", "pods")
        health = Health(factory)
        async with health.server() as server:
            await factory.start()
            await until(lambda: pods.status().reflector.last_error)
            with pytest.raises(pyinformer.CacheSyncTimeoutError) as caught:
                await factory.wait_for_cache_sync(timeout_seconds=0.01)
            texts = [str(caught.value), str(factory.status())]
            for target in ("/readyz", "/status?format=text", "/status", "/explain?key=default/a"):
                texts += [(await fetched(server.url, target))[1]]
    assert any("x1b" in text for text in texts)  # it is shown, escaped
    for text in (*texts, *caplog.messages):
        for line in text.rstrip("\n").split("\n"):
            assert_shown_safely(line)
