"""Call a function at a signal such as SIGUSR1, even while the event loop is blocked.

The function runs in a separate thread. A handler that was installed before is still called, and is
installed again in the end.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks._user_error_logging import error_text
from pyinformer.errors import LifecycleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_log = get_logger(__name__)

_JOIN_SECONDS: Final = 1.0  # for a function that takes long; the thread is a daemon


@final
class SignalListener:
    """Calls a function at each signal, from its construction until it is closed.

    Args:
        name: the signal's name.
        callback: called in another thread, one call at a time.

    Raises:
        LifecycleError: this system has no such signal, or this is not the main thread, which alone
            can handle signals.

    Source:
        Python's signal module: handlers run in the main thread, between two bytecodes, so that one
        may only put something into a SimpleQueue, whose put() is reentrant.
    """

    def __init__(self, name: str, callback: Callable[[], None]) -> None:
        found = getattr(signal, name, None)
        if not isinstance(found, signal.Signals):
            raise LifecycleError(f"this system has no signal {name}: call status() instead")
        self._signal: signal.Signals = found
        self._callback = callback
        self._is_closed = False
        self._signals: SimpleQueue[bool] = SimpleQueue()  # False ends the thread
        self._thread = threading.Thread(target=self._run, name=f"pyinformer {name}", daemon=True)
        self._handler = self._handle  # one object: compared when the old handler is restored
        try:
            self._before: Any = signal.signal(found, self._handler)
        except ValueError as error:
            reason = f"{name} can be handled in the main thread only, and this is another thread"
            raise LifecycleError(reason) from error
        self._thread.start()

    def close(self) -> None:
        """Stop calling the function; a second call does nothing.

        In the main thread the earlier handler is restored; in other threads that is not possible.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._signals.put(False)
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_SECONDS)
        if signal.getsignal(self._signal) != self._handler:
            return  # a later handler still calls this one, which passes the signal on
        try:
            signal.signal(self._signal, self._earlier_handler() or signal.SIG_DFL)
        except ValueError:
            _log.debug("%s has no effect from now on: not the main thread", self._signal.name)

    def _earlier_handler(self) -> Any:  # noqa: ANN401 - what signal.getsignal() returns
        """Return the handler that was installed before, without closed listeners."""
        owner = getattr(self._before, "__self__", None)
        if isinstance(owner, SignalListener) and owner._is_closed:  # noqa: SLF001 - our own
            return owner._earlier_handler()  # noqa: SLF001
        return self._before

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._is_closed:
            self._signals.put(True)
        if callable(self._before):
            self._before(number, frame)

    def _run(self) -> None:
        while self._signals.get():
            try:
                self._callback()
            except ENDS_PROGRAM:
                raise
            except BaseException as error:  # noqa: BLE001 - a later signal must still work
                _log.error("the function for %s failed: %s", self._signal.name, error_text(error))


@contextmanager
def on_sigusr1(callback: Callable[[], None]) -> Iterator[None]:
    """Call a function at each SIGUSR1 while a block lasts; do nothing where that is impossible."""
    listener = None
    try:
        listener = SignalListener("SIGUSR1", callback)
    except LifecycleError as error:
        _log.debug("SIGUSR1 does not print the status: %s", error)
    try:
        yield
    finally:
        if listener is not None:
            listener.close()
