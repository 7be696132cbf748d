"""Histories: what is written is read again, in order, by any number of threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import InvalidArgumentError
from pyinformer.testing.histories import (
    FaultRecord,
    History,
    SampledRecord,
    TruthRecord,
    Version,
    read_history,
)

if TYPE_CHECKING:
    from pathlib import Path

PUT = TruthRecord(revision=7, resource="pods", key="a/b", uid="u")
SAMPLE = SampledRecord(
    who="pods", state="watching", ages={"age": 1.5}, changed={"a/b": Version("u", "7"), "a/c": None}
)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    with History(tmp_path / "run.jsonl") as history:
        written = [history.add(record) for record in (PUT, SAMPLE, FaultRecord(name="cut"))]
        meanwhile = list(history)

    assert meanwhile == written == list(read_history(tmp_path / "run.jsonl"))
    assert list(history) == written, "it is closed"
    assert len(history) == 3


def test_a_history_without_a_file_is_kept_in_memory() -> None:
    history = History()

    assert [history.add(PUT)] == list(history)


def test_a_record_is_stamped_once() -> None:
    history = History()
    first, second = history.add(PUT), history.add(PUT)

    assert 0.0 <= first.at_seconds <= second.at_seconds <= history.now()
    assert history.add(first) is first


def test_threads_add_whole_lines(tmp_path: Path) -> None:
    def add() -> None:
        for _ in range(500):
            history.add(SAMPLE)

    with History(tmp_path / "run.jsonl") as history:
        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        times = [record.at_seconds for record in history]

    assert len(times) == 2000
    assert times == sorted(times)


def test_a_last_line_that_is_cut_off_ends_the_history(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with History(path) as history:
        first = history.add(PUT)
        history.add(SAMPLE)
    path.write_bytes(path.read_bytes()[:-5])

    assert list(read_history(path)) == [first]


def test_any_other_broken_line_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"kind": "rumour"}\n')

    with pytest.raises(InvalidArgumentError, match="line 1 must be a record of a history"):
        list(read_history(path))


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    with History(tmp_path / "run.jsonl"), pytest.raises(FileExistsError):
        History(tmp_path / "run.jsonl")


def test_a_history_may_have_another_clock() -> None:
    times = iter((100.0, 101.5))
    history = History(clock=lambda: next(times))

    assert history.add(PUT).at_seconds == 1.5
