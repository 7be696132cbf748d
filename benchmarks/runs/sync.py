"""What the initial state costs: time, CPU, memory, and how long the event loop stood still.

Client-go is asked for a list and for a watch-list, each as a peer of its own, and compared with by
the better of them, figure by figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from benchmarks.harness.measure import ServerOptions
from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Figure, Least, Spec
from benchmarks.runs.figures import (
    BARE,
    DICTS,
    JSON,
    MILLI,
    OFFICIAL,
    OWN,
    OWN_MODES,
    PROTOBUF,
    UVLOOP,
    against,
    peak_megabytes,
    rss_per_object,
    scaled,
)
from benchmarks.runs.run import Bench, Known, Replay, Run, Setting, Size, replayed
from benchmarks.runs.variants import Variant, varied, with_protobuf

_RAW, _COMPACT = OWN_MODES[1:]
_OBJECTS = {Size.SMOKE: 40, Size.BENCH: 20_000, Size.FULL: 100_000}
_MILLION = {Size.SMOKE: 200, Size.FULL: 1_000_000}
_LOADS = ("list", "watch-list")
_CLIENT_GO = {
    f"{peer} {load}": Variant(peer, {"load": load}) for peer in (JSON, PROTOBUF) for load in _LOADS
}
_BEST_JSON = Least(JSON, tuple(f"{JSON} {load}" for load in _LOADS))
_BEST_PROTOBUF = Least(PROTOBUF, tuple(f"{PROTOBUF} {load}" for load in _LOADS))
_BEST = Least("client-go", tuple(_CLIENT_GO))
_BLOCK_MILLISECONDS = "<= 25"


def _open(setting: Setting) -> AbstractContextManager[Bench]:
    options = with_protobuf(ServerOptions(objects=_OBJECTS[setting.size]), setting)
    return varied(Replay(options), _CLIENT_GO, setting)


def _specs(known: Known) -> tuple[Spec, ...]:
    rivals = (_BEST_JSON, _BEST_PROTOBUF, OFFICIAL, DICTS)
    return (
        Spec(
            "initial sync: wall time",
            "s",
            lambda found: found.sync_wall_seconds,
            {f"{OWN} / {JSON}": "<= 0.1", f"{OWN} / {PROTOBUF}": "<= 0.333"},
            against(OWN, rivals),
        ),
        Spec(
            "initial sync: CPU time",
            "s",
            lambda found: found.sync_cpu_seconds,
            {},
            against(OWN, (*rivals, BARE)),
        ),
        Spec(
            "initial sync: peak memory of the process",
            "MB",
            peak_megabytes,
            {f"{_RAW} / client-go": "<= 0.5", f"{OWN} / client-go": "<= 0.36"},
            (
                *((mode, _BEST) for mode in OWN_MODES),
                (OWN, OFFICIAL),
                (OWN, DICTS),
            ),
        ),
        *memory_specs(
            float(known["object bytes, mean"]),
            {OWN: "<= 0.9", _RAW: "<= 1.25", _COMPACT: "<= 0.4"},
        ),
        *pause_specs(_BLOCK_MILLISECONDS),
        Spec(
            "initial sync: objects that the garbage collector tracks, added",
            "",
            _tracked_added,
            dict.fromkeys(OWN_MODES, "< 1,000"),
            only=OWN_MODES,
        ),
    )


def memory_specs(mean_object_bytes: float, targets: Mapping[str, str]) -> tuple[Spec, ...]:
    """Make the rows of the memory at rest, each object's, in bytes and over its JSON."""
    return (
        Spec("initial sync: memory (RSS) per object", "bytes", rss_per_object, {}),
        Spec(
            "initial sync: memory per object over its JSON",
            "x",
            lambda found: scaled(rss_per_object(found), 1 / mean_object_bytes),
            targets,
        ),
    )


def pause_specs(target: str) -> tuple[Spec, ...]:
    """Make the rows of what stood still during a sync."""
    targets = dict.fromkeys(OWN_MODES, target)
    return (
        Spec(
            "initial sync: longest block of the event loop",
            "ms",
            _milliseconds("longest_block_seconds"),
            targets,
            only=(BARE, DICTS, *OWN_MODES),
        ),
        Spec(
            "initial sync: longest step by its own CPU time",
            "ms",
            _milliseconds("longest_step_seconds"),
            targets,
            only=(BARE, DICTS, *OWN_MODES),
        ),
        Spec(
            "longest pause of the garbage collector",
            "ms",
            _milliseconds("longest_gc_pause_seconds"),
            {},
        ),
    )


def _milliseconds(name: str) -> Figure:
    def read(found: Measurement) -> float | None:
        seconds: float | None = getattr(found, name)
        return scaled(seconds, MILLI)

    return read


def _tracked_added(found: Measurement) -> float | None:
    if found.tracked_before is None or found.tracked_after is None:
        return None
    return found.tracked_after - found.tracked_before


SYNC = Run(
    name="sync",
    title="Initial sync",
    plots=(
        "initial sync: wall time",
        "initial sync: peak memory of the process",
    ),
    says=(
        "From the start of an informer until its handler has had every pod, then the memory after"
        " a collection. client-go is asked for a list and for a watch-list; we are compared with"
        " the faster, and with whichever needs less memory. The figure for uvloop is that of the"
        " same program on another event loop."
    ),
    peers={
        Size.SMOKE: (BARE, DICTS, *OWN_MODES, UVLOOP),
        Size.BENCH: (BARE, *_CLIENT_GO, DICTS, *OWN_MODES, UVLOOP),
        Size.FULL: (BARE, *_CLIENT_GO, OFFICIAL, DICTS, *OWN_MODES, UVLOOP),
    },
    rounds={Size.SMOKE: 1, Size.BENCH: 2, Size.FULL: 3},
    fewer_rounds={OFFICIAL: 1},
    open=_open,
    specs=_specs,
)


def _open_million(setting: Setting) -> AbstractContextManager[Bench]:
    return replayed(Replay(ServerOptions(objects=_MILLION[setting.size], endless=True)), setting)


def _million_specs(known: Known) -> tuple[Spec, ...]:
    return (
        Spec(
            "initial sync: peak memory of the process",
            "MB",
            peak_megabytes,
            {OWN: "<= 6,500", _COMPACT: "<= 3,200"},
        ),
        Spec("initial sync: wall time", "s", lambda found: found.sync_wall_seconds, {}),
        Spec("initial sync: CPU time", "s", lambda found: found.sync_cpu_seconds, {}),
        *memory_specs(float(known["object bytes, mean"]), {}),
        *pause_specs("<= 50"),
    )


MILLION = Run(
    name="sync-million",
    title="Initial sync of a million pods",
    says=(
        "6.5 GB of JSON, made while they are sent. The wall time is that of the server, which"
        " makes them, or of the client, whichever is slower; CPU is that of the client."
    ),
    peers={Size.SMOKE: (OWN, _COMPACT), Size.FULL: (OWN, _COMPACT)},
    rounds={Size.SMOKE: 1, Size.FULL: 1},
    open=_open_million,
    specs=_million_specs,
)
