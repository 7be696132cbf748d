"""The end of a term cuts off the writes that are under way, whatever thread they are in."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.leaderelection import Term
from pyinformer.leaderelection._election import Tenure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


def _term() -> tuple[Term, Tenure]:
    tenure = Tenure(0, None)
    tenure.renew(sent_at=0.0, wall_offset_seconds=0.0, until=10.0)
    return Term("ops/db", tenure, clock=lambda: 1.0, wall_clock=lambda: 1.0), tenure


def test_a_cut_off_that_raises_does_not_keep_the_others_from_being_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    term, tenure = _term()
    called: list[str] = []

    def fail() -> None:
        called.append("fails")
        raise ValueError("a bug")

    term.on_end(lambda: called.append("before"))
    term.on_end(fail)
    term.on_end(lambda: called.append("after"))
    tenure.ended = "the test has ended it"
    term.cut_off_writes()
    assert sorted(called) == ["after", "before", "fails"]
    assert "ValueError" in caplog.text
    term.on_end(fail)  # at once, and no error of the write that asks
    assert called.count("fails") == 2


def test_a_cut_off_is_called_once_by_the_end_of_the_term() -> None:
    term, tenure = _term()
    called: list[str] = []
    term.on_end(lambda: called.append("kept"))
    term.on_end(lambda: called.append("taken back"))()
    tenure.ended = "the test has ended it"
    term.cut_off_writes()
    term.cut_off_writes()
    assert called == ["kept"]


@pytest.mark.parametrize("line", range(12))
def test_a_write_that_begins_while_its_term_ends_is_cut_off_once(line: int) -> None:
    """The term may end in another thread between any two lines of the registration."""
    term, tenure = _term()
    called: list[str] = []

    def end() -> None:
        tenure.ended = "the test has ended it"
        term.cut_off_writes()

    with _between_lines(Term.on_end, line, end):
        term.on_end(lambda: called.append("cut off"))
    assert called == ["cut off"]


@pytest.mark.parametrize("line", range(12))
def test_a_write_that_ends_with_its_term_is_cut_off_at_most_once(line: int) -> None:
    """The write may end in another thread between any two lines of the cutting off."""
    term, tenure = _term()
    called: list[str] = []
    take_back = term.on_end(lambda: called.append("cut off"))
    tenure.ended = "the test has ended it"
    with _between_lines(Term.cut_off_writes, line, take_back):
        term.cut_off_writes()
    assert called in ([], ["cut off"])


@pytest.mark.parametrize("line", range(8))
def test_writes_of_two_threads_leave_the_higher_version(line: int) -> None:
    """Another thread may record its write between any two lines of a recording."""
    term, _ = _term()
    term.record_caught_up({"pods.v1": "1"})
    other = threading.Thread(target=term.record_write, args=("pods.v1", "30"))

    def record() -> None:
        other.start()
        other.join(0.05)  # it may have to wait for this thread

    with _between_lines(Term.record_write, line, record):
        term.record_write("pods.v1", "20")
    other.join()
    assert term.written().versions["pods.v1"] == "30"


@contextmanager
def _between_lines(
    function: Callable[..., object], line: int, do: Callable[[], object]
) -> Iterator[None]:
    """Do something before one line of a function, as another thread can; else at its end."""
    lines = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        if frame.f_code is not function.__code__:
            return None
        if event == "line":
            lines += 1
            if lines == line + 1:
                sys.settrace(None)
                do()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
    if lines <= line:
        do()
