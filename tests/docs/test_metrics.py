"""The page on metrics: its program shows figures of pyinformer's and of its own."""

from __future__ import annotations

import asyncio
import urllib.request
from typing import Any

import pyinformer
from pyinformer.telemetry.prometheus import PrometheusMetrics
from pyinformer.testing import APIServer
from tests.docs import pages
from tests.waiting import until

_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"namespace": "default", "name": "orders"},
}


async def test_the_operator_of_the_page_shows_its_metrics(apiserver: APIServer) -> None:
    apiserver.create(_MAP)
    names: dict[str, Any] = {"__name__": "metrics"}
    for block in pages.blocks("docs/howto/metrics.md", "python"):
        exec(compile(block.text, block.page, "exec"), names)  # noqa: S102 - our own page
    async with (
        asyncio.timeout(100),
        pyinformer.connect(server=apiserver.url) as cluster,
        names["app"].running(cluster, health_port=0) as run,
    ):
        await until(lambda: reconciles(names["metrics"]) >= 1)
        text = await asyncio.to_thread(fetched, f"{run.health_url}/metrics")
    lines = text.splitlines()
    assert 'shop_backup_size_bytes_bucket{tier="gold",le="100000000.0"} 1' in lines
    assert 'shop_backup_failures_total{reason="quota"} 0.0' in lines
    assert (
        'controller_runtime_reconcile_total{controller="configmaps",result="success"} 1.0' in lines
    )


def reconciles(metrics: PrometheusMetrics) -> float:
    """Return how many reconciles have ended."""
    name = "controller_runtime_reconcile_total"
    found = (
        one for family in metrics.collect() if family.spec.name == name for one in family.series
    )
    return sum(one.value for one in found if isinstance(one.value, float))


def fetched(url: str) -> str:
    """Return the body at a URL."""
    with urllib.request.urlopen(url, timeout=100) as answer:  # noqa: S310 - our own server
        text: str = answer.read().decode()
    return text
