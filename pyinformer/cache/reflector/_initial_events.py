"""Reading a watch-list up to its end bookmark, and giving it up where that bookmark does not come.

A server that does not know the protocol may send anything without an end: nothing, events of a busy
resource, single bytes. So only a new object that existed when the stream began counts as progress.
A live event shows that the initial ones are over, and the end bookmark has to follow at once. The
type shows it of MODIFIED and DELETED; of ADDED the version does, compared with that of a list.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, final

import anyio

from pyinformer._runtime.tasks import loop_time, start_later
from pyinformer.cache.reflector._gateway_watch_opening import open_unless_mute
from pyinformer.cache.reflector._silent_watch_probe import IdleTimer
from pyinformer.cache.reflector._throttled_pages import past_throttling
from pyinformer.cache.reflector._watch_body_reader import read_body
from pyinformer.cache.reflector.lineage import read_live
from pyinformer.cache.reflector.machine import is_throttled
from pyinformer.cache.reflector.machine.steps import (
    WatchListUnfinishedError,
    WatchListUnspokenError,
)
from pyinformer.client.transport import LEAST_BYTES_PER_SECOND, is_refusal
from pyinformer.errors import (
    APIStatusError,
    InformerError,
    ListInconsistentError,
    ProtocolError,
)
from pyinformer.objects import V, older, resource_version_is_well_formed

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager, AsyncExitStack

    from pyinformer.cache.reflector._snapshot import Snapshot
    from pyinformer.client.transport import Body, LineSplitter, ListWatch

INITIAL_EVENTS_TOTAL_SECONDS: Final = 150.0
"""A watch-list that takes longer falls back to a list. It is less than a watch's own timeout."""
# Without a further object for this time it falls back to a list; changes, other bytes and
# keep-alives do not extend it. A kube-apiserver sends the end at once, its first versions within
# 1.25 s of etcd's progress notification every 5 s.
_IDLE_SECONDS: Final = 6.0
# Between two reads, so that several objects are processed together: no handler gets an event of a
# load before its end. A watch is read without pauses, which cost more than they save.
_SPACING_SECONDS: Final = 0.005
_END_SECONDS: Final = 2.0  # after a live event; the first servers sent the bookmark within 1.25 s
_LONG_LINE_SECONDS: Final = 60.0  # one object of etcd's limit, at 25 KiB/s
"""The refusals of lists to a client that may watch."""


@final
class InitialEvents(Generic[V]):
    """Reads one watch-list up to its end bookmark.

    Args:
        list_watch: the resource and the scope.
        body: the watch-list.
        snapshot: receives the lines of the splitter.
        splitter: splits the body.
        on_progress: called with the number of bytes when some have arrived.
    """

    def __init__(
        self,
        list_watch: ListWatch,
        body: Body,
        snapshot: Snapshot[V],
        splitter: LineSplitter,
        *,
        on_progress: Callable[[int], None],
    ) -> None:
        self._list_watch = list_watch
        self._body = body
        self._snapshot = snapshot
        self._splitter = splitter
        self._on_progress = on_progress
        self._what = f"watch-list {list_watch.resource}"

    async def read(self) -> None:
        """Read up to the end bookmark.

        Raises:
            InformerError: the stream cannot be read, ends early, or has no end bookmark.

        Cancellation:
            Safe.
        """
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            scope = group.cancel_scope
            scope.deadline = loop_time() + INITIAL_EVENTS_TOTAL_SECONDS
            learning = start_later(group, _IDLE_SECONDS / 2, self._learn_present)
            try:
                await self._read_to_bookmark(scope)
            except Exception as error:  # noqa: BLE001 - the group would wrap it
                failure = error
            finally:
                learning.cancel()
                scope.cancel()
        if failure is not None:
            raise failure
        if self._snapshot.resource_version is None:
            raise self._without_an_end()

    async def _read_to_bookmark(self, scope: anyio.CancelScope) -> None:
        clock, body, snapshot = asyncio.get_running_loop().time, self._body, self._snapshot
        idle = IdleTimer(_IDLE_SECONDS, scope.cancel, grace=self._grace_seconds)
        end: IdleTimer | None = None
        received = found = 0

        def on_turn() -> bool:
            nonlocal received, found, end
            self._on_progress(body.received_bytes - received)
            received = body.received_bytes
            if snapshot.identified != found:
                found = snapshot.identified
                idle.progressed_at = clock()
            if snapshot.is_live and end is None:
                end = IdleTimer(min(_END_SECONDS, _IDLE_SECONDS), scope.cancel)
            return snapshot.resource_version is None

        try:
            await read_body(body, self._splitter, on_turn, spacing_seconds=_SPACING_SECONDS)
            if snapshot.resource_version is None:  # so it was read to its end
                self._splitter.finish()
        finally:
            idle.cancel()
            if end is not None:
                end.cancel()
        if snapshot.resource_version is None:
            raise ProtocolError(self._what, "it ended before it was complete")

    def _grace_seconds(self) -> float:
        """Return how much longer a long object may take: a list would be as slow."""
        return min(_LONG_LINE_SECONDS, self._splitter.unfinished_bytes / LEAST_BYTES_PER_SECOND)

    def _without_an_end(self) -> ProtocolError:
        if self._snapshot.is_live:
            reason = "events of changes arrive, and the end of the initial events was not sent"
            return WatchListUnspokenError(self._what, reason)
        return WatchListUnfinishedError(self._what, "the server never said that it is complete")

    async def _learn_present(self) -> None:
        """Learn the server's version, if the end does not come: later ones are those of changes.

        A load that takes long because it is large costs one request for it.
        """
        with suppress(InformerError):  # a server that does not answer gets no list either
            present = (await read_live(self._list_watch)).resource_version
            if resource_version_is_well_formed(present):
                self._snapshot.present = present


async def open_watch_list(
    stack: AsyncExitStack,
    watch_list: AbstractAsyncContextManager[Body],
    list_watch: ListWatch,
) -> Body:
    """Open a watch-list, unless the server does not answer it and answers lists.

    A gateway that buffers a response answers when the watch has ended, after minutes.

    Args:
        stack: holds the watch-list open.
        watch_list: the request.
        list_watch: the resource and the scope.

    Raises:
        ListInconsistentError: it is not answered, and lists are.
        InformerError: it was not accepted.

    Cancellation:
        Safe; the connection is closed.
    """
    body = await open_unless_mute(stack, watch_list, list_watch, idle_seconds=_IDLE_SECONDS)
    if body is None:
        what = f"watch-list {list_watch.resource}"
        raise WatchListUnfinishedError(what, "the server does not answer it, and answers lists")
    return body


async def check_is_empty(
    list_watch: ListWatch, resource_version: str, *, holds_nothing: bool
) -> None:
    """Refuse a watch-list that brought nothing, unless a list finds nothing either.

    An end bookmark alone proves nothing: some servers answer a watch that they cannot serve with
    it. A server that lets this client watch and not list cannot be asked, and one that is too busy
    for lists alone is believed where nothing can be deleted.

    Args:
        list_watch: the resource and the scope.
        resource_version: the version of the end bookmark.
        holds_nothing: the cache is empty, so that believing it deletes nothing.

    Raises:
        ListInconsistentError: a list finds an object.
        InformerError: the server could not be asked.

    Cancellation:
        Safe; the request is dropped.
    """
    try:
        found = await past_throttling(partial(read_live, list_watch))  # the watch-list stays open
    except APIStatusError as error:
        if is_refusal(error.status) or (is_throttled(error) and holds_nothing):
            return
        raise
    if not (found.uid or found.version):
        return
    versions = (resource_version, found.version)
    is_later = all(map(resource_version_is_well_formed, versions)) and older(*versions)
    kind = ListInconsistentError if is_later else WatchListUnspokenError
    raise kind(f"watch-list {list_watch.resource}", "it brought nothing, and a list has objects")
