"""Writes leave at the agreed rate and in their order, however many of them are cancelled."""

from __future__ import annotations

import asyncio

import pytest

from pyinformer.client.cluster import WriteOptions
from tests.client.cluster.answering import Answering
from tests.waiting import settle

pytestmark = pytest.mark.virtual_time


async def test_cancellations_do_not_raise_the_rate_of_writes() -> None:
    """Cancelled waits must not let the remaining writes leave together."""
    recorder = Answering()
    cluster = recorder.cluster(write_options=WriteOptions(writes_per_second=0.5))

    async def write(number: int) -> bytes:
        return await cluster.request("PUT", f"/{number:03}", body=b"")

    kept: list[asyncio.Task[bytes]] = []
    for round_ in range(5):
        herd = [asyncio.create_task(write(100 * round_ + number)) for number in range(10)]
        await settle()
        for task in herd[:-2]:
            task.cancel()
        await settle()
        kept += herd[-2:]
    await asyncio.wait(kept, timeout=60.0)

    instants = [at for at, _ in recorder.left]
    assert instants == pytest.approx([2.0 * number for number in range(len(instants))])
    paths = [path for _, path in recorder.left]
    assert paths == sorted(paths)
    assert all(task.done() for task in kept)
    assert cluster.write_statistics().waiting == 0


async def test_after_a_pause_two_seconds_worth_of_writes_leave_at_once() -> None:
    recorder = Answering()
    cluster = recorder.cluster(write_options=WriteOptions(writes_per_second=4.0))
    await asyncio.gather(*(cluster.request("PUT", f"/{n}", body=b"") for n in range(10)))
    assert [at for at, _ in recorder.left] == pytest.approx([*[0.0] * 8, 0.25, 0.5])


@pytest.mark.covers("client-go rest: TestRESTClientLimiter")
async def test_without_a_limit_writes_are_sent_at_once() -> None:
    recorder = Answering()
    cluster = recorder.cluster(write_options=WriteOptions(writes_per_second=None))
    await asyncio.gather(*(cluster.request("PUT", f"/{n}", body=b"") for n in range(1_000)))
    assert [at for at, _ in recorder.left] == [0.0] * 1_000
