"""The event loop that an object belongs to; calls from any other are refused.

Events, futures and sockets of one loop never wake a task of another, and tasks cannot be created
from another thread. A forked child has the same sockets as its parent: each would read responses
that belong to the other. The error for such a call names the right way.
"""

from __future__ import annotations

import asyncio
import os
from typing import final

from pyinformer.errors import LifecycleError


@final
class LoopOwner:
    """The event loop of one object: the loop that first claims it.

    Args:
        what: the object's name in errors.
    """

    __slots__ = ("_loop", "_process", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def claim(self) -> None:
        """Bind the object to the running loop, unless it is bound already.

        Raises:
            LifecycleError: no loop runs here, or the object is bound to another one, or to this
                loop in the process whose forked child this is.
        """
        if self._loop is None:
            self._loop, self._process = _running(), os.getpid()
            if self._loop is None:
                raise LifecycleError(f"{self._what} needs a running event loop: {_IN_THREADS}")
        else:
            self.check()

    def check(self, *, may_be_closed: bool = False) -> None:
        """Refuse a call from outside of the object's loop, if it has one.

        Args:
            may_be_closed: accept the call if the object's loop is closed: nothing runs in it.

        Raises:
            LifecycleError: no loop runs here, or the object is bound to another one, or to this
                loop in the process whose forked child this is.
        """
        loop = self._loop
        if loop is None:
            return
        if self._process != os.getpid():
            raise LifecycleError(
                f"{self._what} belongs to process {self._process}, and this is its forked child"
                f" {os.getpid()}, which has the same sockets: make a new one here"
            )
        here = _running()
        if here is loop or (may_be_closed and loop.is_closed()):
            return
        if loop.is_closed():
            how = "make a new one in this loop"
            raise LifecycleError(f"{self._what} belongs to an event loop that is closed: {how}")
        if here is None:
            raise LifecycleError(
                f"{self._what} belongs to an event loop, which does not run in this thread:"
                f" loop.call_soon_threadsafe(...) calls a function there; {_IN_THREADS}"
            )
        raise LifecycleError(
            f"{self._what} belongs to another event loop: call it there, by"
            " asyncio.run_coroutine_threadsafe(..., loop), or by runner.call(...) if"
            " run_in_thread() made it, or make another one in this loop"
        )


_IN_THREADS = "for programs of threads there is pyinformer.run_in_thread()"


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
