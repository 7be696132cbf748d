"""What shared decoded objects and models cost: a read, and the detector that watches the former.

The detector runs with its defaults, and never runs out of objects to look at. The round that it
makes once after a list is over: a look at each object, which is a figure of its own.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time

import msgspec

import pyinformer

_TIMEOUT_SECONDS = 600.0
_REPEATS = 15
_WATCHED_SECONDS = 5.2  # five sweeps of the default period
_POLL_SECONDS = 0.05

SHARED_READ = "shared_read_us"
MODEL_READ = "model_read_us"
MODEL_FIRST_READ = "model_first_read_us"
LOOK = "detector_look_us"
SHARE = "detector_cpu_percent"


class Metadata(msgspec.Struct, frozen=True):
    """What a program reads of a pod's metadata."""

    name: str
    namespace: str


class Container(msgspec.Struct, frozen=True):
    """What a program reads of a container."""

    name: str
    image: str


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a program reads of a pod's spec."""

    node_name: str
    containers: tuple[Container, ...]


class Pod(msgspec.Struct, frozen=True):
    """A model whose instances all readers share."""

    metadata: Metadata
    spec: PodSpec


async def time_sharing(url: str) -> dict[str, float]:
    """Time reads of shared objects and the detector.

    Args:
        url: of a server with pods.

    Cancellation:
        Safe; what was begun is stopped.
    """
    detector = pyinformer.MutationDetector("sample")
    busy = await _cpu_percent(url, detector)
    idle = await _cpu_percent(url, pyinformer.MutationDetector("off"))
    return {**await _time_reads(url), **await _time_models(url), SHARE: max(0.0, busy - idle)}


async def _time_models(url: str) -> dict[str, float]:
    """Time reads by key of an informer with a model: the first, which decodes, and later ones."""
    async with (
        pyinformer.connect(server=url) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        pods = factory.informer("v1", "pods", model=Pod)
        await factory.start()
        await pods.wait_for_cache_sync(timeout_seconds=_TIMEOUT_SECONDS)
        keys = pods.lister.keys()

        def read() -> None:
            lister = pods.lister
            for key in keys:
                _ = lister[key].view

        first = _microseconds(read) / len(keys)
        reads = [_microseconds(read) / len(keys) for _ in range(_REPEATS)]
    return {MODEL_FIRST_READ: first, MODEL_READ: statistics.median(reads)}


async def _cpu_percent(url: str, detector: pyinformer.MutationDetector) -> float:
    async with (
        pyinformer.connect(server=url) as cluster,
        pyinformer.SharedInformer(
            cluster, "v1", "pods", sharing="decoded", mutation_detector=detector
        ) as pods,
    ):
        await pods.wait_for_cache_sync(timeout_seconds=_TIMEOUT_SECONDS)
        count = len(pods.lister.decoded.list())
        while detector.mode != "off" and detector.statistics().checked < count:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)
        gc.collect()
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(_WATCHED_SECONDS)
        return 100 * (time.process_time() - cpu) / (time.perf_counter() - began)


async def _time_reads(url: str) -> dict[str, float]:
    reads: list[float] = []
    looks: list[float] = []
    detector = pyinformer.MutationDetector("sample", period_seconds=3600.0)
    async with (
        pyinformer.connect(server=url) as cluster,
        pyinformer.SharedInformer(
            cluster, "v1", "pods", sharing="decoded", mutation_detector=detector
        ) as pods,
    ):
        await pods.wait_for_cache_sync(timeout_seconds=_TIMEOUT_SECONDS)
        count = len(pods.lister.decoded.list())
        await asyncio.sleep(0)
        detector.verify_nowait()  # the first look makes the digests
        for _ in range(_REPEATS):
            reads.append(_microseconds(pods.lister.decoded.list) / count)
            looks.append(_microseconds(detector.verify_nowait) / count)
    return {SHARED_READ: statistics.median(reads), LOOK: statistics.median(looks)}


def _microseconds(call: object) -> float:
    assert callable(call)
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e6
