"""Samples of a history: only what is certain at the position of the sample."""

from __future__ import annotations

from collections.abc import Iterable

import anyio
import pytest

from pyinformer.cache.reflector import Guard
from pyinformer.cache.reflector.guard import Order
from pyinformer.cache.reflector.lineage import history_samples
from pyinformer.objects import KubeObject
from tests.cache.reflector.samples import DictSink, meta, pod
from tests.virtual_time import work


async def seen(guard: Guard, *cached: tuple[str, str]) -> list[tuple[str, str, bool]]:
    sink = DictSink(*(pod(name, version) for name, version in cached))
    return [(one.key, one.at, one.existed) for one in await history_samples(sink, guard)]


async def test_the_newest_object_and_the_newest_deletion_are_samples() -> None:
    guard = Guard()
    guard.loaded("100")
    guard.judge_deletion("x", meta("110"), meta("90"))
    guard.applied("110")
    guard.judge_bookmark("120")
    found = await seen(guard, ("a", "80"), ("b", "95"))
    assert found == [("b", "120", True), ("x", "120", False)]


async def test_the_first_of_a_batch_is_not_a_sample_against_deletions_of_the_batch() -> None:
    """A lease ends: ten deletions share a version, and one of them arrives before the cut."""
    guard = Guard()
    guard.loaded("100")
    guard.judge_deletion("x", meta("110"), meta("90"))
    guard.applied("110")
    assert await seen(guard, ("a", "95")) == [("a", "100", True), ("x", "110", False)]


async def test_an_object_that_came_with_the_position_is_a_sample_at_it() -> None:
    """Nothing else was seen since the last position: whatever died there, this was not it."""
    guard = Guard()
    guard.loaded("100")
    guard.applied("110")
    assert await seen(guard, ("a", "95"), ("b", "110")) == [("b", "110", True)]


async def test_an_object_beyond_the_position_is_not_a_sample() -> None:
    """A verify has brought it: what else was so by then is not known."""
    guard = Guard()
    guard.loaded("100")
    assert await seen(guard, ("a", "95"), ("b", "110")) == [("a", "100", True)]


@pytest.mark.parametrize("order", ["per_object", "opaque"])
async def test_without_a_global_order_nothing_is_a_sample(order: Order) -> None:
    guard = Guard(order=order)
    guard.loaded("100")
    assert await seen(guard, ("a", "95")) == []


class Viewing(DictSink):
    """A sink whose keys are a view of its own; each read takes its time."""

    def keys(self) -> Iterable[str]:  # type: ignore[override]  # a protocol asks for no more
        """Return a view."""
        return self.objects.keys()

    def get(self, key: str) -> KubeObject[None] | None:
        """Return the newest state of a key."""
        work(30e-6)
        return super().get(key)


@pytest.mark.virtual_time
async def test_a_sink_may_change_while_it_is_read() -> None:
    guard = Guard()
    guard.loaded("100")
    sink = Viewing(*(pod(f"p{number}", "95") for number in range(3_000)))

    async def change() -> None:
        sink.objects["late"] = pod("late", "96")

    async with anyio.create_task_group() as group:
        group.start_soon(change)
        found = await history_samples(sink, guard)
    assert "late" in sink.objects
    assert [(one.key, one.at) for one in found] == [("p0", "100")]
