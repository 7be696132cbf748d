"""`python -m pyinformer.testing.histories` judges files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from pyinformer.testing.histories import WaitingRecord
from pyinformer.testing.histories.__main__ import main
from tests.testing.history_runs import COMMAND, usual_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyinformer.testing.histories import Record


def written(path: Path, records: Sequence[Record]) -> str:
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in records))
    return str(path)


def test_files_are_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = usual_run(), usual_run()
    wrong.add(WaitingRecord(number=-1, name="a sync"))
    files = [
        written(tmp_path / "right.jsonl", right.rest()),
        written(tmp_path / "wrong.jsonl", wrong.rest()),
    ]

    assert main(files[:1]) == 0
    assert main(files) == 1

    shown = capsys.readouterr().out
    assert "0 violations" in shown
    assert "1 violations" in shown
    assert "a sync has waited for" in shown
    assert COMMAND in shown


@pytest.mark.parametrize("content", [None, '{"kind": "rumour"}\n'])
def test_what_is_not_a_history_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    path = tmp_path / "run.jsonl"
    if content is not None:
        path.write_text(content)

    assert main([str(path)]) == 2
    assert str(path) in capsys.readouterr().err


def test_without_a_file_it_prints_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "FILE" in capsys.readouterr().err
