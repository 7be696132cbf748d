"""When the machine was suspended: the clock of event loops, which ages count by, stood still."""

from __future__ import annotations

import threading
from typing import Final, final

from pyinformer._runtime.clock import lease_time, monotonic

_NOTICED_SECONDS: Final = 0.5  # the two clocks are read one after the other


@final
class Suspends:
    """The suspends that were noticed; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may read in the middle
        self._total_seconds = lease_time() - monotonic()
        self._noticed: list[tuple[float, float]] = []

    def look(self, now: float) -> bool:
        """Return whether the machine was suspended since the last look.

        Args:
            now: the clock that stands still in a suspend.
        """
        with self._lock:
            total_seconds = lease_time() - monotonic()
            lasted_seconds = total_seconds - self._total_seconds
            if lasted_seconds < _NOTICED_SECONDS:
                return False
            self._total_seconds = total_seconds
            self._noticed.append((now, lasted_seconds))
            return True

    def since(self, at: float) -> float:
        """Return for how many seconds it was suspended since an instant, or shortly before it.

        Args:
            at: an instant of that clock; suspends that were noticed before an earlier one are
                forgotten.
        """
        with self._lock:
            self._noticed = [one for one in self._noticed if one[0] > at]
            return sum(seconds for _, seconds in self._noticed)
