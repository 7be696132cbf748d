"""Loading everything that exists: the two ways of asking, and taking the answer over.

A list is read page by page and item by item as it arrives; a watch-list is read up to its end
bookmark. Either way the whole is checked first, then handed to the sink in short steps, and then
becomes the guard's position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, final

import anyio

from pyinformer.apimachinery import ListInconsistentError, ProtocolError, V, older
from pyinformer.reflector._budget import TimeBudget
from pyinformer.reflector._frames import ListBehindError
from pyinformer.reflector._snapshot import Snapshot
from pyinformer.reflector._state import LoadMode
from pyinformer.transport import LineSplitter, ListMetadata, ListSplitter

if TYPE_CHECKING:
    from pyinformer.apimachinery import ObjectCodec
    from pyinformer.reflector._guard import Guard
    from pyinformer.reflector._options import ReflectorOptions
    from pyinformer.reflector._sink import Sink
    from pyinformer.transport import Body, ListWatch

_RESCHEDULE_SHARE = 1 / 30  # moving a deadline costs more than an event: once a second at 30 s


@final
class Loader(Generic[V]):
    """Loads one resource in one scope into a sink."""

    def __init__(
        self,
        list_watch: ListWatch,
        codec: ObjectCodec[V],
        guard: Guard,
        sink: Sink[V],
        options: ReflectorOptions,
    ) -> None:
        self._list_watch = list_watch
        self._codec = codec
        self._guard = guard
        self._sink = sink
        self._options = options
        self.pages = 0
        """Pages of the current list that were read completely."""
        self.distrust = False
        """The server's history was proven to be another: nothing that is cached proves anything."""
        self.broke = ""
        """How the last load proved that by itself; empty if it did not."""
        self.on_progress: Callable[[], None] = lambda: None
        """Is called when a piece of a load has arrived."""

    async def load_list(self, mode: LoadMode) -> None:
        """List everything and hand it to the sink.

        Raises:
            InformerError: the list could not be read, or contradicts itself.

        Cancellation:
            Safe; before the list is complete, the sink does not hear of it.
        """
        self.pages = 0
        snapshot = Snapshot(self._codec, self._sink, self._guard)
        limit = self._options.page_size if mode is LoadMode.PAGED else 0
        page = await self._read_page(snapshot, limit, "")
        first = page.resource_version
        seen: set[str] = set()
        while page.continue_token:
            self.pages += 1
            token = page.continue_token
            if token in seen:
                reason = "a page is followed by itself, or by one before it"
                raise ListInconsistentError(f"list {self._codec.resource}", reason)
            seen.add(token)
            page = await self._read_page(snapshot, limit, token)
            if page.resource_version != first:
                reason = f"its pages are at {first} and at {page.resource_version}"
                raise ListInconsistentError(f"list {self._codec.resource}", reason)
        if page.remaining_item_count:
            reason = f"it ends {page.remaining_item_count} items early"
            raise ListInconsistentError(f"list {self._codec.resource}", reason)
        await self._take_over(snapshot, first)

    async def _read_page(self, snapshot: Snapshot[V], limit: int, token: str) -> ListMetadata:
        def on_item(data: bytes, start: int, end: int) -> None:
            if self._codec.gvk is None:
                snapshot.on_list_kind(splitter.kind)
            snapshot.on_item(data, start, end)

        splitter = ListSplitter(
            on_item,
            what=f"list {self._codec.resource}",
            verify=False,  # the codec decodes every item to its end
            on_invalid=snapshot.on_invalid_item,
        )
        anything = self._options.consistency == "any" and not self._guard.position and not token
        async with self._list_watch.list(
            resource_version="0" if anything else "", limit=limit, continue_token=token
        ) as body:
            await self._feed(body, splitter)
        page = splitter.finish()
        self._check_kind(page)
        return page

    async def _feed(self, body: Body, splitter: ListSplitter) -> None:
        budget = TimeBudget()
        while chunk := await body.read():
            self.on_progress()
            started = budget.now()
            splitter.feed(chunk)
            if budget.spend_since(started):
                await budget.yield_now()

    def _check_kind(self, page: ListMetadata) -> None:
        expected = self._codec.resource.api_version
        if page.api_version not in {"", expected} or not page.kind.endswith("List"):
            found = f"{page.api_version}/{page.kind or '(no kind)'}"
            reason = f"the server answered with {found} where a list of {expected} was expected"
            raise ProtocolError(f"list {self._codec.resource}", reason)

    async def load_initial_events(self, body: Body) -> tuple[LineSplitter, list[bytes]]:
        """Read a watch-list up to its end bookmark and hand what exists to the sink.

        Returns:
            What goes on with the watch: the splitter, with the start of a line in it perhaps, and
            the lines that arrived behind the bookmark.

        Raises:
            InformerError: the stream cannot be read, ends early, or never says that it is complete.

        Cancellation:
            Safe; before the end bookmark, the sink does not hear of it.
        """
        snapshot = Snapshot(self._codec, self._sink, self._guard)
        splitter = LineSplitter(snapshot.on_line, what=f"watch-list {self._codec.resource}")
        with (
            anyio.move_on_after(self._options.initial_events_total_seconds),
            anyio.move_on_after(self._options.initial_events_idle_seconds) as idle,
        ):
            await self._read_initial_events(body, snapshot, splitter, idle)
        version = snapshot.resource_version
        if version is None:
            what = f"watch-list {self._codec.resource}"
            raise ListInconsistentError(what, "the server never said that it is complete")
        await self._take_over(snapshot, version)
        return splitter, snapshot.rest

    async def _read_initial_events(
        self, body: Body, snapshot: Snapshot[V], splitter: LineSplitter, idle: anyio.CancelScope
    ) -> None:
        budget = TimeBudget()
        idle_seconds = self._options.initial_events_idle_seconds
        extended = budget.now()
        while snapshot.resource_version is None:
            arrived = await body.pieces()
            if not arrived:
                what = f"watch-list {self._codec.resource}"
                raise ProtocolError(what, "it ended before it was complete")
            self.on_progress()
            started = budget.now()
            for piece in arrived:
                splitter.feed(piece)
            if started - extended > idle_seconds * _RESCHEDULE_SHARE:
                extended = started
                idle.deadline = started + idle_seconds
            if budget.spend_since(started):
                await budget.yield_now()

    async def _take_over(self, snapshot: Snapshot[V], resource_version: str) -> None:
        objects = snapshot.complete(resource_version)
        before = self._guard.position
        if before and not self.distrust and older(resource_version, before):
            reason = f"it is at {resource_version}, behind the position {before}"
            raise ListBehindError(f"list {self._codec.resource}", reason)
        budget = TimeBudget()
        started = budget.now()
        for _ in self._sink.replace_nowait(objects, resource_version):
            if budget.spend_since(started):
                await budget.yield_now()
            started = budget.now()
        self.broke = ""
        new_epoch = self._guard.loaded(
            resource_version, rewound=snapshot.rewound, broken=self.distrust
        )
        if new_epoch and not self.distrust:
            self.broke = f"a list at {resource_version} has objects older than were seen before"
