"""The thread in which the demo's world moves.

In goes a world; it steps at a fixed pace until it is stopped. What ended it early is kept, so that
a cluster that stood still is never taken for one that was followed.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Protocol, Self, final

_STEP_SECONDS = 0.1
_JOIN_SECONDS = 5.0  # a step takes a millisecond


class Steppable(Protocol):
    """What moves when it is told to, as a World does."""

    def step(self) -> None:
        """Let a moment pass."""
        ...


@final
class Driver:
    """Lets a world live while its `with` block runs."""

    def __init__(self, world: Steppable) -> None:
        self._world = world
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pyinformer-world", daemon=True)
        self.error: Exception | None = None

    def stop(self) -> None:
        """Let it stand still: when this returns, nothing is written any more."""
        self._stopping.set()
        self._thread.join(_JOIN_SECONDS)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_STEP_SECONDS):
                self._world.step()
        except Exception as error:  # noqa: BLE001 - whatever stopped the world fails the demo
            self.error = error
