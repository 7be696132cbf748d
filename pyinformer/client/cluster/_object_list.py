"""The objects of a list on the server, read page by page."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, Literal, Self, TypeAlias, TypeVar, final

import anyio

from pyinformer._runtime.tasks import TimeBudget, loop_time, spread
from pyinformer.client.transport import ListMetadata, ListSplitter, Paging, item_kind
from pyinformer.errors import (
    InformerError,
    InvalidObjectError,
    ListInconsistentError,
    ModelMismatchError,
    NotFoundError,
    ProtocolError,
    ResourceExpiredError,
)
from pyinformer.objects import KubeObject, ObjectCodec, check_integer

if TYPE_CHECKING:
    from pyinformer.client.cluster._discovery import Discovery
    from pyinformer.client.cluster._rate_limited_requests import RateLimitedRequests
    from pyinformer.client.transport import ListWatch

T = TypeVar("T")

VersionMatch: TypeAlias = Literal["NotOlderThan", "Exact"]
"""Whether a list may be newer than its resource version, or must be exactly at it."""

_EXPIRED: Final = (
    "the list took longer than the server keeps its version: list again, with a larger page_size,"
    " or with page_size=0 for one page; some objects were already returned"
)


@final
class ObjectList(Generic[T]):
    """Iterates over a list on the server: `async for pod in cluster.list("v1", "pods")`.

    Made by `cluster.list()`. It can be read once. A page is requested when the objects of the one
    before are used up, and all pages show the same state.

    Args:
        requests: sends the requests of the cluster.
        discovery: what the server serves.
        list_watch: the resource, the scope and the selectors.
        convert: makes an object into what is returned.
        resource_version: at which version; empty for the newest.
        match: whether the list may be newer than that version, or `Exact`.
        page_size: how many objects a page has at most; 0 for all objects in one page.
    """

    def __init__(
        self,
        requests: RateLimitedRequests,
        discovery: Discovery,
        list_watch: ListWatch,
        convert: Callable[[KubeObject], T],
        *,
        resource_version: str,
        match: VersionMatch,
        page_size: int,
    ) -> None:
        check_integer("page_size", page_size, least=0)
        self.resource_version: str = ""
        """The version of the list; empty until its first page has arrived."""
        self.remaining_item_count: int | None = None
        """How many objects follow the last page, if the server named it."""
        self._requests = requests
        self._discovery = discovery
        self._list_watch = list_watch
        self._convert = convert
        self._codec: ObjectCodec[None] = ObjectCodec(
            list_watch.resource, metadata_only=list_watch.metadata_only
        )
        self._version = (resource_version, match if resource_version else "")
        self._page_size = page_size
        self._token = ""
        self._paging = Paging(f"list {list_watch.resource}", math.inf, 0.0, limit=page_size)
        self._found = 0
        self._is_over = False
        self._reading = anyio.Lock()
        self._waiting: deque[T] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._waiting:
            page = await self.next_page()
            if not page:
                raise StopAsyncIteration
            self._waiting.extend(page)
        return self._waiting.popleft()

    async def next_page(self) -> list[T]:
        """Request the next page; the list is empty if there is none.

        Raises:
            ResourceExpiredError: the server no longer has the list's version.
            NotFoundError: the server does not serve the resource; the message has similar names.
            InvalidObjectError: an object has no name.
            ModelMismatchError: an object does not fit the model.
            APIStatusError: the server refused.
            ProtocolError: the server answered with something else.
            ListInconsistentError: its pages are of several states, or bring nothing without end.
            TransportError: the server was not reached, or its response did not arrive.

        Cancellation:
            Safe: the next call requests the same page.
        """
        async with self._reading:
            while not self._is_over:
                try:
                    found, objects = await self._request_page()
                except NotFoundError as error:
                    await self._discovery.check_served(self._list_watch.resource, error)
                    known = self._discovery.known(self._list_watch.resource)
                    if known is None or known.namespaced or not self._list_watch.namespace:
                        raise
                    hint = f"{known.qualified_name} is cluster-scoped: leave out namespace="
                    raise error.with_hint(hint) from error
                except ResourceExpiredError as error:
                    raise (error.with_hint(_EXPIRED) if self._token else error) from error
                pause_seconds = self._take(found, len(objects))
                if objects:
                    return objects
                await anyio.sleep(pause_seconds)
        return []

    async def _request_page(self) -> tuple[ListMetadata, list[T]]:
        """Request a page; again, if its items come before the kind of their list, or have none."""
        if self._list_watch.metadata_only and self._codec.gvk is None:
            resource = self._list_watch.resource
            self._codec.learn_discovered_kind(await self._discovery.kind_of(resource))
        try:
            return await self._request_known()
        except InvalidObjectError:
            if self._codec.gvk is not None or not await self._learn_kind():
                raise
        return await self._request_known()

    async def _learn_kind(self) -> bool:
        """Learn the kind of the objects from discovery; return whether it names one."""
        try:
            api = await self._discovery.resource(self._list_watch.resource)
        except InformerError:  # what the caller raises says more
            return False
        self._codec.learn_kind(api.kind)
        return True

    async def _request_known(self) -> tuple[ListMetadata, list[T]]:
        with self._requests.spans.of("GET", self._list_watch.path):
            return await self._requests.until_served(self._read_page, is_read=True)

    async def _read_page(self) -> tuple[ListMetadata, list[T]]:
        objects: list[T] = []
        mismatches: list[ModelMismatchError] = []

        def add(obj: KubeObject) -> None:
            """Convert an object; a splitter would report a mismatch as an item without a name."""
            try:
                objects.append(self._convert(obj))
            except ModelMismatchError as error:
                mismatches.append(error)

        what = f"list {self._list_watch.resource}"
        splitter = object_splitter(self._codec, add, what=what)
        budget = TimeBudget()
        version, match = ("", "") if self._token else self._version
        async with self._list_watch.list(
            resource_version=version,
            resource_version_match=match,
            limit=self._page_size,
            continue_token=self._token,
        ) as body:
            while chunk := await body.read():
                await spread(splitter.steps(chunk), budget)
                if mismatches:
                    raise mismatches[0]
        return splitter.finish(), objects

    def _take(self, found: ListMetadata, objects: int) -> float:
        """Continue after this page; return how long to wait if it brought nothing.

        Raises:
            ProtocolError: the server repeats a page, so that the list would not end.
            ListInconsistentError: the page is of another state than the one before, or too many
                pages have brought nothing.
        """
        what = f"list {self._list_watch.resource}"
        if self._token and found.resource_version != self.resource_version:
            versions = f"{self.resource_version[:40]} and {found.resource_version[:40]}"
            raise ListInconsistentError(what, f"its pages are at two versions: {versions}")
        self._found += objects
        self._is_over = not found.continue_token
        pause_seconds = 0.0
        if found.continue_token:
            if self._paging.repeats(found.continue_token):
                raise ProtocolError(what, "the server answers with the token of a page again")
            pause_seconds = self._paging.pause_seconds(self._found, loop_time())
        self._token = found.continue_token
        self.resource_version = found.resource_version
        self.remaining_item_count = found.remaining_item_count
        return pause_seconds


def object_splitter(
    codec: ObjectCodec[None], on_object: Callable[[KubeObject], None], *, what: str
) -> ListSplitter:
    """Return a splitter that passes on the objects of a list, which may lack their kind."""
    splitter: ListSplitter

    def on_item(data: bytes | bytearray, start: int, end: int) -> None:
        if codec.gvk is None and (kind := item_kind(splitter.kind)):
            codec.learn_kind(kind)
        on_object(codec.decode(data, start, end))

    splitter = ListSplitter(on_item, what=what)
    return splitter
