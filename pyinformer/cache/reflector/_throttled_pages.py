"""Lists that a busy server refuses are requested again.

So the pages before one, and an open watch-list that waits for one, are not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from pyinformer.cache.reflector.machine import is_throttled, requested_seconds
from pyinformer.errors import APIStatusError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_T = TypeVar("_T")

_REPETITIONS: Final = 10  # as client-go, of each request


async def past_throttling(read: Callable[[], Awaitable[_T]]) -> _T:
    """Read one page, again and again while the server has too much to do and names a short delay.

    Args:
        read: sends the request; it has no effect if the server refuses.

    Returns:
        What `read` returns.

    Raises:
        InformerError: of `read`; a refusal after eleven attempts.

    Cancellation:
        Safe.

    Source:
        client-go rest/with_retry.go.
    """
    for _ in range(_REPETITIONS):
        try:
            return await read()
        except APIStatusError as error:
            if not is_throttled(error):
                raise
            await anyio.sleep(requested_seconds(error))
    return await read()
