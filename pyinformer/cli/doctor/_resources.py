"""Ask a server about one resource: rights, a list, watches. Every request has a deadline."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, final

import anyio
import msgspec

from pyinformer._runtime.tasks import loop_time
from pyinformer.cli.doctor._facts import AT_ONCE_SECONDS, ResourceFacts, Right, WatchTimes
from pyinformer.cli.doctor._memory import memory_by_mode
from pyinformer.client.transport import (
    BOOKMARK,
    ERROR,
    LineSplitter,
    ListSplitter,
    read_bookmark,
    read_error,
    read_frame_slowly,
)
from pyinformer.errors import InformerError, ProtocolError, RequestTimeoutError
from pyinformer.objects import FieldSelector, null_as_absent

if TYPE_CHECKING:
    from pyinformer.client.cluster import Cluster
    from pyinformer.client.transport import Body
    from pyinformer.objects import GroupVersionResource

_PAGE_SIZE: Final = 500  # as informers ask
_SAMPLE_BYTES: Final = 32 << 20
_SILENT: Final = "metadata.name=-"
"""No object can have this name, so a watch with it sends nothing but bookmarks."""
_WATCH_SECONDS: Final = 5.0
"""A server sends a bookmark some two seconds before the end of a watch."""
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_VERBS: Final = ("list", "watch")


class _ReviewStatus(msgspec.Struct):
    allowed: bool = False
    reason: str = ""


class _Review(msgspec.Struct):
    status: _ReviewStatus


_decode = null_as_absent(_Review, skims=False)


@final
class ResourceChecks:
    """Checks one resource, and records what was found.

    Args:
        cluster: the server.
        resource: the resource.
        namespaces: where; None for everywhere, and for a resource without namespaces.
        timeout_seconds: how long each request may take.
        idle_seconds: how long a silent watch is kept open; None to skip that.
    """

    def __init__(
        self,
        cluster: Cluster,
        resource: GroupVersionResource,
        *,
        namespaces: tuple[str, ...] | None,
        timeout_seconds: float,
        idle_seconds: float | None,
    ) -> None:
        self._cluster = cluster
        self._timeout_seconds = timeout_seconds
        self._idle_seconds = idle_seconds
        self._list_watch = cluster.list_watch(
            resource, namespace=None if namespaces is None else namespaces[0]
        )
        self._silent = cluster.list_watch(
            resource,
            namespace=self._list_watch.namespace,
            field_selector=FieldSelector.parse(_SILENT),
        )
        self.facts = ResourceFacts(resource=resource, namespaces=namespaces)
        """What was found so far."""

    async def read(self) -> None:
        """Ask for the rights and list; a check that fails does not stop the others.

        Cancellation:
            Safe; requests are dropped.
        """
        await self._ask_for_rights()
        await self._list()

    async def watch(self) -> None:
        """Try watches; after `read`, and only if its list has a version to watch from.

        Cancellation:
            Safe; requests are dropped.
        """
        if self.facts.list_version:
            async with anyio.create_task_group() as group:
                group.start_soon(self._try_watch_list)
                group.start_soon(self._wait_for_bookmark)
                if self._idle_seconds is not None:
                    group.start_soon(self._stay_idle, self._idle_seconds)

    async def _ask_for_rights(self) -> None:
        """Ask the server itself what this user may do: its authorizers need not be RBAC."""
        facts = self.facts
        places = (None,) if facts.namespaces is None else facts.namespaces
        found = list[Right]()
        try:
            for namespace in places:
                found += [await self._right(verb, namespace) for verb in _VERBS]
        except InformerError as error:
            facts.rights_error = str(error)
        facts.rights = tuple(found)

    async def _right(self, verb: str, namespace: str | None) -> Right:
        resource = self.facts.resource
        wanted = {
            "group": resource.group,
            "version": resource.version,
            "resource": resource.resource,
            "verb": verb,
            "namespace": namespace or "",
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": wanted},
        }
        answer = await self._cluster.connection.request(
            "POST", _REVIEWS, body=msgspec.json.encode(body), timeout_seconds=self._timeout_seconds
        )
        try:
            status = _decode(answer).status
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProtocolError("a SelfSubjectAccessReview", f"cannot be read: {error}") from error
        return Right(
            verb=verb, namespace=namespace, is_allowed=status.allowed, reason=status.reason
        )

    async def _list(self) -> None:
        """Read the first page of a list, and estimate the memory of a cache from it."""
        facts, items = self.facts, list[bytes]()
        room = _SAMPLE_BYTES

        def on_item(data: bytes, start: int, end: int) -> None:
            nonlocal room
            room -= end - start
            if room >= 0 or not items:
                items.append(data[start:end])

        splitter = ListSplitter(on_item, what=f"list {facts.resource}", on_oversized=_ignore)
        began_at = loop_time()
        try:
            async with (
                _deadline(self._timeout_seconds, f"list {facts.resource}"),
                self._list_watch.list(limit=_PAGE_SIZE) as body,
            ):
                while chunk := await body.read():
                    splitter.feed(chunk)
                facts.page_bytes = body.received_bytes
            page = splitter.finish()
        except InformerError as error:
            facts.list_error = str(error)
            return
        facts.list_seconds = loop_time() - began_at
        facts.page_objects = splitter.item_count
        facts.more = page.remaining_item_count if page.continue_token else 0
        facts.memory = memory_by_mode(facts.resource, page.kind.removesuffix("List"), items)
        facts.list_version = page.resource_version

    async def _try_watch_list(self) -> None:
        """Open a watch-list whose selector matches nothing, so that only its end is sent."""
        facts = self.facts
        what = f"watch-list {facts.resource}"
        # The server ends it before the deadline: what a proxy held back arrives then.
        seconds = float(max(1, math.floor(self._timeout_seconds) - 1))
        try:
            async with _deadline(self._timeout_seconds, what):
                facts.watch_list_times, facts.watch_list_seconds = await self._bookmark_after(
                    what, seconds, resource_version=""
                )
        except InformerError as error:
            facts.watch_list_error = str(error)
            return
        if facts.watch_list_seconds is None:
            facts.watch_list_error = "the server never sent its end"

    async def _wait_for_bookmark(self) -> None:
        facts = self.facts
        what = f"watch {facts.resource}"
        began_at = loop_time()
        try:
            async with _deadline(self._timeout_seconds + _WATCH_SECONDS, what):
                facts.watch_times, facts.bookmark_seconds = await self._bookmark_after(
                    what, _WATCH_SECONDS, resource_version=facts.list_version
                )
        except InformerError as error:
            facts.watch_error = str(error)
        facts.watch_seconds = loop_time() - began_at

    async def _stay_idle(self, seconds: float) -> None:
        """Keep a watch open that is sent nothing, not even bookmarks, as long as possible."""
        facts = self.facts
        facts.idle_wanted_seconds = seconds
        query = (
            *self._silent.selectors,
            ("watch", "true"),
            ("resourceVersion", self.facts.list_version),
            ("timeoutSeconds", str(math.ceil(seconds + self._timeout_seconds))),
        )
        began_at = loop_time()
        try:
            with anyio.move_on_after(seconds):
                async with self._cluster.connection.stream(
                    self._silent.path, query, watch=True, what=f"watch {facts.resource}"
                ) as body:
                    while await body.read():
                        pass
                    facts.idle_error = "the stream was ended, as if it were complete"
        except InformerError as error:
            facts.idle_error = str(error)
        facts.idle_seconds = min(loop_time() - began_at, seconds)

    async def _bookmark_after(
        self, what: str, seconds: float, *, resource_version: str
    ) -> tuple[WatchTimes, float | None]:
        """Watch from a version, or open a watch-list without one.

        Returns:
            The times, and after how many seconds the bookmark arrived: of a watch-list, the one
            that ends the initial events; None if the watch ended without it.
        """
        is_load = not resource_version
        found, line_seconds = False, None

        def on_line(data: bytes | bytearray, start: int, end: int) -> None:
            nonlocal found, line_seconds
            if line_seconds is None:
                line_seconds = loop_time() - began_at
            kind, body, first, last = read_frame_slowly(data, start, end)
            if kind == ERROR:
                raise read_error(body, first, last, request=what)
            if kind == BOOKMARK:
                found = found or read_bookmark(body, first, last).ends_initial_events or not is_load

        splitter = LineSplitter(on_line, what=what)
        watch = self._silent.watch(
            resource_version=resource_version, timeout_seconds=seconds, send_initial_events=is_load
        )
        began_at = loop_time()
        async with watch as body:
            opened_seconds = loop_time() - began_at
            while not found and (chunk := await body.read()):
                splitter.feed(chunk)
            found_seconds = loop_time() - began_at if found else None
            if not found:
                splitter.finish()
            times = WatchTimes(
                requested_seconds=seconds, opened_seconds=opened_seconds, line_seconds=line_seconds
            )
            if not found or (times.is_late and await _ends_at_once(body)):
                times = replace(times, ended_seconds=loop_time() - began_at)
        return times, found_seconds


async def _ends_at_once(body: Body) -> bool:
    """Return whether nothing but the end of a body follows, as of one that a proxy held back."""
    with anyio.move_on_after(AT_ONCE_SECONDS):
        while await body.read():
            pass
        return True
    return False


@asynccontextmanager
async def _deadline(seconds: float, what: str) -> AsyncIterator[None]:
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError as error:
        if isinstance(error, InformerError):
            raise
        reason = f"not complete after {seconds:g} s"
        raise RequestTimeoutError(what, reason, waited_seconds=seconds) from error


def _ignore(head: bytes, size_bytes: int) -> None:
    """Leave an oversized object out of the sample."""
    del head, size_bytes
