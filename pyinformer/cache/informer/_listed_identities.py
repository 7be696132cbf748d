"""The identities of everything that a server had at exactly one resource version, page by page.

Each item's key, uid and version are passed on as soon as it is complete, so nothing is held. A
server that answers at another version is detected by its first page; what came before counts for
nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, final

import anyio
from msgspec import Struct, ValidationError

from pyinformer._runtime.tasks import TimeBudget, loop_time, spread
from pyinformer.cache.reflector import past_throttling
from pyinformer.client.transport import LIST_TOTAL_SECONDS, ListMetadata, ListSplitter, Paging
from pyinformer.errors import InvalidObjectError, ProtocolError
from pyinformer.objects import Identity, decoder_of, identity_in, object_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from pyinformer.cache.reflector import ListingSlot
    from pyinformer.client.transport import ListWatch

_PAUSE_SECONDS: Final = 0.02  # between two pages: an audit is in no hurry, other tasks are

_MAX_ITEM_BYTES: Final = 1 << 20  # of a larger item the metadata is read as it arrives


class _Item(Struct, frozen=True, gc=False):
    metadata: Identity


_decode = decoder_of(_Item, skims=True)


@final
class IdentityList:
    """Reads the identities of everything in a scope.

    Args:
        list_watch: the scope.
        take: called with key, uid and resource version of each item.
        listing: waits for a place among the lists that run, by resource.
        page_size: items per page.
    """

    def __init__(
        self,
        list_watch: ListWatch,
        take: Callable[[str, str, str], None],
        listing: Callable[[str], AbstractAsyncContextManager[ListingSlot]],
        *,
        page_size: int,
    ) -> None:
        self._list_watch = list_watch
        self._what = f"audit {list_watch.resource}"
        self._take = take
        self._listing = listing
        self._page_size = page_size
        self._found = 0

    async def read(self, position: str = "") -> str:
        """List everything as it was at a resource version, or as it is now.

        Args:
            position: the resource version; empty for the newest.

        Returns:
            The resource version of the list.

        Raises:
            ProtocolError: the server cannot answer for this version, or not consistently.
            RequestTimeoutError: its pages arrive too slowly.
            InformerError: it refused, or could not be reached.

        Cancellation:
            Safe; the request is dropped.
        """
        token = ""
        paging = Paging(self._what, LIST_TOTAL_SECONDS, loop_time())
        while True:
            page = await past_throttling(partial(self._page, position, token, paging))
            position = position or page.resource_version
            if page.resource_version != position:
                found = page.resource_version[:40]
                reason = f"it was asked for version {position} exactly, and answered at {found}"
                raise ProtocolError(self._what, reason)
            token = page.continue_token
            if not token:
                break
            if paging.repeats(token):
                reason = "a page is followed by itself, or by one before it"
                raise ProtocolError(self._what, reason)
            seconds = paging.pause_seconds(self._found, loop_time())
            await anyio.sleep(max(_PAUSE_SECONDS, seconds))
        if (page.remaining_item_count or 0) > 0:
            reason = f"it ends {page.remaining_item_count} items early"
            raise ProtocolError(self._what, reason)
        return position

    async def _page(self, position: str, token: str, paging: Paging) -> ListMetadata:
        splitter = ListSplitter(
            self._on_item,
            what=self._what,
            verify=False,
            max_item_bytes=_MAX_ITEM_BYTES,
            on_oversized=lambda head, _: self._on_item(head, 0, len(head)),
        )
        budget = TimeBudget()
        async with (
            self._listing(str(self._list_watch.resource)) as place,
            self._list_watch.list(
                resource_version="" if token else position,
                resource_version_match="Exact" if position and not token else "",
                limit=self._page_size,
                continue_token=token,
                metadata_only=True,
            ) as body,
        ):
            while chunk := await body.read():
                paging.received_bytes += len(chunk)
                place.progress(len(chunk))
                await spread(splitter.steps(chunk), budget)
        page = splitter.finish()
        if not page.resource_version:
            raise ProtocolError(self._what, "metadata.resourceVersion is missing")
        return page

    def _on_item(self, data: bytes, start: int, end: int) -> None:
        try:
            meta = _decode(memoryview(data)[start:end]).metadata
        except (RecursionError, ValidationError):
            # managedFields are nested as deeply as the object; or a field is null, or not a text
            meta = identity_in(data[start:end])
        if not meta.name:
            raise InvalidObjectError(self._what, "an item without a name")
        self._found += 1
        if self._list_watch.is_foreign(meta.uid):
            return
        self._take(object_key(meta.namespace, meta.name), meta.uid, meta.resource_version)
