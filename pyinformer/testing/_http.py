"""The door of the embedded server: HTTP requests in, answers out.

What enters are aiohttp requests; what leaves are the answers of a Kubernetes API server, after the
request was noted in the journal and the fault script was asked. Nothing is decided here that one
of the neighbours can decide without HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec
from aiohttp import web

from pyinformer.testing import _failure
from pyinformer.testing._access import Access, authorize
from pyinformer.testing._discovery import discover
from pyinformer.testing._failure import Failure
from pyinformer.testing._faults import FaultScript
from pyinformer.testing._journal import Journal, RequestRecord
from pyinformer.testing._listing import list_page, render_page
from pyinformer.testing._objects import key_of
from pyinformer.testing._options import check_options, parse_options
from pyinformer.testing._resources import Registry, ResourceType
from pyinformer.testing._responses import Response, ResponseCut
from pyinformer.testing._routing import Route, parse_route
from pyinformer.testing._selection import Selection
from pyinformer.testing._storage import Storage
from pyinformer.testing._watching import Watch, WatchSettings, await_revision
from pyinformer.testing._write_calls import WriteCall
from pyinformer.testing._writes import Writes

_SUBRESOURCES = ("", "status", "finalize")


@dataclass(frozen=True, kw_only=True)
class Backend:
    """Everything a request may touch.

    Attributes:
        watch_list: tells whether watch-list is on now.
        now: monotonic seconds.
    """

    storage: Storage
    registry: Registry
    writes: Writes
    access: Access
    journal: Journal
    faults: FaultScript
    settings: WatchSettings
    token_lifetime_seconds: float
    watch_list: Callable[[], bool]
    now: Callable[[], float]


class Door:
    """Answers requests from a backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request.

        Cancellation:
            The client is gone: a watch ends, a write that has begun is complete.
        """
        backend = self._backend
        query = dict(request.query.items())
        is_watch = query.get("watch", "false").lower() not in ("false", "0")
        route = parse_route(request.method, request.rel_url.raw_path, watch=is_watch)
        record = _record(request, route, query, backend.now())
        number = backend.journal.open(record)
        fault = backend.faults.pick(record)
        answered = partial(backend.journal.answer, number)
        response = Response(request, fault, backend.faults, answered)
        try:
            return await self._answer_or_refuse(request, route, query, response)
        except ResponseCut as cut:
            return cut.response or web.Response(status=500)
        except ConnectionResetError:  # the client went while its answer was being written
            return response.begun or web.Response(status=500)
        finally:
            backend.journal.finish(number)

    async def _answer_or_refuse(
        self, request: web.Request, route: Route, query: dict[str, str], response: Response
    ) -> web.StreamResponse:
        try:
            faulty = await response.begin_faulty()
            return faulty or await self._answer(request, route, query, response)
        except Failure as failure:
            return await response.fail(failure)

    async def _answer(
        self, request: web.Request, route: Route, query: dict[str, str], response: Response
    ) -> web.StreamResponse:
        token = self._backend.access.authenticate(
            request.headers.get("Authorization", ""), now=self._backend.now()
        )
        authorize(token, route)
        resource = self._backend.registry.find(route.group, route.version, route.plural)
        if not route.plural:
            return await self._discover(route, response)
        if resource is None or not _fits(resource, route):
            return await self._absent(route, response)
        if route.verb == "create" and resource.namespaced and not route.namespace:
            raise _failure.no_such_method()
        if route.verb in ("list", "watch"):
            return await self._read(resource, route, query, response)
        if route.verb == "get":
            return await self._get(resource, route, response)
        return await self._write(request, resource, route, query, response)

    async def _absent(self, route: Route, response: Response) -> web.StreamResponse:
        root, group = (*route.parts, "")[:2]
        known = {resource.group for resource in self._backend.registry.all()}
        if root == "api" or (root == "apis" and group in known):
            raise _failure.no_such_resource()
        body = [b"404 page not found\n"]
        return await response.send(404, body, content_type="text/plain; charset=utf-8")

    async def _discover(self, route: Route, response: Response) -> web.StreamResponse:
        found = discover(route.parts, self._backend.registry.all())
        if found is None:
            return await self._absent(route, response)
        if isinstance(found, str):
            return await response.send(200, [found.encode()], content_type="text/plain")
        return await _send_json(response, 200, msgspec.json.encode(found))

    async def _read(
        self, resource: ResourceType, route: Route, query: dict[str, str], response: Response
    ) -> web.StreamResponse:
        backend = self._backend
        options = parse_options(query)
        check_options(options, watch_list=backend.watch_list())
        selection = _selection(resource, route, query)
        if options.watch:
            watch = Watch(backend.storage, resource, selection, options, backend.settings)
            return await watch.serve(response)
        await await_revision(backend.storage, options.revision, backend.settings.patience_seconds)
        page = list_page(
            backend.storage,
            resource,
            selection,
            options,
            now=backend.now(),
            token_lifetime_seconds=backend.token_lifetime_seconds,
        )
        return await response.send(200, render_page(resource, page))

    async def _get(
        self, resource: ResourceType, route: Route, response: Response
    ) -> web.StreamResponse:
        record = self._backend.storage.get(resource, key_of(route.namespace, route.name))
        if record is None:
            raise _failure.not_found(resource, route.name)
        return await _send_json(response, 200, record.full)

    async def _write(
        self,
        request: web.Request,
        resource: ResourceType,
        route: Route,
        query: dict[str, str],
        response: Response,
    ) -> web.StreamResponse:
        call = WriteCall(
            resource=resource,
            route=route,
            query=query,
            content_type=request.content_type,
            user_agent=request.headers.get("User-Agent", ""),
            body=await request.read(),
        )
        status, body = call.perform(self._backend.writes, self._backend.storage)
        return await response.send(status, [body], length=len(body))


def _record(request: web.Request, route: Route, query: dict[str, str], now: float) -> RequestRecord:
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers.pop("authorization", None)
    plural = f"{route.plural}.{route.group}" if route.group else route.plural
    return RequestRecord(
        method=request.method,
        path=request.path,
        query=query,
        verb=route.verb,
        resource=plural,
        namespace=route.namespace,
        name=route.name,
        headers=headers,
        arrived_at=now,
    )


def _selection(resource: ResourceType, route: Route, query: dict[str, str]) -> Selection:
    return Selection(
        resource,
        namespace=route.namespace,
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
    )


def _fits(resource: ResourceType, route: Route) -> bool:
    if route.subresource not in _SUBRESOURCES:
        return False
    if route.subresource == "status" and not resource.has_status:
        return False
    if route.subresource == "finalize" and resource.qualified_name != "namespaces":
        return False
    if not resource.namespaced:
        return not route.namespace
    return bool(route.namespace) or not route.name


async def _send_json(response: Response, status: int, body: bytes) -> web.StreamResponse:
    return await response.send(status, [body + b"\n"], length=len(body) + 1)
