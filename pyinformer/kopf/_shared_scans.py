"""Scans for the server's resources that several events share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from kopf._cogs.structs.references import Resource


@final
class SharedScans:
    """The scans of one operator: callers that arrive during a scan share the next one.

    kopf scans once for each event of a CRD, and at the start every CRD has one.
    """

    def __init__(self) -> None:
        self._running: dict[frozenset[str] | None, _SharedScan] = {}

    async def scan(
        self, groups: Collection[str] | None, scan: Callable[[], Awaitable[Collection[Resource]]]
    ) -> Collection[Resource]:
        """Return the result of a scan that began after this call.

        Args:
            groups: the API groups that are scanned; None for all.
            scan: scans them.

        Cancellation:
            Safe; another caller scans.
        """
        key = None if groups is None else frozenset(groups)
        return await self._running.setdefault(key, _SharedScan()).get(scan)


@final
class _SharedScan:
    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._begun = self._finished = 0
        self._found: Collection[Resource] = ()

    async def get(
        self, scan: Callable[[], Awaitable[Collection[Resource]]]
    ) -> Collection[Resource]:
        begun = self._begun
        async with self._turn:  # held during the scan: to wait for it is the purpose
            if self._finished <= begun:
                self._begun = number = self._begun + 1
                self._found = await scan()
                self._finished = number
            return self._found
