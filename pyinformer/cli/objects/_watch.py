"""`pyinformer watch`: print the existing objects, then every change.

A change is printed against the state of the object that the cache had before.
"""

from __future__ import annotations

from typing import Any, final

import anyio

from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.informer import SharedInformer
from pyinformer.cli._shutdown import Shutdown
from pyinformer.cli.objects._command import DisplayOptions
from pyinformer.cli.objects._event_printer import EventPrinter, Rendering
from pyinformer.cli.objects._session import Session
from pyinformer.cli.output import JsonRendering, Output, TextRendering

_REPORT_SECONDS = 0.5
_POLL_SECONDS = 0.01


@final
class WatchCommand:
    """Prints the objects of a resource, and their changes, until it is cancelled.

    Args:
        display: how objects are printed.
        shutdown: ends the command if the output cannot be written.
        output: receives the text.
    """

    def __init__(self, display: DisplayOptions, shutdown: Shutdown, output: Output) -> None:
        self._display = display
        self._output = output
        self._printer = EventPrinter(output, shutdown.on_write_error)

    def prepare(self, informer: SharedInformer[Any]) -> None:
        """Do nothing: the handler is added after the sync, to skip the initial events."""

    async def perform(self, found: Session, deadline: anyio.CancelScope) -> int:
        """Print the existing objects, then every event; it never returns.

        Cancellation:
            Ends the command.
        """
        del deadline  # it bounds the whole run
        await found.sync(gives_up=False)
        found.informer.add_event_handler(self._printer.on_event, name="pyinformer watch")
        while not _is_idle(found):  # noqa: ASYNC110 - handlers do not notify when idle
            await anyio.sleep(_POLL_SECONDS)
        objects = found.informer.lister.list(allow_unsynced=True)  # equals the delivered events
        objects.sort(key=lambda obj: obj._key)
        await self._printer.print_initial(objects, self._rendering(found))
        del objects
        began_at = loop_time()
        while True:
            found.report_progress(loop_time() - began_at)
            await anyio.sleep(_REPORT_SECONDS)

    def _rendering(self, found: Session) -> Rendering:
        shows_secrets = self._display.shows_secrets
        if self._display.form == "json":
            return JsonRendering(what=found.what, shows_secrets=shows_secrets)
        return TextRendering(
            layout=self._display.layout(found),
            what=found.selected,
            shows_secrets=shows_secrets,
            styled=self._output.styled,
        )


def _is_idle(found: Session) -> bool:
    """Return whether the handler has received everything that is cached."""
    (handler,) = found.informer.status().handlers
    return not handler.depth and handler.in_flight_key is None
