"""A signal that asks a program to say something, heard also while its event loop is blocked.

What enters is SIGUSR1, say; what leaves is a call, in a thread of its own: the loop may be what is
wrong. Whoever listened before still hears the signal, and gets it back in the end.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, final

from pyinformer._logging import get_logger
from pyinformer.apimachinery import LifecycleError
from pyinformer.tasks._failures import error_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_log = get_logger("pyinformer.tasks")

_JOIN_SECONDS: Final = 1.0  # what it says may be long; the thread is a daemon


@final
class SignalListener:
    """Calls a function at each signal, until it is closed. Constructing it begins.

    Args:
        name: the signal's name.
        say: is called in another thread, one call after the other.

    Raises:
        LifecycleError: this system has no such signal, or this is not the main thread, which alone
            may listen to signals.

    Source:
        Python's signal module: handlers run in the main thread, between two bytecodes, so that one
        may only put something into a SimpleQueue, whose put() is reentrant.
    """

    def __init__(self, name: str, say: Callable[[], None]) -> None:
        found = getattr(signal, name, None)
        if not isinstance(found, signal.Signals):
            raise LifecycleError(f"this system has no signal {name}: ask status() in another way")
        self._signal: signal.Signals = found
        self._say = say
        self._is_closed = False
        self._asked: SimpleQueue[bool] = SimpleQueue()
        self._thread = threading.Thread(target=self._answer, name=f"pyinformer {name}", daemon=True)
        self._heard = self._hear  # one object: it is compared when it is put back
        try:
            self._before: Any = signal.signal(found, self._heard)
        except ValueError as error:
            reason = f"{name} is heard in the main thread only, and this is another one"
            raise LifecycleError(reason) from error
        self._thread.start()

    def close(self) -> None:
        """Listen no more; a second call does nothing.

        Called in the main thread it puts back who listened before; elsewhere it is only deaf.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._asked.put(False)
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_SECONDS)
        if signal.getsignal(self._signal) != self._heard:
            return  # somebody has come after it, and still calls it: it passes the signal on
        try:
            signal.signal(self._signal, self._heir() or signal.SIG_DFL)
        except ValueError:
            _log.debug("%s stays without effect: not the main thread", self._signal.name)

    def _heir(self) -> Any:  # noqa: ANN401 - what signal.getsignal() returns
        """Return who listened before and still wants to."""
        owner = getattr(self._before, "__self__", None)
        if isinstance(owner, SignalListener) and owner._is_closed:  # noqa: SLF001 - our own
            return owner._heir()  # noqa: SLF001
        return self._before

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if not self._is_closed:
            self._asked.put(True)
        if callable(self._before):
            self._before(number, frame)

    def _answer(self) -> None:
        while self._asked.get():
            try:
                self._say()
            except Exception as error:  # noqa: BLE001 - a later signal is answered all the same
                _log.error("the answer to %s failed: %s", self._signal.name, error_text(error))


@contextmanager
def on_sigusr1(say: Callable[[], None]) -> Iterator[None]:
    """Call a function at each SIGUSR1 while a block lasts, where such a signal can be heard."""
    listener = None
    try:
        listener = SignalListener("SIGUSR1", say)
    except LifecycleError as error:
        _log.debug("the status is not told at a signal: %s", error)
    try:
        yield
    finally:
        if listener is not None:
            listener.close()
