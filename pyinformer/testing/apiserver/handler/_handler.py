"""The request handler of the test servers, independent of how requests travel.

Each request is recorded and checked against the fault script before it is answered. The decisions
are made in the other packages; nothing here knows HTTP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from pyinformer.objects import JSONValue, YAMLError, load_yaml
from pyinformer.testing import _wall_clock
from pyinformer.testing.apiserver.access import (
    Access,
    Caller,
    account_token,
    attributes_of,
    review,
    user_info,
)
from pyinformer.testing.apiserver.admission import Admission, WriteReview
from pyinformer.testing.apiserver.handler._commands import serve_command
from pyinformer.testing.apiserver.patches import APPLY, json_object
from pyinformer.testing.apiserver.reads import (
    Page,
    Representation,
    WatchSettings,
    WatchStream,
    await_revision,
    list_page,
    log_of,
    negotiate,
    parse_log_options,
    render_page,
    serve_log,
)
from pyinformer.testing.apiserver.requests import (
    PROTOBUF,
    Failure,
    Fault,
    FaultScript,
    InterceptedRequest,
    Interceptors,
    ListOptions,
    RequestLog,
    RequestRecord,
    ResponseWriter,
    Route,
    check_options,
    failures,
    json_of,
    parse_options,
    parse_revision,
    parse_route,
)
from pyinformer.testing.apiserver.resources import (
    CONTENT_TYPE,
    Registry,
    ResourceType,
    aggregated,
    discover,
    openapi_v2,
)
from pyinformer.testing.apiserver.storage import Selection, Storage, key_of
from pyinformer.testing.apiserver.writes import WriteCall, Writes, scale_of

_ANSWERED_BY_OBJECT = frozenset({"create", "update", "patch"})
_READ_ONLY = (("version",), ("api",))
"""Discovery paths that refuse methods other than GET, as on a real server."""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """The parts of a server that a request may use.

    Attributes:
        watch_list: returns whether `sendInitialEvents` works now.
        shard_selectors: returns whether `shardSelector` is not ignored now.
        cached: the watch cache of a replica; None if it is the storage itself.
        interceptors: see each request first.
        now: monotonic seconds.
    """

    storage: Storage
    registry: Registry
    writes: Writes
    admission: Admission
    access: Access
    request_log: RequestLog
    faults: FaultScript
    settings: WatchSettings
    token_lifetime_seconds: float
    watch_list: Callable[[], bool]
    shard_selectors: Callable[[], bool]
    now: Callable[[], float]
    cached: Storage | None = None
    interceptors: Interceptors = field(default_factory=Interceptors)

    def for_list(self, options: ListOptions) -> Storage:
        """Return the storage that answers a list: consistent and exact lists read etcd's."""
        version = options.resource_version
        is_exact = options.match == "Exact" or (
            options.limit and version not in ("", "0") and not options.match
        )
        if self.cached is None or not version or options.continue_token or is_exact:
            return self.storage
        return self.cached

    async def for_watch(self, options: ListOptions) -> Storage:
        """Return the storage of a watch; a watch without a version waits for the newest one.

        Raises:
            Failure: the replica does not reach the version in time (504).

        Cancellation:
            Safe.
        """
        if self.cached is None:
            return self.storage
        if not options.resource_version:
            newest, patience = self.storage.revision, self.settings.patience_seconds
            await await_revision(self.cached, newest, patience)
        return self.cached


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerCall:
    """One request, as it arrived.

    Attributes:
        raw_path: the percent-encoded path, as it was sent.
        path: the decoded path.
        headers: the headers by lower-case name.
        content_type: the media type of the body, without parameters.
        read: waits for the whole body and returns it.
        command: all values of `command` in the query, which has only the first.
    """

    method: str
    raw_path: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content_type: str
    read: Callable[[], Awaitable[bytes]]
    command: tuple[str, ...] = ()


class RequestHandler:
    """Answers the requests to one backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def serve(
        self,
        call: HandlerCall,
        reply_with: Callable[[Fault | None, Callable[[int], None]], ResponseWriter],
    ) -> None:
        """Answer one request.

        Args:
            call: the request.
            reply_with: creates the ResponseWriter from the fault of the request and a function that
                must be called with the status.

        Cancellation:
            The client has disconnected: a watch ends, a write that has begun is completed.
        """
        backend = self._backend
        if call.content_type == PROTOBUF:
            call = replace(call, content_type="application/json", read=partial(_as_json, call.read))
        query = dict(call.query)
        is_watch = query.get("watch", "false").lower() not in ("false", "0")
        route = parse_route(call.method, call.raw_path, watch=is_watch)
        record = _record(call, route, query, backend.now())
        number = backend.request_log.open(record)
        fault: Fault | None = None
        if backend.interceptors:
            call, fault = await self._intercept(call, route, query)
        fault = fault or backend.faults.pick(record)
        reply = reply_with(fault, partial(backend.request_log.answer, number))
        try:
            if not await reply.begin_faulty():
                await self._answer(call, route, dict(call.query), reply)
        except Failure as failure:
            await reply.fail(failure)
        except RecursionError:
            await reply.fail(failures.nested_too_deeply())
        finally:
            backend.request_log.finish(number)

    async def _intercept(
        self, call: HandlerCall, route: Route, query: dict[str, str]
    ) -> tuple[HandlerCall, Fault | None]:
        """Have the interceptors of the test choose a fault, or alter the request."""
        body = _decoded(await call.read())
        named = (body.get("metadata") or {}) if isinstance(body, dict) else {}
        asked = InterceptedRequest(
            verb=route.verb,
            resource=_qualified(route),
            namespace=route.namespace,
            name=route.name or str(named.get("name") or ""),
            subresource=route.subresource,
            user=self._user_of(call, route, query),
            query=query,
            body=body,
        )
        found = await self._backend.interceptors.ask(asked)
        if isinstance(found, Fault):
            return call, self._backend.faults.drawn(found)
        if found is not asked:
            read = partial(_encoded, found.body)
            call = replace(call, query=found.query, read=read)
        return call, None

    def _user_of(self, call: HandlerCall, route: Route, query: dict[str, str]) -> str:
        """Return the user of a request; nothing if it will be refused because of its user."""
        access, attributes = self._backend.access, attributes_of(route, query)
        try:
            caller = access.identify(call.headers, attributes, now=self._backend.now())
        except Failure:
            return ""
        return str(user_info(caller)["username"])

    async def _answer(
        self, call: HandlerCall, route: Route, query: dict[str, str], reply: ResponseWriter
    ) -> None:
        access, attributes = self._backend.access, attributes_of(route, query)
        caller = access.identify(call.headers, attributes, now=self._backend.now())
        access.authorize(caller, attributes)
        resource = self._backend.registry.find(route.group, route.version, route.plural)
        if not route.plural:
            await self._discover(call, route, reply)
        elif resource is None or not _fits(resource, route):
            await self._absent(route, reply)
        elif not _allows(resource, route):
            raise failures.no_such_method()
        elif resource.qualified_name == "bindings":
            await self._bind(call, route, query, reply, caller=caller)
        elif resource.is_virtual:
            await self._review(call, resource, route, caller, reply)
        elif route.subresource in ("exec", "token"):
            serve = self._exec if route.subresource == "exec" else self._token
            await serve(call, resource, route, reply, caller=caller)
        elif route.verb in ("list", "watch"):
            await self._read(call, resource, route, query, reply)
        elif route.verb == "get":
            await self._get(call, resource, route, query, reply)
        else:
            if self._applies_new(call, resource, route):
                access.authorize(caller, replace(attributes, verb="create"))
            await self._write(call, resource, route, query, reply, caller=caller)

    def _applies_new(self, call: HandlerCall, resource: ResourceType, route: Route) -> bool:
        """Return whether this is an apply that would create the object."""
        if route.verb != "patch" or route.subresource or call.content_type != APPLY:
            return False
        key = key_of(route.namespace, route.name)
        return self._backend.storage.get(resource, key) is None

    async def _absent(self, route: Route, reply: ResponseWriter) -> None:
        resource = self._backend.registry.find(route.group, route.version, route.plural)
        if resource is not None and resource.list_shape == "custom" and route.subresource:
            raise failures.not_found(resource, route.name)  # though the object may exist
        root, group = (*route.parts, "")[:2]
        known = {resource.group for resource in self._backend.registry.all()}
        if root == "api" or (root == "apis" and group in known):
            raise failures.no_such_resource()
        body = [b"404 page not found\n"]
        await reply.send(404, body, content_type="text/plain; charset=utf-8")

    async def _discover(self, call: HandlerCall, route: Route, reply: ResponseWriter) -> None:
        resources = self._backend.registry.all()
        accept = call.headers.get("accept", "")
        if route.parts == ("openapi", "v2"):
            body, media_type = openapi_v2(accept, resources)
            await reply.send(200, [body], content_type=media_type, length=len(body))
            return
        whole = aggregated(route.parts, accept, resources)
        if whole is not None:
            body, tag = whole
            headers = {"ETag": tag, "Vary": "Accept"}
            is_known = call.headers.get("if-none-match", "") == tag
            status, body = (304, b"") if is_known else (200, body)
            await reply.send(
                status, [body], content_type=CONTENT_TYPE, headers=headers, length=len(body)
            )
            return
        found = discover(route.parts, resources)
        if call.method != "GET" and route.parts in _READ_ONLY:
            raise failures.no_such_method()
        if found is None:
            await self._absent(route, reply)
        elif isinstance(found, str):
            await reply.send(200, [found.encode()], content_type="text/plain")
        else:
            await _send_json(reply, 200, msgspec.json.encode(found))

    async def _read(
        self,
        call: HandlerCall,
        resource: ResourceType,
        route: Route,
        query: dict[str, str],
        reply: ResponseWriter,
    ) -> None:
        backend = self._backend
        options = parse_options(query)
        representation = _representation(call, resource, route, query)
        if options.watch:
            check_options(options, watch_list=backend.watch_list())
            watch = WatchStream(
                await backend.for_watch(options),
                resource,
                self._selection(resource, route, query),
                options,
                backend.settings,
                representation=representation,
            )
            await watch.serve(reply)
            return
        page = await self._page(resource, route, query, options)
        shown = render_page(resource, page) if representation is None else representation.page(page)
        await reply.send(200, shown)

    def _selection(self, resource: ResourceType, route: Route, query: dict[str, str]) -> Selection:
        is_sharding = self._backend.shard_selectors()
        return Selection(
            resource,
            namespace=route.namespace,
            label_selector=query.get("labelSelector", ""),
            field_selector=query.get("fieldSelector", ""),
            shard_selector=query.get("shardSelector", "") if is_sharding else "",
        )

    async def _page(
        self, resource: ResourceType, route: Route, query: dict[str, str], options: ListOptions
    ) -> Page:
        """Return the objects of a list, or those that a collection deletes."""
        backend = self._backend
        check_options(options, watch_list=backend.watch_list())
        selection = self._selection(resource, route, query)
        storage = backend.for_list(options)
        await await_revision(storage, options.revision, backend.settings.patience_seconds)
        return list_page(
            storage,
            resource,
            selection,
            options,
            now=backend.now(),
            token_lifetime_seconds=backend.token_lifetime_seconds,
        )

    async def _get(
        self,
        call: HandlerCall,
        resource: ResourceType,
        route: Route,
        query: dict[str, str],
        reply: ResponseWriter,
    ) -> None:
        shown = _representation(call, resource, route, query)
        backend, version = self._backend, query.get("resourceVersion", "")
        revision = parse_revision(version)
        storage = (version and backend.cached) or backend.storage
        await await_revision(storage, revision, backend.settings.patience_seconds)
        record = storage.get(resource, key_of(route.namespace, route.name))
        if record is None:
            raise failures.not_found(resource, route.name)
        if route.subresource == "log":
            log = log_of(record.to_dict(), query, backend.writes.logs)
            await serve_log(log, parse_log_options(query, route.name), reply)
            return
        if route.subresource != "scale":
            await _send_json(reply, 200, record.full if shown is None else shown.one(record))
            return
        scale = scale_of(resource, record.to_dict())
        await _send_json(reply, 200, msgspec.json.encode(scale))

    async def _review(
        self,
        call: HandlerCall,
        resource: ResourceType,
        route: Route,
        caller: Caller | None,
        reply: ResponseWriter,
    ) -> None:
        if route.verb != "create":
            raise failures.no_such_method()
        backend = self._backend
        answer = review(
            resource,
            json_object(await call.read()),
            caller,
            backend.access,
            namespace=route.namespace,
            now=backend.now(),
        )
        await _send_json(reply, 201, msgspec.json.encode(answer))

    async def _bind(
        self,
        call: HandlerCall,
        route: Route,
        query: dict[str, str],
        reply: ResponseWriter,
        *,
        caller: Caller | None,
    ) -> None:
        """Assign the pod that a Binding names to a node."""
        pods = self._backend.registry.find("", "v1", "pods")
        if route.verb != "create" or pods is None:
            raise failures.no_such_method()
        metadata = json_object(await call.read()).get("metadata") or {}
        named = replace(route, plural="pods", name=str(metadata.get("name", "")))
        await self._write(
            call, pods, replace(named, subresource="binding"), query, reply, caller=caller
        )

    async def _token(
        self,
        call: HandlerCall,
        resource: ResourceType,
        route: Route,
        reply: ResponseWriter,
        *,
        caller: Caller | None,
    ) -> None:
        account = self._backend.storage.get(resource, key_of(route.namespace, route.name))
        if call.method != "POST":
            raise failures.no_such_method()
        if account is None:
            raise failures.not_found(resource, route.name)
        body, backend = json_object(await call.read()), self._backend
        now, timestamp = backend.now(), _wall_clock.timestamp
        answer = account_token(account, body, backend.access, now=now, timestamp=timestamp)
        await _send_json(reply, 201, msgspec.json.encode(answer))

    async def _exec(
        self,
        call: HandlerCall,
        resource: ResourceType,
        route: Route,
        reply: ResponseWriter,
        *,
        caller: Caller | None,
    ) -> None:
        """Run a command; its GET needs the right to create, too, as from Kubernetes 1.35 on."""
        backend = self._backend
        if route.verb not in ("create", "get"):
            raise failures.no_such_method()
        attributes = replace(attributes_of(route, call.query), verb="create")
        if not backend.access.judge(caller, attributes).is_allowed:
            raise failures.forbidden(resource, route.name, "")
        record = backend.storage.get(resource, key_of(route.namespace, route.name))
        if record is None:
            raise failures.not_found(resource, route.name)
        function = backend.writes.commands.function
        await serve_command(record.to_dict(), call.query, call.command, function, reply)

    async def _write(
        self,
        call: HandlerCall,
        resource: ResourceType,
        route: Route,
        query: dict[str, str],
        reply: ResponseWriter,
        *,
        caller: Caller | None,
    ) -> None:
        backend = self._backend
        shown = _representation(call, resource, route, query)
        is_named = route.verb != "deletecollection"
        review = backend.admission.review(user_info(caller), names=is_named)
        write = WriteCall(
            resource=resource,
            route=route,
            query=query,
            content_type=call.content_type,
            user_agent=call.headers.get("user-agent", ""),
            body=await call.read(),
            reviewer=review,
        )
        if route.verb == "deletecollection":
            options = replace(parse_options(query), watch=False)
            page = await self._page(resource, route, query, options)
            perform = partial(write.delete_page, backend.writes, page)
        else:
            perform = partial(write.perform, backend.writes)
        try:
            status, body = perform() if review is None else await review.perform(perform)
        except Failure as failure:
            failure.warnings = _warnings(write, review)
            raise
        if shown is not None and route.verb in _ANSWERED_BY_OBJECT and not route.subresource:
            body = shown.written(body)
        await reply.send(status, [body], length=len(body), warnings=_warnings(write, review))


def _warnings(write: WriteCall, review: WriteReview | None) -> list[str]:
    """Return what a write warns of; a reviewed one begins again with each answer."""
    found = [*write.warnings, *(review.warnings if review is not None else ())]
    return list(dict.fromkeys(found))


def _record(call: HandlerCall, route: Route, query: dict[str, str], now: float) -> RequestRecord:
    headers = {name: value for name, value in call.headers.items() if name != "authorization"}
    return RequestRecord(
        method=call.method,
        path=call.path,
        query=query,
        verb=route.verb,
        resource=_qualified(route),
        namespace=route.namespace,
        name=route.name,
        headers=headers,
        arrived_at=now,
    )


def _qualified(route: Route) -> str:
    return f"{route.plural}.{route.group}" if route.group else route.plural


def _decoded(body: bytes) -> JSONValue:
    """Return a body as a value; None for what is neither JSON nor YAML, and for none."""
    try:
        return load_yaml(body) if body else None
    except YAMLError:
        return None


async def _encoded(body: JSONValue) -> bytes:
    return b"" if body is None else msgspec.json.encode(body)


async def _as_json(read: Callable[[], Awaitable[bytes]]) -> bytes:
    return json_of(await read())


def _representation(
    call: HandlerCall, resource: ResourceType, route: Route, query: dict[str, str]
) -> Representation | None:
    return negotiate(
        call.headers.get("accept", ""),
        resource,
        is_list=route.verb == "list",
        include=query.get("includeObject", ""),
        now=_wall_clock.timestamp,
    )


def _allows(resource: ResourceType, route: Route) -> bool:
    """Return whether a collection has the verb; across namespaces it can only be read."""
    if route.verb in ("create", "deletecollection") and resource.namespaced:
        return bool(route.namespace)
    if route.verb == "deletecollection":
        return resource.qualified_name != "namespaces"
    return bool(route.name) or route.verb != "patch"


def _fits(resource: ResourceType, route: Route) -> bool:
    if route.subresource and route.subresource not in resource.subresources:
        return False
    if not resource.namespaced:
        return not route.namespace
    if resource.list_shape == "custom" and route.verb in ("create", "deletecollection"):
        return bool(route.namespace)  # where a built-in kind answers 405
    return bool(route.namespace) or not route.name


async def _send_json(reply: ResponseWriter, status: int, body: bytes) -> None:
    await reply.send(status, [body + b"\n"], length=len(body) + 1)
