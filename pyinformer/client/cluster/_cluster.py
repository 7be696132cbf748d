"""A cluster: one API server as a program uses it, to follow, read and write objects.

Everything that talks to one server shares one connection, its limits, and what was learned about
the server (that it refuses watch-lists, for example). Nothing is opened before the first request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias, TypeVar, cast, final, overload

from pyinformer._runtime.tasks import Closable, loop_time
from pyinformer.client.cluster._apply_cache import ApplyCache, ApplyKey
from pyinformer.client.cluster._condition_merge import StatusChange
from pyinformer.client.cluster._discovery import Discovery
from pyinformer.client.cluster._exec import Command, run_command
from pyinformer.client.cluster._exec_output import ExecResult
from pyinformer.client.cluster._field_manager import (
    apply_manager_of,
    checked_field_manager,
    field_manager_of,
)
from pyinformer.client.cluster._json_conversion import Body, body_of, encode_body, is_model
from pyinformer.client.cluster._log_stream import LogStream, log_query
from pyinformer.client.cluster._noop_patches import NoopPatches
from pyinformer.client.cluster._object_list import ObjectList, VersionMatch
from pyinformer.client.cluster._patch_from_edits import patch_of, status_change_of
from pyinformer.client.cluster._rate_limited_requests import (
    RateLimitedRequests,
    WriteOptions,
    WriteStatistics,
)
from pyinformer.client.cluster._request_checks import (
    check_deletion,
    check_not_empty,
    check_query,
    check_request,
)
from pyinformer.client.cluster._request_spans import RequestSpans
from pyinformer.client.cluster._request_wait_metrics import Share, waiting_samples
from pyinformer.client.cluster._status_patch_bases import StatusAt
from pyinformer.client.cluster._targets import (
    Parent,
    Target,
    check_namespace,
    check_subresource,
    has_only_metadata,
    head_of,
    object_path,
    refuse_metadata_alone,
    subresource_of,
    target_of,
)
from pyinformer.client.cluster._typed_api import typed_api
from pyinformer.client.cluster._unstored_status_fields import (
    STATUS_IS_APART,
    dropped_paths,
    has_status_fields,
    ignored_fields,
    is_status_stored,
    unstored_fields,
)
from pyinformer.client.cluster._write_context import current_identity
from pyinformer.client.cluster._write_observer import WriteObserver
from pyinformer.client.cluster._write_path import (
    FieldValidation,
    WritePath,
    WriteResponse,
    delete_options,
    query_of,
)
from pyinformer.client.transport import (
    CURRENT_GUARD,
    METADATA_ACCEPT,
    APIResource,
    ClusterConfig,
    Connection,
    ConnectionOptions,
    ConnectionProtocol,
    ListWatch,
    RequestMetrics,
)
from pyinformer.errors import (
    ConflictError,
    ForbiddenError,
    InvalidArgumentError,
    InvalidError,
    InvalidTypeError,
    NotFoundError,
)
from pyinformer.objects import (
    FieldSelector,
    GroupVersionResource,
    JSONObject,
    KubeObject,
    LabelSelector,
    Selector,
    UidRange,
    check_encodable,
    check_flag,
    check_integer,
    check_seconds,
    check_text,
    check_type,
    decode_model,
)
from pyinformer.telemetry.metrics import NO_METRICS, Metrics, UniqueLabel, fenced

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import datetime

    from pyinformer.client.transport import OnWarning, Query
    from pyinformer.readiness import Readiness
    from pyinformer.telemetry.tracing import Tracing

Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]
"""What happens to the objects that a deleted one owns."""

M = TypeVar("M")
T = TypeVar("T")
S = TypeVar("S", bound=Share)

_MERGE_PATCH: Final = "application/merge-patch+json"
_APPLY_PATCH: Final = "application/apply-patch+yaml"  # JSON is YAML
_PODS: Final = GroupVersionResource("", "v1", "pods")
_SHARED_LISTS: Final = frozenset({"finalizers", "ownerReferences"})
"""Lists in the metadata that several writers share, of which a merge patch replaces the whole."""
_SHOWN_FIELDS: Final = 5
_STATUS_ATTEMPTS: Final = 5  # as client-go's DefaultRetry; each but the first has read the newest
_MOST_FINALIZERS: Final = 64  # a program has a few; names made on the fly must not add up


@final
@dataclass(slots=True)
class ClusterState:
    """What the parts of this library share through a Cluster; `state_of` returns it."""

    spans: RequestSpans
    """Traces its requests; its `tracing` traces reconciles of its objects, too."""

    request_metrics: RequestMetrics | None = None
    """Where requests are counted, those of further connections included; None for nowhere."""

    finalizers: frozenset[str] = frozenset()
    """The finalizers that this process puts on objects, and therefore has to remove."""

    shares: dict[object, Share] = field(default_factory=dict)
    """What other rooms keep for the cluster, by its class; `share` makes it."""

    def share(self, kind: type[S]) -> S:
        """Return what a room keeps for this cluster; it is made at the first call.

        Args:
            kind: its class, which is called without arguments.
        """
        return cast("S", self.shares.get(kind) or self.shares.setdefault(kind, kind()))

    def add_finalizer(self, name: str) -> None:
        """Record that this process puts a finalizer on objects; only the first 64 are kept."""
        if len(self.finalizers) < _MOST_FINALIZERS:
            self.finalizers |= {name}


@final
class Cluster(Closable):
    """An API server: informers follow it, objects are read and written; made by `connect()`.

    It opens nothing before the first request, belongs to the event loop of its `async with` or of
    that request, and is released by `aclose()` or by leaving its `async with`.

    Args:
        config: how the server is reached.
        name: what to call it beside other clusters, in requests, logs and errors; not checked.
        options: how many connections it uses, and what reads them.
        write_options: the rate of writes, and how long a busy server is retried.
        metrics: where its requests are counted until it is closed; also where informers, factories
            and operators of this cluster record their figures, unless they are given others.
        connection: replaces the one over HTTP, in tests for example; it is closed with the cluster.
        tracing: traces reconciles of its objects, and the requests that they send; None for no
            traces.
        field_manager: the owner of the fields that it writes, where a write does not name one; None
            for the name of the Operator in whose function the write is made.
        on_warning: a plain function, called on the event loop with the text and the request of each
            warning of the server, about unknown fields or deprecated versions for example; each
            text is also logged once. None for no function.

    Raises:
        ConfigurationError: a certificate in the configuration cannot be used; of one in a file,
            `async with` raises this, or else the first request.
        InvalidArgumentError: `field_manager` is empty or too long.
        InvalidTypeError: `tracing` is not a tracing system, or `on_warning` cannot be called with
            two texts.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        name: str = "",
        options: ConnectionOptions | None = None,
        write_options: WriteOptions | None = None,
        metrics: Metrics = NO_METRICS,
        connection: ConnectionProtocol | None = None,
        tracing: Tracing | None = None,
        field_manager: str | None = None,
        on_warning: OnWarning | None = None,
    ) -> None:
        check_type("config", config, ClusterConfig)
        for argument, value, kind in (
            ("options", options, ConnectionOptions),
            ("write_options", write_options, WriteOptions),
        ):
            if value is not None:
                check_type(argument, value, kind)
        self.name: str = name
        self.field_manager: str | None = checked_field_manager(field_manager)
        """The owner of the fields that it writes, where a write does not name one."""
        self.metrics: Metrics = metrics
        """Where informers, factories and operators of this cluster record their figures, unless
        they are given others."""
        self._metrics_scope = fenced(metrics).scope()
        self._label: UniqueLabel | None = None
        counted = None
        if metrics is not NO_METRICS:
            self._label = UniqueLabel(metrics, "name", name)
            counted = RequestMetrics(self._metrics_scope, config.server, name=self._label.text)
        self.connection: ConnectionProtocol = connection or Connection(
            config, options=options, metrics=counted, on_warning=on_warning
        )
        spans = RequestSpans(name, config.server, tracing)
        self._requests = RateLimitedRequests(
            self.connection, write_options or WriteOptions(), spans=spans, metrics=counted
        )
        self.discovery: Discovery = Discovery(self._requests.read)
        """What the server serves."""
        self._writes = WritePath(self._requests, self.discovery)
        self._applied = ApplyCache(clock=loop_time)
        self._ineffective = NoopPatches()
        self._state = ClusterState(spans, request_metrics=counted)
        if counted is not None:
            shares = self._state.shares
            state = partial(waiting_samples, counted.labels, self._requests, shares)
            self._metrics_scope.add_source(state)

    @property
    def config(self) -> ClusterConfig:
        """How the server is reached."""
        return self.connection.config

    async def find_resource(self, name: str) -> APIResource:
        """Find the resource that a name as people type it stands for, as kubectl does.

        Args:
            name: a plural, singular, kind or short name in any case (`deploy`), alone or with its
                group (`deployments.apps`, `deployments.v1.apps`); or in full with its version, as
                `v1/pods` or `apps/v1/deployments`, for which no other group is read.

        Returns:
            The server's description of it, in its group's preferred version. Where several groups
            have the name, the likeliest, the core group's first; `discovery.find` returns all.

        Raises:
            UnknownResourceError: nothing that is served has this name; lists similar names.
            InvalidArgumentError: it cannot be a name.
            ForbiddenError: discovery is forbidden; factories do not need it.
            TransportError: the server was not reached.

        Cancellation:
            Safe.
        """
        return (await self.discovery.find(name))[0]

    def list_watch(
        self,
        resource: GroupVersionResource,
        *,
        namespace: str | None = None,
        label_selector: LabelSelector | None = None,
        field_selector: FieldSelector | None = None,
        uid_range: UidRange | None = None,
        metadata_only: bool = False,
    ) -> ListWatch:
        """Return what a Reflector needs to follow one resource in one scope.

        Raises:
            InvalidTypeError: the resource is not a GroupVersionResource, or the namespace not text.
        """
        found = ListWatch(
            self.connection,
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            uid_range=uid_range,
            metadata_only=metadata_only,
        )
        found.shown = f"{self.name}: {resource}" if self.name else found.shown
        return found

    async def get(
        self,
        api_version: str,
        plural: str,
        key: str,
        *,
        subresource: str = "",
        metadata_only: bool = False,
    ) -> KubeObject:
        """Read one object from the server; caches are faster: `informer.lister.get(key)`.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name, as in its URL.
            key: `namespace/name`, or `name` if it is cluster-scoped.
            subresource: the part of the object to read, such as `scale`; empty for the object
                itself.
            metadata_only: read nothing but its metadata, as an informer with `memory="metadata"`
                does: the rest, such as the values of a Secret, is not sent. Its `gvk` is
                `PartialObjectMetadata` if discovery, which names its kind, is forbidden.

        Raises:
            NotFoundError: the object does not exist, or the server does not serve the resource or
                the subresource; then the message has similar names.
            InvalidArgumentError: an argument is malformed.
            APIStatusError: the server refused.
            InvalidObjectError: the server answered with something else.
            TransportError: the server was not reached, or its response did not arrive.

        Cancellation:
            Safe.
        """
        resource = GroupVersionResource.of(api_version, plural)
        check_subresource(subresource)
        check_flag("metadata_only", metadata_only)
        if metadata_only and subresource:
            raise InvalidArgumentError("metadata_only", "must be False for a subresource")
        path = object_path(resource, key, subresource)
        try:
            raw = await self._requests.read(path, METADATA_ACCEPT if metadata_only else "")
        except (NotFoundError, ForbiddenError) as error:
            if isinstance(error, NotFoundError):
                if subresource:
                    await self.discovery.check_subresource(resource, subresource, error)
                await self.discovery.check_served(resource, error)
            known = self.discovery.known(resource)
            is_namespaced = known is None or known.namespaced
            if ("/" in key) == is_namespaced:
                raise
            if not is_namespaced:
                name = key.rpartition("/")[2]
                hint = f"{plural} is cluster-scoped: write {name!r} instead of {key!r}"
                raise error.with_hint(hint) from error
            hint = f"the key {key!r} has no namespace: write 'namespace/name' if {plural} have one"
            raise error.with_hint(hint) from error
        if metadata_only:
            kind = await self.discovery.kind_of(resource)
            return self._writes.responses.read_metadata(resource, raw, kind=kind, key=key)
        return self._writes.responses.read(resource, raw, key=key, subresource=subresource)

    @overload
    def list(
        self,
        api_version: str,
        plural: str,
        *,
        namespace: str | None = None,
        label_selector: Selector | LabelSelector = None,
        field_selector: Selector | FieldSelector = None,
        resource_version: str = "",
        resource_version_match: VersionMatch = "NotOlderThan",
        page_size: int = 500,
        metadata_only: bool = False,
    ) -> ObjectList[KubeObject]: ...
    @overload
    def list(
        self,
        api_version: str,
        plural: str,
        *,
        namespace: str | None = None,
        label_selector: Selector | LabelSelector = None,
        field_selector: Selector | FieldSelector = None,
        resource_version: str = "",
        resource_version_match: VersionMatch = "NotOlderThan",
        page_size: int = 500,
        metadata_only: bool = False,
        model: type[M],
    ) -> ObjectList[M]: ...
    def list(
        self,
        api_version: str,
        plural: str,
        *,
        namespace: str | None = None,
        label_selector: Selector | LabelSelector = None,
        field_selector: Selector | FieldSelector = None,
        resource_version: str = "",
        resource_version_match: VersionMatch = "NotOlderThan",
        page_size: int = 500,
        metadata_only: bool = False,
        model: type[M] | None = None,
    ) -> ObjectList[KubeObject] | ObjectList[M]:
        """List objects on the server: `async for pod in cluster.list("v1", "pods")`.

        A list is for what a program does once; for what it does often, a cache is faster and costs
        the server nothing: `informer.lister.list()`.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name, as in its URL.
            namespace: the namespace; None for all, and for cluster-scoped resources.
            label_selector: as a string or mapping; None for all objects.
            field_selector: as a string or mapping; None for all objects.
            resource_version: at which version; empty for the newest.
            resource_version_match: whether the list may be newer than that version, or `Exact`.
            page_size: how many objects to request at a time; 0 for all of them in one response.
            metadata_only: read nothing but their metadata, as for `get`.
            model: what to return instead of objects: a class that `KubeObject.as_type` takes.

        Returns:
            An iterator that requests page after page, all of one state. Its errors are those of
            `ObjectList.next_page`.

        Raises:
            InvalidArgumentError: an argument is malformed.
        """
        check_flag("metadata_only", metadata_only)
        selection = self._selection(
            api_version,
            plural,
            namespace,
            label_selector,
            field_selector,
            metadata_only=metadata_only,
        )
        check_encodable("resource_version", resource_version)

        def reading(convert: Callable[[KubeObject], T]) -> ObjectList[T]:
            """Return the iterator over the converted objects."""
            return ObjectList(
                self._requests,
                self.discovery,
                selection,
                convert,
                resource_version=resource_version,
                match=resource_version_match,
                page_size=page_size,
            )

        if model is None:
            return reading(lambda obj: obj)
        return reading(lambda obj: decode_model(obj, model))

    async def delete_collection(
        self,
        api_version: str,
        plural: str,
        *,
        namespace: str | None = None,
        label_selector: Selector | LabelSelector = None,
        field_selector: Selector | FieldSelector = None,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> tuple[KubeObject, ...]:
        """Delete all objects of one namespace, or of a cluster-scoped resource, that match.

        Unlike `delete`, it does not change what this process reads before the watch brings it:
        the response does not say which of the objects are gone.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name, as in its URL.
            namespace: the namespace; servers do not delete in all namespaces at once.
            label_selector: as a string or mapping; None for all objects. A selector that is given
                must not be empty: a computed one would delete all objects.
            field_selector: as a string or mapping; None for all objects; not empty either.
            propagation: what happens to the objects that they own; None is the resource's default.
            grace_period_seconds: how long each may take to end; None is the object's own.
            dry_run: the server checks the deletions and deletes nothing.

        Returns:
            The objects as they were before; finalizers or a grace period may still hold them.

        Raises:
            WriteAnswerError: it was carried out, and the response cannot be read.
            NotFoundError: the server does not serve the resource; the message has similar names.
            InvalidArgumentError: an argument is malformed, a selector is given but empty, or a
                namespace is missing or too much.
            APIStatusError: the server refused.
            TransportError: no response arrived; some objects may have been deleted.

        Cancellation:
            Unless it still waits for the rate limit, some objects may have been deleted.
        """
        labels, fields = LabelSelector.parse(label_selector), FieldSelector.parse(field_selector)
        check_not_empty("label_selector", label_selector, str(labels))
        check_not_empty("field_selector", field_selector, str(fields))
        selection = self._selection(api_version, plural, namespace, labels, fields)
        api = await self.discovery.resource(selection.resource)
        if api.namespaced != bool(namespace):
            api = await self.discovery.current(api)
        if api.namespaced != bool(namespace):
            what = "needs a namespace" if api.namespaced else "has no namespaces"
            raise InvalidArgumentError("namespace", f"{selection.resource} {what}")
        return await self._writes.delete_collection(
            selection, delete_options(propagation, grace_period_seconds, dry_run=dry_run)
        )

    def logs(
        self,
        key: str,
        *,
        container: str | None = None,
        follow: bool = False,
        previous: bool = False,
        since_seconds: float | None = None,
        since_time: datetime | None = None,
        timestamps: bool = False,
        tail_lines: int | None = None,
        limit_bytes: int | None = None,
        max_line_bytes: int = 65_536,
    ) -> LogStream:
        """Read the log of a container: `async with cluster.logs("shop/web-0") as lines`.

        The request is sent when the stream is entered. It is refused if the pod does not exist, or
        the container has not started; a pod without a node has an empty log. A followed log ends
        when its container does, and also when the server loses the node: read the pod to know.

        Args:
            key: the pod, `namespace/name`.
            container: the container; None if the pod has only one.
            follow: continue with what is written from now on, over a connection of its own. Without
                it, one of the connections for requests is used, with the timeouts of lists.
            previous: the log of the container's run before the current one.
            since_seconds: only what was written in the last so many seconds; rounded up.
            since_time: only what was written since then; with a time zone.
            timestamps: begin each line with the time at which it was written.
            tail_lines: only so many lines before the end; None for all.
            limit_bytes: at most so many bytes, which may end within a line; None for all.
            max_line_bytes: how much of a line is kept; longer ones are cut and marked. Container
                runtimes write lines of 16 KiB.

        Returns:
            An iterator over the lines, to be entered. Entering it raises NotFoundError,
            BadRequestError and the other errors of a read.

        Raises:
            InvalidArgumentError: an argument is malformed.
        """
        check_text("key", key)
        if "/" not in key:
            raise InvalidArgumentError("key", f"must be 'namespace/name', got {key!r}")
        check_integer("max_line_bytes", max_line_bytes)
        query = log_query(
            container=container,
            follow=follow,
            previous=previous,
            since_seconds=since_seconds,
            since_time=since_time,
            timestamps=timestamps,
            tail_lines=tail_lines,
            limit_bytes=limit_bytes,
        )
        path = object_path(_PODS, key, "log")
        return LogStream(self._requests, path, query, follow=follow, max_line_bytes=max_line_bytes)

    async def exec(
        self,
        pod: KubeObject[object] | str,
        command: Iterable[str],
        *,
        container: str | None = None,
        stdin: bytes | str | None = None,
        timeout_seconds: float | None = 60.0,
        max_bytes: int = 1 << 20,
    ) -> ExecResult:
        """Run a command in a container and wait for its end, as `kubectl exec` does.

        It is sent at the rate of writes and guarded as they are: it is refused, or cut off, when
        the term of leader election ends. It needs the rights `create` and `get` on `pods/exec`. A
        command whose connection is closed early may still run in the container: let it end by
        itself, as with `timeout 10 pg_ctl status`.

        Args:
            pod: the pod, or its key: `namespace/name`.
            command: the program and its arguments. No shell reads them, unless it is the program.
            container: the container; None if the pod has only one.
            stdin: what the command reads, a text as UTF-8; None for no input. With it the server
                must be Kubernetes 1.30 or newer: others cannot end an input.
            timeout_seconds: how long the command and its connection may take in all; None for no
                limit. A server that does not answer pings for a minute ends the wait in any case.
            max_bytes: how long the output may be, that on standard error included.

        Returns:
            The exit code, which may be other than 0, and the output.

        Raises:
            NotFoundError: the pod does not exist.
            BadRequestError: the container does not exist, or must be named; or the pod has no node.
            ForbiddenError: a right is missing; `needed` has it.
            ServerError: the program does not exist in the container, or the container does not run.
            OutputLimitError: the output is too long; the connection is closed.
            RequestTimeoutError: the command did not end in time; the connection is closed.
            InvalidArgumentError: an argument is malformed.
            FencedError: the term of leader election has ended.
            TransportError: the exit code did not arrive; the command may have run or not.

        Cancellation:
            The connection is closed, within about a second; the command may still run. One that
            waits for the rate limit is not started.

        Source:
            KEP-4006; client-go tools/remotecommand websocket.go.
        """
        checked = Command.checked(
            pod,
            command,
            container=container,
            stdin=stdin,
            timeout_seconds=timeout_seconds,
            max_bytes=max_bytes,
        )
        return await run_command(self._requests, checked)

    def api(self, api_class: type[T]) -> T:
        """Return a typed class of kubernetes_asyncio that sends its requests through this cluster.

            core = cluster.api(kubernetes_asyncio.client.CoreV1Api)
            pod = await core.read_namespaced_pod("web-0", "shop")

        Its requests have this cluster's login, TLS, proxy, retries, warnings, metrics and spans.
        Its writes have the rate of writes, end with the term of leader election, and are visible to
        the reads of this process as those of `create` and `patch` are.

        A refusal is the ApiException of its package, with our error as `__cause__`. What is not the
        answer to that request is our error: TransportError, FencedError, UnauthorizedError.

        Args:
            api_class: a class of `kubernetes_asyncio.client`, or of `kubernetes.aio.client`.

        Returns:
            An object of the class. It opens no connection of its own, and is not closed.

        Raises:
            InvalidTypeError: it is not such a class, or one of the blocking package.
        """
        return typed_api(api_class, self._requests, self._writes)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Body | bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Send any request to the server, and return the body of its response.

        It has the connection, credentials, retries and typed errors of the other calls; writes have
        their rate, and end with the term of leader election. What it writes is not visible to this
        process's reads before the watch brings it; `record_write` changes that.

        Args:
            method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
            path: from the server's root, such as `/api/v1/nodes/n1/proxy/healthz`, quoted.
            query: names and values.
            body: an object, or its text; None for no body.
            content_type: the format of the body.

        Raises:
            InvalidArgumentError: the path does not begin with a slash, has a query, a fragment or
                `..`, or is that of an exec, an attach or a port-forward, which need another kind of
                connection; or the method is none of these; or a DELETE has an empty selector.
            FencedError: the term of leader election has ended.
            APIStatusError: the server refused.
            TransportError: no response arrived; a write may have been carried out or not.

        Cancellation:
            A read is dropped. A write may have been carried out or not, unless it still waits for
            the rate limit.
        """
        check_request(method, path, content_type)
        check_query(query)
        check_deletion(method, query)
        text = body
        if not (isinstance(text, bytes) or text is None):
            text = encode_body(body_of(text, "body"), content_type)
        if method == "GET":
            if text is not None:
                raise InvalidArgumentError("body", "must be None for a GET")
            return await self._requests.read(path, query=query)
        return await self._writes.request(
            method, path, query=query, body=text, content_type=content_type
        )

    async def create(
        self,
        obj: Body,
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        subresource: str = "",
        of: Parent | None = None,
    ) -> KubeObject:
        """Create an object, or something of an object: an Eviction or a TokenRequest.

        Servers drop a status that is a subresource; a warning names its fields once for each
        resource, and so does `write_statistics().unstored_fields`.

        Args:
            obj: with apiVersion, kind, and a name or generateName; one for a subresource has the
                name of its object.
            namespace: where to create it, if the object has no namespace in its metadata.
            field_manager: the owner of its fields; None for the cluster's `field_manager`, else the
                name of the Operator in whose function this is called.
            dry_run: the server checks the write and stores nothing.
            field_validation: what the server does with unknown and duplicate fields: `Strict`
                refuses the write, `Warn` drops them with a warning, `Ignore` drops them; None for
                the server's default, which is `Warn`.
            subresource: what to create of an object: `eviction`, `binding` or `token`, for example;
                empty for an object of its own.
            of: the object that the subresource belongs to, or its `(api_version, plural, key)`;
                None if `obj` is that object.

        Returns:
            The object as the server stored it. What is answered and not stored, a
            SelfSubjectAccessReview for example, has no name: its key is empty, and its `status` is
            the answer. An Eviction and a Binding are answered by a Status.

        Raises:
            WriteAnswerError: it was created, and the response cannot be read.
            ConflictError: it exists already; its reason is `AlreadyExists`.
            NotFoundError: the object of the subresource does not exist, or the server does not
                serve the subresource; then the message has those that it serves.
            TooManyRequestsError: a disruption budget does not allow the eviction now; among its
                causes is `DisruptionBudget`.
            InvalidArgumentError: it lacks apiVersion, kind, a name or a namespace.
            APIStatusError: the server refused.
            TransportError: no response arrived; it may have been created or not.

        Cancellation:
            Unless it still waits for the rate limit, it may have been created or not.
        """
        if subresource or of is not None:
            body, target = await self._part(obj, subresource, of)
        else:
            body = body_of(obj)
            target = await target_of(self.discovery, body, namespace=namespace, named=False)
            if target.namespace:
                body["metadata"] = {**(body.get("metadata") or {}), "namespace": target.namespace}
        query = self._query_of(field_manager, field_validation, dry_run=dry_run)
        created = (await self._writes.write("POST", target, body, query=query)).object
        self._report_ignored_status(target, body, created)
        return created

    async def replace(
        self,
        obj: Body,
        *,
        field_manager: str | None = None,
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        subresource: str = "",
        of: Parent | None = None,
    ) -> KubeObject:
        """Replace an object by another version of it.

        A model drops the fields it does not know: start from `to_dict()`, or use `patch`. Servers
        drop changes of a status that is a subresource, which is reported as by `create`.

        Args:
            obj: the whole object, so not one that an informer's transform has cut. With a
                resourceVersion in it, only that version is replaced.
            field_manager: the owner of its fields; None for the cluster's `field_manager`, else the
                name of the Operator in whose function this is called.
            dry_run: the server checks the write and stores nothing.
            field_validation: what the server does with unknown and duplicate fields: `Strict`
                refuses the write, `Warn` drops them with a warning, `Ignore` drops them; None for
                the server's default, which is `Warn`.
            subresource: the part of the object that is written, such as `scale`; empty for the
                object itself.
            of: the object that the subresource belongs to, or its
                `(api_version, plural, key)`; None if `obj` is that object.

        Returns:
            The object as the server stored it: under its old resource version if nothing changed.

        Raises:
            ConflictError: it has changed since it was read.
            NotFoundError: it does not exist.
            InvalidArgumentError: it lacks apiVersion, kind, a name or a namespace.
            APIStatusError: the server refused.
            TransportError: no response arrived; it may have been replaced or not.

        Cancellation:
            Unless it still waits for the rate limit, it may have been replaced or not.
        """
        body, target = await self._part(obj, subresource, of)
        query = self._query_of(field_manager, field_validation, dry_run=dry_run)
        version = body["metadata"].get("resourceVersion")
        written = await self._writes.write("PUT", target, body, query=query, version=version)
        self._report_ignored_status(target, body, written.object)
        return written.object

    async def patch(
        self,
        obj: KubeObject[object] | JSONObject,
        edited: Body,
        *,
        check_uid: bool = True,
        check_version: bool | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        subresource: str = "",
        of: Parent | None = None,
        metadata_only: bool = False,
    ) -> KubeObject:
        """Send what was edited in an object, and nothing else.

        Fields that a model does not know are kept, also in elements of lists: elements are matched
        by their name, type, port or the like, others by their place; one with another name is
        another element. A list is sent as a whole, and would replace what other clients wrote to it
        in the meantime: use `check_version`. For the finalizers and the owner references, which
        others write, too, the version is checked by default. What is the same in both was not
        edited and is not sent, even if this process has written it since: begin the next edit with
        what this one returns.

        Args:
            obj: the object as it was; metadata alone, of an informer with `memory="metadata"`, is
                enough to edit metadata, and nothing else is touched. If an informer's transform
                has cut its lists, do not edit them: they would be written as short as they are;
                `get()` has all of them.
            edited: the whole object with the edits: `obj.to_dict()` or `obj.as_type(Model)`,
                changed. What is missing in it is removed. Resource version and uid do not count. If
                `obj` is a dict, it must be a deep copy: what both share has no edits.
            check_uid: fail if the name belongs to another object by now.
            check_version: fail if the object has changed since `obj`. None: only if its finalizers
                or owner references were edited, and `obj` has a resourceVersion.
            field_manager: the owner of the fields; None for the cluster's `field_manager`, else the
                name of the Operator in whose function this is called.
            dry_run: the server checks the write and stores nothing.
            field_validation: what the server does with unknown and duplicate fields: `Strict`
                refuses the write, `Warn` drops them with a warning, `Ignore` drops them; None for
                the server's default, which is `Warn`.
            subresource: the part of the object that is written, such as `scale`; empty for the
                object itself.
            of: the object that the subresource belongs to, or its
                `(api_version, plural, key)`; None if `obj` is that object.
            metadata_only: have the server answer with the object's metadata alone. An informer of
                whole objects then shows the write when its watch brings it.

        Returns:
            The object as the server stored it; `obj` if nothing was edited, or if the same edit has
            changed nothing in this version of the object in the last five minutes: then nothing is
            sent.

        Raises:
            ConflictError: it is another object by now, or another version where that is checked.
            NotFoundError: it does not exist.
            InvalidArgumentError: `edited` is another object, or `obj` itself; its status was edited
                where `status()` has to be used; or elements of a list cannot be distinguished.
            InvalidTypeError: `obj` is a model: it may not know all fields.
            APIStatusError: the server refused.
            TransportError: no response arrived; it may have been patched or not.

        Cancellation:
            Unless it still waits for the rate limit, it may have been patched or not.
        """
        check_flag("metadata_only", metadata_only)
        if metadata_only and subresource:
            raise InvalidArgumentError("metadata_only", "must be False for a subresource")
        target, before = await self._original(obj, subresource, of)
        _check_is_copy("edited", edited, obj, "`obj`")
        patch = patch_of(before, edited)
        has_status_edits = "status" in patch and not subresource
        if has_status_edits and target.api.has_status:
            _check_patched_status(await self.discovery.current(target.api))
        if check_version is None:
            has_lists = not _SHARED_LISTS.isdisjoint(patch.get("metadata") or ())
            check_version = has_lists and bool(before.metadata.resource_version)
        query = self._query_of(field_manager, field_validation, dry_run=dry_run)
        if self._ineffective.has(target, before, patch, query):
            return self._unsent(target, before)
        found = await self._patch(
            target,
            before,
            patch,
            query=query,
            check_uid=check_uid,
            check_version=check_version,
            metadata_only=metadata_only,
        )
        self._ineffective.record(target, before, patch, query, found)
        if has_status_edits and not metadata_only and not is_status_stored(patch, found):
            _check_patched_status(await self.discovery.current(target.api))
        return found

    async def status(
        self,
        obj: KubeObject[object] | JSONObject,
        status: Body,
        *,
        check_uid: bool = True,
        check_version: bool = False,
        field_manager: str | None = None,
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
    ) -> KubeObject:
        """Send what is new in an object's status, and nothing else.

        A list is sent as a whole, but a list `conditions`, in which each has a `type` of its own,
        is merged: a condition that is new in `status`, or another one than in `obj`, is set, one
        that `status` lacks is removed, and all others stay as they are on the server, including
        those that other writers have set since `obj`. If the server has a newer version than this
        process knows, the object is read, and the status is merged and sent again, up to 4 times.

        A second call with the same `obj`, in the same reconcile or in the next one of that key, or
        outside of reconciles in the same task, is compared with what the first has written, too,
        unless more than 1,024 other objects' statuses, or 8 MiB of them, were written in between.
        What other reconciles and tasks have written since `obj` is kept, as that of other clients
        is. Of the blocking API the thread counts, and not the task that each call has: read
        the object again in each job of a pool, whose threads serve all jobs.

        Fields that the server does not store beside others are named in the log, once for each
        resource, and in `write_statistics().unstored_fields`.

        Args:
            obj: the object as it was.
            status: the whole new status. What a dict leaves out is removed; what a model does
                not know is kept. If an informer's transform has cut the conditions of `obj`, do not
                edit them: they would be written as short as they are; `get()` has all of them.
            check_uid: fail if the name belongs to another object by now.
            check_version: fail if the object has changed since `obj`; conditions are not merged.
            field_manager: the owner of the fields; None for the cluster's `field_manager`, else the
                name of the Operator in whose function this is called.
            dry_run: the server checks the write and stores nothing.
            field_validation: what the server does with unknown and duplicate fields: `Strict`
                refuses the write, `Warn` drops them with a warning, `Ignore` drops them; None for
                the server's default, which is `Warn`.

        Returns:
            The object as the server stored it; `obj` if nothing is new, or if the same write has
            changed nothing in this version of the object in the last five minutes: then nothing is
            sent.

        Raises:
            ConflictError: it is another object by now, or with `check_version` another version; or
                with conditions it was another version at each of 5 attempts.
            NotFoundError: it does not exist.
            InvalidArgumentError: `status` is a whole object, or that of the dict `obj` itself; or
                elements of a list cannot be distinguished; or the server stored none of the fields
                that were sent, since the resource has no status subresource, or its schema does not
                have these fields.
            InvalidTypeError: `obj` is a model: it may not know all fields.
            ForbiddenError: the object must be read to merge conditions, and may not be.
            APIStatusError: the server refused.
            TransportError: no response arrived; it may have been written or not.

        Cancellation:
            Unless it still waits for the rate limit, it may have been written or not.
        """
        target, before = await self._original(obj)
        refuse_metadata_alone(before.to_dict())
        if isinstance(obj, Mapping):
            _check_is_copy("status", status, obj.get("status"), "the status of `obj`")
        known = self._writes.statuses.seen_in(before, current_identity())
        change = status_change_of(before, status, known=known)
        query = self._query_of(field_manager, field_validation, dry_run=dry_run)
        if self._ineffective.has(target.of_status, before, change.unmerged, query):
            return self._unsent(target, before)

        async def send(target: Target) -> tuple[JSONObject, KubeObject]:
            """Write the status where the kind has it."""
            return await self._send_status(
                target,
                before,
                change,
                query=query,
                check_uid=check_uid,
                check_version=check_version,
            )

        try:
            patch, found = await send(target)
        except NotFoundError:
            now = self.discovery.known(target.resource)  # the 404 made the write path read it again
            if now is None or now.has_status or not target.api.has_status:
                raise
            target = replace(target, api=now)
            patch, found = await send(target)
        if not patch:
            return found
        if not (target.api.has_status or is_status_stored(patch, found)):
            target = replace(target, api=await self.discovery.read_again(target.resource))
            if target.api.has_status:  # it has one by now: nothing was stored without it
                patch, found = await send(target)
        missing = unstored_fields(patch, found, has_status=target.api.has_status)
        if missing:
            raise _not_stored(target, missing)
        self._writes.unstored.record(target.resource, dropped_paths(patch, found))
        self._ineffective.record(target.of_status, before, change.unmerged, query, found)
        return found

    async def apply(
        self,
        desired: Body,
        *,
        field_manager: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        subresource: str = "",
        of: Parent | None = None,
    ) -> KubeObject:
        """Make an object have these fields, by server-side apply; create it if need be.

        Args:
            desired: the fields that this manager wants and no others. Fields that it applied
                before and are missing now are removed.
            field_manager: the owner of these fields; None for the cluster's `field_manager`, else
                the name of the Operator in whose function this is called. Programs that apply to
                the same objects need different names.
            force: take over fields that other managers own.
            dry_run: the server checks the write and stores nothing.
            field_validation: what the server does with duplicate fields: `Strict` refuses the
                write, `Warn` warns, `Ignore` accepts them; None for the server's default, which is
                `Warn`. Servers refuse an apply with a field that the kind lacks whatever this is.
            subresource: the part of the object that is written, such as `status`; empty for the
                object itself. Servers apply the `scale` of built-in kinds only: `patch` that of a
                custom resource.
            of: the object that the subresource belongs to, or its
                `(api_version, plural, key)`; None if `desired` is that object.

        Returns:
            The object as the server stored it: under its old resource version if nothing changed.

        Raises:
            ApplyConflictError: other managers own some of the fields with other values.
            InvalidArgumentError: `desired` lacks apiVersion, kind, a name or a namespace, has a
                status that is a subresource of its kind, or there is no field manager; then nothing
                is sent.
            NotFoundError: the object of the subresource does not exist, or the server does not
                serve the subresource.
            APIStatusError: the server refused.
            TransportError: no response arrived; it may have been applied or not.

        Cancellation:
            Unless it still waits for the rate limit, it may have been applied or not.

        Source:
            KEP-555.
        """
        manager = apply_manager_of(field_manager, self.field_manager)
        body, target = await self._desired(desired, subresource, of)
        return await self._apply(
            body,
            target,
            manager,
            force=force,
            dry_run=dry_run,
            field_validation=field_validation,
        )

    async def apply_if_changed(
        self,
        desired: Body,
        current: KubeObject[object] | None,
        *,
        field_manager: str | None = None,
        force: bool = False,
    ) -> KubeObject:
        """Apply an object unless it still is as this process has applied it.

        Only the paths in `desired` count, and those that were applied last: the server's defaults
        and other managers' fields make no difference. A list that the server tracks as one field,
        as most of custom resources are, is owned as a whole. {} and [] are values: an empty
        selector selects everything, and an absent one nothing. What this process has not applied
        since it started, or since its term of leader election began, is applied once. Fields that
        another program adds meanwhile under the same field manager are not seen: use leader
        election, where two versions of a program run during a rolling update. The `stringData` of a
        Secret is compared with its `data`. Other fields that the server does not return cannot be
        compared, as well as fields that an informer's transform has cut, and nothing but the
        version of an object from a cache with `memory="metadata"`: such an object is applied again
        after any change of it, and not while it has the version of the last response. What the
        server altered or does not return is applied again after five minutes, too: a policy that
        altered it may have ended.

        Args:
            desired: as for `apply`.
            current: the object as it is known now, from a cache for example; None if there is none.
            field_manager: the owner of these fields; None as for `apply`.
            force: take over fields that other managers own.

        Returns:
            The object as the server stored it; `current` if nothing was sent.

        Raises:
            ApplyConflictError: other managers own some of the fields with other values.
            InvalidArgumentError: as for `apply`, or `current` is another object.
            APIStatusError: the server refused.
            TransportError: no response arrived; it may have been applied or not.

        Cancellation:
            As for `apply`; the next call then applies the object again.
        """
        body, target = await self._part(desired, "", None, "desired")
        return await self._apply_if_changed(
            body, target, current, field_manager=field_manager, force=force
        )

    async def _apply_if_changed(
        self,
        body: JSONObject,
        target: Target,
        current: KubeObject[object] | None,
        *,
        field_manager: str | None,
        force: bool,
    ) -> KubeObject:
        """Apply a body, which becomes the cluster's own, where it belongs."""
        manager = apply_manager_of(field_manager, self.field_manager)
        target = await self._checked_desired(body, target)
        if current is None:
            return await self._apply(body, target, manager, force=force)
        check_type("current", current, KubeObject)
        if current.key != target.key or current.gvk != target.api.gvk:
            raise InvalidArgumentError("current", f"{current!r} is not {target.key!r}")
        applied, identity = self._applied, ApplyKey(target.resource, target.key, manager)
        term = CURRENT_GUARD.get()
        if applied.is_applied(identity, _owned(body, target), current, term=term):
            return self._unsent(target, current)
        return await self._apply(
            body,
            target,
            manager,
            force=force,
            version=current.metadata.resource_version,
            is_due=applied.is_due(identity),
        )

    @overload
    async def delete(
        self,
        obj: Body,
        /,
        *,
        check_uid: bool = True,
        check_version: bool = False,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> KubeObject | None: ...
    @overload
    async def delete(
        self,
        api_version: str,
        plural: str,
        key: str,
        /,
        *,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> KubeObject | None: ...
    async def delete(
        self,
        obj: Body | str,
        plural: str = "",
        key: str = "",
        /,
        *,
        check_uid: bool = True,
        check_version: bool = False,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> KubeObject | None:
        """Delete an object: `delete(pod)`, or `delete("v1", "pods", "default/a")`.

        Args:
            obj: the object, or the resource's api version.
            plural: the resource's plural name, if no object is given.
            key: `namespace/name` or `name`, if no object is given.
            check_uid: do not delete a successor that has the same name.
            check_version: do not delete an object that has changed since `obj`.
            propagation: what happens to the objects it owns; None is the resource's default.
            grace_period_seconds: how long it may take to end; None is the object's own.
            dry_run: the server checks the deletion and deletes nothing.

        Returns:
            None if the object is gone, or did not exist; the object if finalizers or its grace
            period hold it.

        Raises:
            ConflictError: it is another object by now, or another version.
            NotFoundError: the answer does not name the object, and says nothing about it: the
                server has no such resource, or a proxy answered.
            InvalidArgumentError: the object lacks apiVersion, kind, a name or a namespace; the key
                lacks a namespace, or has one where the resource has none.
            APIStatusError: the server refused.
            TransportError: no response arrived; it may have been deleted or not.

        Cancellation:
            Unless it still waits for the rate limit, it may have been deleted or not.
        """
        metadata: JSONObject = {}
        if isinstance(obj, str):
            resource = GroupVersionResource.of(obj, plural)
        else:
            # Of a cached object the body may be nested too deeply to be decoded.
            body = head_of(obj) if isinstance(obj, KubeObject) else body_of(obj)
            target = await target_of(self.discovery, body)
            resource, key, metadata = target.resource, target.key, body["metadata"]
        uid = str(metadata.get("uid") or "")
        version = metadata.get("resourceVersion")
        wanted = {"uid": check_uid and uid, "resourceVersion": check_version and version}
        options = delete_options(propagation, grace_period_seconds, dry_run=dry_run)
        options["preconditions"] = {name: value for name, value in wanted.items() if value} or None
        version = str(version) if version else None
        return await self._writes.delete(
            resource, key, options, uid=uid, version=version, dry_run=dry_run
        )

    async def wait_ready(
        self,
        obj: Body,
        *,
        timeout_seconds: float = 300.0,
        rules: Mapping[tuple[str, str], Callable[[JSONObject], Readiness]] | None = None,
    ) -> KubeObject:
        """Read an object until it is ready, as `readiness.of` decides it; for scripts and tests.

            await cluster.apply(deployment, field_manager="release", force=True)
            await cluster.wait_ready(deployment, timeout_seconds=600)

        It is read after 0.1, 0.2 and more seconds, then every two seconds. An object that does not
        exist yet, or has failed, is waited for, too, and so is a server that is busy or away: all
        may pass. A reconcile does not wait: see `children.ready`. Where there is a cache,
        `informer.wait_for` needs no requests.

        Args:
            obj: the object, or a dict with apiVersion, kind, name and namespace.
            timeout_seconds: for how long it is read.
            rules: as for `readiness.of`.

        Returns:
            The object, when it is ready.

        Raises:
            ReadyTimeoutError: it was not ready in time; says what was missing.
            InvalidArgumentError: it lacks apiVersion, kind, a name or a namespace.
            NotFoundError: the server does not serve its kind.
            APIStatusError: the server refused to show it.

        Cancellation:
            Safe.
        """
        from pyinformer.client.cluster._ready_wait import shown_object, wait_until_ready

        check_seconds("timeout_seconds", timeout_seconds)
        body = head_of(obj) if isinstance(obj, KubeObject) else body_of(obj)

        async def read() -> KubeObject:
            """Read it; the server may not be there yet when its kind is looked up."""
            target = await target_of(self.discovery, body)
            resource = target.resource
            return await self.get(resource.api_version, resource.resource, target.key)

        return await wait_until_ready(
            read, shown=shown_object(body), timeout_seconds=timeout_seconds, rules=rules
        )

    def observe_writes(self, resource: GroupVersionResource, observer: WriteObserver) -> None:
        """Call an observer after every write to a resource; a second time changes nothing.

        Args:
            resource: the resource, in exactly the version that is written.
            observer: called on the event loop, in the step in which a response arrives.

        Raises:
            InvalidTypeError: the resource is not a GroupVersionResource.
        """
        self._writes.observers.add(resource, observer)

    def forget_observer(self, resource: GroupVersionResource, observer: WriteObserver) -> None:
        """Remove an observer of writes, if it is one."""
        self._writes.observers.remove(resource, observer)

    def record_write(
        self, api_version: str, plural: str, obj: Body | bytes, *, deleting: bool = False
    ) -> None:
        """Make a write that the program made by other means visible to this process's reads.

        Call it on the event loop, with the server's whole response.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name, as in its URL.
            obj: what the server answered.
            deleting: the write was a deletion, so that the object is gone unless finalizers or a
                grace period hold it.

        Raises:
            InvalidObjectError: it is not an object of this resource as a server returns it. A
                Status does not name the namespace of its object: use `record_delete`.
            InvalidTypeError: it is not an object.
        """
        resource = GroupVersionResource.of(api_version, plural)
        raw = obj if isinstance(obj, bytes) else encode_body(body_of(obj))
        self._writes.record(resource, raw, deleting=deleting)

    def record_delete(
        self,
        api_version: str,
        plural: str,
        key: str,
        *,
        uid: str,
        resource_version: str | None = None,
    ) -> None:
        """Make a deletion visible to this process's reads; call it on the event loop.

        Record only what the server has confirmed: an object that finalizers hold still exists.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name, as in its URL.
            key: `namespace/name`, or `name`.
            uid: which object of that name.
            resource_version: the newest known one: of the deletion, or an earlier one.

        Raises:
            InvalidArgumentError: the uid is empty, or the key is malformed.
        """
        if not uid:
            reason = "must not be empty: reads would not show a successor of that name either"
            raise InvalidArgumentError("uid", reason)
        resource = GroupVersionResource.of(api_version, plural)
        object_path(resource, key)  # refuses a malformed key
        self._writes.observers.deleted(resource, key, uid, resource_version)

    def write_statistics(self) -> WriteStatistics:
        """Return the counters of the writes so far."""
        return self._writes.statistics()

    async def aclose(self) -> None:
        """Close every connection; a second call does nothing.

        Raises:
            LifecycleError: it belongs to another event loop; nothing was closed.

        Cancellation:
            Safe; what is left is closed by a second call.
        """
        self._requests.loop.check(may_be_closed=True)
        try:
            await self.connection.aclose()
        finally:
            self._metrics_scope.close()
            if self._label is not None:
                self._label.release()

    async def __aenter__(self) -> Self:
        claim_loop(self)
        if isinstance(self.connection, Connection):
            try:
                await self.connection.read_certificates()
            except BaseException:
                await self.aclose()
                raise
        return self

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        return f"<Cluster {name}{self.config.server} from {self.config.source}>"

    def _selection(
        self,
        api_version: str,
        plural: str,
        namespace: str | None,
        label_selector: Selector | LabelSelector,
        field_selector: Selector | FieldSelector,
        *,
        metadata_only: bool = False,
    ) -> ListWatch:
        """Return the objects of one resource that match."""
        check_namespace(namespace)
        return self.list_watch(
            GroupVersionResource.of(api_version, plural),
            namespace=namespace,
            label_selector=LabelSelector.parse(label_selector),
            field_selector=FieldSelector.parse(field_selector),
            metadata_only=metadata_only,
        )

    def _query_of(
        self,
        field_manager: str | None,
        field_validation: FieldValidation | None,
        *,
        dry_run: bool,
    ) -> Query:
        manager = field_manager_of(field_manager, self.field_manager)
        return query_of(manager, dry_run=dry_run, field_validation=field_validation)

    async def _part(
        self, obj: Body, subresource: str, of: Parent | None, argument: str = "obj"
    ) -> tuple[JSONObject, Target]:
        """Return the body of a write, and where it belongs.

        The body for a subresource of another object gets the name of that object.
        """
        body = body_of(obj, argument)
        if not subresource:
            if of is not None:
                raise InvalidArgumentError("of", "needs a subresource")
            return body, await target_of(self.discovery, body, argument=argument)
        target = await subresource_of(self.discovery, body, subresource, of, argument=argument)
        if of is not None:
            place = {"namespace": target.namespace} if target.namespace else {}
            given = body.get("metadata") or {}
            body["metadata"] = {"name": target.name, **place, **given}
        return body, target

    async def _original(
        self,
        obj: KubeObject[object] | JSONObject,
        subresource: str = "",
        of: Parent | None = None,
    ) -> tuple[Target, KubeObject[object]]:
        """Return where an object lives, and its record."""
        if is_model(obj):
            reason = f"a {type(obj).__name__} may not know all fields; pass the object itself"
            raise InvalidTypeError("obj", reason)
        if isinstance(obj, KubeObject):
            named = head_of(obj)
            return (await self._part(named, subresource, of))[1], obj
        body, target = await self._part(obj, subresource, of)
        return target, self._read(target, encode_body(body))

    def _read(self, target: Target, raw: bytes) -> KubeObject:
        return self._writes.responses.read(target.resource, raw, subresource=target.subresource)

    def _unsent(self, target: Target, current: KubeObject[object]) -> KubeObject:
        """Return the object of a write that would change nothing, and count it."""
        self._writes.skipped += 1
        raw = current.raw
        if has_only_metadata(current):
            return KubeObject(current.key, current.metadata, None, raw, current.gvk)
        return self._read(target, raw)

    async def _patch(
        self,
        target: Target,
        before: KubeObject[object],
        patch: JSONObject,
        *,
        query: Query,
        check_uid: bool,
        check_version: bool,
        at_version: str = "",
        written: JSONObject | None = None,
        metadata_only: bool = False,
    ) -> KubeObject:
        """Send a merge patch with preconditions, unless it is empty.

        It may require another version than that of `before`, and have more than was `written`.
        """
        metadata = before.metadata
        if not patch:
            return self._unsent(target, before)
        if check_version and not metadata.resource_version:
            raise InvalidArgumentError("check_version", f"{target.key!r} has no resourceVersion")
        wanted = {
            "uid": check_uid and metadata.uid,
            "resourceVersion": at_version or (check_version and metadata.resource_version),
        }
        checks = {name: value for name, value in wanted.items() if value}
        body = patch
        if checks:
            body = {**patch, "metadata": {**(patch.get("metadata") or {}), **checks}}
        try:
            answer = await self._writes.write(
                "PATCH",
                target,
                body,
                query=query,
                content_type=_MERGE_PATCH,
                version=metadata.resource_version,
                written=written,
                metadata_only=metadata_only,
            )
        except InvalidError as error:
            if "uid" in checks and "metadata.uid" in error.message:
                raise _is_another(target, error) from error
            raise
        return answer.object

    async def _send_status(
        self,
        target: Target,
        before: KubeObject[object],
        change: StatusChange,
        *,
        query: Query,
        check_uid: bool,
        check_version: bool,
    ) -> tuple[JSONObject, KubeObject]:
        """Send the patch of a status, its conditions merged into the newest; return both.

        The newest is what this process knows, and after a conflict what the server has.
        """
        send = partial(
            self._patch,
            target.of_status,
            before,
            query=query,
            check_uid=check_uid,
            check_version=check_version,
            written=change.written,
        )
        if check_version or not change.has_conditions:
            return change.patch, await send(change.patch)
        newest = self._writes.statuses.newest(before)
        left = _STATUS_ATTEMPTS
        while True:
            if not newest.version:  # of a dict without one
                newest = (await self._read_status(target))[0]
            patch = change.onto({"status": newest.status})
            try:
                return patch, await send(patch, at_version=newest.version)
            except ConflictError as error:
                left -= 1
                if not left:
                    raise
                newest, uid = await self._read_status(target)
                if check_uid and before.metadata.uid not in ("", uid):
                    raise _is_another(target, error) from error

    async def _read_status(self, target: Target) -> tuple[StatusAt, str]:
        """Return the status that the server has, and the uid of its object."""
        found = self._read(target, await self._requests.read(target.path))
        version = found.metadata.resource_version
        return StatusAt(version, found.at("status", default=None)), found.metadata.uid

    def _report_ignored_status(self, target: Target, body: JSONObject, found: KubeObject) -> None:
        """Report the fields of a status that the write of an object has dropped."""
        if "status" in body and target.api.has_status and not target.subresource:
            dropped = ignored_fields(body, found)
            self._writes.unstored.record(target.resource, dropped, cure=STATUS_IS_APART)

    async def _desired(
        self, desired: Body, subresource: str = "", of: Parent | None = None
    ) -> tuple[JSONObject, Target]:
        body, target = await self._part(desired, subresource, of, "desired")
        return body, await self._checked_desired(body, target)

    async def _checked_desired(self, body: JSONObject, target: Target) -> Target:
        body["metadata"].pop("managedFields", None)  # servers refuse it in an apply
        if not target.subresource and target.api.has_status and has_status_fields(body):
            target = replace(target, api=await self.discovery.current(target.api))
            _check_applied_status(target.api, "nothing was sent")
        return target

    async def _apply(
        self,
        body: JSONObject,
        target: Target,
        field_manager: str,
        *,
        force: bool,
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        version: str | None = None,
        is_due: bool = False,
    ) -> KubeObject:
        """Send an apply, and remember what the server made of it."""
        query = query_of(
            field_manager, dry_run=dry_run, force=force, field_validation=field_validation
        )

        async def send() -> WriteResponse:
            """Send the apply."""
            return await self._writes.write(
                "PATCH",
                target,
                body,
                query=query,
                content_type=_APPLY_PATCH,
                version=version,
                is_due=is_due,
            )

        if dry_run or target.subresource:
            return (await send()).object
        identity = ApplyKey(target.resource, target.key, field_manager)
        with self._applied.applying(identity):
            found, raw = await send()
            if has_status_fields(body) and not is_status_stored(body, found):
                now = await self.discovery.current(target.api)
                _check_applied_status(now, "the rest was applied")
            term = CURRENT_GUARD.get()
            self._applied.remember(identity, _owned(body, target), found, raw, term=term)
        return found


def state_of(cluster: Cluster) -> ClusterState:
    """Return what the parts of this library share through a cluster; users do not need it."""
    return cluster._state  # noqa: SLF001 - kept off the public face of Cluster


def check_cluster(cluster: object, *_: object, **__: object) -> None:
    """Refuse anything else in place of a cluster, such as what connect() returns.

    Further arguments are ignored, so that it can check those of any function of a cluster.

    Raises:
        InvalidTypeError: naming the argument, and the cure where it is the cluster of a plain
            function.
    """
    if isinstance(cluster, Cluster):
        return
    reason = "must be the Cluster of `async with pyinformer.connect() as cluster`"
    reason = f"{reason}, got {type(cluster).__name__}"
    if isinstance(getattr(cluster, "asynchronous", None), Cluster):
        reason = (
            f"{reason}: a plain function calls the function of the same name in"
            " pyinformer.blocking, or a method of its cluster; its .asynchronous is for code on the"
            " event loop"
        )
    raise InvalidTypeError("cluster", reason)


async def apply_converted(
    cluster: Cluster, body: JSONObject, target: Target, current: KubeObject[object] | None
) -> KubeObject:
    """Apply a body by `apply_if_changed`, with force, where it is known where it belongs.

    Args:
        cluster: the cluster.
        body: as `body_of` returns it; it becomes the cluster's own.
        target: where it belongs.
        current: the object as it is known now.

    Raises:
        InformerError: as `apply_if_changed`.

    Cancellation:
        As for `apply_if_changed`.
    """
    return await cluster._apply_if_changed(  # noqa: SLF001 - as above
        body, target, current, field_manager=None, force=True
    )


def moving_fields(
    cluster: Cluster, resource: GroupVersionResource, key: str, field_manager: str
) -> AbstractContextManager[None]:
    """Forget what was applied to an object, before and in the block: its manager owns more now."""
    return cluster._applied.applying(  # noqa: SLF001 - as above
        ApplyKey(resource, key, field_manager)
    )


def claim_loop(cluster: Cluster) -> None:
    """Bind a cluster to the running event loop, as its first request does.

    Raises:
        LifecycleError: it belongs to another loop, or none runs here.
    """
    cluster._requests.loop.claim()  # noqa: SLF001 - as above
    if isinstance(cluster.connection, Connection):
        cluster.connection.claim_loop()


def _check_is_copy(argument: str, edited: object, original: object, called: str) -> None:
    """Refuse an original that was edited in place, in which no edit can be found.

    Raises:
        InvalidArgumentError: both are the same, and it can be edited.
    """
    if edited is original and edited is not None and not isinstance(edited, KubeObject):
        reason = (
            f"is {called} itself, so no edit can be found: copy it with copy.deepcopy() before it"
            " is edited"
        )
        raise InvalidArgumentError(argument, reason)


def _check_patched_status(api: APIResource) -> None:
    """Refuse a patch that edits a status which servers ignore in it.

    Raises:
        InvalidArgumentError: the kind has a status subresource.
    """
    if api.has_status:
        reason = (
            f"the status of {api.resource} is written by status(), not by patch(): it was not"
            " stored"
        )
        raise InvalidArgumentError("edited", reason)


def _check_applied_status(api: APIResource, outcome: str) -> None:
    """Refuse an apply with a status that servers ignore in it.

    Raises:
        InvalidArgumentError: the kind has a status subresource.
    """
    if api.has_status:
        reason = (
            f"must not have a status: that of {api.resource} is written by status(), or by"
            f" apply() with subresource='status'; {outcome}"
        )
        raise InvalidArgumentError("desired", reason)


def _owned(body: JSONObject, target: Target) -> JSONObject:
    """Return what an apply can own: the server ignores a status that is a subresource."""
    ignored = "status" if target.api.has_status else ""
    return {name: value for name, value in body.items() if name != ignored}


def _is_another(target: Target, error: InvalidError | ConflictError) -> ConflictError:
    # To a server the uid in a patch is not a precondition but a change to an immutable field.
    message = f"{target.resource} {target.key!r} is another object of that name by now"
    return ConflictError(status=409, reason="Conflict", message=message, request=error.request)


def _not_stored(target: Target, fields: Sequence[str]) -> InvalidArgumentError:
    shown = ", ".join(fields[:_SHOWN_FIELDS])
    if len(fields) > _SHOWN_FIELDS:
        shown += f" and {len(fields) - _SHOWN_FIELDS} more"
    reason = f"the server stored none of {shown}: the schema of {target.resource} must define them"
    if not target.api.has_status:
        reason = (
            f"the server stored none of {shown}: {target.resource} has no status subresource. For a"
            " custom resource, add `subresources: {status: {}}` and the schema of the status to its"
            " CustomResourceDefinition"
        )
    return InvalidArgumentError("status", reason)
