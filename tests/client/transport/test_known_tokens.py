"""No error contains a credential that a server sends back: its text and its attributes do not."""

from __future__ import annotations

import base64
import gc
import json
from contextlib import asynccontextmanager
from itertools import product
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from pyinformer.client.transport import (
    ClusterConfig,
    Connection,
    ConnectionOptions,
    StaticCredentials,
    status_error_from_object,
)
from pyinformer.errors import APIStatusError, InformerError, TransportError
from tests.client.transport.serving import response, serving

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Mapping

    from tests.client.transport.serving import Request

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl-_x"
PASSWORD = "correct/horse+battery"


class Logins:
    """Credentials that are others for each request."""

    def __init__(self, *logins: Mapping[str, str]) -> None:
        self._logins = list(logins)

    async def headers(self) -> Mapping[str, str]:
        """Return the headers of the next login.

        Cancellation:
            Safe; it never waits.
        """
        return self._logins.pop(0)

    def invalidate(self) -> None:
        """Do nothing."""


@asynccontextmanager
async def sending(*logins: Mapping[str, str]) -> AsyncIterator[None]:
    """Have a connection that sent the headers of these logins, one after the other."""
    config = ClusterConfig(server="http://127.0.0.1:1", credentials=Logins(*logins))
    connection = Connection(config)
    try:
        for _ in logins:
            with pytest.raises(TransportError):  # no server listens there
                await connection.request("GET", "/api")
        yield
    finally:
        await connection.aclose()


def bearer(token: str) -> Mapping[str, str]:
    """Return the headers of a token."""
    return {"Authorization": f"Bearer {token}"}


def shown(text: str) -> str:
    """Return how an error shows a text."""
    return str(InformerError(text))


def status_of(words: str) -> bytes:
    details = {"causes": [{"reason": words, "field": words, "message": words}]}
    fields = {"kind": "Status", "message": words, "reason": words, "details": details}
    return response(json.dumps(fields).encode(), status=403)


def page_of(words: str) -> bytes:
    return response(f"<html><pre>{words}</pre></html>".encode(), status=502)


def long_page_of(words: str) -> bytes:
    """A page in which a cut after so many characters would leave a piece of the token."""
    return response(f"{'a' * 480} {words}".encode(), status=502)


def reason_of(words: str) -> bytes:
    return f"HTTP/1.1 5x3 {words}\r\n\r\n".encode()


@pytest.mark.covers("client-go transport: TestMaskValue")
@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
@pytest.mark.parametrize("watch", [False, True], ids=["list", "watch"])
@pytest.mark.parametrize("answer", [status_of, page_of, long_page_of, reason_of])
@pytest.mark.parametrize(
    ("credentials", "secrets"),
    [
        pytest.param(StaticCredentials.bearer(TOKEN), (TOKEN, TOKEN[:12]), id="bearer"),
        pytest.param(
            StaticCredentials.basic("jane", PASSWORD),
            (PASSWORD, base64.b64encode(f"jane:{PASSWORD}".encode()).decode()),
            id="basic",
        ),
    ],
)
async def test_a_server_that_quotes_the_header_puts_no_credential_into_an_error(
    credentials: StaticCredentials,
    secrets: tuple[str, ...],
    answer: Callable[[str], bytes],
    watch: bool,
    http_client: str,
) -> None:
    async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
        header = request.headers["authorization"]
        writer.write(answer(f"cannot serve {header}, that is {secrets[0]}"))
        writer.write_eof()

    options = ConnectionOptions(http_client=http_client)  # type: ignore[arg-type] # one of them
    async with serving(echo) as server:
        config = ClusterConfig(server=server.url, source="test", credentials=credentials)
        connection = Connection(config, options=options)
        try:
            with pytest.raises(InformerError) as caught:
                async with connection.stream("/api/v1/pods", watch=watch):
                    pass
        finally:
            await connection.aclose()
    seen = [str(caught.value), repr(vars(caught.value)), str(caught.value.__cause__)]
    assert not [one for one in seen for secret in secrets if secret in one]


async def test_an_error_event_of_a_watch_shows_no_credential() -> None:
    async with sending(bearer(TOKEN)):
        found = status_error_from_object({"code": 500, "message": f"bad {TOKEN}", "reason": TOKEN})
    assert (found.message, found.reason) == ("bad (redacted)", "(redacted)")


async def test_a_renewed_credential_is_known_for_one_login_more() -> None:
    async with sending(*(bearer(f"token-{number}") for number in range(4))):
        assert shown("token-1 token-2 token-3") == "token-1 (redacted) (redacted)"
    gc.collect()
    assert shown("token-3") == "token-3"


@pytest.mark.parametrize("secret", [TOKEN, PASSWORD, "geheim/\u00fc?\u00ff\u00fe>>>"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
async def test_a_credential_in_base64_is_replaced_wherever_it_begins(
    secret: str, encode: Callable[[bytes], bytes]
) -> None:
    async with sending(bearer(secret)):
        for before, after in product(
            ("", "B", "Be", "Bearer ", '{"token":"'), ("", "}", '"}', "and more")
        ):
            text = encode(f"{before}{secret}{after}".encode()).decode()
            found = shown(f"got {text}!")
            left, _, right = found.removeprefix("got ").removesuffix("!").partition("(redacted)")
            assert found != f"got {text}!"
            # At each end one character may have bits of the credential beside its neighbour's.
            assert len(left) <= len(before) * 8 // 6 + 1
            assert len(right.rstrip("=")) <= len(after) * 8 // 6 + 2


@pytest.mark.parametrize("change", [str.lower, str.upper, str.swapcase])
async def test_a_percent_encoded_credential_is_replaced_in_any_case(
    change: Callable[[str], str],
) -> None:
    text = quote(PASSWORD, safe="")
    for escape in ("%2F", "%2B"):
        text = text.replace(escape, change(escape))
    async with sending(bearer(PASSWORD)):
        found = shown(f"a {text} of 100%2f")
    assert found in {"a (redacted) of 100%2f", "a (redacted) of 100%2F"}


async def test_texts_without_a_credential_stay_as_they_are() -> None:
    async with sending(bearer(TOKEN)):
        for text in (
            "a path/%2f%2e",
            "100 %",
            base64.b64encode(b"another text of some length").decode(),
        ):
            assert shown(text) == text


async def test_short_words_are_left_alone() -> None:
    async with sending({"Authorization": "Bearer a", "X-Remote-User": "jane"}):
        assert shown("a list of jane") == "a list of jane"


async def test_a_forbidden_error_keeps_its_rule_and_loses_the_token() -> None:
    async with sending(bearer(TOKEN)):
        error = APIStatusError(status=403, reason="Forbidden", message=f"no {TOKEN}")
    assert TOKEN not in str(error)


async def test_a_proxy_that_quotes_its_own_login_puts_no_credential_into_an_error() -> None:
    async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
        header = request.headers["proxy-authorization"]
        writer.write(f"HTTP/1.1 407 no {header} {PASSWORD}\r\nContent-Length: 0\r\n\r\n".encode())
        writer.write_eof()

    login = f"jane:{quote(PASSWORD, safe='')}"
    async with serving(echo) as server:
        proxy = server.url.replace("//", f"//{login}@")
        connection = Connection(ClusterConfig(server="https://host.invalid", proxy_url=proxy))
        try:
            with pytest.raises(InformerError, match="the proxy refused: 407 no Basic") as caught:
                await connection.request("GET", "/api")
        finally:
            await connection.aclose()
    encoded = base64.b64encode(f"jane:{PASSWORD}".encode()).decode()
    seen = [str(caught.value), str(caught.value.__cause__)]
    assert not [one for one in seen for secret in (PASSWORD, encoded) if secret in one]
