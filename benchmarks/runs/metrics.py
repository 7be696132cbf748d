"""What metrics cost: an update, a queue's cycle, a reconcile, a scrape.

The same program with PrometheusMetrics and without, in turns. The handles of prometheus_client are
measured beside ours in the same process.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from benchmarks.harness.measure import ServerOptions
from benchmarks.peers import own_metrics
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import OWN, extra, update_spec
from benchmarks.runs.run import Bench, Replay, Run, Setting, Size, replayed

PROMETHEUS = "pyinformer-prometheus"
_SIZES = {Size.SMOKE: (40, 120), Size.BENCH: (5_000, 10_000), Size.FULL: (5_000, 10_000)}


def _open(setting: Setting) -> AbstractContextManager[Bench]:
    objects, updates = _SIZES[setting.size]
    options = ServerOptions(objects=objects, updates=updates)
    return replayed(Replay(options, {"work": "metrics"}), setting)


def _specs() -> tuple[Spec, ...]:
    pair = ((PROMETHEUS, OWN),)
    ratio = f"{PROMETHEUS} / {OWN}"
    only = (PROMETHEUS,)
    return (
        update_spec(pair, {ratio: "<= 1.02"}),
        Spec("CPU per cycle of a queue", "us", extra(own_metrics.QUEUE), {ratio: "<= 2"}, pair),
        Spec("CPU per reconcile", "us", extra(own_metrics.RECONCILE), {}, pair),
        Spec(
            "CPU per reconcile, more than without metrics",
            "us",
            extra(own_metrics.MORE),
            {PROMETHEUS: "<= 3"},
            only=only,
        ),
        Spec("inc() of a bound counter", "us", extra(own_metrics.INC), {}, only=only),
        Spec("observe() of a bound histogram", "us", extra(own_metrics.OBSERVE), {}, only=only),
        Spec("prometheus_client: inc() of a child", "us", extra(own_metrics.CHILD), {}, only=only),
        Spec("prometheus_client: labels().inc()", "us", extra(own_metrics.LABELS), {}, only=only),
        Spec(
            "scrape of 50 informers and 10 controllers, CPU",
            "ms",
            extra(own_metrics.SCRAPE),
            {PROMETHEUS: "<= 20"},
            only=only,
        ),
        Spec(
            "scrape: longest wait of the event loop",
            "ms",
            extra(own_metrics.BLOCKED),
            {PROMETHEUS: "<= 2"},
            only=only,
        ),
        Spec("scrape: lines", "", extra(own_metrics.LINES), {}, only=only),
    )


METRICS = Run(
    name="metrics",
    title="Metrics",
    says=(
        "The same program with PrometheusMetrics and without: CPU for each update into the cache"
        " and a handler, for add, get and done of a key, and for a reconcile that does nothing. A"
        " scrape is rendered in a thread, while the event loop beats every millisecond."
    ),
    peers=dict.fromkeys(_SIZES, (OWN, PROMETHEUS)),
    rounds={Size.SMOKE: 1, Size.BENCH: 7, Size.FULL: 9},
    open=_open,
    specs=lambda _: _specs(),
)
