"""Failures of discovery: the reflectors of one cluster connection share them.

Behind a gateway without servers, discovery explains no 404, whichever reflector asks. So one of
them asks, and the others use its failure for a few seconds. Answers are never shared: each
reflector proves the absence of its resource for itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy
from typing import Final, NamedTuple, TypeVar, final

import anyio

from pyinformer._runtime.tasks import loop_time
from pyinformer.errors import InformerError

_SHARED_SECONDS: Final = 5.0  # shorter than most delays: an answer is rarely missed because of it

T = TypeVar("T")


class _Failure(NamedTuple):
    by: object
    at: float
    error: InformerError


@final
class DiscoveryFailures:
    """The latest failure for each path of discovery that the reflectors of a connection asked."""

    def __init__(self) -> None:
        self._latest: dict[str, _Failure] = {}  # bounded by the versions that are followed
        self._flights: dict[str, anyio.Event] = {}

    async def ask(self, path: str, ask: Callable[[], Awaitable[T]], *, by: object) -> T:
        """Ask discovery, unless it has just failed for another reflector.

        Its own failure keeps no reflector from asking again: its delays grow.

        Args:
            path: what is asked, such as `/apis/apps/v1`.
            ask: sends the requests.
            by: stands for the reflector that asks.

        Raises:
            InformerError: discovery failed, now or a few seconds ago.

        Cancellation:
            Safe; reflectors that wait for the answer ask for themselves.
        """
        under_way = self._flights.get(path)
        if under_way is not None:
            await under_way.wait()
        known = self._latest.get(path)
        now = loop_time()
        if known is not None and known.by is not by and now - known.at < _SHARED_SECONDS:
            raise copy(known.error)
        flight = self._flights.setdefault(path, anyio.Event())
        try:
            answer = await ask()
        except InformerError as error:
            self._latest[path] = _Failure(by, loop_time(), copy(error))
            raise
        else:
            self._latest.pop(path, None)
            return answer
        finally:
            if self._flights.get(path) is flight:
                del self._flights[path]
            flight.set()
