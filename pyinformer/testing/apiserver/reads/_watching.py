"""Serve watches: the log of a resource as a stream of lines, one chunk per event.

As in a real server, initial events come in key order, objects that leave the selection are sent as
DELETED, and a watch ends normally at its timeout. A bookmark never names a revision whose events
have not been sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import anyio
import msgspec

from pyinformer.objects import JSONObject
from pyinformer.testing.apiserver.reads._representations import Representation
from pyinformer.testing.apiserver.requests import (
    Failure,
    ListOptions,
    ResponseWriter,
    resource_version_too_large,
)
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage import (
    BookmarkChange,
    HistoryExpiredError,
    Pending,
    Record,
    Selection,
    Storage,
    StoredChange,
    Subscription,
)

ExpiredWatch: TypeAlias = Literal["event", "status"]
"""The answer to a watch at an expired position: an ERROR event (real server), or HTTP 410."""

_END_ANNOTATION = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """The settings of all watches of a server.

    Attributes:
        bookmark_interval_seconds: the time between bookmarks.
        final_bookmark_lead_seconds: how long before its timeout a watch gets a last bookmark.
        default_timeout_seconds: the timeout of watches without one.
        expired_watch: see ExpiredWatch.
        patience_seconds: how long to wait for a revision that does not exist yet.
    """

    bookmark_interval_seconds: float
    final_bookmark_lead_seconds: float
    default_timeout_seconds: float
    expired_watch: ExpiredWatch
    patience_seconds: float


class _Wakeup:
    """An asyncio event that any thread may set."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def __call__(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no watch waits
            self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        self._event.clear()

    async def wait(self, until: float) -> None:
        with anyio.CancelScope(deadline=until):
            await self._event.wait()


async def await_revision(storage: Storage, revision: int, patience_seconds: float) -> None:
    """Wait until the storage has reached a revision.

    Raises:
        Failure: it is not reached in time (504, too large).

    Cancellation:
        Safe.
    """
    if revision <= storage.revision:
        return
    wakeup = _Wakeup()
    storage.when_revision(revision, wakeup)
    try:
        await wakeup.wait(asyncio.get_running_loop().time() + patience_seconds)
    finally:
        storage.forget_waiter(wakeup)
    if revision > storage.revision:
        raise resource_version_too_large(revision, storage.revision)


class WatchStream:
    """One watch from its request to its end."""

    def __init__(
        self,
        storage: Storage,
        resource: ResourceType,
        selection: Selection,
        options: ListOptions,
        settings: WatchSettings,
        *,
        representation: Representation | None = None,
    ) -> None:
        self._storage = storage
        self._resource = resource
        self._selection = selection
        self._options = options
        self._settings = settings
        self._representation = representation  # None: whole objects, encoded once for all watches
        self._wakeup = _Wakeup()
        self._floor = 0  # events and bookmarks up to this revision are not sent
        timeout = options.timeout_seconds or settings.default_timeout_seconds
        self._deadline = asyncio.get_running_loop().time() + timeout

    async def serve(self, reply: ResponseWriter) -> None:
        """Send the whole stream.

        Raises:
            Failure: the request cannot be served; nothing has been sent.

        Cancellation:
            Safe; the client is gone then.
        """
        revision = self._options.revision
        sends_initial = self._options.send_initial_events
        try:
            if sends_initial:
                await await_revision(self._storage, revision, self._settings.patience_seconds)
            state, present, subscription = self._subscribe(revision)
        except Failure as failure:
            if failure.code == 410 and self._settings.expired_watch == "status":  # noqa: PLR2004
                raise
            await reply.send(200, [failure.event()])
            return
        try:
            await reply.start(200)
            for line in self._initial_lines(state, present):
                await reply.write(line)
            await self._follow(subscription, reply)
        finally:
            self._storage.unsubscribe(self._resource, subscription)
        await reply.finish()

    def _subscribe(self, revision: int) -> tuple[list[Record], int, Subscription]:
        sends_initial = self._options.send_initial_events
        after: int | None = revision
        if sends_initial or (sends_initial is None and not revision):
            after = None
        elif not revision:
            after = self._storage.revision
        self._floor = after or 0
        try:
            return self._storage.subscribe(
                self._resource, self._wakeup, after=after, namespace=self._selection.namespace
            )
        except HistoryExpiredError as error:
            raise self._expired(revision, error.oldest) from None

    def _expired(self, revision: int, oldest: int) -> Failure:
        if not self._resource.is_watch_cached:
            return Failure(410, "The resourceVersion for the provided watch is too old.")
        return Failure(410, f"too old resource version: {revision} ({oldest})")

    def _initial_lines(self, state: list[Record], present: int) -> Iterator[bytes]:
        for record in state:
            if self._selection.matches(record):
                yield self._event("ADDED", record)
        if self._options.send_initial_events and self._options.allow_bookmarks:
            yield self._bookmark(present, ends_initial_events=True)

    async def _follow(self, subscription: Subscription, reply: ResponseWriter) -> None:
        clock = asyncio.get_running_loop().time
        bookmark_at = self._next_bookmark(clock())
        while True:
            self._wakeup.clear()
            entries, is_over = subscription.take()
            for entry in entries:
                line = self._line(entry)
                if line is not None:
                    await reply.write(line)
            now = clock()
            if is_over or now >= self._deadline:
                return
            if now >= bookmark_at:
                self._storage.bookmark(subscription)
                bookmark_at = self._next_bookmark(now)
                continue
            await self._wakeup.wait(min(bookmark_at, self._deadline))

    def _next_bookmark(self, now: float) -> float:
        if not (self._options.allow_bookmarks and self._resource.is_watch_cached):
            return math.inf
        regular = now + self._settings.bookmark_interval_seconds
        final = self._deadline - self._settings.final_bookmark_lead_seconds
        return min(regular, final) if final > now else regular

    def _line(self, entry: Pending) -> bytes | None:
        if isinstance(entry, bytes):
            return entry
        if entry.revision < self._floor:
            return None
        if isinstance(entry, BookmarkChange):
            return self._bookmark(entry.revision)
        if entry.revision == self._floor:
            return None
        event_type = self._event_type(entry)
        if not event_type or self._representation is None:
            return entry.line(event_type) if event_type else None
        record = entry.gone if event_type == "DELETED" else entry.new
        return None if record is None else self._event(event_type, record)

    def _event(self, event_type: str, record: Record) -> bytes:
        shown = record.full if self._representation is None else self._representation.one(record)
        return b'{"type":"%s","object":%s}\n' % (event_type.encode(), shown)

    def _bookmark(self, revision: int, *, ends_initial_events: bool = False) -> bytes:
        metadata = _bookmark_metadata(revision, ends_initial_events=ends_initial_events)
        if self._representation is not None:
            shown = self._representation.bookmark(metadata)
            return msgspec.json.encode({"type": "BOOKMARK", "object": shown}) + b"\n"
        return bookmark_line(self._resource, revision, ends_initial_events=ends_initial_events)

    def _event_type(self, change: StoredChange) -> str:
        matches = self._selection.matches
        was_selected = change.old is not None and matches(change.old)
        if change.new is not None and matches(change.new):
            return "MODIFIED" if was_selected else "ADDED"
        return "DELETED" if was_selected else ""


def bookmark_line(
    resource: ResourceType, revision: int, *, ends_initial_events: bool = False
) -> bytes:
    """Return the watch line of a BOOKMARK."""
    metadata = _bookmark_metadata(revision, ends_initial_events=ends_initial_events)
    order: Literal["sorted"] | None = None
    bookmark = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    if resource.list_shape == "custom":
        order = "sorted"
    encoded = msgspec.json.encode(bookmark, order=order)
    return b'{"type":"BOOKMARK","object":%s}\n' % encoded


def _bookmark_metadata(revision: int, *, ends_initial_events: bool) -> JSONObject:
    metadata: JSONObject = {"resourceVersion": str(revision)}
    if ends_initial_events:
        metadata["annotations"] = {_END_ANNOTATION: "true"}
    return metadata
