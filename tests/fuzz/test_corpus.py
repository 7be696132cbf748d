"""Each target holds on its seeds and on the kept corpus, and notices a reader that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from pyinformer.apimachinery import load_yaml
from pyinformer.transport import ListSplitter, read_frame
from tests.fuzz import targets
from tests.fuzz.kept import kept
from tests.fuzz.targets import SEEDS, TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_the_seeds_and_the_corpus_are_read_as_by_a_plain_reader(target: str) -> None:
    for data in [*SEEDS[target], *kept(target)]:
        TARGETS[target](data)
        TARGETS[target](data[:-1])
    TARGETS[target](b"")


def _list_without_its_first_item(take: Any, **options: Any) -> ListSplitter:
    calls: list[int] = []

    def second(buffer: bytes, begin: int, end: int) -> None:
        calls.append(begin)
        if len(calls) > 1:
            take(buffer, begin, end)

    return ListSplitter(second, **options)


def _frame_of_another_type(data: bytes, begin: int, end: int) -> Any:
    return "MODIFIED", *read_frame(data, begin, end)[1:]


def _yaml_of_another_dialect(data: bytes | str, **limits: Any) -> Any:
    found = load_yaml(data, **limits)
    return found if isinstance(data, str) else {**found, "more": 1}


@pytest.mark.parametrize(
    ("target", "reader", "wrong"),
    [
        ("list", "ListSplitter", _list_without_its_first_item),
        ("event", "read_frame", _frame_of_another_type),
        ("yaml", "load_yaml", _yaml_of_another_dialect),
    ],
)
def test_a_wrong_reader_is_noticed(
    monkeypatch: pytest.MonkeyPatch, target: str, reader: str, wrong: Any
) -> None:
    monkeypatch.setattr(targets, reader, wrong)
    with pytest.raises(AssertionError):
        for data in SEEDS[target]:
            TARGETS[target](data)
