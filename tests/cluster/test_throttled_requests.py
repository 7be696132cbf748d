"""Writes leave at the agreed rate and in their order, however many of them are cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from pyinformer.cluster import WriteOptions
from pyinformer.cluster._request_spans import RequestSpans
from pyinformer.cluster._throttled_requests import ThrottledRequests
from tests.waiting import now, settle

if TYPE_CHECKING:
    from pyinformer.transport import ConnectionProtocol

pytestmark = pytest.mark.virtual_time


class Recorder:
    """The other end of a connection that records when requests are sent."""

    def __init__(self) -> None:
        self.left: list[tuple[float, str]] = []

    async def request(self, method: str, path: str, **_: object) -> bytes:
        """Record it, and answer."""
        self.left.append((now(), path))
        return method.encode()


async def test_cancellations_do_not_raise_the_rate_of_writes() -> None:
    """Cancelled waits must not let the remaining writes leave together."""
    recorder = Recorder()
    requests = ThrottledRequests(
        cast("ConnectionProtocol", recorder),
        WriteOptions(writes_per_second=1.0, burst=1),
        spans=RequestSpans("", "http://localhost", None),
    )

    async def write(number: int) -> bytes:
        return await requests.write("PUT", f"{number:03}", query=(), body=b"", content_type="")

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
    assert instants == pytest.approx([float(second) for second in range(len(instants))])
    paths = [path for _, path in recorder.left]
    assert paths == sorted(paths)
    assert all(task.done() for task in kept)
    assert requests.waiting == 0
