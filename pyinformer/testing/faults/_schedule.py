"""A list of faults and their times: made by hand, drawn by seed, or read from a history."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Self, final

import msgspec

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import check_seconds
from pyinformer.testing.faults._catalogue import CATALOGUE, Kind, Part
from pyinformer.testing.histories import FaultRecord, read_history

_LEAD_SECONDS: Final = 1.0  # of the first fault of a replay
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 8.0


@final
class TimedFault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault, and when it begins and ends."""

    name: str
    """A name that `FaultLab.names` returns."""

    at_seconds: float
    """When it begins, after the start of the schedule."""

    lasts_seconds: float = 0.0
    """How long it lasts; 0 for what just happens, such as a cut."""

    arguments: dict[str, str] = {}
    """What the fault takes, as text: `{"bytes_per_second": "2000"}`."""


@final
class FaultSchedule:
    """Faults in the order of their start; `FaultLab.run` carries them out.

    Args:
        faults: the faults, in any order.

    Raises:
        InvalidArgumentError: a fault of this name does not exist, has other arguments, or ends
            before it begins.
    """

    def __init__(self, faults: Iterable[TimedFault]) -> None:
        self._faults = sorted(faults, key=lambda fault: fault.at_seconds)
        for fault in self._faults:
            check_fault(fault)

    def __iter__(self) -> Iterator[TimedFault]:
        return iter(self._faults)

    def __len__(self) -> int:
        return len(self._faults)

    @property
    def seconds(self) -> float:
        """When the last fault has ended."""
        return max((one.at_seconds + one.lasts_seconds for one in self._faults), default=0.0)

    @classmethod
    def drawn(cls, names: Sequence[str], *, seed: int, seconds: float) -> Self:
        """Draw faults for so many seconds.

        Faults of one part, such as the network, never overlap; those of different parts do.

        Args:
            names: the faults to draw from, such as `lab.names()`.
            seed: the same names and the same seed give the same schedule.
            seconds: when the last fault has ended.
        """
        check_seconds("seconds", seconds)
        faults: list[TimedFault] = []
        by_part: dict[Part, list[str]] = {}
        for name in sorted(names):
            by_part.setdefault(_known(name).part, []).append(name)
        for part, choices in sorted(by_part.items()):
            rng = random.Random(f"{seed} {part}")
            now = rng.uniform(0.0, _LONGEST_PAUSE_SECONDS)
            while now < seconds:
                name = rng.choice(choices)
                kind = CATALOGUE[name]
                lasts = round(min(rng.uniform(*kind.lasts_seconds), seconds - now), 3)
                if kind.has_end and not lasts:
                    break
                faults.append(
                    TimedFault(
                        name=name,
                        at_seconds=round(now, 3),
                        lasts_seconds=lasts,
                        arguments=kind.draw(rng),
                    )
                )
                now += lasts + kind.pause_factor * rng.uniform(
                    _SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS
                )
        return cls(faults)

    @classmethod
    def of_history(cls, path: str | os.PathLike[str]) -> Self:
        """Read the faults that a history logged, with their times and arguments.

        Those that a history which was cut off does not end last until its last fault.

        Raises:
            InvalidArgumentError: the file is not a history.
            OSError: it cannot be read.
        """
        records = [one for one in read_history(path) if isinstance(one, FaultRecord)]
        last = max((one.at_seconds for one in records), default=0.0)
        ends = {one.number: one.at_seconds for one in records if one.phase == "healed"}
        begun = [one for one in records if one.phase != "healed"]
        first = min((one.at_seconds for one in begun), default=0.0)
        return cls(
            TimedFault(
                name=one.name,
                at_seconds=one.at_seconds - first + _LEAD_SECONDS,
                lasts_seconds=max(0.001, ends.get(one.number, last) - one.at_seconds)
                if _known(one.name).has_end
                else 0.0,
                arguments=one.arguments,
            )
            for one in begun
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `write` wrote.

        Raises:
            InvalidArgumentError: the file is not a schedule.
            OSError: it cannot be read.
        """
        try:
            return cls(_decode(Path(path).read_bytes()))
        except msgspec.DecodeError as error:
            reason = f"must be a JSON list of faults: {error}"
            raise InvalidArgumentError("path", reason) from error

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the faults to a file, as a JSON list."""
        text = msgspec.json.format(msgspec.json.encode(self._faults))
        Path(path).write_bytes(text + b"\n")


_decode = msgspec.json.Decoder(list[TimedFault]).decode  # noqa: TID251 - a file of the test's own


def _known(name: str) -> Kind:
    if name not in CATALOGUE:
        raise InvalidArgumentError("name", f"{name!r} must be one of {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def check_fault(fault: TimedFault) -> None:
    """Raise if a fault cannot be carried out by any lab."""
    kind = _known(fault.name)
    check_seconds("at_seconds", fault.at_seconds)
    check_seconds("lasts_seconds", fault.lasts_seconds)
    if kind.has_end and not fault.lasts_seconds:
        raise InvalidArgumentError("lasts_seconds", f"of {fault.name} must be > 0: it has to end")
    wrong = fault.arguments.keys() - kind.arguments
    if wrong:
        takes = ", ".join(sorted(kind.arguments)) or "none"
        reason = f"of {fault.name} has {', '.join(sorted(wrong))}; it takes {takes}"
        raise InvalidArgumentError("arguments", reason)
