"""The sweep of a sample: what it costs, whatever is shared and however often lists come.

The sources have values that take time to check, on a loop of virtual time. The promise is a
hundredth of a core, in steps that do not delay other tasks.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, cast

import anyio
import pytest

from pyinformer.cache.audit import CacheMutation, MutationDetector
from pyinformer.cache.store import DecodedObject, DecodedObjects
from pyinformer.objects import GroupVersionResource, KubeObject, ObjectCodec
from tests.virtual_time import VirtualTimeLoop, elapse

if TYPE_CHECKING:
    from pyinformer.cache.audit import SharedValue

_LOOK_SECONDS = 0.001
_CODEC: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("v1", "pods"))


def pod(name: str) -> KubeObject[None]:
    """Return an object."""
    text = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%s"}}' % name.encode()
    return _CODEC.decode(text, 0, len(text))


class Slow:
    """A source of values each of which takes a millisecond to be looked at.

    Args:
        count: how many values.
    """

    name = "pods.v1"

    def __init__(self, count: int) -> None:
        self.looks: Counter[int] = Counter()
        self._clock = cast("VirtualTimeLoop", asyncio.get_running_loop())._clock
        records = [pod(f"p{number}") for number in range(count)]
        self._values = [DecodedObject(record, record.to_dict()) for record in records]

    def handlers(self) -> tuple[str, ...]:
        return ()

    def values(self) -> Iterable[SharedValue]:
        for number, value in enumerate(self._values):
            self._clock.now += _LOOK_SECONDS
            self.looks[number] += 1
            yield value

    def heal(self, value: SharedValue) -> None:
        raise AssertionError(value)

    def misplaced(self) -> Iterable[CacheMutation | None]:
        return ()

    def count(self, mutation: CacheMutation) -> None:
        raise AssertionError(mutation)


async def _swept(source: Slow, seconds: float, relists: Callable[[], object]) -> None:
    detector = MutationDetector("sample")
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: detector.run(source, relists=relists))
        await elapse(seconds)
        group.cancel_scope.cancel()


@pytest.mark.virtual_time
@pytest.mark.parametrize("every_seconds", [5.0, 30.0, 3600.0])
async def test_frequent_lists_do_not_raise_the_cost_of_sampling_above_one_percent(
    every_seconds: float,
) -> None:
    """A resource without versions to watch from is listed again and again."""
    source, loop, seconds = Slow(500), asyncio.get_running_loop(), 900.0
    lists = [object() for _ in range(1000)]
    await _swept(source, seconds, lambda: lists[int(loop.time() / every_seconds)])

    assert source.looks.total() * _LOOK_SECONDS <= seconds / 100
    assert min(source.looks[number] for number in range(500)) > 1


@pytest.mark.virtual_time
async def test_after_a_list_every_object_is_checked_soon() -> None:
    source, loop = Slow(2000), asyncio.get_running_loop()
    lists = [object(), object()]
    await _swept(source, 30.0, lambda: lists[loop.time() > 1])

    assert min(source.looks[number] for number in range(2000)) >= 1


@pytest.mark.covers("client-go tools/cache: TestMutationDetector")
def test_a_sweep_checks_shared_objects_one_by_one() -> None:
    """Finding out which are shared still would otherwise hold up the loop for all of them."""
    asked: list[str] = []
    objects = {f"p{number}": pod(f"p{number}") for number in range(100)}

    def shown(key: str) -> KubeObject[None] | None:
        asked.append(key)
        return objects.get(key)

    shared = DecodedObjects(shown)
    for obj in objects.values():
        shared.of(obj)
    asked.clear()
    values: Iterator[DecodedObject[None]] = iter(shared.values())
    first = next(values)
    assert len(asked) == 1

    del objects["p1"]
    objects["p2"] = pod("p2")
    shared.on_missed_state(objects["p99"], None)
    keys = [first.record.key, *(value.record.key for value in values)]
    assert keys == ["p0", *(f"p{number}" for number in range(3, 99))]
    assert len(shared) == 97
