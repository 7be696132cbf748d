"""The blocking twin of Recording."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self, final

from pyinformer.blocking._sync_proxy import SyncProxy, direct
from pyinformer.cache.informer import Recording


@final
class BlockingRecording(SyncProxy[Recording]):
    """Records an informer: `with pods.record("incident.jsonl") as recording`.

    Made by `informer.record()`.

    Args:
        thread: runs the event loop of the informer.
        asynchronous: the recording on that loop.
    """

    def __enter__(self) -> Self:
        self._thread.enter(self.asynchronous)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.leave(self.asynchronous, exc_type, exc, traceback)

    status: Final = direct(Recording.status)
    """Return what was written so far, and why nothing is written any more; from any thread."""
