"""Time stations: CPU of this process per operation, the median over samples.

Only a pass is timed, never what prepares it; every sample goes through all stations in turn, so
that a noisy moment falls on one sample of each and not on all of one.
"""

from __future__ import annotations

import gc
import importlib
import statistics
import time
from collections.abc import Iterable, Sequence

import msgspec

from benchmarks.stations.material import Material
from benchmarks.stations.registry import STATIONS, Station

MODULES = ("wire", "cache", "reading")
PODS = 500

_MICRO = 1e6


class Timing(msgspec.Struct, frozen=True):
    """What an operation of a station takes; `error` says why there is no figure."""

    us: float | None = None
    min_us: float | None = None
    max_us: float | None = None
    error: str = ""


def load(names: Iterable[str] = ()) -> tuple[list[Station], dict[str, Timing]]:
    """Import the stations.

    Args:
        names: only these; empty for all.

    Returns:
        Those that are there; and for a whole module that an earlier package does not have, why.
    """
    missing: dict[str, Timing] = {}
    for module in MODULES:
        try:
            importlib.import_module(f"benchmarks.stations.{module}")
        except ImportError as error:
            missing[f"({module})"] = Timing(error=f"ImportError: {error}")
    wanted = list(names) or list(STATIONS)
    unknown = [name for name in wanted if name not in STATIONS and not missing]
    if unknown:
        raise KeyError(f"no station {', '.join(unknown)}, but {', '.join(STATIONS)}")
    return [STATIONS[name] for name in wanted if name in STATIONS], missing


def time_stations(
    stations: Sequence[Station], *, samples: int = 7, seconds: float = 0.01, pods: int = PODS
) -> dict[str, Timing]:
    """Time stations, interleaved.

    Args:
        stations: which.
        samples: how often each of them is looked at; medians are taken over these.
        seconds: of CPU that a sample takes at least; passes are repeated until then.
        pods: how many a pass goes through.
    """
    material = Material(pods)
    spent: dict[str, list[float]] = {each.name: [] for each in stations}
    failed: dict[str, Timing] = {}
    for _ in range(samples + 1):  # the first warms up and does not count
        for each in stations:
            if each.name in failed:
                continue
            try:
                spent[each.name].append(_sample(each, material, seconds))
            except Exception as error:  # noqa: BLE001  (an earlier package may do it otherwise)
                failed[each.name] = Timing(error=f"{type(error).__name__}: {error}")
    return {name: failed.get(name) or _timing(times[1:]) for name, times in spent.items()}


def _sample(each: Station, material: Material, seconds: float) -> float:
    """Repeat passes until the sample is long enough; return microseconds per operation."""
    spent, operations = 0.0, 0
    gc.collect()
    gc.disable()  # a pass is short: when a collection falls into it is chance
    try:
        while not operations or spent < seconds:
            work = each.prepare(material)
            before = time.process_time()
            operations += work()
            spent += time.process_time() - before
    finally:
        gc.enable()
    return spent / operations * _MICRO


def _timing(times: Sequence[float]) -> Timing:
    return Timing(statistics.median(times), min(times), max(times))
