"""Warnings of a server: logged once each, counted, passed on, bounded and without secrets."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.client import ConnectionOptions
from pyinformer.client.transport import ClusterConfig, Connection, StaticCredentials
from pyinformer.errors import InvalidTypeError
from pyinformer.telemetry.metrics import MetricsRegistry
from tests.client.transport.serving import response, serving
from tests.telemetry.metrics.reading import totals

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.client.transport.serving import Answer, Request

_LIST = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}'


class Odd(BaseException):
    """What a test tool raises."""


def warning(text: str) -> str:
    return f'Warning: 299 - "{text}"\r\n'


def warned(*lines: str, body: bytes = b"{}", status: int = 200) -> bytes:
    """Return a response with lines in its head."""
    head, _, rest = response(body, status=status).partition(b"\r\n")
    return head + b"\r\n" + "".join(lines).encode("utf-8", "surrogateescape") + rest


def answering(*lines: str, **options: Any) -> Answer:
    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(warned(*lines, **options))

    return answer


class Received:
    """What a program received."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str]] = []

    def __call__(self, text: str, request: str) -> None:
        """Record it."""
        self.all.append((text, request))

    @property
    def texts(self) -> list[str]:
        """The texts."""
        return [text for text, _ in self.all]


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.message for one in caplog.records if one.name == "pyinformer.client.transport"]


@pytest.mark.covers(
    "client-go rest: TestConfigWarningHandler",
    "controller-runtime pkg/client: should log warnings with config.WarningHandler, if one is",
)
async def test_each_warning_is_logged_once_and_each_time_passed_on_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    received, registry = Received(), MetricsRegistry()
    lines = [warning('unknown field \\"spec.replica\\"'), warning("v1 is old")]
    async with (
        serving(answering(*lines)) as server,
        pyinformer.connect(
            server=server.url, name="n", on_warning=received, metrics=registry
        ) as cluster,
    ):
        for _ in range(3):
            await cluster.request("POST", "/api/v1/namespaces/default/pods", body=b"{}")
        assert totals(registry, "rest_client_warnings_total", "name") == {("n",): 6}
    request = "POST /api/v1/namespaces/default/pods"
    assert received.all == [('unknown field "spec.replica"', request), ("v1 is old", request)] * 3
    assert logged(caplog) == [
        f'the server warns: unknown field "spec.replica" ({request}; logged once)',
        f"the server warns: v1 is old ({request}; logged once)",
    ]
    assert {one.levelname for one in caplog.records} == {"WARNING"}


@pytest.mark.covers("client-go rest: TestRequestWarningHandler")
@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
async def test_reads_and_refusals_may_have_warnings(http_client: Any) -> None:
    received = Received()
    options = ConnectionOptions(http_client=http_client)
    lines = [warning("one, \\\\ two\u00e9"), 'Warning: 299 a "three", 299 - "four"\r\n']
    async with (
        serving(answering(*lines, body=_LIST)) as server,
        pyinformer.connect(server=server.url, on_warning=received, options=options) as cluster,
    ):
        assert [one async for one in cluster.list("v1", "pods")] == []
    assert received.texts == ["one, \\ two\u00e9", "three", "four"]
    assert received.all[0][1] == "GET /api/v1/pods"
    received = Received()
    async with (
        serving(answering(*lines, status=400)) as server,
        pyinformer.connect(server=server.url, on_warning=received, options=options) as cluster,
    ):
        with pytest.raises(pyinformer.errors.BadRequestError):
            [one async for one in cluster.list("v1", "pods")]
    assert len(received.all) == 3


@pytest.mark.parametrize(
    "line",
    [
        "Warning: \r\n",
        'Warning: 199 - "not of a server"\r\n',
        'Warning: 299 - ""\r\n',
        'Warning: 299 - "open\r\n',
        "Warning: 299 - 'quoted otherwise'\r\n",
        'Warning: 299 "no agent"\r\n',
        f"Warning: {'299 - ' * 8_000}\r\n",
        'Warning: 299 - "' + "\\" * 8_000 + "\r\n",
    ],
)
@pytest.mark.parametrize("path", ["request", "list"])
async def test_other_headers_are_not_warnings(
    line: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    received = Received()
    async with (
        serving(answering(line, body=_LIST)) as server,
        pyinformer.connect(server=server.url, on_warning=received) as cluster,
    ):
        if path == "list":
            assert [one async for one in cluster.list("v1", "pods")] == []
        elif len(line) < 8_000:  # the limit of aiohttp
            await cluster.request("GET", "/a")
    assert received.all == []
    assert logged(caplog) == []


async def test_hostile_texts_are_escaped_bounded_and_without_credentials(
    caplog: pytest.LogCaptureFixture,
) -> None:
    received = Received()
    token = "a-token-of-the-program"
    lines = [
        warning("\u202e\x1b[31m"),
        warning("\udcff"),
        warning("x" * 3_000),
        warning(f"your token is {token}"),
        warning("copy: kubectl.kubernetes.io/last-applied-configuration: hunter2"),
    ]
    async with serving(answering(*lines)) as server:
        config = ClusterConfig(server=server.url, credentials=StaticCredentials.bearer(token))
        connection = Connection(config, on_warning=received)
        await connection.request("GET", "/a\u202eb")
        await connection.aclose()
    assert received.texts == [
        "\\u202e\\x1b[31m",
        "\\udcff",
        "x" * 509 + "...",
        "your token is (redacted)",
        "copy: kubectl.kubernetes.io/(redacted)",
    ]
    assert all(one.isprintable() for one in logged(caplog))
    assert token not in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ('invalid: {\\"data\\": {\\"key\\": \\"hunter2\\"}}', "(redacted)"),
        ("hunter2 is too short", "(redacted)"),
        (
            "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': hunter2",
            "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': (redacted)",
        ),
        ('unknown field \\"spec.x\\"', 'unknown field "spec.x"'),
    ],
)
async def test_a_warning_about_a_secret_shows_no_part_of_it(words: str, shown: str) -> None:
    received = Received()
    async with (
        serving(answering(warning(words))) as server,
        pyinformer.connect(server=server.url, on_warning=received) as cluster,
    ):
        await cluster.request("PUT", "/api/v1/namespaces/default/secrets/a", body=b"{}")
    assert received.texts == [shown]


async def test_the_log_has_no_value_that_a_policy_quotes_and_the_program_gets_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    received = Received()
    policy = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': "
    words = f"{policy}spec.password hunter2 is weak"
    async with (
        serving(answering(warning(words))) as server,
        pyinformer.connect(server=server.url, on_warning=received) as cluster,
    ):
        await cluster.request("PUT", "/apis/acme.io/v1/namespaces/default/databases/a", body=b"{}")
    assert received.texts == [words]
    (line,) = logged(caplog)
    assert line.startswith(f"the server warns: {policy}(redacted) (PUT ")


@pytest.mark.covers("client-go rest: TestDefaultWarningHandler")
async def test_what_is_logged_is_bounded_however_many_texts_a_server_sends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    received = Received()
    count = 0

    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 40
        writer.write(warned(*[warning(f"text {count + number}") for number in range(40)]))

    async with (
        serving(answer) as server,
        pyinformer.connect(server=server.url, on_warning=received) as cluster,
    ):
        for _ in range(20):
            await cluster.request("GET", "/a")
    assert len(received.all) == 20 * 32  # of one response at most 32
    lines = logged(caplog)
    assert len(lines) == 257
    assert lines[-1] == "more than 256 different warnings: no more are logged"


@pytest.mark.parametrize("kind", [ValueError, asyncio.CancelledError, GeneratorExit, Odd])
async def test_a_function_that_fails_fails_no_request(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(text: str, request: str) -> None:
        raise kind(text, request)

    async with (
        serving(answering(warning("secret"))) as server,
        pyinformer.connect(server=server.url, on_warning=fail) as cluster,
    ):
        assert await cluster.request("GET", "/a") == b"{}"
    assert re.search(rf"on_warning failed with {kind.__name__} at .*fail", caplog.text)


async def _wait(_text: str, _request: str) -> None:
    """Wait for nothing."""


async def test_a_function_that_returns_a_coroutine_is_a_failed_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def decorated(text: str, request: str) -> object:
        return _wait(text, request)

    async with (
        serving(answering(warning("secret"))) as server,
        pyinformer.connect(server=server.url, on_warning=decorated) as cluster,
    ):
        await cluster.request("GET", "/a")
    assert "on_warning failed with InvalidTypeError" in caplog.text


class _Waits:
    async def __call__(self, _text: str, _request: str) -> None: ...


@pytest.mark.parametrize("function", [lambda text: text, "text", _wait, _Waits()])
async def test_a_function_that_cannot_be_called_is_refused(
    function: Callable[[str, str], object],
) -> None:
    with pytest.raises(InvalidTypeError, match="on_warning"):
        async with pyinformer.connect(server="http://127.0.0.1:1", on_warning=function):
            pass
