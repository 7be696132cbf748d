"""Traces of reconciles and their requests, as OpenTelemetry's SDK exports them."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

import anyio
import pytest
from opentelemetry import propagate, trace
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler
from opentelemetry.trace import SpanKind, StatusCode

import pyinformer
from pyinformer import (
    Cluster,
    ConflictError,
    Controller,
    ControllerOptions,
    Event,
    KubeObject,
    Operator,
    Request,
    SharedInformer,
    SharedInformerFactory,
    TransportError,
)
from pyinformer.blocking import BlockingCluster
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.telemetry.tracing import FencedTracing
from pyinformer.testing import APIServer, Fault
from tests.limiters import doubling
from tests.telemetry.tracing import Traces, attributes, is_child
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

    from pyinformer import Reconcile
    from pyinformer.objects import JSONObject

_RECONCILE = "reconcile maps"
_CREATE = "POST secrets.v1"
_MAPS = "configmaps.v1"
_SECRET = "hunter2"
_OF_INFORMERS = {"list", "watch"}


def config_map(name: str = "a", **data: str) -> JSONObject:
    """Return a ConfigMap to create."""
    metadata: JSONObject = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def secret(name: str = "made") -> JSONObject:
    """Return a Secret to create."""
    metadata: JSONObject = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"k": "v"}}


def labelled(obj: KubeObject) -> JSONObject:
    """Return an object with a label."""
    edited = obj.to_dict()
    edited["metadata"]["labels"] = {"by": "us"}
    return edited


@pytest.fixture
def traces() -> Traces:
    """All spans, in memory."""
    return Traces()


@pytest.fixture
def api() -> Iterator[APIServer]:
    """A server with one ConfigMap."""
    with APIServer() as server:
        server.create(config_map())
        yield server


def id_of(span: ReadableSpan) -> tuple[str, str]:
    """Return the ids of a span's trace and of the span, in hexadecimal."""
    context = span.context
    assert context is not None
    return trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id)


def is_sampled(traceparent: str) -> bool:
    """Return the flag of a header; others say how the trace's id was made."""
    return bool(int(traceparent.rpartition("-")[2], 16) & 1)


@asynccontextmanager
async def connected(api: APIServer, traces: Traces) -> AsyncIterator[Cluster]:
    """Connect to the server, with traces; discovery is done."""
    async with pyinformer.connect(server=api.url, tracing=traces.tracing, name="east") as cluster:
        await cluster.discovery.kind("v1", "Secret")
        yield cluster


def following(
    cluster: Cluster, reconcile: Reconcile[None], **options: Any
) -> AbstractAsyncContextManager[Controller[None]]:
    """Return a controller of the ConfigMaps."""
    maps = SharedInformer(cluster, "v1", "configmaps")
    return Controller("maps", reconcile, maps, options=ControllerOptions(**options))


async def test_a_reconcile_is_one_trace_with_its_requests(api: APIServer, traces: Traces) -> None:
    async with connected(api, traces) as cluster:

        async def reconcile(request: Request, obj: KubeObject | None) -> None:
            await cluster.create(secret())
            await cluster.get("v1", "configmaps", request.key)
            assert not [one async for one in cluster.list("v1", "pods", namespace="default")]

        async with following(cluster, reconcile):
            (root,) = await traces.wait_for(_RECONCILE)
        version = (await cluster.get("v1", "configmaps", "default/a")).metadata.resource_version

    assert root.parent is None
    assert root.kind is SpanKind.INTERNAL
    assert root.status.status_code is StatusCode.UNSET
    found = attributes(root)
    assert isinstance(found.pop("pyinformer.reconcile.queue_seconds"), float)
    assert found == {
        "pyinformer.controller": "maps",
        "pyinformer.reconcile.key": "default/a",
        "pyinformer.reconcile.attempt": 1,
        "pyinformer.reconcile.priority": -100,
        "pyinformer.reconcile.reasons": (f"primary {_MAPS} initial default/a@{version}",),
        "pyinformer.reconcile.outcome": "success",
        "k8s.cluster.name": "east",
        "k8s.namespace.name": "default",
    }
    requests = [span for span in traces.ended if span is not root]
    assert [span.name for span in requests] == [_CREATE, f"GET {_MAPS}", "GET pods.v1"]
    assert all(is_child(span, root) and span.kind is SpanKind.CLIENT for span in requests)
    host, port = api.url.removeprefix("http://").split(":")
    assert attributes(requests[0]) == {
        "http.request.method": "POST",
        "http.response.status_code": 201,
        "url.full": f"{api.url}/api/v1/namespaces/default/secrets",
        "server.address": host,
        "server.port": int(port),
        "k8s.cluster.name": "east",
        "k8s.namespace.name": "default",
        "pyinformer.request.verb": "create",
        "pyinformer.request.resource": "secrets.v1",
    }
    assert attributes(requests[1])["pyinformer.request.name"] == "a"
    verbs = [attributes(span)["pyinformer.request.verb"] for span in requests]
    assert verbs == ["create", "get", "list"]


async def test_every_request_of_a_trace_is_sent_with_its_traceparent(
    api: APIServer, traces: Traces
) -> None:
    async with connected(api, traces) as cluster:

        async def reconcile(request: Request, obj: KubeObject | None) -> None:
            made = await cluster.create(secret())
            await cluster.patch(made, labelled(made))
            await cluster.request("GET", "/version")
            await cluster.delete(made)

        async with following(cluster, reconcile):
            (root,) = await traces.wait_for(_RECONCILE)
    sent = [one.headers.get("traceparent") for one in api.requests if one.verb not in _OF_INFORMERS]
    expected = [f"00-{id_of(root)[0]}-{id_of(span)[1]}" for span in traces.ended[:-1]]
    assert expected == [one[:-3] for one in sent if one]
    assert all(is_sampled(one) for one in sent if one)
    assert [span.name for span in traces.ended[:-1]] == [
        _CREATE,
        "PATCH secrets.v1",
        "GET",
        "DELETE secrets.v1",
    ]
    untraced = [one for one in api.requests if one.verb in _OF_INFORMERS]
    assert untraced
    assert not any("traceparent" in one.headers for one in untraced)


async def test_spans_of_the_program_nest_in_tasks_and_between_requests(
    api: APIServer, traces: Traces
) -> None:
    async with connected(api, traces) as cluster:

        async def part() -> None:
            with traces.user.start_as_current_span("part"):
                await cluster.create(secret())

        async def reconcile(request: Request, obj: KubeObject | None) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(part)

        async with following(cluster, reconcile):
            (root,) = await traces.wait_for(_RECONCILE)
    (own,), (create,) = traces.named("part"), traces.named(_CREATE)
    assert is_child(own, root)
    assert is_child(create, own)


async def test_spans_of_the_program_nest_in_threads(api: APIServer, traces: Traces) -> None:
    app = Operator("test", tracing=traces.tracing)
    threads = set[int]()

    @app.reconcile("v1", "configmaps", name="maps")
    def reconcile(request: Request, obj: KubeObject | None, cluster: BlockingCluster) -> None:
        threads.add(threading.get_ident())
        with traces.user.start_as_current_span("part"):
            cluster.create(secret())
        cluster.get("v1", "configmaps", request.key)

    async with pyinformer.connect(server=api.url) as cluster, app.running(cluster):
        (root,) = await traces.wait_for(_RECONCILE)
    (own,), (create,) = traces.named("part"), traces.named(_CREATE)
    (get,) = traces.named(f"GET {_MAPS}")
    assert threads != {threading.get_ident()}
    assert is_child(own, root)
    assert is_child(create, own)
    assert is_child(get, root)


async def test_an_informer_that_a_reconcile_starts_does_not_keep_its_span(
    api: APIServer, traces: Traces
) -> None:
    term: ContextVar[str] = ContextVar("term", default="")
    seen: dict[str, tuple[bool, str]] = {}

    def handler_of(name: str) -> Callable[[Event], None]:
        def handle(_: Event) -> None:
            seen[name] = trace.get_current_span().get_span_context().is_valid, term.get()

        return handle

    async with connected(api, traces) as cluster, AsyncExitStack() as stack:
        factory = SharedInformerFactory(cluster)
        informers = [
            SharedInformer(cluster, "v1", "configmaps"),
            factory.informer("v1", "configmaps"),
            SharedInformer(cluster, "v1", "configmaps", namespaces=["other"]),
        ]

        async def reconcile(request: Request, obj: KubeObject | None) -> None:
            term.set("kept")
            for number, informer in enumerate(informers):
                informer.add_event_handler(handler_of(f"added before {number}"))
            await stack.enter_async_context(informers[0])
            await (await stack.enter_async_context(factory)).start()
            await stack.enter_async_context(informers[2])
            for number, informer in enumerate(informers):
                informer.add_event_handler(handler_of(f"added later {number}"))
            await informers[2].set_namespaces(["other", "default"])
            await cluster.create(secret())

        async with following(cluster, reconcile):
            (root,) = await traces.wait_for(_RECONCILE)
            await until(lambda: len(seen) == 2 * len(informers), what="all handlers")
    assert set(seen.values()) == {(False, "kept")}
    (create,) = traces.named(_CREATE)
    assert is_child(create, root)


async def test_a_timer_has_the_span_of_a_reconcile(api: APIServer, traces: Traces) -> None:
    app = Operator("test", tracing=traces.tracing)

    @app.every(3600.0)
    async def sweep(cluster: Cluster) -> None:
        await cluster.create(secret())

    async with pyinformer.connect(server=api.url) as cluster, app.running(cluster):
        (root,) = await traces.wait_for("reconcile sweep")
    (create,) = traces.named(_CREATE)
    assert is_child(create, root)
    assert attributes(root)["pyinformer.reconcile.reasons"] == ("every 3600 s timer",)


async def test_a_reconcile_links_to_the_write_that_caused_it(
    api: APIServer, traces: Traces
) -> None:
    async with connected(api, traces) as cluster:

        async def reconcile(request: Request, obj: KubeObject | None) -> None:
            if obj is not None and not obj.metadata.labels:
                await cluster.patch(obj, labelled(obj))

        async with following(cluster, reconcile):
            first, second = await traces.wait_for(_RECONCILE, 2)
            changed = config_map(by="others")
            changed["metadata"]["labels"] = {"by": "us"}
            api.update(changed)
            await traces.wait_for(_RECONCILE, 3)
    (patch,) = traces.named(f"PATCH {_MAPS}")
    third = traces.named(_RECONCILE)[2]
    assert [link.context for link in second.links] == [patch.context]
    assert not first.links
    assert not third.links
    assert len({id_of(span)[0] for span in (first, second, third)}) == 3
    statistics = traces.tracing.statistics()
    assert (statistics.writes, statistics.dropped_writes, statistics.links) == (1, 0, 1)


async def test_only_the_newest_writes_are_remembered_for_links(api: APIServer) -> None:
    traces = Traces(remembered_writes=2)
    async with connected(api, traces) as cluster:
        with traces.user.start_as_current_span("part"):
            for name in ("one", "two", "three"):
                await cluster.create(secret(name))
            await cluster.create(secret("none"), dry_run=True)
    statistics = traces.tracing.statistics()
    assert (statistics.writes, statistics.dropped_writes) == (2, 1)


async def test_requests_outside_of_every_span_start_no_trace(
    api: APIServer, traces: Traces
) -> None:
    async with connected(api, traces) as cluster:
        await cluster.create(secret())
        assert not traces.ended
        with traces.user.start_as_current_span("part"):
            await cluster.get("v1", "secrets", "default/made")
    get, own = traces.ended
    assert get.name == "GET secrets.v1"
    assert is_child(get, own)


async def test_a_trace_never_has_the_text_of_a_foreign_error(
    api: APIServer, traces: Traces
) -> None:
    await _fail(api, traces)
    (root,) = traces.named(_RECONCILE)
    (event,) = root.events
    assert root.status.status_code is StatusCode.ERROR
    assert root.status.description is None
    assert attributes(root)["error.type"] == "ValueError"
    assert attributes(root)["pyinformer.reconcile.outcome"] == "error"
    assert isinstance(attributes(root)["pyinformer.reconcile.after_seconds"], float)
    details = dict(event.attributes or {})
    assert (event.name, details["exception.type"]) == ("exception", "ValueError")
    assert str(details["exception.message"]).startswith("ValueError at ")
    assert "exception.stacktrace" not in details
    assert _SECRET not in root.to_json()


async def test_a_trace_has_all_of_an_error_if_logs_may(api: APIServer, traces: Traces) -> None:
    await _fail(api, traces, log_exceptions="full")
    (root,) = traces.named(_RECONCILE)
    (event,) = root.events
    details = dict(event.attributes or {})
    assert _SECRET in str(details["exception.message"])
    assert "in reconcile" in str(details["exception.stacktrace"])


async def _fail(api: APIServer, traces: Traces, **options: Any) -> None:
    """Let a reconcile fail once, with a text that quotes an object."""

    async def reconcile(request: Request, obj: KubeObject | None) -> None:
        raise ValueError(_SECRET)

    limiter = doubling(500.0, 500.0)
    async with (
        connected(api, traces) as cluster,
        following(cluster, reconcile, rate_limiter=limiter, **options),
    ):
        await traces.wait_for(_RECONCILE)


async def test_a_refused_request_has_its_status_and_nothing_of_the_answer(
    api: APIServer, traces: Traces
) -> None:
    message = f"{_SECRET} is invalid"
    api.faults.add(Fault(verb="create", resource="secrets", status=409, message=message))
    async with connected(api, traces) as cluster:
        with traces.user.start_as_current_span("part"):
            with pytest.raises(ConflictError):
                await cluster.create(secret())
            assert await cluster.delete("v1", "secrets", "default/absent") is None
    create, delete, _ = traces.ended
    assert create.status.status_code is StatusCode.ERROR
    assert attributes(create)["http.response.status_code"] == 409
    assert attributes(create)["error.type"] == "409"
    assert attributes(delete)["error.type"] == "404"
    assert _SECRET not in create.to_json()


async def test_a_server_that_is_away_is_an_error_without_a_status(
    api: APIServer, traces: Traces
) -> None:
    api.faults.add(Fault(verb="create", resource="secrets", refuse=True))
    async with connected(api, traces) as cluster:
        with traces.user.start_as_current_span("part"), pytest.raises(TransportError):
            await cluster.create(secret())
    create, _ = traces.ended
    assert "http.response.status_code" not in attributes(create)
    assert attributes(create)["error.type"] == "pyinformer.errors.TransportError"


async def test_retries_of_a_busy_server_are_events_of_one_span(
    api: APIServer, traces: Traces
) -> None:
    busy = Fault(verb="create", resource="secrets", status=429, retry_after_seconds=0, times=2)
    api.faults.add(busy)
    async with connected(api, traces) as cluster:
        with traces.user.start_as_current_span("part"):
            await cluster.create(secret())
    (create,) = traces.named(_CREATE)
    assert create.status.status_code is StatusCode.UNSET
    assert attributes(create)["http.request.resend_count"] == 2
    assert attributes(create)["http.response.status_code"] == 201
    expected = {"http.response.status_code": 429, "pyinformer.retry.after_seconds": 0.0}
    assert [(one.name, dict(one.attributes or {})) for one in create.events] == [
        ("retry", expected)
    ] * 2


async def test_a_cancelled_reconcile_ends_its_spans(api: APIServer, traces: Traces) -> None:
    api.faults.add(Fault(verb="create", resource="secrets", hang=True))
    async with connected(api, traces) as cluster:

        async def reconcile(request: Request, obj: KubeObject | None) -> None:
            await cluster.create(secret())

        async with following(cluster, reconcile, drain_timeout_seconds=0.0):
            await until(lambda: any(one.verb == "create" for one in api.requests))
    (create,), (root,) = traces.named(_CREATE), traces.named(_RECONCILE)
    assert attributes(create)["error.type"] == "asyncio.exceptions.CancelledError"
    assert attributes(root)["pyinformer.reconcile.outcome"] == "cancelled"
    assert is_child(create, root)


async def test_reconcile_once_is_traced_and_leaves_no_span_behind(
    api: APIServer, traces: Traces
) -> None:
    async def reconcile(request: Request, obj: KubeObject | None) -> None:
        assert trace.get_current_span().get_span_context().is_valid

    async with connected(api, traces) as cluster:
        maps = SharedInformer(cluster, "v1", "configmaps")
        async with maps:
            await maps.wait_for_cache_sync(timeout_seconds=100.0)
            await Controller("maps", reconcile, maps).reconcile_once("default/a")
            assert not trace.get_current_span().get_span_context().is_valid
    (root,) = traces.ended
    assert attributes(root)["pyinformer.reconcile.outcome"] == "success"


async def test_an_unsampled_reconcile_tells_the_server_so_and_keeps_nothing(
    api: APIServer,
) -> None:
    traces = Traces(ParentBased(ALWAYS_OFF))
    done = asyncio.Event()
    async with connected(api, traces) as cluster:

        async def reconcile(request: Request, obj: KubeObject | None) -> None:
            await cluster.create(secret())
            done.set()

        async with following(cluster, reconcile):
            await done.wait()
    (create,) = (one for one in api.requests if one.verb == "create")
    assert not is_sampled(create.headers["traceparent"])
    assert not traces.ended
    assert traces.tracing.statistics().writes == 0


class _Breaks(SpanProcessor):
    """A processor with bugs."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Fail for requests."""
        if span.kind is SpanKind.CLIENT:
            raise RuntimeError(_SECRET)

    def on_end(self, span: ReadableSpan) -> None:
        """Fail for reconciles."""
        raise RuntimeError(_SECRET)


class _BreaksAtOnce(Sampler):
    """A sampler with a bug."""

    def should_sample(self, *_: object, **__: object) -> NoReturn:
        """Fail."""
        raise RuntimeError(_SECRET)

    def get_description(self) -> str:
        """Return its name."""
        return "broken"


@pytest.mark.parametrize("broken", ["processor", "sampler"])
async def test_a_tracing_system_that_fails_never_harms_a_reconcile(
    api: APIServer, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    traces = Traces(None, _Breaks()) if broken == "processor" else Traces(_BreaksAtOnce())
    async with connected(api, traces) as cluster:

        async def reconcile(request: Request, obj: KubeObject | None) -> None:
            if obj is not None and not obj.metadata.labels:
                await cluster.patch(obj, labelled(obj))

        async with following(cluster, reconcile) as controller:
            await until(lambda: controller.status().outcomes["success"] == 2)
            assert not controller.status().failing
    (told,) = (one for one in caplog.records if one.levelno >= logging.WARNING)
    assert told.name == "pyinformer.telemetry.tracing"
    assert told.getMessage().startswith("OpenTelemetryTracing raised RuntimeError in ")
    assert _SECRET not in caplog.text


def test_an_error_is_logged_once_for_all_owners(caplog: pytest.LogCaptureFixture) -> None:
    traces = Traces(_BreaksAtOnce())
    for _ in range(3):  # a connection, an operator and a controller with the same system
        assert FencedTracing(traces.tracing).start_reconcile("databases", {}, ()) is None
    (told,) = caplog.records
    assert told.name == "pyinformer.telemetry.tracing"


class _OddHeaders(TextMapPropagator):
    """A propagator whose headers no HTTP client sends."""

    def extract(self, carrier: Any, context: Any = None, getter: Any = None) -> NoReturn:
        """Not used."""
        raise NotImplementedError

    def inject(self, carrier: Any, context: Any = None, setter: Any = None) -> None:
        """Set some headers."""
        carrier.update(
            {
                "x-good": "1",
                "x-split": "a\r\nx-evil: 1",
                "x bad": "1",
                "x-\u00e9t\u00e9": "1",
                "x-number": 1,
            },
        )

    @property
    def fields(self) -> set[str]:
        """Its headers."""
        return set()


async def test_headers_that_cannot_be_sent_are_left_out(api: APIServer, traces: Traces) -> None:
    before = propagate.get_global_textmap()
    propagate.set_global_textmap(_OddHeaders())
    try:
        async with connected(api, traces) as cluster:
            with traces.user.start_as_current_span("part"):
                await cluster.get("v1", "configmaps", "default/a")
    finally:
        propagate.set_global_textmap(before)
    (get,) = (one for one in api.requests if one.verb == "get" and one.resource)
    assert get.headers["x-good"] == "1"
    assert {name for name in get.headers if name.startswith("x")} == {"x-good"}


async def test_what_is_not_a_tracing_system_is_refused() -> None:
    bad: Any = object()
    message = "tracing: must have start_reconcile, start_request and suspend, and object has not"
    with pytest.raises(InvalidTypeError, match=message):
        await pyinformer.connect(server="http://localhost", tracing=bad).__aenter__()
    with pytest.raises(InvalidTypeError, match=message):
        Operator("test", tracing=bad)
    with pytest.raises(InvalidArgumentError, match="remembered_writes"):
        Traces(remembered_writes=-1)


def test_without_the_extra_the_error_names_it() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\nimport pyinformer.telemetry.opentelemetry"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: pyinformer.telemetry.opentelemetry needs the package"
        " opentelemetry-api: pip install 'pyinformer[opentelemetry]'"
    )
