"""The promise of the whole, under fire: what is desired is what there is, in the end.

Three controllers, random writers and a server that is killed again and again; no resync, no
requeue, no audit. No key is ever reconciled by two workers at once, and a reconcile always sees
what we wrote ourselves.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import pytest

import pyinformer
from tests.integration.chaos.controllers import WIDGETS, Copies, Groups, Statuses, differences
from tests.integration.chaos.recording import Record
from tests.integration.chaos.writers import Writer, all_written
from tests.soak import in_soak
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.integration.servers import Server

WRITERS = 3


@dataclass(frozen=True)
class Storm:
    """How bad it is to be."""

    objects: int
    seconds: float
    kill_every_seconds: float
    settle_seconds: float
    pause_seconds: float


EMBEDDED = Storm(
    objects=120, seconds=9.0, kill_every_seconds=3.0, settle_seconds=120.0, pause_seconds=0.01
)
REAL = Storm(
    objects=240, seconds=24.0, kill_every_seconds=8.0, settle_seconds=120.0, pause_seconds=0.01
)
LONG = Storm(
    objects=2000, seconds=300.0, kill_every_seconds=30.0, settle_seconds=120.0, pause_seconds=0.01
)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_the_desired_state_is_reached_after_random_faults(server: Server) -> None:
    """Then: nothing differs, nothing overlapped, nothing of ours was missed."""
    storm = in_soak(LONG, otherwise=REAL) if server.name == "real" else EMBEDDED
    namespace = server.namespace()
    server.api.register(WIDGETS, "Widget", "widgets", has_status=True)
    is_up = threading.Event()
    is_up.set()
    writers = [
        Writer(
            server.api,
            namespace,
            range(number, storm.objects // 2, WRITERS),
            seed=number,
            is_up=is_up,
        )
        for number in range(WRITERS)
    ]
    record = Record()
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        controllers = [
            kind(cluster, factory, namespace, record).controller
            for kind in (Copies, Groups, Statuses)
        ]
        async with pyinformer.ControllerGroup(*controllers, factories=[factory]):
            await asyncio.to_thread(_fill, writers)
            await _rage(storm, server, writers, is_up)
            wrong = await asyncio.to_thread(_settled, storm, server, namespace)
            status = (factory.status(), *(one.status() for one in controllers))

    config_maps, widgets = await asyncio.to_thread(all_written, server.api, namespace)
    live = {one["metadata"]["uid"] for one in (*config_maps, *widgets)}
    assert wrong == [], f"{wrong} are wrong, and this is how everything is doing: {status}"
    assert record.overlaps() == []
    assert record.missed == []
    assert record.unseen(live) == []
    assert record.writes > storm.objects // 4
    print(f"{sum(one.writes for one in writers)} writes, {record.reconciles} reconciles")  # noqa: T201 - the figure of this run


def _fill(writers: Sequence[Writer]) -> None:
    for writer in writers:
        writer.fill()


async def _rage(
    storm: Storm, server: Server, writers: Sequence[Writer], is_up: threading.Event
) -> None:
    stop = threading.Event()

    def kill_and_restart() -> None:
        while not stop.wait(storm.kill_every_seconds):
            is_up.clear()
            server.restart()
            is_up.set()

    async with anyio.create_task_group() as group:
        for writer in writers:
            group.start_soon(asyncio.to_thread, writer.run, stop, storm.pause_seconds)
        group.start_soon(asyncio.to_thread, kill_and_restart)
        await asyncio.to_thread(stop.wait, storm.seconds)
        stop.set()


def _settled(storm: Storm, server: Server, namespace: str) -> list[str]:
    """Wait until nothing is wrong any more; return what still is."""
    wrong: list[str] = []

    def is_right() -> bool:
        wrong[:] = differences(*all_written(server.api, namespace), namespace)
        return not wrong

    poll(is_right, timeout_seconds=storm.settle_seconds)
    return wrong
