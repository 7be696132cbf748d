"""The one path of every write: it is sent, its response is decoded once, and observers see it.

Observers are called in the step of the event loop in which the response arrives, before the caller
gets it. They are not called for dry runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, final, get_args

from pyinformer.client.cluster._json_conversion import encode_body
from pyinformer.client.cluster._rate_limited_requests import RateLimitedRequests, WriteStatistics
from pyinformer.client.cluster._status_patch_bases import StatusPatchBases
from pyinformer.client.cluster._targets import (
    PathParts,
    Target,
    check_scope,
    check_secret,
    has_only_metadata,
    object_path,
    parts_of,
    resource_of,
)
from pyinformer.client.cluster._unstored_status_fields import UnstoredFields
from pyinformer.client.cluster._write_context import WriteOutcomes, current_identity
from pyinformer.client.cluster._write_observer import WriteObservers
from pyinformer.client.cluster._write_responses import (
    ResponseReader,
    deleted_uid,
    is_gone,
    is_released,
)
from pyinformer.client.transport import METADATA_ACCEPT, record_write
from pyinformer.errors import (
    APIStatusError,
    FencedError,
    InvalidObjectError,
    NotFoundError,
    ProtocolError,
    ServerError,
    WriteAnswerError,
)
from pyinformer.objects import (
    GroupVersionKind,
    GroupVersionResource,
    JSONObject,
    KubeObject,
    check_choice,
    check_integer,
    object_key,
)

if TYPE_CHECKING:
    from pyinformer.client.cluster._discovery import Discovery
    from pyinformer.client.transport import ListWatch, Query, RawResponse

FieldValidation: TypeAlias = Literal["Ignore", "Warn", "Strict"]
"""What the server does with fields of a write that it does not know, or that are there twice."""

_DRY_RUN: Final = ("dryRun", "All")
_OF_THE_OBJECT: Final = frozenset({"", "status"})  # subresources whose response is the object
_NO_SUCH_METHOD: Final = 405  # of a collection that has no such verb outside a namespace
_JSON: Final = "application/json"
_STATUS: Final = GroupVersionKind("", "v1", "Status")


class WriteResponse(NamedTuple):
    """The response to a write."""

    object: KubeObject
    raw: bytes
    """Its JSON text, with the managedFields that the object lacks."""


@final
class WritePath:
    """Sends the writes of one cluster and reports their responses.

    Args:
        requests: sends a write and returns the response.
        discovery: what the server serves.
    """

    def __init__(self, requests: RateLimitedRequests, discovery: Discovery) -> None:
        self.responses: ResponseReader = ResponseReader()
        self.observers: WriteObservers = WriteObservers()
        self.skipped: int = 0
        """How many writes would have changed nothing and were not sent."""
        self.unstored: UnstoredFields = UnstoredFields()
        self.statuses: StatusPatchBases = StatusPatchBases()
        """The statuses that were written last."""
        self._requests = requests
        self._discovery = discovery
        self._outcomes = WriteOutcomes()

    async def write(
        self,
        method: str,
        target: Target,
        body: JSONObject,
        *,
        query: Query,
        content_type: str = _JSON,
        version: str | None = None,
        is_due: bool = False,
        written: JSONObject | None = None,
        metadata_only: bool = False,
    ) -> WriteResponse:
        """Send a write that leaves an object, and return the response.

        Args:
            method: POST, PUT or PATCH.
            target: the object that is written, or the subresource of one.
            body: the object, or the patch.
            query: what `query_of` returned, and more.
            content_type: the format of the body.
            version: the resource version that the caller knows, if any.
            is_due: the caller cannot know whether the write changes anything.
            written: what `body` changes, if it has foreign conditions, too; None for all of it.
            metadata_only: ask for the object's metadata alone in the response.

        Raises:
            InvalidArgumentError: it is a Secret whose data is not base64.
            WriteAnswerError: the write was carried out, and its response cannot be read.
            NotFoundError: the object does not exist, or the server has no such resource; then the
                message has similar names.
            APIStatusError: the server refused.
            TransportError: no response arrived.

        Cancellation:
            Unless it still waits for the rate limit, it may have been carried out or not.
        """
        check_secret(target, body)
        resource, is_create = target.resource, method == "POST"
        path = target.collection_path if is_create and not target.subresource else target.path
        with self._requests.spans.of(method, path) as span:
            raw = await self._send(
                resource,
                method,
                path,
                query=query,
                body=encode_body(body, content_type),
                content_type=content_type,
                subresource=target.subresource,
                accept=METADATA_ACCEPT if metadata_only else "",
            )
            with _carried_out(method, resource):
                if metadata_only:
                    found = self.responses.read_metadata(
                        resource, raw, kind=target.api.kind, key=target.key
                    )
                    raw = found.raw  # a server that does not know this has sent the whole object
                else:
                    found = self._read(target, raw, is_create=is_create)
            if _DRY_RUN not in query:
                if span is not None:
                    span.wrote(found.key, found.metadata.resource_version)
                changed = body if written is None else written
                if target.takes_status and method == "PUT":
                    self.statuses.replaced(found, current_identity())
                elif target.takes_status and method == "PATCH" and "status" in changed:
                    self.statuses.patched(found, changed["status"], current_identity())
                self._record(
                    target, found, raw, is_create=is_create, version=version, is_due=is_due
                )
            return WriteResponse(found, raw)

    def _read(self, target: Target, raw: bytes, *, is_create: bool) -> KubeObject:
        resource, subresource = target.resource, target.subresource
        if is_create:
            key = target.key if subresource else ""
            return self.responses.read_created(resource, raw, key=key, subresource=subresource)
        return self.responses.read(resource, raw, key=target.key, subresource=subresource)

    def _record(
        self,
        target: Target,
        found: KubeObject,
        raw: bytes,
        *,
        is_create: bool,
        version: str | None,
        is_due: bool,
    ) -> None:
        """Report what the response to a write says about the object that was written."""
        resource, after = target.resource, found.metadata.resource_version
        if not found.metadata.name and found.gvk == _STATUS:  # of an eviction or a binding
            record_write(str(resource), "")
            self._outcomes.changed(resource, target.key)
        if not (found.metadata.name and after):  # a review or a token, which are not stored
            return
        gone = is_gone(found)
        record_write(str(resource), "" if gone else after)
        # The version of a Scale is that of its object; its content is nothing for a cache.
        if not target.subresource or found.gvk == target.api.gvk:
            self._report(resource, found, raw, is_gone=gone)
        if gone:
            self._outcomes.changed(resource, found.key)
        elif is_create and not target.subresource:
            self._outcomes.created(resource, found.key, after)
        else:
            self._outcomes.wrote(resource, found.key, before=version, after=after, is_due=is_due)

    async def delete(
        self,
        resource: GroupVersionResource,
        key: str,
        options: JSONObject,
        *,
        uid: str,
        version: str | None,
        dry_run: bool,
    ) -> KubeObject | None:
        """Send a deletion, and return what is left of the object.

        Args:
            resource: the resource.
            key: `namespace/name`, or `name`.
            options: the DeleteOptions; fields that are None are not sent.
            uid: which object of that name, if the caller knows it.
            version: the resource version that the caller knows, if any.
            dry_run: nothing is deleted, so observers are not called.

        Raises:
            WriteAnswerError: it was carried out, and its response cannot be read.
            NotFoundError: the answer does not name the object. If the server has no such resource,
                the message has similar names.
            InvalidArgumentError: the key lacks a namespace, or has one.
            APIStatusError: the server refused.
            TransportError: no response arrived.

        Cancellation:
            Unless it still waits for the rate limit, it may have been carried out or not.
        """
        body = _encode_options(options)
        path = object_path(resource, key)
        with self._requests.spans.of("DELETE", path) as span:
            try:
                raw = await self._send(
                    resource, "DELETE", path, query=(), body=body, content_type=_JSON
                )
            except NotFoundError as error:
                if not error.names_object:
                    known = self._discovery.known(resource)
                    if known is not None:  # of a wrong scope servers say only that it is unknown
                        await check_scope(self._discovery, known, key)
                    raise  # of a server without the resource, or of a proxy: the object may exist
                if not dry_run:
                    self.observers.deleted(resource, key, uid, version)
                # A wrong key would look like success.
                api = await self._discovery.resource(resource)
                await check_scope(self._discovery, api, key)
                return None
            with _carried_out("DELETE", resource):
                named = deleted_uid(resource, raw)
                last = None if named is not None else self.responses.read(resource, raw, key=key)
            if span is not None and last is not None and not dry_run:
                span.wrote(key, last.metadata.resource_version)
        left = None if last is None or is_released(last) else last
        if dry_run:
            return left
        record_write(str(resource), "" if left is None else left.metadata.resource_version)
        if last is not None:
            self._report(resource, last, raw, is_gone=left is None)
        else:
            gone = named or uid
            self.observers.deleted(resource, key, gone, version if gone == uid else None)
        if left is None:
            self._outcomes.changed(resource, key)
        else:  # finalizers hold it
            after = left.metadata.resource_version
            self._outcomes.wrote(resource, key, before=version, after=after)
        return left

    async def delete_collection(
        self, selection: ListWatch, options: JSONObject
    ) -> tuple[KubeObject, ...]:
        """Send the deletion of all objects that match, and return them as they were before.

        Raises:
            WriteAnswerError: it was carried out, and its response cannot be read.
            NotFoundError: the server has no such resource; the message has similar names.
            APIStatusError: the server refused.
            TransportError: no response arrived.

        Cancellation:
            Unless it still waits for the rate limit, it may have been carried out or not.
        """
        resource = selection.resource
        with self._requests.spans.of("DELETE", selection.path):
            raw = await self._send(
                resource,
                "DELETE",
                selection.path,
                query=selection.selectors,
                body=_encode_options(options),
                content_type=_JSON,
            )
        record_write(str(resource), "")
        with _carried_out("DELETE", resource):
            return self.responses.read_list(resource, raw)

    async def request(
        self, method: str, path: str, *, query: Query, body: bytes | None, content_type: str
    ) -> bytes:
        """Send a write of any kind, and return the response.

        Raises:
            APIStatusError: the server refused.
            TransportError: no response arrived.

        Cancellation:
            Unless it still waits for the rate limit, it may have been carried out or not.
        """
        resource = resource_of(path)
        recorded = nullcontext() if resource is None else _recorded_if_lost(resource)
        with self._requests.spans.of(method, path), recorded:
            raw = await self._requests.write(
                method, path, query=query, body=body, content_type=content_type
            )
        if resource is not None:
            record_write(str(resource), "")
        return raw

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        query: Query,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_seconds: float | None,
        received: RawResponse,
    ) -> bytes:
        """Send a write of any kind, and report the object that its response shows.

        Raises:
            InformerError: as `RateLimitedRequests.exchange`.

        Cancellation:
            Unless it still waits for the rate limit, it may have been carried out or not.
        """
        parts = parts_of(path)
        with nullcontext() if parts is None else _recorded_if_lost(parts.resource):
            raw = await self._requests.exchange(
                method,
                path,
                query=query,
                headers=headers,
                body=body,
                timeout_seconds=timeout_seconds,
                received=received,
            )
        if parts is not None and _DRY_RUN not in query:
            record_write(str(parts.resource), "")
            self._observe(method, parts, raw)
        return raw

    def _observe(self, method: str, parts: PathParts, raw: bytes) -> None:
        """Report what a response shows of an object; the watch brings everything else."""
        is_deletion = method == "DELETE"
        if parts.subresource not in _OF_THE_OBJECT or (is_deletion and not parts.name):
            return
        try:
            uid = deleted_uid(parts.resource, raw) if is_deletion else None
            if uid is None:
                self.record(parts.resource, raw, deleting=is_deletion)
            elif uid:
                key = object_key(parts.namespace, parts.name)
                self.observers.deleted(parts.resource, key, uid, None)
        except (InvalidObjectError, ProtocolError):  # such as a review, which is not stored
            return

    async def _send(
        self,
        resource: GroupVersionResource,
        method: str,
        path: str,
        *,
        query: Query,
        body: bytes,
        content_type: str,
        subresource: str = "",
        accept: str = "",
    ) -> bytes:
        """Send a write and return the response; a 404 says whether the resource is served.

        A 404 or 405 in a scope that the kind no longer has names the new one.
        """
        try:
            with _recorded_if_lost(resource):
                return await self._requests.write(
                    method,
                    path,
                    query=query,
                    body=body,
                    content_type=content_type,
                    accept=accept,
                )
        except APIStatusError as error:
            if isinstance(error, NotFoundError):
                if subresource:
                    await self._discovery.check_subresource(
                        resource, subresource, error, again=True
                    )
                await self._discovery.check_served(resource, error)
            elif error.status != _NO_SUCH_METHOD:
                raise
            elif (known := self._discovery.known(resource)) is not None:
                await self._discovery.current(known)
            hint = "" if error.names_object else self._scope_hint(resource, path)
            if not hint:
                raise
            raise error.with_hint(hint) from error

    def _scope_hint(self, resource: GroupVersionResource, path: str) -> str:
        """Return the scope of a kind if the path of a request has another one; else nothing."""
        known = self._discovery.known(resource)
        in_namespace = f"/{resource.resource}" in path.partition("/namespaces/")[2]
        if known is None or known.namespaced == in_namespace:
            return ""
        scope = "cluster-scoped by now: name no namespace"
        return f"{known.kind} is {'in namespaces by now: name one' if known.namespaced else scope}"

    def record(self, resource: GroupVersionResource, raw: bytes, *, deleting: bool) -> None:
        """Report a write that the program made by other means.

        Raises:
            InvalidObjectError: it is not an object of this resource as a server returns it.
        """
        found = self.responses.read_recorded(resource, raw)
        is_over = deleting or found.metadata.deletion_timestamp is not None
        self._report(resource, found, raw, is_gone=is_over and is_released(found))

    def _report(
        self, resource: GroupVersionResource, found: KubeObject, raw: bytes, *, is_gone: bool
    ) -> None:
        if is_gone:
            meta = found.metadata
            self.observers.deleted(resource, found.key, meta.uid, meta.resource_version or None)
            return
        self.observers.wrote(resource, found, raw)
        if has_only_metadata(found):  # it does not say what the status is
            return
        known = self._discovery.known(resource)
        if (known is not None and known.has_status) or b'"status"' in raw:
            self.statuses.answered(found, len(raw))

    def statistics(self) -> WriteStatistics:
        """Return the counters of the writes so far."""
        unchanged, requests = self._outcomes.unchanged, self._requests
        return WriteStatistics(
            sent=requests.sent,
            unchanged=sum(unchanged.values()),
            unchanged_by=unchanged,
            skipped=self.skipped,
            retried=requests.retried,
            waiting=requests.waiting,
            observer_failures=self.observers.failures,
            unstored_fields=self.unstored.reported,
        )


@contextmanager
def _recorded_if_lost(resource: GroupVersionResource) -> Iterator[None]:
    """Record a write of which it is unknown whether it was carried out."""
    try:
        yield
    except APIStatusError as error:
        if isinstance(error, ServerError):  # of etcd or a proxy that was late: it may be stored
            record_write(str(resource), "")
        raise
    except FencedError as error:
        if error.may_have_left:
            record_write(str(resource), "")
        raise
    except BaseException:
        record_write(str(resource), "")
        raise


@contextmanager
def _carried_out(method: str, resource: GroupVersionResource) -> Iterator[None]:
    """Report that the server carried out a write whose response cannot be read."""
    try:
        yield
    except (InvalidObjectError, ProtocolError) as error:
        record_write(str(resource), "")
        raise WriteAnswerError(f"{method} {resource}", error.reason) from error


def delete_options(
    propagation: str | None, grace_period_seconds: int | None, *, dry_run: bool
) -> JSONObject:
    """Return the DeleteOptions of a request; fields that are None are not sent.

    Raises:
        InvalidArgumentError: a value cannot work.
    """
    if propagation is not None:
        check_choice("propagation", propagation, ("Background", "Foreground", "Orphan"))
    if grace_period_seconds is not None:
        check_integer("grace_period_seconds", grace_period_seconds, least=0)
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": propagation,
        "gracePeriodSeconds": grace_period_seconds,
        "dryRun": ["All"] if dry_run else None,
    }


def _encode_options(options: JSONObject) -> bytes:
    return encode_body({name: value for name, value in options.items() if value is not None})


def query_of(
    field_manager: str | None,
    *,
    dry_run: bool,
    force: bool = False,
    field_validation: FieldValidation | None = None,
) -> Query:
    """Return the query of a write.

    Raises:
        InvalidArgumentError: `field_validation` is none of the three.
    """
    if field_validation is not None:
        check_choice("field_validation", field_validation, get_args(FieldValidation))
    validation = (("fieldValidation", field_validation),) if field_validation else ()
    manager = (("fieldManager", field_manager),) if field_manager else ()
    forced = (("force", "true"),) if force else ()
    return (*manager, *((_DRY_RUN,) if dry_run else ()), *forced, *validation)
