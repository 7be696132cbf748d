"""HTTP for the request handler of the embedded server.

A response that was cut on purpose, or whose client has disconnected, ends here without an error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from aiohttp import web

from pyinformer.testing.apiserver.handler import Backend, HandlerCall, RequestHandler
from pyinformer.testing.apiserver.requests import Fault
from pyinformer.testing.apiserver.server._faulty_response import Response, ResponseCut


class HTTPHandler:
    """Handles aiohttp requests with a RequestHandler."""

    def __init__(self, backend: Backend) -> None:
        self._door = RequestHandler(backend)
        self._faults = backend.faults

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request.

        Cancellation:
            The client has disconnected: a watch ends, a write that has begun is completed.
        """
        response: Response | None = None

        def reply_with(fault: Fault | None, answered: Callable[[int], None]) -> Response:
            """Create the response, and keep it for aiohttp."""
            nonlocal response
            response = Response(request, fault, self._faults, answered)
            return response

        # It was broken off on purpose, or the client disconnected during the answer.
        with contextlib.suppress(ResponseCut, ConnectionResetError):
            await self._door.serve(_call(request), reply_with)
        begun = None if response is None else response.begun
        return begun or web.Response(status=500)


def _call(request: web.Request) -> HandlerCall:
    return HandlerCall(
        method=request.method,
        raw_path=request.rel_url.raw_path,
        path=request.path,
        query=dict(reversed(list(request.query.items()))),  # the first of equal names counts
        headers=_headers(request),
        content_type=request.content_type,
        read=request.read,
        command=tuple(request.query.getall("command", ())),
    )


def _headers(request: web.Request) -> dict[str, str]:
    """Return the headers by lower-case name; repeated headers are joined."""
    found = {name.lower(): value for name, value in request.headers.items()}
    groups = request.headers.getall("Impersonate-Group", [])
    return {**found, "impersonate-group": ", ".join(groups)} if groups else found
