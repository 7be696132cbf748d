"""`pyinformer record`: write to a file what an informer receives, to be replayed in a test."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import anyio

from pyinformer._printable import printable
from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.informer import DEFAULT_MAX_BYTES, Recording, SharedInformer
from pyinformer.cli.objects._session import CommandError, Session
from pyinformer.cli.output import Output

if TYPE_CHECKING:
    from pyinformer.cache import RecordingStatistics

_REPORT_SECONDS = 0.5


@final
class RecordCommand:
    """Records a resource until it is cancelled, or the file cannot be written.

    Args:
        path: the file.
        max_bytes: how much the files of the recording may have together; None for the default.
        redact: further kinds of which only metadata is kept.
        output: receives the text.
    """

    def __init__(
        self, path: Path, *, max_bytes: int | None, redact: Sequence[str], output: Output
    ) -> None:
        self._path = path
        self._max_bytes = DEFAULT_MAX_BYTES if max_bytes is None else max_bytes
        self._redact = redact
        self._output = output
        self._recording: Recording | None = None

    @asynccontextmanager
    async def prepare(self, informer: SharedInformer[Any]) -> AsyncGenerator[None]:
        """Record from before the informer starts to the end, and report what was written.

        Raises:
            CommandError: not everything could be written.

        Cancellation:
            What was received is written first.
        """
        recording = informer.record(self._path, max_bytes=self._max_bytes, redact=self._redact)
        try:
            async with recording:
                self._recording = recording
                yield
        finally:
            if self._recording is not None:
                self._output.line(printable(f"recorded {_summary(self._status())}"))
                self._check()  # the last lines are written at the end

    async def perform(self, found: Session, deadline: anyio.CancelScope) -> int:
        """Report progress; it never returns.

        Raises:
            CommandError: the file cannot be written any more.

        Cancellation:
            Ends the command.
        """
        del deadline  # it bounds the whole run
        began_at = loop_time()
        await found.sync(gives_up=False)
        self._output.line(printable(f"recording {found.where} to {self._path}; end by Ctrl-C"))
        while True:
            found.report_progress(loop_time() - began_at)
            self._check()
            await anyio.sleep(_REPORT_SECONDS)

    def _check(self) -> None:
        if self._status().error:
            raise CommandError(self._status().error)

    def _status(self) -> RecordingStatistics:
        if self._recording is None:
            raise CommandError("prepare() was not called")
        return self._recording.status()


def _summary(status: RecordingStatistics) -> str:
    dropped = f", {status.dropped_bytes} bytes dropped" if status.dropped_bytes else ""
    return f"{status.lines} lines, {status.written_bytes} bytes{dropped}"
