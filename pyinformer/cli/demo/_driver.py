"""The thread that advances the simulated cluster at a fixed pace.

An error of the simulation is kept, so that a demo without events is not reported as a success.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Protocol, Self, final

_STEP_SECONDS = 0.1
_JOIN_SECONDS = 5.0  # a step takes a millisecond


class Steppable(Protocol):
    """A simulation that advances step by step, such as a DemoWorld."""

    def step(self) -> None:
        """Advance by one step."""
        ...


@final
class Driver:
    """Advances a world while its `with` block runs."""

    def __init__(self, world: Steppable) -> None:
        self._world = world
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pyinformer-world", daemon=True)
        self.error: Exception | None = None

    def stop(self) -> None:
        """Stop the world: after this returns, it writes nothing."""
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
        except Exception as error:  # noqa: BLE001 - any error of the simulation fails the demo
            self.error = error
