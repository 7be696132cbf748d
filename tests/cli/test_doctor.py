"""`pyinformer doctor URL`: running programs with faults, hostile answers, and exit statuses."""

from __future__ import annotations

import asyncio
import errno
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import pyinformer
from pyinformer import Operator
from pyinformer.cli.doctor import Report, base_url, doctor, report_of
from pyinformer.errors import InvalidArgumentError
from pyinformer.operator import HealthServer
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import pod
from tests.cli.command_line import Result, here
from tests.hostile import HOSTILE, assert_shown_safely
from tests.waiting import settle, until

_WELL = {"is_ok": True, "reasons": [], "notes": []}
_PAGE: dict[str, Any] = {
    "live": _WELL,
    "ready": _WELL,
    "informers": [],
    "controllers": [],
    "leader_election": [],
    "sharing": [],
    "watchdog": None,
    "abandoned_handlers": [],
}


async def _doctor(*arguments: str) -> Result:
    """Run the command in a thread: the program that it asks runs on this loop."""
    patient = ("--timeout-seconds", "100", *arguments)
    return await asyncio.to_thread(lambda: here("doctor", *patient))


@asynccontextmanager
async def _answering(answer: bytes, *, stays_open: bool = False) -> AsyncIterator[str]:
    """Serve the same bytes to each request."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if stays_open:
            await ended.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            ended.set()
            await settle()  # a connection that was accepted just now has its transport


def _http(status: str, body: bytes, *headers: str) -> bytes:
    head = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers)
    return "\r\n".join((*head, "", "")).encode() + body


async def test_a_program_under_faults_is_diagnosed_from_its_health_port() -> None:
    operator = Operator("demo")

    @operator.reconcile("v1", "pods")
    async def reconcile(_request: object, _obj: object, _cluster: object) -> None:
        raise ValueError

    with APIServer() as api:
        api.create(pod("a"))
        async with (
            pyinformer.connect(server=api.url) as cluster,
            operator.running(cluster, health_port=0) as run,
        ):
            url = run.health_url or ""
            await until(lambda: "1 fails" in run.health.overview())
            failing = await _doctor(f"{url}/debug", url)
            api.faults.add(Fault(resource="pods", status=403, times=None))
            api.drop_connections()
            await until(lambda: "forbidden" in run.health.overview())
            forbidden = await _doctor(url, "-o", "json")

    assert failing.exit_code == 0, failing.output
    lines = failing.stdout.splitlines()
    assert lines[0] == url  # named twice, asked once
    place = lines.index("WARN     controller pods fails")
    assert lines[place + 1].startswith("         1 object retried, last: ValueError at ")
    assert lines[place + 2].startswith("         cure: ")
    assert lines[-1].startswith("0 in trouble, ")
    report = json.loads(forbidden.stdout)
    assert (forbidden.exit_code, report["exitStatus"]) == (1, 1)
    (part,) = report["parts"]
    first = part["findings"][0]
    assert (part["source"], first["severity"], first["code"]) == (url, "trouble", "cache_forbidden")
    assert "`pyinformer doctor pods.v1 -A`, and grant" in first["cure"]


async def test_two_leaders_are_found_and_a_replica_that_is_gone_is_reported() -> None:
    def page(identity: str) -> dict[str, Any]:
        one = {"lease": "ops/app", "identity": identity, "is_leading": True, "holder": identity}
        return {**_PAGE, "leader_election": [one]}

    async with (
        HealthServer({}, pages={"/status": lambda _: page("a")}) as first,
        HealthServer({}, pages={"/status": lambda _: page("b")}) as second,
    ):
        both = await _doctor(first.url, second.url)
        gone = second.url
    async with HealthServer({}, pages={"/status": lambda _: page("a")}) as first:
        one = await _doctor(first.url, gone)

    assert both.exit_code == 1
    assert f"a at {first.url.rpartition(':')[0]}" in both.stdout
    assert "TROUBLE  Lease ops/app has 2 leaders" in both.stdout.splitlines()
    assert one.exit_code == 2
    assert f"?        not asked: {gone}/status: cannot connect" in one.stdout
    assert "lacks fields" in one.stdout  # of an older program, as these pages are


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(_http("200 OK", b"not json"), "is not JSON", id="text"),
        pytest.param(_http("200 OK", b"[" * 100_000), "is not JSON", id="deep"),
        pytest.param(_http("200 OK", b'"\xff"'), "is not JSON", id="not-utf-8"),
        pytest.param(_http("200 OK", b'{"a": 1}'), "is not a status page", id="other-json"),
        pytest.param(
            _http("200 OK", b"<html>", "Content-Type: text/html"), "a web page", id="web-page"
        ),
        pytest.param(
            _http("302 Found", b"", "Location: http://127.0.0.1:1/status"), "302", id="redirect"
        ),
        pytest.param(_http("404 Not Found", b"no"), "there is no page /status", id="no-page"),
        pytest.param(
            _http("403 Forbidden", b"the same host only"), "kubectl port-forward", id="refused"
        ),
        pytest.param(_http("500 Oops", b"\x1b[2Jx"), "500", id="failing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "lost", id="cut-off"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", "", id="another-protocol"),
        pytest.param(b"", "", id="nothing"),
    ],
)
async def test_what_is_not_a_status_page_is_not_asked_with_the_reason(
    answer: bytes, reason: str
) -> None:
    async with _answering(answer) as url:
        done = await _doctor(url)

    assert (done.exit_code, done.stderr) == (2, "")
    line = next(one for one in done.stdout.splitlines() if one.startswith("?"))
    assert reason in line
    assert "nonResourceURLs" not in line  # no Role gives this right
    assert_shown_safely(done.stdout.rstrip("\n"), lines=4)


async def test_an_endless_or_slow_answer_ends_at_the_timeout() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    async with _answering(head + b'{"live": ', stays_open=True) as url:
        done = await _doctor(url, "--timeout-seconds", "0.3")

    assert done.exit_code == 2
    assert "0.3 s" in done.stdout


@pytest.mark.parametrize("text", HOSTILE[:3])
async def test_texts_of_a_program_cannot_forge_lines_or_colours(text: str) -> None:
    page = {**_PAGE, "abandoned_handlers": [text], "ready": {**_WELL, "is_ok": False}}
    page["ready"] = {"is_ok": False, "reasons": [text], "notes": []}
    async with _answering(_http("200 OK", json.dumps(page).encode())) as url:
        shown, listed = await _doctor(url), await _doctor(url, "-o", "json")

    assert_shown_safely(shown.stdout.rstrip("\n"), lines=len(shown.stdout.splitlines()))
    assert shown.stdout.count("TROUBLE") == 2
    assert all(line.isprintable() for line in listed.stdout.splitlines())
    assert json.loads(listed.stdout)["trouble"] == 2


async def test_a_program_with_very_many_findings_prints_the_worst_and_counts_the_others() -> None:
    bad = {"informer": "pods.v1", "state": "failed"}
    page = {**_PAGE, "informers": [bad] * 150}
    async with _answering(_http("200 OK", json.dumps(page).encode())) as url:
        done = await _doctor(url)

    assert done.stdout.count("TROUBLE") == 100
    assert "more findings; -o json prints all" in done.stdout


def test_an_output_that_cannot_be_written_ends_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Full(io.StringIO):
        """A full disk."""

        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    async def examine() -> Report:
        return report_of([("http://a", "", _PAGE)])

    status = doctor(examine, as_json=False, output=Full(), errors=io.StringIO())
    assert status == 1
    assert "No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8081", "http://127.0.0.1:8081"),
        ("http://[::1]:8081/status", "http://[::1]:8081"),
        ("https://example.com/debug", "https://example.com"),
    ],
)
def test_a_url_may_have_the_path_of_a_page(url: str, expected: str) -> None:
    assert base_url(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a",
        "http://",
        "http://a:b:c",
        "http://a:0",
        "http://a/b",
        "http://u:p@a",
        "http://[::",
    ],
)
def test_what_is_not_the_url_of_a_health_endpoint_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        base_url(url)
    assert "u:p" not in str(raised.value)
    done = here("doctor", url)
    assert done.exit_code == 2
    assert "URL" in done.stderr
