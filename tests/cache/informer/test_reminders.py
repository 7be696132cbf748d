"""Resyncs beside lists that are handed over in steps: no handler gets an odd life."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer.cache.informer import StoreSink
from pyinformer.cache.informer.delivery import Handler, SharedProcessor
from pyinformer.cache.store import Indexer
from pyinformer.objects import Updated
from tests.cache.informer.clusters import Notes
from tests.pods import make
from tests.sinks import SinkOwner
from tests.soak import examples
from tests.virtual_time import VirtualTimeLoop, elapse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyinformer.objects import KubeObject

_PERIOD_SECONDS = 1.0
_PAUSES = (0.0, 0.4, 1.0, 2.5)  # between two steps of a list
_numbers = st.builds(range, st.integers(0, 500), st.integers(0, 900))


class _Feed:
    """The sink, until its namespace is left, as the caches of an informer feed handlers."""

    def __init__(self, sink: StoreSink[None]) -> None:
        self.has_left = False
        self._sink = sink
        self.attach = sink.attach
        self.detach = sink.detach
        self.wait_announced = sink.wait_announced

    def announced(self) -> list[KubeObject[None]]:
        """Return what is cached."""
        return [] if self.has_left else self._sink.announced()


class _Bench:
    """A cache, its receivers and their reminders, in virtual time."""

    def __init__(self, *, announces: bool = False) -> None:
        self.indexer: Indexer[None] = Indexer()
        self.store_sink: StoreSink[None] = StoreSink(self.indexer, SinkOwner(announces=announces))
        self.feed = _Feed(self.store_sink)
        self.processor = SharedProcessor("pods", self.feed, on_crash=lambda _: None)

    def add(self, mailbox_size: int) -> Notes:
        """Add a handler that is reminded."""
        notes = Notes()
        self.processor.add(
            Handler.of(notes), mailbox_size=mailbox_size, resync_period_seconds=_PERIOD_SECONDS
        )
        return notes

    async def replace(self, numbers: Iterable[int], version: str, pauses: Iterator[float]) -> None:
        """Hand a list over, with time passing between its steps."""
        objects = {f"a/{n}": make(f"a/{n}", resource_version=version) for n in numbers}
        for _ in self.store_sink.replace_nowait(objects, version):
            await elapse(next(pauses, 0.0))


def _play(
    before: Iterable[int],
    after: Iterable[int],
    *,
    pauses: list[float],
    mailbox_size: int = 1024,
    announces: bool = False,
    steps_before_leaving: int | None = None,
) -> list[Notes]:
    async def body() -> list[Notes]:
        bench = _Bench(announces=announces)
        early = bench.add(mailbox_size)
        passing = iter(pauses)
        async with anyio.create_task_group() as group:
            bench.processor.start_nowait(group)
            await bench.replace(before, "1", passing)
            late = bench.add(mailbox_size)
            await elapse(2.5 * _PERIOD_SECONDS)
            steps = bench.store_sink.replace_nowait(
                {f"a/{n}": make(f"a/{n}", resource_version="2") for n in after}, "2"
            )
            for number, _ in enumerate(steps):
                if number == steps_before_leaving:
                    break
                await elapse(next(passing, 0.0))
            if steps_before_leaving is not None:
                bench.feed.has_left = True
                for _ in bench.store_sink.leave_nowait():
                    await elapse(next(passing, 0.0))
            await elapse(2.5 * _PERIOD_SECONDS)
            await bench.processor.aclose(1.0)
            group.cancel_scope.cancel()
        return [early, late]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(body())


def test_a_resync_does_not_overtake_the_differences_of_a_list() -> None:
    """Of 600 keys, 260 were updated before they were added."""
    for notes in _play(range(300), range(600), pauses=[1.0] * 50):
        assert notes.faults == []
        assert len(notes.mirror) == 600


@pytest.mark.parametrize("leaves_after", [None, 1, 3])
def test_a_resync_waits_for_a_list_in_delivery(leaves_after: int | None) -> None:
    early, late = _play(
        range(300), range(200, 600), pauses=[2.5] * 50, steps_before_leaving=leaves_after
    )
    for notes in (early, late):
        assert notes.faults == []
        reminded = {
            event.key for event in notes.events if isinstance(event, Updated) and event.is_resync
        }
        assert set(notes.mirror) <= reminded
        assert len(notes.mirror) == (400 if leaves_after is None else 0)


@pytest.mark.covers("client-go tools/cache: TestUpdate")
@settings(max_examples=examples(30))
@given(
    before=_numbers,
    after=_numbers,
    pauses=st.lists(st.sampled_from(_PAUSES), min_size=6, max_size=24),
    mailbox_size=st.sampled_from([1, 8, 1024]),
    announces=st.booleans(),
    leaves_after=st.none() | st.integers(0, 6),
)
def test_every_handler_gets_valid_histories_whenever_it_is_resynced(
    *,
    before: range,
    after: range,
    pauses: list[float],
    mailbox_size: int,
    announces: bool,
    leaves_after: int | None,
) -> None:
    for notes in _play(
        before,
        after,
        pauses=pauses,
        mailbox_size=mailbox_size,
        announces=announces,
        steps_before_leaving=leaves_after,
    ):
        assert notes.faults == []
        assert set(notes.mirror) == (
            {f"a/{number}" for number in after} if leaves_after is None else set()
        )
