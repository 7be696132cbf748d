"""The files of the page `/debug`, and the rules under which they are served.

What the page does in a browser is tested by `make test-tools`.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from pyinformer.operator import Health, HealthServer
from pyinformer.operator.diagnosis import THRESHOLDS
from tests.operator.test_health_server import connected, get

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES = {
    "/debug": "text/html; charset=utf-8",
    "/debug.css": "text/css; charset=utf-8",
    "/debug.js": "text/javascript; charset=utf-8",
}


async def asked(server: HealthServer, request: bytes) -> tuple[int, Mapping[str, str], str]:
    """Return the status, the headers and the body of an answer."""
    async with connected(server.port) as (reader, writer):
        writer.write(request)
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


@pytest.mark.parametrize("path", _TYPES)
async def test_the_files_forbid_foreign_and_inline_code_and_frames(path: str) -> None:
    async with Health().server() as server:
        status, headers, body = await asked(server, get(path))
        head = await asked(server, get(path, "HEAD"))
        posted = await asked(server, get(path, "POST"))

    policy = dict(part.strip().partition(" ")[::2] for part in headers[_POLICY].split(";"))
    assert (status, headers["content-type"]) == (200, _TYPES[path])
    assert policy["default-src"] == policy["form-action"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in headers[_POLICY]
    assert "http" not in headers[_POLICY]
    assert headers["x-frame-options"] == "deny"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert int(headers["content-length"]) == len(body.encode()) < 50_000
    assert head[:2] == (200, headers)
    assert (head[2], posted[0]) == ("", 405)


@pytest.mark.parametrize("path", _TYPES)
@pytest.mark.parametrize(
    "header",
    [
        pytest.param("Host: attacker.example", id="rebinding"),
        pytest.param("Host: localhost\r\nX-Forwarded-For: 10.0.0.1", id="forwarded"),
        pytest.param("Host: localhost\r\nForwarded: for=10.0.0.1", id="proxy"),
        pytest.param("Host: localhost\r\nX-Envoy-Peer-Metadata: a", id="sidecar"),
        pytest.param("Host: localhost\r\nSec-Fetch-Site: cross-site", id="cross-site"),
    ],
)
async def test_the_page_is_for_the_same_host_only(path: str, header: str) -> None:
    async with Health().server() as server:
        status, _, body = await asked(server, f"GET {path} HTTP/1.1\r\n{header}\r\n\r\n".encode())
        own = "Host: localhost\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors"
        reading = await asked(server, f"GET /status HTTP/1.1\r\n{own}\r\n\r\n".encode())
    assert status == 403
    assert body.startswith("this page is served to the same host only: ")
    assert reading[0] == 200


async def test_the_page_has_no_inline_code_and_names_no_other_server() -> None:
    async with Health().server() as server:
        found = [(await asked(server, get(path)))[2] for path in _TYPES]
    page, style, script = found
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son[a-z]+=|javascript:", page)
    assert set(re.findall(r'(?:src|href)="([^"?]*)', page)) == {
        "data:,",
        "debug.css",
        "debug.js",
        "status",
    }
    assert "url(" not in style
    assert "@import" not in style
    for text in found:
        assert "//" not in re.sub(r"^\s*//.*$|; //.*$|, //.*$", "", text, flags=re.MULTILINE)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", script)


async def test_without_scripts_the_page_links_to_the_text() -> None:
    async with Health().server() as server:
        text = (await asked(server, get("/debug")))[2]
        links = re.findall(r'href="(status[^"]*)"', text.partition("<noscript>")[2])
        answers = [(await asked(server, get(f"/{link}")))[0] for link in links]
    assert links == ["status?format=text", "status"]
    assert answers == [200, 200]


_POLICY = "content-security-policy"


def test_the_limits_of_the_page_are_those_of_the_doctor() -> None:
    code = (files("pyinformer.operator") / "debug/debug.js").read_text()
    shown = {name: float(value) for name, value in re.findall(r"const (\w+_SECONDS) = (\d+)", code)}

    assert shown == {
        "STALE_SECONDS": THRESHOLDS.stale_seconds,
        "QUIET_SECONDS": THRESHOLDS.silent_seconds,
        "LATE_SECONDS": THRESHOLDS.late_handler_seconds,
        "VERY_LATE_SECONDS": THRESHOLDS.stuck_handler_seconds,
        "LATE_QUEUE_SECONDS": THRESHOLDS.late_queue_seconds,
        "VERY_LATE_QUEUE_SECONDS": THRESHOLDS.stuck_queue_seconds,
        "SLOW_RECONCILE_SECONDS": THRESHOLDS.slow_reconcile_seconds,
        "UNOWNED_SECONDS": THRESHOLDS.buckets_without_owner_seconds,
    }
