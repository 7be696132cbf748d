"""Our operator with hooks, which are asked about every write of a database.

It keeps how long each review took in it, by its own metric, until it is asked for that.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping

import msgspec

from benchmarks.data.databases import KIND, PLURAL
from benchmarks.harness.latencies import percentile
from benchmarks.harness.operators import READY, OperatorOptions, operator_options
from benchmarks.peers.own_cache import connected
from pyinformer import (
    Cluster,
    Denied,
    Operator,
    Request,
    Review,
    Webhooks,
)
from pyinformer.operator import custom_resource
from pyinformer.telemetry.metrics import (
    NO_METRICS,
    Counter,
    Gauge,
    Histogram,
    Metrics,
    MetricsScope,
    MetricsSource,
)

_LATENCY = "controller_runtime_webhook_latency_seconds"


class Storage(msgspec.Struct):
    """What a database is stored on."""

    tier: str
    gigabytes: int
    parameters: dict[str, str]


class User(msgspec.Struct, rename="camel"):
    """Who uses a database."""

    name: str
    max_connections: int
    roles: list[str]
    settings: dict[str, str]


class DatabaseSpec(msgspec.Struct):
    """What is wanted."""

    engine: str
    image: str
    replicas: int
    storage: Storage
    users: list[User]


class Database(msgspec.Struct):
    """The model of the hooks; its fields are those of data/databases.py."""

    spec: DatabaseSpec


def make_operator(
    api_version: str,
    webhooks: Webhooks | None,
    *,
    metrics: Metrics = NO_METRICS,
    reconciled: Callable[[], None] = lambda: None,
) -> Operator:
    """Make the operator; without `webhooks` it has no hooks."""
    app = Operator("bench", webhooks=webhooks, metrics=metrics)
    model = custom_resource(api_version, PLURAL, kind=KIND)(Database)

    @app.reconcile(api_version, PLURAL, model=model)
    async def reconcile(_request: Request, _: Database | None, _cluster: Cluster) -> None:
        reconciled()

    if webhooks is not None:

        @app.default(api_version, PLURAL, model=model)
        def fill(written: Database, _: Review[Database]) -> None:
            written.spec.image = written.spec.image or f"{written.spec.engine}:17"

        @app.validate(api_version, PLURAL, model=model)
        def check(written: Database, review: Review[Database]) -> None:
            if review.old and review.old.spec.engine != written.spec.engine:
                raise Denied("spec.engine cannot be changed")

    return app


class _Latencies:
    """Metrics that keep how long reviews took, and nothing else."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)

    def counter(self, name: str, labels: Mapping[str, str]) -> Counter:
        return NO_METRICS.counter(name, labels)

    def gauge(self, name: str, labels: Mapping[str, str]) -> Gauge:
        return NO_METRICS.gauge(name, labels)

    def histogram(self, name: str, labels: Mapping[str, str]) -> Histogram:
        if name != _LATENCY:
            return NO_METRICS.histogram(name, labels)
        return _Observed(self.seconds[labels["webhook"]])

    def add_source(self, source: MetricsSource) -> None:
        """Keep nothing."""

    def scope(self) -> MetricsScope:
        return self

    def close(self) -> None:
        """Keep what was observed."""

    def take(self) -> dict[str, float]:
        """Return the percentiles since the last call, by names of figures."""
        found = {}
        for path, seconds in self.seconds.items():
            ascending = sorted(seconds)
            seconds.clear()
            for percent in (50, 99) if ascending else ():
                name = f"{path.split('/')[1]}_server_p{percent}_ms"
                found[name] = percentile(ascending, percent) * 1e3
        return found


class _Observed:
    def __init__(self, seconds: list[float]) -> None:
        self.observe = seconds.append


async def _operate(options: OperatorOptions) -> None:
    workload, latencies, reconciled = options.workload, _Latencies(), asyncio.Event()
    webhooks = None
    if options.port:
        url = f"https://127.0.0.1:{options.port}"
        webhooks = Webhooks(url=url, certificates=options.certificates, host="127.0.0.1")
    app = make_operator(
        workload.api_version, webhooks, metrics=latencies, reconciled=reconciled.set
    )
    async with connected(workload) as cluster, app.running(cluster):
        await reconciled.wait()
        print(READY, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(msgspec.json.encode(latencies.take()).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(_operate(operator_options()))
