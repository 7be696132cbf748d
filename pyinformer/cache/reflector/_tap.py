"""The interface of what records a reflector; without one, nothing is called per event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from pyinformer.client.transport import Body, LineSplitter


class LineReader(Protocol):
    """What applies the lines of a watch."""

    def on_line(self, data: bytes | bytearray, start: int, end: int) -> None:
        """Apply one line, `data[start:end]`."""
        ...

    def on_oversized(self, head: bytes, size_bytes: int) -> None:
        """Apply the head of a line that is too long."""
        ...


class ReflectorTap(Protocol):
    """Receives what a recording needs beside requests and responses; called on the loop."""

    def on_load_ended(self) -> None:
        """Record that a load was applied, or has failed."""
        ...

    def on_relist_requested(self, reason: str, *, distrust: bool) -> None:
        """Record that everything is listed again because the program or another informer asked."""
        ...

    def on_follow(
        self,
        body: Body,
        splitter: LineSplitter,
        reader: LineReader,
        rest: Sequence[bytes],
    ) -> None:
        """Record the lines of a watch from now on; it may redirect the splitter.

        Args:
            body: the watch.
            splitter: splits it.
            reader: applies its lines.
            rest: lines that have arrived already, which are applied next.
        """
        ...

    def on_left(
        self, end: Literal["ended", "closed", "failed"], error: BaseException | None
    ) -> None:
        """Record that the watch is not followed any more."""
        ...
