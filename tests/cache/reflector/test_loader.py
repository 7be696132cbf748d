"""Loads that fail: nothing of what they had read stays behind."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import TracebackType
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from msgspec import json

from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.reflector import Guard, ReflectorOptions, Snapshot
from pyinformer.cache.reflector._loader import Loader
from pyinformer.cache.reflector._reporting import AuditRequests
from pyinformer.client.transport import ListSplitter, ListWatch, Paging
from pyinformer.errors import InformerError, InvalidObjectError, ProtocolError
from pyinformer.objects import DiagnosticJournal
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.running import is_load, put, reflecting
from tests.cache.reflector.samples import PODS, DictSink, codec, line
from tests.virtual_time import work
from tests.waiting import until


class Stream:
    """A body that ends after these lines."""

    def __init__(self, *lines: bytes) -> None:
        self._pieces = [one + b"\n" for one in lines]
        self.received_bytes = sum(map(len, self._pieces))

    async def read(self) -> bytes:
        """Return what is left, at once."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def expire(self, waited_seconds: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def remembered(error: BaseException | None) -> Iterator[Snapshot[Any]]:
    """Yield the snapshots that an error keeps alive by its frames, and by those of its causes."""
    while error is not None:
        trace: TracebackType | None = error.__traceback__
        while trace is not None:
            for value in trace.tb_frame.f_locals.values():
                if isinstance(value, Snapshot):
                    yield value
            trace = trace.tb_next
        error = error.__cause__


def loader_without_a_server() -> Loader[None]:
    """Return a loader whose bodies come from the test."""
    guard, journal = Guard(), DiagnosticJournal()
    return Loader(
        ListWatch(cast("Any", None), PODS),
        codec(),
        guard,
        DictSink(),
        ReflectorOptions(),
        journal=journal,
        audits=AuditRequests(str(PODS), guard, journal, None),
    )


async def test_a_watch_list_that_breaks_off_is_released_though_its_error_is_remembered() -> None:
    loader = loader_without_a_server()
    lines = [line("ADDED", f"p{number}", str(number + 1)) for number in range(2_000)]
    with pytest.raises(ProtocolError, match="it ended before it was complete") as caught:
        await loader.load_initial_events(Stream(*lines))
    snapshots = list(remembered(caught.value))
    assert snapshots
    assert not any(snapshot.objects for snapshot in snapshots)


@pytest.mark.virtual_time
async def test_items_that_fail_leave_the_loop_to_other_tasks_within_one_read() -> None:
    def take(_data: bytes, _start: int, _end: int) -> None:
        work(30e-6)
        raise InvalidObjectError("pods.v1", "no name")

    splitter = ListSplitter(take, verify=False, on_invalid=lambda *_: None)
    items = b",".join([b"{}"] * 20_000)
    body = Stream(b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[' + items + b"]}")
    loader = loader_without_a_server()
    turns = [loop_time()]

    async def other() -> None:
        while True:
            turns.append(loop_time())
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        await loader._feed(body, splitter, Paging("list pods", 300.0, 0.0))
        group.cancel_scope.cancel()
    splitter.finish()
    assert splitter.item_count == 20_000
    assert turns[-1] > 0.5
    # The budget is 4 ms, and one step of 64 items more may begin within it.
    assert max(after - before for before, after in pairwise(turns)) < 0.007


async def test_a_list_that_breaks_off_is_released_though_its_error_is_remembered() -> None:
    with APIServer() as server:
        put(server, *[f"p{number}" for number in range(12)])
        answer = {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": server.resource_version},
            "items": [
                {"metadata": {"name": f"p{n}", "uid": f"u{n}", "resourceVersion": "1"}}
                for n in range(12)
            ],
        }
        fault = Fault(match=is_load, body=json.encode(answer)[:-2], times=3)
        server.faults.add(fault)
        async with reflecting(server) as running:
            machine = running.reflector._machine
            seen: list[InformerError] = []

            def has_failed() -> bool:
                if machine.last_error is not None:
                    seen.append(machine.last_error)
                return bool(seen)

            await until(has_failed)
            snapshots = [each for error in seen for each in remembered(error)]
            assert snapshots
            assert not any(snapshot.objects for snapshot in snapshots)
