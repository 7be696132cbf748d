"""What it costs to list again what has not changed, after the server let a watch expire.

No object differs; a handler that is called nevertheless shows in a row.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from benchmarks.harness.measure import ServerOptions
from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import (
    JSON,
    MEGABYTE,
    MILLI,
    OWN,
    OWN_MODES,
    PROTOBUF,
    UVLOOP,
    against,
    extra,
)
from benchmarks.runs.run import Bench, Replay, Run, Setting, Size, replayed
from benchmarks.runs.variants import with_protobuf

_OBJECTS = {Size.SMOKE: 40, Size.BENCH: 20_000, Size.FULL: 100_000}


def _open(setting: Setting) -> AbstractContextManager[Bench]:
    options = with_protobuf(ServerOptions(objects=_OBJECTS[setting.size]), setting)
    return replayed(Replay(options, {"work": "relist"}), setting)


def _extra_share(found: Measurement) -> float | None:
    """Return the extra peak over what the cache takes."""
    peak = found.extra.get("relist_extra_peak_bytes")
    if peak is None or found.rss_before_bytes is None or found.rss_after_bytes is None:
        return None
    return peak / max(1, found.rss_after_bytes - found.rss_before_bytes)


def relist_specs() -> tuple[Spec, ...]:
    """Make the rows of a relist."""
    return (
        Spec(
            "relist, nothing changed: handler calls",
            "",
            extra("relist_handler_calls"),
            dict.fromkeys(OWN_MODES, "<= 0"),
        ),
        Spec(
            "relist, nothing changed: extra peak memory over the cache's",
            "x",
            _extra_share,
            dict.fromkeys(OWN_MODES, "<= 0.1"),
        ),
        Spec(
            "relist, nothing changed: extra peak memory",
            "MB",
            extra("relist_extra_peak_bytes", 1 / MEGABYTE),
            {},
        ),
        Spec(
            "relist, nothing changed: CPU time",
            "s",
            extra("relist_cpu_seconds"),
            {},
            against(OWN, (JSON, PROTOBUF)),
        ),
        Spec("relist, nothing changed: wall time", "s", extra("relist_wall_seconds"), {}),
        Spec(
            "relist, nothing changed: longest block of the event loop",
            "ms",
            extra("relist_longest_block_seconds", MILLI),
            dict.fromkeys(OWN_MODES, "<= 25"),
            only=OWN_MODES,
        ),
    )


RELIST = Run(
    name="relist",
    title="Relist of what has not changed",
    plots=("relist, nothing changed: CPU time", "relist, nothing changed: extra peak memory"),
    says=(
        "The server ends the watch with a 410; everything is loaded again and is what it was."
        " client-go's wall time begins with its request, ours with the 410."
    ),
    peers={
        Size.SMOKE: (OWN,),
        Size.BENCH: (JSON, PROTOBUF, OWN, UVLOOP),
        Size.FULL: (JSON, PROTOBUF, *OWN_MODES, UVLOOP),
    },
    rounds={Size.SMOKE: 1, Size.BENCH: 2, Size.FULL: 3},
    open=_open,
    specs=lambda _: relist_specs(),
)
