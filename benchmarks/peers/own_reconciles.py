"""pyinformer's controllers, which reconcile pods until the process is ended.

Each reconcile gets the object from the cache and looks at one field of it.
"""

from __future__ import annotations

import pyinformer
from benchmarks.harness.phases import Phases
from benchmarks.peers.own_cache import StatusView, connected
from pyinformer import Controller, KubeObject, Reconcile, Request

_Pod = KubeObject[StatusView]


async def run(phases: Phases) -> None:
    """Follow with an asynchronous reconcile."""
    await _follow(phases, _look_at)


async def run_plain(phases: Phases) -> None:
    """Follow with a plain reconcile, which runs in a thread."""
    await _follow(phases, _look_at_in_thread)


async def _look_at(_request: Request, pod: _Pod | None) -> None:
    if pod is not None and pod.view is not None:
        _ = pod.view.status.phase


def _look_at_in_thread(_request: Request, pod: _Pod | None) -> None:
    if pod is not None and pod.view is not None:
        _ = pod.view.status.phase


async def _follow(phases: Phases, reconcile: Reconcile[StatusView]) -> None:
    async with (
        connected(phases.workload) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
        Controller("pods", reconcile, factory.informer("v1", "pods", model=StatusView)) as pods,
    ):
        await phases.release_updates()
        await pods.wait_ended()
