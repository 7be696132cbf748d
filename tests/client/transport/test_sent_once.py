"""A write is sent at most once; its outcome is unknown if the connection is lost.

aiohttp repeats idempotent requests by itself. The server of these tests reads a request and closes
the connection, so it would see a repeated request twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import ApplyConflictError, ConflictError, TransportError
from tests.client.transport.serving import always, connected, response, serving

if TYPE_CHECKING:
    import asyncio

    from tests.client.transport.serving import Request

_REFUSED_APPLY = b"""{"kind":"Status","status":"Failure","reason":"Conflict","code":409,
"message":"Apply failed with 2 conflicts","details":{"causes":[
{"reason":"FieldManagerConflict","message":"conflict with \\"kubectl\\" using apps/v1",
"field":".spec.replicas"},
{"reason":"FieldManagerConflict","message":"conflict with another manager","field":".data.a"}]}}"""


async def hang_up(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer `/warm`; read any other request and close the connection without a response."""
    if request.target == "/warm":
        writer.write(response())
    else:
        writer.transport.close()


@pytest.mark.covers("client-go rest: TestConnectionResetByPeerIsRetried")
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("warm", [True, False], ids=["kept-alive", "fresh"])
async def test_a_write_is_sent_once_whatever_happens_to_its_connection(
    method: str, *, warm: bool
) -> None:
    async with serving(hang_up) as server, connected(server.url) as connection:
        if warm:
            await connection.request("GET", "/warm")

        with pytest.raises(TransportError, match="the connection was lost: "):
            await connection.request(method, "/write", body=b"{}")

        assert [one.method for one in server.requests if one.target == "/write"] == [method]
        await connection.request("GET", "/warm")


@pytest.mark.covers("client-go rest: TestConnectionResetByPeerIsRetried")
async def test_a_read_may_be_repeated_by_the_library() -> None:
    async with serving(hang_up) as server, connected(server.url) as connection:
        with pytest.raises(TransportError):
            await connection.request("GET", "/read")

        assert [one.target for one in server.requests] == ["/read", "/read"]


async def test_a_refused_apply_names_the_fields_and_their_managers() -> None:
    async with (
        serving(always(response(_REFUSED_APPLY, status=409))) as server,
        connected(server.url) as connection,
    ):
        with pytest.raises(ApplyConflictError) as raised:
            await connection.request("PATCH", "/apis/apps/v1/deployments/a", body=b"{}")

        assert raised.value.conflicts == ((".spec.replicas", "kubectl"), (".data.a", ""))
        assert raised.value.status == 409


async def test_any_other_conflict_is_a_plain_one() -> None:
    async with (
        serving(always(response(b'{"reason":"AlreadyExists"}', status=409))) as server,
        connected(server.url) as connection,
    ):
        with pytest.raises(ConflictError) as raised:
            await connection.request("POST", "/api/v1/pods", body=b"{}")

        assert type(raised.value) is ConflictError
