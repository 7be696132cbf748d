"""From events to lines: what exists is told at once, and after that each event by itself.

What enters are the events of an informer, on the event loop; what leaves is text,
written in a thread, so that a full pipe holds up neither the loop nor a cache. Behind a slow reader
events wait in the handler's mailbox, where those of one object are merged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, final

import anyio

from pyinformer.apimachinery import Event, KubeObject
from pyinformer.cli.output import Output
from pyinformer.tasks import WorkerThreads

_MOST_CHARACTERS = 1 << 16  # of one write


class Rendering(Protocol):
    """Makes text of what is known."""

    def initial(self, objects: Sequence[KubeObject[Any]]) -> Iterator[str]:
        """Write what exists."""
        ...

    def event(self, event: Event[Any]) -> str:
        """Write what happened."""
        ...


@final
class EventPrinter:
    """Tells what an informer hears; `on_event` is their handler.

    Args:
        output: takes the text.
        on_write_error: is called, in a thread, when nobody reads it any more, or the disk is full.
    """

    def __init__(self, output: Output, on_write_error: Callable[[OSError], object]) -> None:
        self._output = output
        self._on_unwritten = on_write_error
        self._threads = WorkerThreads("output")
        self._has_started = False
        self._rendering: Rendering | None = None
        self._initial_printed = anyio.Event()

    def on_event(self, event: Event[Any]) -> Awaitable[None] | None:
        """Tell an event; those before `print_initial` are seen in what exists."""
        return self._print(event) if self._has_started else None

    async def print_initial(self, objects: Sequence[KubeObject[Any]], rendering: Rendering) -> None:
        """Tell what exists; from this step on each event is told by itself.

        Args:
            objects: exactly what the events up to now add up to.
            rendering: makes the text.

        Cancellation:
            What is being written is waited for.
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
            self._on_unwritten(error)


def in_chunks(texts: Iterable[str]) -> Iterator[str]:
    """Join short texts, so that a line is not a system call."""
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
