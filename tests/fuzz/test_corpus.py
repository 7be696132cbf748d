"""Each target holds on its seeds and on the kept corpus, and notices a reader that is wrong."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.cache.recording import read_recording
from pyinformer.client.transport import LineSplitter, ListSplitter, find_config, read_frame
from pyinformer.objects import (
    FieldSelector,
    GroupVersionResource,
    LabelSelector,
    ObjectCodec,
    load_yaml,
)
from tests.fuzz import targets
from tests.fuzz.kept import kept
from tests.fuzz.targets import SEEDS, TARGETS

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.cache.recording import RecordedFile


@pytest.mark.parametrize("target", TARGETS)
def test_the_seeds_and_the_corpus_are_read_as_by_a_plain_reader(target: str) -> None:
    for data in [*SEEDS[target], *kept(target)]:
        TARGETS[target](data)
        TARGETS[target](data[:-1])
    TARGETS[target](b"")


def _but_the_first(take: Any) -> Any:
    calls: list[int] = []

    def second(buffer: bytes, begin: int, end: int) -> None:
        calls.append(begin)
        if len(calls) > 1:
            take(buffer, begin, end)

    return second


def _list_without_its_first_item(take: Any, **options: Any) -> ListSplitter:
    return ListSplitter(_but_the_first(take), **options)


def _stream_without_its_first_line(take: Any) -> LineSplitter:
    return LineSplitter(_but_the_first(take))


def _frame_of_another_type(data: bytes, begin: int, end: int) -> Any:
    return "MODIFIED", *read_frame(data, begin, end)[1:]


def _yaml_of_another_dialect(data: bytes | str, **limits: Any) -> Any:
    found = load_yaml(data, **limits)
    return found if isinstance(data, str) else {**found, "more": 1}


class _CodecOfAnotherSpec:
    def __init__(self, resource: GroupVersionResource) -> None:
        self._codec = ObjectCodec[None](resource)

    def decode(self, data: bytes | bytearray, start: int, end: int) -> Any:
        """Read a number that the object does not have."""
        other = bytes(data[start:end]).replace(b"2.5", b"2.6")
        return self._codec.decode(other, 0, len(other))


class _MaskOfNothing:
    def __init__(self, _resource: GroupVersionResource) -> None:
        pass

    def line(self, line: bytes) -> bytes:
        """Show a secret."""
        return line


def _recording_without_its_last_entry(path: Path) -> RecordedFile:
    found = read_recording(path)
    return replace(found, entries=found.entries[:-1])


async def _config_of_no_server(path: Path, **options: Any) -> Any:
    await find_config(path, **options)
    return SimpleNamespace(server="")


class _LongerEachTime:
    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._count = 0

    def parse(self, text: str) -> Any:
        """Read what the text does not say."""
        self._count += 1
        return self._kind.parse(f"{text},more=x{self._count}")


@pytest.mark.parametrize(
    ("target", "reader", "wrong"),
    [
        ("list", "ListSplitter", _list_without_its_first_item),
        ("lines", "LineSplitter", _stream_without_its_first_line),
        ("event", "read_frame", _frame_of_another_type),
        ("object", "ObjectCodec", _CodecOfAnotherSpec),
        ("mask", "Mask", _MaskOfNothing),
        ("recording", "read_recording", _recording_without_its_last_entry),
        ("kubeconfig", "find_config", _config_of_no_server),
        ("yaml", "load_yaml", _yaml_of_another_dialect),
        ("selectors", "LabelSelector", _LongerEachTime(LabelSelector)),
        ("selectors", "FieldSelector", _LongerEachTime(FieldSelector)),
    ],
)
def test_a_wrong_reader_is_noticed(
    monkeypatch: pytest.MonkeyPatch, target: str, reader: str, wrong: Any
) -> None:
    monkeypatch.setattr(targets, reader, wrong)
    with pytest.raises(AssertionError):
        for data in SEEDS[target]:
            TARGETS[target](data)
