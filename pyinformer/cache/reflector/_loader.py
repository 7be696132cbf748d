"""Loading everything that exists, by a list or a watch-list.

A list is read page by page and item by item as it arrives, a watch-list up to its end bookmark. The
whole is checked first, then passed to the sink in short steps, and then becomes the guard's
position. A load that would delete too much is held back until a second list on a new connection
confirms or replaces it.
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Generic, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import TimeBudget, loop_time, spread
from pyinformer.cache.reflector._initial_events import (
    INITIAL_EVENTS_TOTAL_SECONDS,
    InitialEvents,
    check_is_empty,
)
from pyinformer.cache.reflector._mass_delete import MANY, is_mass_delete
from pyinformer.cache.reflector._object_kind import kind_of, served_kind_of, wrong_kind_of
from pyinformer.cache.reflector._sink import keys_of
from pyinformer.cache.reflector._snapshot import Snapshot
from pyinformer.cache.reflector._throttled_pages import past_throttling
from pyinformer.cache.reflector.machine.steps import (
    ListBehindError,
    ListWithoutVersionError,
    LoadMode,
    PagesInconsistentError,
)
from pyinformer.client.transport import (
    LIST_TOTAL_SECONDS,
    LineSplitter,
    ListMetadata,
    ListSplitter,
    Paging,
    is_refusal,
    item_kind,
)
from pyinformer.errors import APIStatusError, InformerError, ProtocolError
from pyinformer.objects import PARTIAL_OBJECT_METADATA, V

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.cache.reflector._options import ReflectorOptions
    from pyinformer.cache.reflector._reporting import AuditRequests
    from pyinformer.cache.reflector._sink import Sink
    from pyinformer.cache.reflector.guard import Guard
    from pyinformer.client.transport import Body, ListWatch
    from pyinformer.objects import DiagnosticJournal, ObjectCodec

_log = get_logger(__name__)
_SLICE = 2048  # keys per step; a step stays far below the time budget


class _LacksKind(Exception):  # noqa: N818 - control flow within this module
    """A page of a list whose items name no kind, and come before that of their list."""


@final
class Loader(Generic[V]):
    """Loads one resource in one scope into a sink.

    Args:
        list_watch: the resource and the scope.
        codec: decodes the objects.
        guard: holds the position, and counts.
        sink: receives what exists.
        options: page size, timeouts and the policy of mass deletions.
        journal: where rare events are written.
        audits: is asked for a comparison after a load with objects that cannot be identified.
    """

    def __init__(
        self,
        list_watch: ListWatch,
        codec: ObjectCodec[V],
        guard: Guard,
        sink: Sink[V],
        options: ReflectorOptions,
        *,
        journal: DiagnosticJournal,
        audits: AuditRequests,
    ) -> None:
        self._list_watch = list_watch
        self._codec = codec
        self._guard = guard
        self._sink = sink
        self.options: ReflectorOptions = options
        """The settings of the next requests."""
        self._journal = journal
        self._audits = audits
        self._had_nameless = self._has_loaded = False
        self._may_lack_kind = True  # once: what a list and discovery do not name, no list does
        # Any resource may be sent as this.
        self._checked_kind = f"{PARTIAL_OBJECT_METADATA.kind}List"
        self.pages = 0
        """How many pages of the current list were read completely."""
        self.distrust = False
        """The server's history was proven to be another: cached objects prove nothing."""
        self.broke = ""
        """How the last load proved that by itself; empty if it did not."""
        self.received_bytes = 0
        """How much of lists and watch-lists has arrived so far."""
        self.on_progress: Callable[[int], None] = lambda _: None
        """Called with the number of bytes when a piece of a load has arrived."""

    async def learn_kind(self) -> None:
        """Learn the kind of the objects, if only their metadata is requested.

        Without an answer the objects have the kind that their bodies name.

        Raises:
            InformerError: the server could not be asked.

        Cancellation:
            Safe; the request is dropped.
        """
        if not self._list_watch.metadata_only or self._codec.gvk is not None:
            return
        self._codec.learn_discovered_kind(await kind_of(self._list_watch))

    async def load_list(self, mode: LoadMode) -> None:
        """List everything and pass it to the sink; list again if it would delete too much.

        Raises:
            InformerError: the list could not be read, or contradicts itself.

        Cancellation:
            Safe; the sink receives nothing before the list is complete.
        """
        self.pages = 0
        found = await self._list(mode)
        if await self._needs_confirmation(found):
            found = await self._confirm(found, mode)
        await self._apply(found)

    async def _list(self, mode: LoadMode, own_seconds: float | None = None) -> Snapshot[V]:
        """List everything, on new connections if `own_seconds` limits them."""
        snapshot = self._snapshot(may_lack_kind=self._may_lack_kind)
        try:
            await self._read_pages(snapshot, mode, own_seconds)
        except InformerError:
            await spread(snapshot.release())
            raise
        except _LacksKind:
            await spread(snapshot.release())
            return await self._list(mode, own_seconds)
        return snapshot

    def _snapshot(self, *, may_lack_kind: bool = False) -> Snapshot[V]:
        self._codec.forget_kind()
        return Snapshot(
            self._codec,
            self._sink,
            self._guard,
            distrust=self.distrust,
            had_nameless=self._had_nameless,
            is_first=not self._has_loaded,
            uid_range=self._list_watch.uid_range,
            may_lack_kind=may_lack_kind,
        )

    async def _read_pages(
        self, snapshot: Snapshot[V], mode: LoadMode, own_seconds: float | None
    ) -> None:
        limit = self.options.page_size if mode is LoadMode.PAGED else 0
        what = f"list {self._codec.resource}"
        paging = Paging(what, LIST_TOTAL_SECONDS, loop_time(), limit=limit)
        page = await self._read_page(snapshot, paging, limit, "", own_seconds)
        first = page.resource_version
        while page.continue_token:
            self.pages += 1
            await anyio.sleep(paging.pause_seconds(snapshot.received, loop_time()))
            token = page.continue_token
            if paging.repeats(token):
                reason = "a page is followed by itself, or by one before it"
                raise PagesInconsistentError(f"list {self._codec.resource}", reason)
            # The first page is the machine's to repeat: nothing is lost with it.
            page = await past_throttling(
                partial(self._read_page, snapshot, paging, limit, token, own_seconds)
            )
            if page.resource_version != first:
                reason = f"its pages are at {first[:40]} and at {page.resource_version[:40]}"
                raise PagesInconsistentError(f"list {self._codec.resource}", reason)
        if (page.remaining_item_count or 0) > 0:
            reason = f"it ends {page.remaining_item_count} items early"
            raise PagesInconsistentError(f"list {self._codec.resource}", reason)
        self._complete(snapshot, first)

    async def _read_page(
        self,
        snapshot: Snapshot[V],
        paging: Paging,
        limit: int,
        token: str,
        own_seconds: float | None,
    ) -> ListMetadata:
        def on_item(data: bytes, start: int, end: int) -> None:
            if self._codec.gvk is None:
                snapshot.on_list_kind(splitter.kind)
            snapshot.on_item(data, start, end)

        def on_oversized(head: bytes, size_bytes: int) -> None:
            snapshot.on_list_kind(splitter.kind)
            snapshot.on_oversized_item(head, size_bytes)

        splitter = ListSplitter(
            on_item,
            what=f"list {self._codec.resource}",
            verify=False,  # the codec decodes every item to its end
            on_invalid=snapshot.on_invalid_item,
            max_item_bytes=self.options.max_object_bytes,
            on_oversized=on_oversized,
        )
        anything = self.options.consistency == "any" and not self._guard.position and not token
        async with self._list_watch.list(
            resource_version="0" if anything else "",
            limit=limit,
            continue_token=token,
            own_connection_seconds=own_seconds,
        ) as body:
            await self._feed(body, splitter, paging)
        page = splitter.finish()
        if not page.resource_version and self._guard.order != "opaque":
            what = f"list {self._codec.resource}"
            raise ListWithoutVersionError(what, "metadata.resourceVersion is missing")
        self._check_kind(page)
        await self._refuse_other(page.kind)
        if snapshot.lacks_kind:
            await self._learn_late(page.kind)
            raise _LacksKind
        return page

    async def _learn_late(self, list_kind: str) -> None:
        """Learn the kind of items that came before it, or that only discovery names."""
        self._may_lack_kind = False
        kind = item_kind(list_kind) or await served_kind_of(self._list_watch)
        self._journal.note(f"the items of a list name no kind: listing again as {kind or '(none)'}")
        if kind:
            self._codec.learn_kind(kind)

    async def _feed(self, body: Body, splitter: ListSplitter, paging: Paging) -> None:
        budget = TimeBudget()
        while chunk := await body.read():
            paging.received_bytes += len(chunk)
            self._received(len(chunk))
            await spread(splitter.steps(chunk), budget)

    def _received(self, size_bytes: int) -> None:
        self.received_bytes += size_bytes
        self.on_progress(size_bytes)

    def _check_kind(self, page: ListMetadata) -> None:
        expected = self._codec.resource.api_version
        is_partial = page.api_version == PARTIAL_OBJECT_METADATA.api_version
        is_meant = page.api_version in {"", expected} or (
            is_partial and self._list_watch.metadata_only
        )
        is_custom = "." in self._codec.resource.group  # a definition may name any kind for lists
        if not is_meant or not (is_custom or page.kind.endswith("List")):
            found = f"{page.api_version[:100]}/{page.kind[:100] or '(no kind)'}"
            reason = f"the server answered with {found} where a list of {expected} was expected"
            raise ProtocolError(f"list {self._codec.resource}", reason)

    async def _refuse_other(self, list_kind: str) -> None:
        """Refuse the objects of another resource; a kind that was accepted costs nothing again."""
        if list_kind == self._checked_kind:
            return
        resource = self._codec.resource
        wrong = await wrong_kind_of(self._list_watch, list_kind)
        if wrong:
            self._codec.unlearn_kind(item_kind(list_kind))
            raise ProtocolError(f"list {resource}", f"the server answered with {wrong}")
        self._checked_kind = list_kind

    async def load_initial_events(self, body: Body) -> tuple[LineSplitter, list[bytes]] | None:
        """Read a watch-list up to its end bookmark and pass what exists to the sink.

        Returns:
            What the watch continues with: the splitter, which may hold the start of a line, and the
            lines behind the bookmark. None if the load would have deleted too much and a list was
            loaded instead: the position is that list's, ahead of this stream.

        Raises:
            InformerError: the stream cannot be read, ends early, or has no end bookmark.

        Cancellation:
            Safe; the sink receives nothing before the end bookmark.
        """
        snapshot, splitter = await self._initial_events(body)
        if await self._needs_confirmation(snapshot):
            await self._apply(await self._confirm(snapshot, LoadMode.WATCH_LIST))
            return None
        await self._apply(snapshot)
        return splitter, snapshot.rest

    async def _initial_events(self, body: Body) -> tuple[Snapshot[V], LineSplitter]:
        snapshot = self._snapshot()
        splitter = LineSplitter(
            snapshot.on_line,
            max_line_bytes=self.options.max_object_bytes,
            what=f"watch-list {self._codec.resource}",
            on_oversized=snapshot.on_oversized_line,
        )
        try:
            await self._read_initial_events(body, snapshot, splitter)
            if snapshot.objects and self._codec.gvk is not None:
                await self._refuse_other(f"{self._codec.gvk.kind}List")
        except InformerError:
            await spread(snapshot.release())
            raise
        return snapshot, splitter

    async def _read_initial_events(
        self, body: Body, snapshot: Snapshot[V], splitter: LineSplitter
    ) -> None:
        on_progress = self._received
        await InitialEvents(
            self._list_watch, body, snapshot, splitter, on_progress=on_progress
        ).read()
        version = snapshot.resource_version or ""  # a complete one has a version, or is malformed
        if not snapshot.received:
            holds_nothing = not keys_of(self._sink)
            await check_is_empty(self._list_watch, version, holds_nothing=holds_nothing)
        self._complete(snapshot, version)

    async def apply_absence(self) -> None:
        """Pass an empty list to the sink: the resource was proven not to be served.

        The position stays until the next load.

        Cancellation:
            Safe; the sink has received all of it or nothing.
        """
        cached = len(keys_of(self._sink))
        facts = {"resource": self._list_watch.shown, "gone": cached}
        if cached >= MANY and is_mass_delete(cached, cached, self.options.mass_delete):
            self._guard.counts.add("mass_deletes", "confirmed")  # by discovery, twice
            _log.error(
                "%(resource)s is gone, and %(gone)d cached objects with it", facts, extra=facts
            )
        self._journal.note(f"no longer served: {cached} cached objects are deleted")
        await spread(self._sink.replace_nowait({}, self._guard.position or "0"))

    def _complete(self, snapshot: Snapshot[V], resource_version: str) -> None:
        snapshot.complete(resource_version)
        if not self.distrust and self._guard.is_behind(resource_version):
            reason = f"it is at {resource_version}, behind the position {self._guard.position}"
            raise ListBehindError(f"list {self._codec.resource}", reason)

    async def _needs_confirmation(self, snapshot: Snapshot[V]) -> bool:
        cached, gone = await self._count_gone(snapshot)
        if not self._is_mass_delete(snapshot, cached, gone):
            return False
        facts = self._facts(snapshot, cached=cached, gone=gone)
        self._guard.counts.add("mass_deletes", "held")
        self._journal.note(f"a load would delete {gone} of {cached} cached objects: listing again")
        _log.log(
            logging.ERROR if cached >= MANY else logging.INFO,
            "%(resource)s: a list would delete %(gone)d of %(cached)d cached objects; it is held"
            " back until a second list on another connection confirms or replaces it",
            facts,
            extra=facts,
        )
        return True

    def _is_mass_delete(self, snapshot: Snapshot[V], cached: int, gone: int) -> bool:
        policy, is_empty = self.options.mass_delete, not snapshot.objects
        return is_mass_delete(cached, gone, policy, is_empty=is_empty)

    async def _count_gone(self, snapshot: Snapshot[V]) -> tuple[int, int]:
        """Count the cached objects, and those that a load lacks or replaces."""
        if self.options.mass_delete is None:
            return 0, 0
        budget = TimeBudget()
        started = budget.now()
        keys = keys_of(self._sink)
        rest, gone = iter(keys), 0
        while some := list(islice(rest, _SLICE)):
            gone += sum(self._is_gone(key, snapshot) for key in some)
            if budget.spend_since(started):
                await budget.yield_now()
            started = budget.now()
        return len(keys), gone

    def _is_gone(self, key: str, snapshot: Snapshot[V]) -> bool:
        listed, cached = snapshot.objects.get(key), self._sink.get(key)
        if listed is None or cached is None:
            return listed is None
        return listed is not cached and listed.metadata.uid != cached.metadata.uid

    async def _confirm(self, held: Snapshot[V], mode: LoadMode) -> Snapshot[V]:
        """Release the held load and return the list that replaces it."""
        seconds = INITIAL_EVENTS_TOTAL_SECONDS
        await spread(held.release())  # so that the two are not in memory together
        try:
            found = await self._again(mode, seconds)
        except InformerError as error:
            facts = self._facts(held, error=str(error))
            self._guard.counts.add("mass_deletes", "unconfirmed")
            _log.error(
                "%(resource)s: the second list failed, so nothing is deleted and the load is"
                " retried: %(error)s",
                facts,
                extra=facts,
            )
            raise
        cached, gone = await self._count_gone(found)
        confirmed = self._is_mass_delete(found, cached, gone)
        action = "confirmed" if confirmed else "averted"
        facts = self._facts(found, cached=cached, gone=gone, action=action)
        self._guard.counts.add("mass_deletes", action)
        self._journal.note(
            f"the mass deletion is {action}: {gone} of {cached} cached objects are gone"
        )
        _log.log(
            logging.INFO if confirmed and cached < MANY else logging.ERROR,
            "%(resource)s: the mass deletion is %(action)s by the second list, which is applied:"
            " %(gone)d of %(cached)d cached objects are gone",
            facts,
            extra=facts,
        )
        return found

    async def _again(self, mode: LoadMode, seconds: float) -> Snapshot[V]:
        """List everything on new connections; where lists are refused, open a watch-list again."""
        if mode is not LoadMode.WATCH_LIST:
            return await self._list(mode, seconds)
        try:
            return await self._list(LoadMode.PAGED, seconds)
        except APIStatusError as error:
            if not is_refusal(error.status):
                raise
        watch_list = self._list_watch.watch(
            resource_version="", timeout_seconds=seconds, send_initial_events=True
        )
        async with watch_list as body:
            return (await self._initial_events(body))[0]

    def _facts(self, snapshot: Snapshot[V], **more: object) -> dict[str, object]:
        return {
            "resource": self._list_watch.shown,
            "list_at": snapshot.resource_version,
            "position": self._guard.position,
            **more,
        }

    async def _apply(self, snapshot: Snapshot[V]) -> None:
        resource_version = snapshot.resource_version or ""  # a complete one has a version
        rewound, broken = snapshot.rewound, self.distrust
        if snapshot.objects:
            self._codec.keep_kind()
        # Before the sink has it, so that the updates of a new epoch are marked as such.
        self._guard.begin_load(resource_version, rewound=rewound, broken=broken)
        await spread(self._sink.replace_nowait(snapshot.objects, resource_version))
        self._had_nameless, self._has_loaded = snapshot.nameless > 0, True
        if snapshot.skipped:
            self._audits.item_skipped(loop_time())
        self.broke = ""
        new_epoch = self._guard.loaded(resource_version, rewound=rewound, broken=broken)
        if new_epoch and not self.distrust:
            self.broke = f"a list at {resource_version} has objects older than those seen before"
