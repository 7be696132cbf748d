"""A signal calls a function in a thread; the earlier handler is restored in the end."""

from __future__ import annotations

import logging
import queue
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from pyinformer._runtime.tasks import SignalListener
from pyinformer.errors import LifecycleError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no SIGUSR1")


class Said:
    """Records the threads in which it was called."""

    def __init__(self) -> None:
        self.threads: queue.SimpleQueue[str] = queue.SimpleQueue()

    def __call__(self) -> None:
        self.threads.put(threading.current_thread().name)


@pytest.fixture(autouse=True)
def before() -> Iterator[list[int]]:
    """Install an earlier handler, and check that it is restored."""
    heard: list[int] = []

    def listen(number: int, _: object) -> None:
        heard.append(number)

    first = signal.signal(signal.SIGUSR1, listen)
    yield heard
    assert signal.getsignal(signal.SIGUSR1) is listen
    signal.signal(signal.SIGUSR1, first)


def test_each_signal_is_answered_in_a_thread_while_the_main_one_is_blocked() -> None:
    said = Said()
    listener = SignalListener("SIGUSR1", said)
    for _ in range(2):
        signal.raise_signal(signal.SIGUSR1)
        assert said.threads.get(timeout=100) == "pyinformer SIGUSR1"  # blocks the main thread
    listener.close()
    listener.close()


def test_an_earlier_handler_of_the_signal_is_still_called(before: list[int]) -> None:
    listener = SignalListener("SIGUSR1", Said())
    signal.raise_signal(signal.SIGUSR1)
    listener.close()
    signal.raise_signal(signal.SIGUSR1)

    assert before == [signal.SIGUSR1, signal.SIGUSR1]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_two_listeners_are_both_called_and_end_in_any_order(
    before: list[int], *, is_reversed: bool
) -> None:
    first, second = Said(), Said()
    one, two = SignalListener("SIGUSR1", first), SignalListener("SIGUSR1", second)
    signal.raise_signal(signal.SIGUSR1)
    assert first.threads.get(timeout=100)
    assert second.threads.get(timeout=100)
    for listener in (two, one) if is_reversed else (one, two):
        listener.close()
    signal.raise_signal(signal.SIGUSR1)

    assert first.threads.empty()
    assert second.threads.empty()
    assert len(before) == 2


def test_a_listener_that_fails_is_logged_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    asked: queue.SimpleQueue[int] = queue.SimpleQueue()

    def fails() -> None:
        asked.put(1)
        raise ValueError

    listener = SignalListener("SIGUSR1", fails)
    for _ in range(2):
        signal.raise_signal(signal.SIGUSR1)
        assert asked.get(timeout=100)
    listener.close()

    lines = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert len(lines) == 2


def test_listening_in_another_thread_names_the_main_thread() -> None:
    errors: list[BaseException] = []

    def listen() -> None:
        try:
            SignalListener("SIGUSR1", Said())
        except LifecycleError as error:
            errors.append(error)

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()

    assert (
        str(errors[0])
        == "SIGUSR1 can be handled in the main thread only, and this is another thread"
    )


def test_a_signal_that_the_system_lacks_is_refused() -> None:
    with pytest.raises(LifecycleError, match="this system has no signal SIGNONE"):
        SignalListener("SIGNONE", Said())


def test_a_listener_closed_in_another_thread_is_not_called() -> None:
    said = Said()
    installed = signal.getsignal(signal.SIGUSR1)
    listener = SignalListener("SIGUSR1", said)
    thread = threading.Thread(target=listener.close)
    thread.start()
    thread.join()
    signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, installed)

    assert said.threads.empty()
