"""Renders metrics for scrapes in a thread, one rendering at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeAlias, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import error_text, run_in_daemon
from pyinformer.telemetry.metrics import Exposition

_LONGEST_SECONDS: Final = 10.0  # a rendering takes milliseconds; a longer one does not end

_log = get_logger(__name__)


@final
class Scrape(NamedTuple):
    """The answer to one scrape: its content type and the rendered figures."""

    content_type: str
    body: bytes
    problem: str = ""
    """Why there is no body; empty if there is one."""


_Reply: TypeAlias = Callable[[Scrape], None]


@final
@dataclass(slots=True)
class _Rendering:
    """One rendering that has not begun: its format, and the scrapes that wait for it."""

    render: Callable[[], bytes]
    replies: dict[_Reply, None] = field(default_factory=dict)


@final
class Scrapes:
    """Answers the scrapes of one server; scrapes that wait for the same format share a rendering.

    A scrape never shares a rendering that began before it: what it shows was read after it arrived.

    Args:
        metrics: the figures.
    """

    def __init__(self, metrics: Exposition) -> None:
        self._metrics = metrics
        self._waiting: dict[str, _Rendering] = {}
        self._began_at: float | None = None

    def request(self, accept: str, reply: _Reply) -> None:
        """Render the figures as soon as no other rendering runs.

        Args:
            accept: the values of the request's Accept headers.
            reply: called on the loop with the answer.
        """
        now = asyncio.get_running_loop().time()
        if self._began_at is not None and now > self._began_at + _LONGEST_SECONDS:
            seconds = now - self._began_at
            reply(Scrape("", b"", f"an earlier scrape has been read for {seconds:.0f} s"))
            return
        try:
            content_type, render = self._metrics.exposition(accept)
        except ENDS_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001 - a user's metrics system
            reply(_failed(error))
            return
        self._waiting.setdefault(content_type, _Rendering(render)).replies[reply] = None
        self._start_next()

    def forget(self, reply: _Reply) -> None:
        """Do not answer a scrape: its client has left. A rendering without clients is not begun."""
        for content_type, rendering in tuple(self._waiting.items()):
            rendering.replies.pop(reply, None)
            if not rendering.replies:
                del self._waiting[content_type]

    def _start_next(self) -> None:
        if self._began_at is not None or not self._waiting:
            return
        content_type, rendering = next(iter(self._waiting.items()))
        del self._waiting[content_type]
        self._began_at = asyncio.get_running_loop().time()
        try:
            future = run_in_daemon("pyinformer metrics", rendering.render)
        except RuntimeError as error:  # no thread can be started
            future = asyncio.get_running_loop().create_future()
            future.set_exception(error)
        future.add_done_callback(partial(self._ended, content_type, rendering.replies))

    def _ended(
        self, content_type: str, replies: Iterable[_Reply], future: asyncio.Future[bytes]
    ) -> None:
        self._began_at = None
        self._start_next()
        error = future.exception()
        answer = Scrape(content_type, future.result()) if error is None else _failed(error)
        for reply in replies:
            reply(answer)


def _failed(error: BaseException) -> Scrape:
    _log.error("a scrape of metrics failed with %s", error_text(error))
    return Scrape("", b"", f"the scrape failed with {type(error).__name__}")
