"""How a signal or a closed output ends a command: soon, with an exit status, and no traceback.

The command is cancelled first. If it does not end in time (a name lookup or a full pipe cannot be
interrupted), the process exits without waiting for it.
"""

from __future__ import annotations

import asyncio
import os
import queue
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
from pyinformer._runtime.tasks import program_runner
from pyinformer.cli._exit_status import CLOSED_PIPE, FAILED, SIGNALLED

_HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)  # None on Windows
_GRACE_SECONDS = 0.6  # for an orderly end; the documentation promises one second
_POLL_SECONDS = 0.2  # how often the output is checked


@final
class Interruption:
    """Which signal interrupted a block of `interrupt_on_signals`."""

    number: int = signal.SIGINT


@final
class Shutdown:
    """The end of a command: its exit status, once decided. Any thread may call `end`."""

    def __init__(self) -> None:
        self.status: int | None = None
        self._cancel: Callable[[], object] | None = None
        self._next_check: asyncio.TimerHandle | None = None
        # A signal handler may put into it at any moment. It may not start a thread: the main thread
        # may have been interrupted in the start of another, whose lock it still holds.
        self._ended: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def end(self, status: int) -> None:
        """Cancel the command and set its exit status; only the first call has an effect."""
        if self.status is not None:
            return
        self.status = status
        self._ended.put(status)
        if self._cancel is not None:
            self._cancel()

    def on_write_error(self, error: OSError) -> None:
        """End the command because its output cannot be written, and print why."""
        if self.status is None:
            self.end(status_of_write_error(error))

    async def run(self, command: Callable[[], Awaitable[int]], output: TextIO) -> int:
        """Run a command until it returns or `end` is called, and return the exit status.

        Cancellation:
            Cancels the command.
        """
        loop = asyncio.get_running_loop()
        with anyio.CancelScope() as scope:
            self._cancel = lambda: loop.call_soon_threadsafe(scope.cancel)
            if self.status is not None:  # a signal came before the scope existed
                scope.cancel()
            self._check_reader(loop, output)
            try:
                status = await command()
            finally:
                if self._next_check is not None:
                    self._next_check.cancel()
            # The command may return before its cancellation arrives: what ended it decides.
            return status if self.status is None else self.status
        return SIGNALLED if self.status is None else self.status

    def _check_reader(self, loop: asyncio.AbstractEventLoop, output: TextIO) -> None:
        """End the command when its output is closed, even while it writes nothing."""
        if reader_has_closed(output):
            self.end(CLOSED_PIPE)
        self._next_check = loop.call_later(_POLL_SECONDS, self._check_reader, loop, output)

    @contextmanager
    def exiting_in_time(self) -> Iterator[None]:
        """Exit the process if the block has not ended soon after a call of `end`."""
        threading.Thread(target=self._exit_in_time, name="pyinformer exit", daemon=True).start()
        try:
            yield
        finally:
            self._ended.put(None)

    def _exit_in_time(self) -> None:
        status = self._ended.get()
        if status is None:
            return
        try:
            self._ended.get(timeout=_GRACE_SECONDS)
        except queue.Empty:
            os._exit(status)


def run(command: Callable[[Shutdown], Awaitable[int]], output: TextIO) -> int:
    """Run an asynchronous command in a new event loop. Call it in the main thread.

    The loop is uvloop's if that is installed: no command sends writes of leader election.

    Args:
        command: returns its exit status; it is cancelled to end early.
        output: where the command writes.

    Returns:
        The exit status.
    """
    shutdown = Shutdown()

    def on_signal(number: int, frame: FrameType | None) -> None:
        """End in order; a second signal exits the process at once."""
        del frame
        if shutdown.status is not None:
            os._exit(shutdown.status)
        shutdown.end(SIGNALLED + number)

    with shutdown.exiting_in_time(), handle_signals(on_signal):
        try:
            with program_runner() as runner:
                return runner.run(shutdown.run(lambda: command(shutdown), output))
        except BrokenPipeError:
            return CLOSED_PIPE
        finally:
            if shutdown.status == CLOSED_PIPE:
                detach_closed_pipes()


def shutdown_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a command: without SIGHUP if `nohup` made it ignored."""
    if _HANGUP is None or signal.getsignal(_HANGUP) is signal.SIG_IGN:
        return signal.SIGINT, signal.SIGTERM
    return signal.SIGINT, signal.SIGTERM, _HANGUP


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle the signals that end a command; do nothing outside the main thread."""
    before: dict[int, object] = {}
    with suppress(ValueError):
        for number in shutdown_signals():
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for known, one in before.items():
            signal.signal(known, one)  # type: ignore[arg-type]  # what signal() returned


@contextmanager
def interrupt_on_signals(interruption: Interruption) -> Iterator[None]:
    """Make SIGTERM and SIGHUP end the block as Ctrl-C does: with KeyboardInterrupt.

    asyncio.run() turns Ctrl-C into a cancellation. An exception in the middle of its event loop
    would leave tasks that never began.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        """Interrupt, and record by which signal."""
        del frame
        interruption.number = number
        signal.raise_signal(signal.SIGINT)

    with handle_signals(on_signal):
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # the handler that asyncio.run replaces
        yield


@contextmanager
def terminate_when_reader_closes(output: TextIO) -> Iterator[None]:
    """Send this process SIGTERM when its output is closed, even while it writes nothing.

    Raises:
        BrokenPipeError: it is closed already. A signal in the middle of an import may get lost.
    """
    if reader_has_closed(output):
        raise BrokenPipeError
    is_over = threading.Event()

    def poll() -> None:
        """Poll until the block is left."""
        while not is_over.wait(_POLL_SECONDS):
            if reader_has_closed(output):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    thread = threading.Thread(target=poll, name="pyinformer reader", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def reader_has_closed(output: TextIO) -> bool:
    """Return whether the reader of an output has closed it; False where nothing reports that."""
    if not hasattr(select, "poll"):  # Windows
        return False
    try:
        number = output.fileno()
    except (OSError, ValueError):  # not a file, as in tests; or closed
        return False
    poll = select.poll()
    poll.register(number, 0)
    gone = select.POLLERR | select.POLLHUP | select.POLLNVAL
    return any(events & gone for _, events in poll.poll(0))


def status_of_write_error(error: OSError) -> int:
    """Return the exit status after a failed write; print the reason unless the reader is gone."""
    if isinstance(error, BrokenPipeError):
        return CLOSED_PIPE
    with suppress(OSError, ValueError):
        reason = printable(error.strerror or str(error))
        print(f"pyinformer: the output cannot be written: {reason}", file=sys.stderr, flush=True)
    return FAILED


def reopen_standard_streams() -> None:
    """Replace standard streams that were closed (`>&-`).

    Otherwise sockets get their file descriptors. A closed stdout behaves as a broken pipe.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            (_open_broken_pipe if number == 1 else _open_null)(number)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open
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
    """Redirect closed outputs to /dev/null, so that the interpreter's last flush cannot fail."""
    for stream in (sys.stdout, sys.stderr):
        if reader_has_closed(stream):
            with suppress(OSError, ValueError):
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, stream.fileno())
                os.close(nothing)
