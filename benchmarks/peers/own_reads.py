"""The cost of a read from the cache, compared with msgspec's decode of the same bytes.

The compared reads alternate repeat by repeat over the same objects, and results are dropped at
once, so that neither noise nor the garbage collector favours one of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

_SAMPLE = 200
_REPEATS = 15

AT = "at_us"
TO_DICT = "to_dict_us"
DECODE = "msgspec_decode_us"
TO_DICT_RATIO = "to_dict_over_decode"


class Readable(Protocol):
    """The part of a cached object that is read here."""

    @property
    def raw(self) -> bytes: ...

    def at(self, path: str, kind: type[str], /) -> str: ...

    def to_dict(self) -> dict[str, Any]: ...


def time_reads(objects: Iterable[Readable]) -> dict[str, float]:
    """Time `at("spec.nodeName", str)`, `to_dict()` and msgspec's decode into a dict.

    Args:
        objects: at least one; the first 200 are read.
    """
    sample = list(objects)[:_SAMPLE]
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    reads: dict[str, Callable[[Readable], object]] = {
        AT: lambda pod: pod.at("spec.nodeName", str),
        TO_DICT: lambda pod: pod.to_dict(),
        DECODE: lambda pod: decode(pod.raw),
    }
    for read in reads.values():
        _time(read, sample)  # compiles paths, fills caches
    spent: dict[str, list[float]] = {name: [] for name in reads}
    for _ in range(_REPEATS):
        for name, read in reads.items():
            spent[name].append(_time(read, sample))
    figures = {name: statistics.median(times) for name, times in spent.items()}
    figures[TO_DICT_RATIO] = statistics.median(
        ours / theirs for ours, theirs in zip(spent[TO_DICT], spent[DECODE], strict=True)
    )
    return figures


def _time(read: Callable[[Readable], object], sample: Sequence[Readable]) -> float:
    started = time.perf_counter()
    for pod in sample:
        read(pod)
    return (time.perf_counter() - started) / len(sample) * 1e6
