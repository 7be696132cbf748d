"""No error contains a credential that a server sends back: its text and its attributes do not."""

from __future__ import annotations

import base64
import gc
import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from pyinformer._known_tokens import remember_tokens, without_tokens
from pyinformer.errors import APIStatusError, InformerError
from pyinformer.transport import (
    ClusterConfig,
    Connection,
    ConnectionOptions,
    StaticCredentials,
    status_error_from_object,
)
from tests.transport.serving import response, serving

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from tests.transport.serving import Request

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl-_x"
PASSWORD = "correct/horse+battery"


class Owner:
    """An object that sends credentials."""


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


def test_an_error_event_of_a_watch_shows_no_credential() -> None:
    owner = Owner()
    remember_tokens(owner, {"Authorization": f"Bearer {TOKEN}"})
    found = status_error_from_object({"code": 500, "message": f"bad {TOKEN}", "reason": TOKEN})
    assert (found.message, found.reason) == ("bad (redacted)", "(redacted)")


def test_a_renewed_credential_is_known_for_one_login_more() -> None:
    owner = Owner()
    for number in range(4):
        remember_tokens(owner, {"Authorization": f"Bearer token-{number}"})
    assert without_tokens("token-0 token-2 token-3") == "token-0 (redacted) (redacted)"
    del owner
    gc.collect()
    assert without_tokens("token-3") == "token-3"


@pytest.mark.parametrize("secret", [TOKEN, PASSWORD, "geheim/\u00fc?\u00ff\u00fe>>>"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "B", "Be", "Bearer ", '{"token":"'])
@pytest.mark.parametrize("after", ["", "}", '"}', "and more"])
def test_a_credential_in_base64_is_replaced_wherever_it_begins(
    secret: str, encode: Callable[[bytes], bytes], before: str, after: str
) -> None:
    owner = Owner()
    remember_tokens(owner, {"Authorization": f"Bearer {secret}"})
    text = encode(f"{before}{secret}{after}".encode()).decode()
    found = without_tokens(f"got {text}!")
    left, _, right = found.removeprefix("got ").removesuffix("!").partition("(redacted)")
    assert found != f"got {text}!"
    # At each end one character may have bits of the credential beside those of its neighbour.
    assert len(left) <= len(before) * 8 // 6 + 1
    assert len(right.rstrip("=")) <= len(after) * 8 // 6 + 2


@pytest.mark.parametrize("change", [str.lower, str.upper, str.swapcase])
def test_a_percent_encoded_credential_is_replaced_in_any_case(change: Callable[[str], str]) -> None:
    owner = Owner()
    remember_tokens(owner, {"Authorization": f"Bearer {PASSWORD}"})
    escapes = {name: change(name) for name in ("%2F", "%2B")}
    text = quote(PASSWORD, safe="")
    for name, changed in escapes.items():
        text = text.replace(name, changed)
    assert without_tokens(f"a {text} of 100%2f") in {
        "a (redacted) of 100%2f",
        "a (redacted) of 100%2F",
    }


def test_texts_without_a_credential_stay_as_they_are() -> None:
    owner = Owner()
    remember_tokens(owner, {"Authorization": f"Bearer {TOKEN}"})
    for text in (
        "a path/%2f%2e",
        "100 %",
        base64.b64encode(b"another text of some length").decode(),
    ):
        assert without_tokens(text) == text


def test_short_words_are_left_alone() -> None:
    owner = Owner()
    remember_tokens(owner, {"Authorization": "Bearer a", "X-Remote-User": "jane"})
    assert without_tokens("a list of jane") == "a list of jane"


def test_a_forbidden_error_keeps_its_rule_and_loses_the_token() -> None:
    owner = Owner()
    remember_tokens(owner, {"Authorization": f"Bearer {TOKEN}"})
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
