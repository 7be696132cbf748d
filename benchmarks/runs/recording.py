"""What recording an informer costs for each update.

The same program with a recording and without, in turns. The content of the cache, with which a
recording begins, is written before the updates are sent.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from benchmarks.harness.measure import ServerOptions
from benchmarks.peers.own_recording import LOOP
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import OWN, extra, update_spec
from benchmarks.runs.run import Bench, Replay, Run, Setting, Size, replayed

RECORDED = "pyinformer-recording"
_SIZES = {Size.SMOKE: (40, 120), Size.BENCH: (5_000, 20_000), Size.FULL: (5_000, 20_000)}


def _open(setting: Setting) -> AbstractContextManager[Bench]:
    objects, updates = _SIZES[setting.size]
    return replayed(Replay(ServerOptions(objects=objects, updates=updates), {}), setting)


def _specs() -> tuple[Spec, ...]:
    pair, ratio = ((RECORDED, OWN),), f"{RECORDED} / {OWN}"
    return (
        update_spec(pair, {ratio: "<= 1.3"}),
        Spec("CPU per update, event loop", "us", extra(LOOP), {ratio: "<= 1.3"}, pair),
    )


RECORDING = Run(
    name="recording",
    title="Recording",
    says=(
        "The same program with a recording and without: CPU for each update of a pod of 6.5 KB,"
        " of the whole process with the thread that redacts and writes, and of the event loop's"
        " thread alone."
    ),
    peers=dict.fromkeys(_SIZES, (OWN, RECORDED)),
    rounds={Size.SMOKE: 1, Size.BENCH: 7, Size.FULL: 9},
    open=_open,
    specs=lambda _: _specs(),
)
