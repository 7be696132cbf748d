"""A client that disconnects ends its request, and this is not a failure of the server."""

from __future__ import annotations

import contextlib
from unittest.mock import AsyncMock, Mock

import pytest
from aiohttp.test_utils import make_mocked_request

from pyinformer.testing import APIServer


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/api/v1/namespaces", id="list"),
        pytest.param("/api/v1/namespaces?watch=true&resourceVersion=0", id="watch"),
        pytest.param("/api/v1/namespaces/absent", id="refusal"),
    ],
)
async def test_an_answer_without_a_reader_is_given_up_quietly(path: str) -> None:
    server = APIServer()
    gone = AsyncMock(side_effect=ConnectionResetError("Cannot write to closing transport"))
    writer = Mock(write=gone, write_eof=gone, write_headers=AsyncMock(), drain=AsyncMock())
    request = make_mocked_request("GET", path, writer=writer)

    answer = await server._thread._handler(request)

    assert answer.prepared
    gone.assert_awaited()
    assert server.open_watches == 0
    with contextlib.suppress(ConnectionResetError):
        await answer.write_eof()
