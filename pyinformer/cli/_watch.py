"""`pyinformer watch`: what exists, and then every change as it comes.

What enters are the events of an informer; what leaves are lines. The old state of an object, which
a change is told against, is the one that the cache had.
"""

from __future__ import annotations

from typing import Any, final

import anyio

from pyinformer.cli._command import Showing
from pyinformer.cli._ending import Ending
from pyinformer.cli._event_json import JsonRendering
from pyinformer.cli._event_text import TextRendering
from pyinformer.cli._paper import Paper
from pyinformer.cli._session import Session
from pyinformer.cli._telling import Rendering, Telling
from pyinformer.informer import SharedInformer

_NEWS_SECONDS = 0.5
_LOOK_SECONDS = 0.01


@final
class Watch:
    """Tells of a resource until it is ended.

    Args:
        showing: how objects are shown.
        ending: is told when nobody reads it any more.
        paper: takes the lines.
    """

    def __init__(self, showing: Showing, ending: Ending, paper: Paper) -> None:
        self._showing = showing
        self._paper = paper
        self._telling = Telling(paper, ending.end_unwritten)

    def prepare(self, informer: SharedInformer[Any]) -> None:
        """Do nothing: a handler that comes later is handed what is cached, not each arrival."""

    async def perform(self, found: Session, deadline: anyio.CancelScope) -> int:
        """Tell what exists, then what happens; it does not return.

        Cancellation:
            The way to end it.
        """
        del deadline  # it holds for all of it
        await found.sync(gives_up=False)
        found.informer.add_event_handler(self._telling.on_event, name="pyinformer watch")
        while not _is_idle(found):  # noqa: ASYNC110 - nothing tells of an idle handler
            await anyio.sleep(_LOOK_SECONDS)
        objects = found.informer.lister.list(allow_unsynced=True)  # as the handler has heard
        objects.sort(key=lambda obj: obj._key)
        await self._telling.tell_what_exists(objects, self._rendering(found))
        del objects
        began_at = anyio.current_time()
        while True:
            found.say_news(anyio.current_time() - began_at)
            await anyio.sleep(_NEWS_SECONDS)

    def _rendering(self, found: Session) -> Rendering:
        shows_secrets = self._showing.shows_secrets
        if self._showing.form == "json":
            return JsonRendering(what=found.what, shows_secrets=shows_secrets)
        return TextRendering(
            layout=self._showing.layout(found),
            what=found.where,
            shows_secrets=shows_secrets,
            styled=self._paper.styled,
        )


def _is_idle(found: Session) -> bool:
    """Tell whether all that is cached was handed over: the cache leads its handlers."""
    (handler,) = found.informer.status().handlers
    return not handler.depth and handler.in_flight_key is None
