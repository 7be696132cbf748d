"""How long an update is on its way, from the server's send to the handler, at two paces.

Client and server have a CPU each, and read the same clock; an update that was merged into a later
one is not counted.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from benchmarks.harness import latencies
from benchmarks.harness.measure import ServerOptions
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import DICTS, JSON, OFFICIAL, OWN, PROTOBUF, UVLOOP, against, extra
from benchmarks.runs.run import Bench, Replay, Run, Setting, Size, replayed
from benchmarks.runs.variants import with_protobuf

_RIVALS = (JSON, PROTOBUF, DICTS)
_SECONDS = {Size.SMOKE: 0.1, Size.BENCH: 5.0, Size.FULL: 20.0}


def _latency(rate: int, targets: dict[str, dict[str, str]]) -> Run:
    def start(setting: Setting) -> AbstractContextManager[Bench]:
        smoke = setting.size is Size.SMOKE
        options = ServerOptions(
            objects=40 if smoke else 2_000,
            updates=int(rate * _SECONDS[setting.size]),
            updates_per_second=rate,
        )
        return replayed(Replay(with_protobuf(options, setting)), setting)

    def specs(_: object) -> tuple[Spec, ...]:
        figures = {
            "p50": latencies.P50,
            "p90": latencies.P90,
            "p99": latencies.P99,
            "largest": latencies.MAX,
        }
        return (
            *(
                Spec(
                    f"latency at {rate:,} updates/s, {name}",
                    "us",
                    extra(figure),
                    targets.get(name, {}),
                    against(OWN, _RIVALS),
                )
                for name, figure in figures.items()
            ),
            Spec("updates that were counted", "", extra(latencies.COUNTED), {}),
        )

    return Run(
        name=f"latency-{rate}",
        title=f"Latency at {rate:,} updates per second",
        says=(
            "From the moment at which the server sends an update until a handler begins, which"
            " reads metadata."
        ),
        peers={
            Size.SMOKE: (OWN, UVLOOP),
            Size.BENCH: (JSON, PROTOBUF, OWN, UVLOOP),
            Size.FULL: (*_RIVALS, OFFICIAL, OWN, UVLOOP),
        },
        rounds={Size.SMOKE: 1, Size.BENCH: 2, Size.FULL: 3},
        open=start,
        specs=specs,
        plots=tuple(f"latency at {rate:,} updates/s, {name}" for name in ("p50", "p99")),
    )


LATENCY = (
    _latency(
        400,
        {
            "p50": {f"{OWN} / {JSON}": "<= 0.4"},
            "p99": {f"{OWN} / {JSON}": "<= 0.2"},
        },
    ),
    _latency(4_000, {}),
)
