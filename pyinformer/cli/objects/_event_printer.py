"""An event handler that prints the existing objects, and then each event.

Text is written in a thread, so that a full pipe blocks neither the loop nor the cache. With a slow
reader, events wait in the handler's mailbox, where those of one object are merged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, final

import anyio

from pyinformer._runtime.tasks import WorkerThreads
from pyinformer.cli.output import Output
from pyinformer.objects import Event, KubeObject

_MOST_CHARACTERS = 1 << 16  # in one write


class Rendering(Protocol):
    """Turns objects and events into text."""

    def initial(self, objects: Sequence[KubeObject[Any]]) -> Iterator[str]:
        """Yield the text of the existing objects."""
        ...

    def event(self, event: Event[Any]) -> str:
        """Return the text of an event."""
        ...


@final
class EventPrinter:
    """Prints the events of an informer; `on_event` is the handler.

    Args:
        output: receives the text.
        on_write_error: is called in a thread if the output is closed or the disk is full.
    """

    def __init__(self, output: Output, on_write_error: Callable[[OSError], object]) -> None:
        self._output = output
        self._on_write_error = on_write_error
        self._threads = WorkerThreads("output")
        self._has_started = False
        self._rendering: Rendering | None = None
        self._initial_printed = anyio.Event()

    def on_event(self, event: Event[Any]) -> Awaitable[None] | None:
        """Print an event; those before `print_initial` are part of the existing objects."""
        return self._print(event) if self._has_started else None

    async def print_initial(self, objects: Sequence[KubeObject[Any]], rendering: Rendering) -> None:
        """Print the existing objects; from now on, print each event.

        Args:
            objects: the result of all events up to now.
            rendering: turns objects and events into text.

        Cancellation:
            Waits for the write in progress.
        """
        self._has_started = True
        await self._threads.run(lambda: self._write(rendering.initial(objects)))
        self._rendering = rendering
        self._initial_printed.set()

    async def _print(self, event: Event[Any]) -> None:
        await self._initial_printed.wait()
        await self._threads.run(lambda: self._write(self._lines(event)))

    def _lines(self, event: Event[Any]) -> Iterator[str]:
        if self._rendering is not None:
            yield self._rendering.event(event)

    def _write(self, texts: Iterable[str]) -> None:
        try:
            for text in in_chunks(texts):
                self._output.write(text)
        except OSError as error:
            self._on_write_error(error)


def in_chunks(texts: Iterable[str]) -> Iterator[str]:
    """Join short texts, so that not every line needs a system call."""
    waiting: list[str] = []
    size = 0
    for text in texts:
        waiting.append(text)
        size += len(text)
        if size >= _MOST_CHARACTERS:
            yield "".join(waiting)
            waiting.clear()
            size = 0
    if waiting:
        yield "".join(waiting)
