"""How a command ends: by itself, by a signal, because nobody takes what it writes, or in time.

What enters are signals and closed pipes; what leaves is an exit status, soon and without a
traceback. An orderly end is tried first; where something cannot be interrupted (a name that is
looked up, a pipe that nobody reads), the process ends without it.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO, final

import anyio

from pyinformer._printable import printable
from pyinformer.cli._exit_status import CLOSED_PIPE, FAILED, SIGNALLED

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_SECONDS = 0.6  # for an orderly end; a second is promised
_POLL_SECONDS = 0.2  # at the pipe
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, in a command that has no event loop: it ends as after Ctrl-C.

    Attributes:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


@final
class Shutdown:
    """Knows how a command ends, once that is decided; `end` may be called from any thread."""

    def __init__(self) -> None:
        self.status: int | None = None
        self._cancel: Callable[[], object] | None = None
        self._timer: threading.Timer | None = None
        self._next_check: asyncio.TimerHandle | None = None

    def end(self, status: int) -> None:
        """Let the command end with this status; the first one counts."""
        if self.status is not None:
            return
        self.status = status
        self._timer = threading.Timer(_GRACE_SECONDS, os._exit, (status,))
        self._timer.daemon = True
        self._timer.start()
        if self._cancel is not None:
            self._cancel()

    def on_write_error(self, error: OSError) -> None:
        """Let the command end since its output takes nothing more; the first time is said."""
        if self.status is None:
            self.end(status_of_write_error(error))

    async def run(self, command: Callable[[], Awaitable[int]], output: TextIO) -> int:
        """Run a command until it is through, or is to end.

        Cancellation:
            Cancels the command.
        """
        loop = asyncio.get_running_loop()
        with anyio.CancelScope() as scope:
            self._cancel = lambda: loop.call_soon_threadsafe(scope.cancel)
            if self.status is not None:  # it came before there was anything to cancel
                scope.cancel()
            self._check_reader(loop, output)
            try:
                return await command()
            finally:
                if self._next_check is not None:
                    self._next_check.cancel()
        return SIGNALLED if self.status is None else self.status

    def _check_reader(self, loop: asyncio.AbstractEventLoop, output: TextIO) -> None:
        """End when nobody reads any more, though nothing is written at the moment."""
        if reader_has_closed(output):
            self.end(CLOSED_PIPE)
        self._next_check = loop.call_later(_POLL_SECONDS, self._check_reader, loop, output)

    def close(self) -> None:
        """Let the process live on: it has ended in order."""
        if self._timer is not None:
            self._timer.cancel()


def run(command: Callable[[Shutdown], Awaitable[int]], output: TextIO) -> int:
    """Run an asynchronous command in a loop of its own. Call it in the main thread.

    Args:
        command: returns its exit status; it is cancelled when it is to end early.
        output: where it writes.

    Returns:
        The exit status.
    """
    shutdown = Shutdown()

    def on_signal(number: int, frame: FrameType | None) -> None:
        """End in order; for a second one there is no order."""
        del frame
        if shutdown.status is not None:
            os._exit(shutdown.status)
        shutdown.end(SIGNALLED + number)

    with handle_signals(on_signal):
        try:
            return asyncio.run(shutdown.run(lambda: command(shutdown), output))
        except BrokenPipeError:
            return CLOSED_PIPE
        finally:
            shutdown.close()
            if shutdown.status == CLOSED_PIPE:
                detach_closed_pipes()


def shutdown_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a command; not SIGHUP where `nohup` lets it be ignored."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return _NUMBERS[:-1]
    return _NUMBERS


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle what ends a command; outside of the main thread, where nobody can, do nothing."""
    before: dict[int, object] = {}
    with suppress(ValueError):
        for number in shutdown_signals():
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for known, one in before.items():
            signal.signal(known, one)  # type: ignore[arg-type]  # what signal() gave


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, SIGTERM and SIGHUP Terminated, where there is no loop."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        """Raise where the command is."""
        if number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        raise Terminated(number)

    with handle_signals(on_signal):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which asyncio.run knows
        yield


@contextmanager
def terminate_when_reader_closes(output: TextIO) -> Iterator[None]:
    """Send this process SIGTERM when nobody reads its output any more, though it writes nothing."""
    is_over = threading.Event()

    def look() -> None:
        """Look until it is over."""
        while not is_over.wait(_POLL_SECONDS):
            if reader_has_closed(output):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    thread = threading.Thread(target=look, name="pyinformer reader", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def reader_has_closed(output: TextIO) -> bool:
    """Tell whether what is written to an output can reach nobody any more."""
    try:
        number = output.fileno()
    except (OSError, ValueError):  # no file, in tests for example; or closed
        return False
    poll = select.poll()
    poll.register(number, 0)
    return any(events & _GONE for _, events in poll.poll(0))


def status_of_write_error(error: OSError) -> int:
    """Return with which status a command ends whose output failed; but of a reader, say why."""
    if isinstance(error, BrokenPipeError):
        return CLOSED_PIPE
    with suppress(OSError, ValueError):
        reason = printable(error.strerror or str(error))
        print(f"pyinformer: the output cannot be written: {reason}", file=sys.stderr, flush=True)
    return FAILED


def reopen_standard_streams() -> None:
    """Put something in the place of standard streams that were closed (`>&-`).

    Else sockets take their numbers. An output that was closed is one whose reader has gone.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            (_open_broken_pipe if number == 1 else _open_null)(number)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - to stay
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _open_null(number: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != number:
        os.dup2(nothing, number)
        os.close(nothing)


def _open_broken_pipe(number: int) -> None:
    ends = os.pipe()
    os.dup2(ends[1], number)
    for one in {*ends} - {number}:
        os.close(one)


def detach_closed_pipes() -> None:
    """Point what nobody reads at nothing, so that the interpreter's last flush is quiet."""
    for stream in (sys.stdout, sys.stderr):
        if reader_has_closed(stream):
            with suppress(OSError, ValueError):
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, stream.fileno())
                os.close(nothing)
