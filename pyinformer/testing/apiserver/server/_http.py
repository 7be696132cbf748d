"""HTTP at the door of the embedded server.

What enters are aiohttp requests, what leaves are aiohttp responses; everything between is the
door's. A response that breaks off on purpose, or whose client has gone, ends here and nowhere else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from aiohttp import web

from pyinformer.testing.apiserver.handler import Backend, Call, RequestHandler
from pyinformer.testing.apiserver.requests import Fault
from pyinformer.testing.apiserver.server._responses import Response, ResponseCut


class HTTPHandler:
    """Answers HTTP requests from a backend."""

    def __init__(self, backend: Backend) -> None:
        self._door = RequestHandler(backend)
        self._faults = backend.faults

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request.

        Cancellation:
            The client is gone: a watch ends, a write that has begun is complete.
        """
        response: Response | None = None

        def reply_with(fault: Fault | None, answered: Callable[[int], None]) -> Response:
            """Keep the response: aiohttp wants it at the end."""
            nonlocal response
            response = Response(request, fault, self._faults, answered)
            return response

        # Broken off on purpose, or the client went while its answer was being written.
        with contextlib.suppress(ResponseCut, ConnectionResetError):
            await self._door.serve(_call(request), reply_with)
        begun = None if response is None else response.begun
        return begun or web.Response(status=500)


def _call(request: web.Request) -> Call:
    return Call(
        method=request.method,
        raw_path=request.rel_url.raw_path,
        path=request.path,
        query=dict(reversed(list(request.query.items()))),  # of what comes twice, the first counts
        headers=_headers(request),
        content_type=request.content_type,
        read=request.read,
    )


def _headers(request: web.Request) -> dict[str, str]:
    """Return the headers by their names in lower case; what came several times is joined."""
    found = {name.lower(): value for name, value in request.headers.items()}
    groups = request.headers.getall("Impersonate-Group", [])
    return {**found, "impersonate-group": ", ".join(groups)} if groups else found
