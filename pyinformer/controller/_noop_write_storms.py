"""Detects storms of no-op writes: a controller whose writes change nothing.

A storm begins when no-ops exceed a share of the newest writes, or a rate. It ends when both have
halved, or after a quiet time, so it does not flap. It needs no clock and no event loop, and its
memory is bounded: two rings of writes, and the keys with most no-ops.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import heapq
import math
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, final

if TYPE_CHECKING:
    from pyinformer.controller.sources import RequestId

LEAST_WRITES: Final = 20  # fewer are too few for a share
_RATIO: Final = 0.5  # more no-ops than this are a storm: most of what it writes is useless
_RATE_NOOPS: Final = 100  # more within the time below are one, too, whatever their share
_RATE_SECONDS: Final = 10.0
_RECENT: Final = 100  # the newest writes: a storm is detected within as many
_HORIZON_SECONDS: Final = 600.0  # older writes do not count
_QUIET_SECONDS: Final = 60.0
_MAX_KEYS: Final = 16_384  # about 3 MB, and only in a storm


@final
class Storm(NamedTuple):
    """A storm that is over."""

    noops: int
    """The number of writes that changed nothing meanwhile."""
    seconds: float


@final
class NoopWriteStorms:
    """Counts the writes of one controller, and decides when a storm of no-ops begins and ends."""

    __slots__ = (
        "_began_at",
        "_keys",
        "_last_at",
        "_noops_before",
        "_recent",
        "_recent_noops",
        "_times",
        "is_storm",
        "noops",
        "writes",
    )

    def __init__(self) -> None:
        self._recent: deque[tuple[float, bool]] = deque()  # when, and whether it changed anything
        self._recent_noops = 0
        self._times: deque[float] = deque(maxlen=_RATE_NOOPS + 1)  # of the newest no-ops
        self._last_at = -math.inf
        self._began_at = 0.0
        self.is_storm: bool = False
        """Whether there is a storm."""
        self._noops_before = 0
        self._keys: dict[RequestId, int] = {}  # no-op writes in a row
        self.writes: int = 0
        """The number of writes that were answered."""
        self.noops: int = 0
        """The number of writes that changed nothing."""

    def wrote(self, request_id: RequestId, now: float, *, changed: bool) -> bool:
        """Count a write.

        Args:
            request_id: whose reconcile made it.
            now: when it was answered; monotonic seconds.
            changed: whether it changed anything.

        Returns:
            Whether a storm begins.
        """
        self.writes += 1
        self._recent.append((now, changed))
        self._recent_noops += not changed
        self._forget_old(now)
        if changed:
            self._keys.pop(request_id, None)
            return False
        self.noops += 1
        self._last_at = now
        self._times.append(now)
        self._count_key(request_id)
        if self.is_storm or not (self._is_share_over() or self._is_rate_over(now)):
            return False
        self.is_storm = True
        self._began_at = now
        self._noops_before = self.noops - self._recent_noops
        return True

    def ended(self, now: float) -> Storm | None:
        """Return a storm that has ended, once; to be called after each reconcile."""
        if not self.is_storm:
            return None
        if not self.is_quiet(now) and not (self._has_share_halved() and self._has_rate_halved(now)):
            return None
        self.is_storm = False
        return Storm(self.noops - self._noops_before, now - self._began_at)

    def is_quiet(self, now: float) -> bool:
        """Return whether no write has been a no-op for a while."""
        return now - self._last_at >= _QUIET_SECONDS

    def ratio(self) -> float:
        """Return the share of no-ops among the newest writes; 0 if there are too few."""
        known = len(self._recent)
        return self._recent_noops / known if known >= LEAST_WRITES else 0.0

    def only_noops(self, request_id: RequestId) -> bool:
        """Return whether a key wrote, and its last writes changed nothing."""
        return request_id in self._keys

    def top(self, count: int) -> list[tuple[RequestId, int]]:
        """Return the keys with the most no-op writes in a row, the worst first; any thread."""
        return heapq.nlargest(count, tuple(self._keys.items()), key=lambda item: item[1])

    def _forget_old(self, now: float) -> None:
        recent = self._recent
        while len(recent) > _RECENT or recent[0][0] <= now - _HORIZON_SECONDS:
            _, changed = recent.popleft()
            self._recent_noops -= not changed

    def _count_key(self, request_id: RequestId) -> None:
        keys = self._keys
        if request_id not in keys and len(keys) >= _MAX_KEYS:  # keys with one no-op make room
            self._keys = keys = {key: count // 2 for key, count in keys.items() if count > 1}
        keys[request_id] = keys.get(request_id, 0) + 1

    def _is_share_over(self) -> bool:
        return self.ratio() > _RATIO

    def _has_share_halved(self) -> bool:
        return len(self._recent) >= LEAST_WRITES and self.ratio() <= _RATIO / 2

    def _is_rate_over(self, now: float) -> bool:
        times = self._times
        return len(times) > _RATE_NOOPS and times[0] > now - _RATE_SECONDS

    def _has_rate_halved(self, now: float) -> bool:
        half = _RATE_NOOPS // 2 + 1
        return len(self._times) < half or self._times[-half] <= now - _RATE_SECONDS
