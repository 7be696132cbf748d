"""Writes that are told of: how each of them leaves, and who hears of its answer.

What enters are requests that are ready to be sent, and the answers of writes that were made by
other means; what leaves are KubeObjects, and a word to each observer of the resource the moment an
answer is there. A dry run is told to nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyinformer.apimachinery import (
    ConflictError,
    GroupVersionResource,
    InvalidArgumentError,
    InvalidError,
    InvalidObjectError,
    InvalidTypeError,
    JSONObject,
    KubeObject,
    NotFoundError,
    ProtocolError,
    View,
    WriteAnswerError,
)
from pyinformer.cluster._answers import Answers, is_gone
from pyinformer.cluster._bodies import NO_UNICODE, Body, body_of, encode_body, is_model
from pyinformer.cluster._discovery import Discovery
from pyinformer.cluster._options import WriteOptions
from pyinformer.cluster._sender import Sender, WriteStatistics
from pyinformer.cluster._targets import (
    Target,
    check_scope,
    identified,
    is_metadata_alone,
    object_path,
    target_of,
)
from pyinformer.cluster._write_observer import WriteObserver, WriteObservers
from pyinformer.cluster._writer import WriteTally

if TYPE_CHECKING:
    from pyinformer.transport import ConnectionProtocol, Query

DRY_RUN: Final = ("dryRun", "All")

_JSON: Final = "application/json"
_MERGE_PATCH: Final = "application/merge-patch+json"


class ObservedWrites:
    """Sends writes and tells of them; the plumbing of an ObjectClient.

    Args:
        connection: the server.
        options: how fast writes may leave.
    """

    def __init__(
        self, connection: ConnectionProtocol, *, options: WriteOptions | None = None
    ) -> None:
        self.connection: ConnectionProtocol = connection
        self._sender = Sender(connection, options or WriteOptions())
        self.discovery: Discovery = Discovery(self._sender.read)
        self._observers = WriteObservers()
        self._answers = Answers(self._observers)
        self._unheard = Answers(WriteObservers())
        self._tally = WriteTally()
        self._skipped = 0

    def observe_writes(self, resource: GroupVersionResource, observer: WriteObserver) -> None:
        """Let an observer hear of every write to a resource; a second time changes nothing.

        Args:
            resource: the resource, in exactly the version that is written.
            observer: called on the event loop, in the step in which an answer arrives.
        """
        self._observers.add(resource, observer)

    def forget_observer(self, resource: GroupVersionResource, observer: WriteObserver) -> None:
        """Tell an observer nothing more; one that is not known is no error."""
        self._observers.remove(resource, observer)

    def record_write(
        self, api_version: str, plural: str, obj: Body | bytes, *, deleting: bool = False
    ) -> None:
        """Let this process's reads know of a write that was made by other means.

        Call it on the event loop, with the server's whole answer.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name, as in its URL.
            obj: what the server answered.
            deleting: the write was a deletion, so that the object is gone unless something
                holds it.

        Raises:
            InvalidObjectError: it is no object of this resource, or not as a server answers: a
                Status says nothing of where its object was, use `record_delete`.
            InvalidTypeError: it is no object.
        """
        resource = GroupVersionResource.of(api_version, plural)
        raw = obj if isinstance(obj, bytes) else encode_body(body_of(obj))
        self._answers.recorded(resource, raw, deleting=deleting)

    def record_delete(
        self,
        api_version: str,
        plural: str,
        key: str,
        *,
        uid: str,
        resource_version: str | None = None,
    ) -> None:
        """Let this process's reads know that an object is gone; call it on the event loop.

        Only the server's word counts: an object that finalizers hold is not gone.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name, as in its URL.
            key: `namespace/name`, or `name`.
            uid: which object of that name.
            resource_version: the newest that is known of it: its deletion's, or an earlier one.

        Raises:
            InvalidArgumentError: the uid is empty, or the key is none.
        """
        if not uid:
            raise InvalidArgumentError("uid", "is empty: a successor would be hidden too")
        resource = GroupVersionResource.of(api_version, plural)
        object_path(resource, key)  # refuses what is no key
        self._observers.deleted(resource, key, uid, resource_version)

    def write_statistics(self) -> WriteStatistics:
        """Return what came of the writes so far."""
        unchanged = self._tally.unchanged
        return WriteStatistics(
            sent=self._sender.sent,
            unchanged=sum(unchanged.values()),
            unchanged_by=unchanged,
            skipped=self._skipped,
            retried=self._sender.retried,
            waiting=self._sender.waiting,
            observer_failures=self._observers.failures,
        )

    async def _original(
        self, obj: KubeObject[View | None] | JSONObject
    ) -> tuple[Target, KubeObject[View | None]]:
        """Return where an object lives, and its record."""
        if is_model(obj):
            reason = f"a {type(obj).__name__} may not know all fields; give the object itself"
            raise InvalidTypeError("obj", reason)
        body = body_of(obj)
        if isinstance(obj, KubeObject):
            return await target_of(self.discovery, identified(obj, body)), obj
        target = await target_of(self.discovery, body)
        return target, self._answers.record(target.resource, encode_body(body))

    async def _patch(
        self,
        path: str,
        target: Target,
        before: KubeObject[View | None],
        patch: JSONObject,
        *,
        query: Query,
        check_uid: bool,
        check_version: bool,
    ) -> KubeObject:
        metadata = before.metadata
        if not patch:
            self._skipped += 1
            if is_metadata_alone(before.to_dict()):
                return KubeObject(before.key, metadata, None, before.raw, before.gvk)
            return self._answers.record(target.resource, before.raw)
        if check_version and not metadata.resource_version:
            raise InvalidArgumentError("check_version", f"{target.key!r} has no resourceVersion")
        wanted = {
            "uid": check_uid and metadata.uid,
            "resourceVersion": check_version and metadata.resource_version,
        }
        checks = {name: value for name, value in wanted.items() if value}
        body = patch
        if checks:
            body = {**patch, "metadata": {**(patch.get("metadata") or {}), **checks}}
        try:
            return await self._write(
                "PATCH",
                path,
                target,
                body,
                query=query,
                content_type=_MERGE_PATCH,
                version=metadata.resource_version,
            )
        except InvalidError as error:
            if "uid" in checks and "metadata.uid" in error.message:
                raise _is_another(target, error) from error
            raise

    async def _write(
        self,
        method: str,
        path: str,
        target: Target,
        body: JSONObject,
        *,
        query: Query,
        content_type: str = _JSON,
        version: str | None = None,
    ) -> KubeObject:
        found, _ = await self._write_whole(
            method, path, target, body, query=query, content_type=content_type, version=version
        )
        return found

    async def _write_whole(
        self,
        method: str,
        path: str,
        target: Target,
        body: JSONObject,
        *,
        query: Query,
        content_type: str,
        version: str | None,
        is_due: bool = False,
    ) -> tuple[KubeObject, bytes]:
        """Send a write; return its object, and the answer with what the object leaves out."""
        raw = await self._sender.send(
            method, path, query=query, body=encode_body(body), content_type=content_type
        )
        answers = self._unheard if DRY_RUN in query else self._answers
        read = answers.created if method == "POST" else answers.wrote
        with _carried_out(method, target.resource):
            found = read(target.resource, raw)
        after = found.metadata.resource_version
        if answers is self._unheard or not found.metadata.name:  # nothing was stored
            return found, raw
        if method == "POST":
            self._tally.created(target.resource, found.key, after)
        elif is_gone(found):
            self._tally.deleted(target.resource, found.key)
        else:
            self._tally.wrote(
                target.resource, found.key, before=version, after=after, is_due=is_due
            )
        return found, raw

    async def _delete(
        self,
        resource: GroupVersionResource,
        key: str,
        uid: str,
        options: JSONObject,
        *,
        dry_run: bool,
        version: str | None = None,
    ) -> KubeObject | None:
        answers = self._unheard if dry_run else self._answers
        body = encode_body({name: value for name, value in options.items() if value is not None})
        try:
            raw = await self._sender.send(
                "DELETE", object_path(resource, key), query=(), body=body, content_type=_JSON
            )
        except NotFoundError as error:
            if error.reason != "NotFound":
                raise  # no such resource on this server: nothing is said of the object
            answers.absent(resource, key=key, uid=uid, version=version)
            check_scope(
                await self.discovery.resource(resource), key
            )  # or a slip looks like success
            return None
        with _carried_out("DELETE", resource):
            left = answers.deleted(resource, raw, key=key, uid=uid, version=version)
        if dry_run:
            return left
        if left is None:
            self._tally.deleted(resource, key)
        else:  # finalizers hold it
            after = left.metadata.resource_version
            self._tally.wrote(resource, key, before=version, after=after)
        return left


@contextmanager
def _carried_out(method: str, resource: GroupVersionResource) -> Iterator[None]:
    """Have an answer that cannot be read say that the server has carried out the write."""
    try:
        yield
    except (InvalidObjectError, ProtocolError) as error:
        raise WriteAnswerError(f"{method} {resource}", error.reason) from error


def _is_another(target: Target, error: InvalidError) -> ConflictError:
    # To a server the uid of a patch is a change to a field that never changes, and no precondition.
    message = f"{target.resource} {target.key!r} is another object of that name by now"
    return ConflictError(status=409, reason="Conflict", message=message, request=error.request)


def query_of(field_manager: str | None, *, dry_run: bool) -> Query:
    """Return the query of a write."""
    try:
        (field_manager or "").encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError("field_manager", NO_UNICODE) from error
    manager = (("fieldManager", field_manager),) if field_manager else ()
    return (*manager, DRY_RUN) if dry_run else manager
