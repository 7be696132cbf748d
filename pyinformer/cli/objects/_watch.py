"""`pyinformer watch`: what exists, and then every change as it comes.

What enters are the events of an informer; what leaves are lines. The old state of an object, which
a change is told against, is the one that the cache had.
"""

from __future__ import annotations

from typing import Any, final

import anyio

from pyinformer.cli._shutdown import Shutdown
from pyinformer.cli.objects._command import DisplayOptions
from pyinformer.cli.objects._printer import EventPrinter, Rendering
from pyinformer.cli.objects._session import Session
from pyinformer.cli.output import JsonRendering, Output, TextRendering
from pyinformer.informer import SharedInformer

_REPORT_SECONDS = 0.5
_POLL_SECONDS = 0.01


@final
class Watch:
    """Tells of a resource until it is ended.

    Args:
        display: how objects are shown.
        shutdown: is told when nobody reads it any more.
        output: takes the lines.
    """

    def __init__(self, display: DisplayOptions, shutdown: Shutdown, output: Output) -> None:
        self._display = display
        self._output = output
        self._printer = EventPrinter(output, shutdown.on_write_error)

    def prepare(self, informer: SharedInformer[Any]) -> None:
        """Do nothing: a handler that comes later is handed what is cached, not each arrival."""

    async def perform(self, found: Session, deadline: anyio.CancelScope) -> int:
        """Tell what exists, then what happens; it does not return.

        Cancellation:
            The way to end it.
        """
        del deadline  # it holds for all of it
        await found.sync(gives_up=False)
        found.informer.add_event_handler(self._printer.on_event, name="pyinformer watch")
        while not _is_idle(found):  # noqa: ASYNC110 - nothing tells of an idle handler
            await anyio.sleep(_POLL_SECONDS)
        objects = found.informer.lister.list(allow_unsynced=True)  # as the handler has heard
        objects.sort(key=lambda obj: obj._key)
        await self._printer.print_initial(objects, self._rendering(found))
        del objects
        began_at = anyio.current_time()
        while True:
            found.report_progress(anyio.current_time() - began_at)
            await anyio.sleep(_REPORT_SECONDS)

    def _rendering(self, found: Session) -> Rendering:
        shows_secrets = self._display.shows_secrets
        if self._display.form == "json":
            return JsonRendering(what=found.what, shows_secrets=shows_secrets)
        return TextRendering(
            layout=self._display.layout(found),
            what=found.where,
            shows_secrets=shows_secrets,
            styled=self._output.styled,
        )


def _is_idle(found: Session) -> bool:
    """Tell whether all that is cached was handed over: the cache leads its handlers."""
    (handler,) = found.informer.status().handlers
    return not handler.depth and handler.in_flight_key is None
