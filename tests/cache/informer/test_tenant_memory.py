"""What tenants write, in ever new words, leaves nothing behind; `benchmarks.tenants` sends more."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from benchmarks.tenants.attacks import ATTACKS
from benchmarks.tenants.run import victim

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class _Volume:
    """What is sent, and how much of it may be held."""

    first: int = 10
    """Updates before the measurement."""
    updates: int = 120
    size: int = 16_000
    bound_bytes: int = 1 << 20


_VOLUMES = {
    "names": _Volume(first=300),  # tombstones may take 4 MiB, which these fill
    # Some are always under way; the depth costs time, not the size.
    "nested": _Volume(first=4, updates=8, size=1_200_000, bound_bytes=8 << 20),
}


@pytest.fixture
def traced() -> Iterator[None]:
    """Have every allocation counted."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def _held_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.exhaustive
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("attack", ATTACKS)
async def test_texts_written_by_tenants_are_not_kept(attack: str) -> None:
    """None of the updates says what another has said."""
    volume = _VOLUMES.get(attack, _Volume())
    first, end = volume.first, volume.first + volume.updates
    async with victim(max_object_bytes=10_000 if attack == "owner name" else 64 << 20) as one:
        await one.suffer(ATTACKS[attack], range(first), volume.size)
        before = _held_bytes()
        await one.suffer(ATTACKS[attack], range(first, end), volume.size)
        assert _held_bytes() - before < volume.bound_bytes
        assert one.informer.status().reflector.loads == 1


@pytest.mark.parametrize("registered", ["before", "after"])
async def test_large_updates_do_not_pile_up_before_a_handler_that_hangs(registered: str) -> None:
    """40 updates of 800 KB are 32 MB; what waits is merged from 16 MiB on."""
    attack = ATTACKS["owner name"]
    async with victim() as one:
        if registered == "after":
            await one.suffer(attack, range(1), 800_000)
        hangs = asyncio.Event()
        one.informer.add_event_handler(lambda _: hangs.wait())
        await one.suffer(attack, range(1, 41), 800_000)
        stuck = one.informer.status().handlers[-1]
        assert stuck.coalesced >= 10
        assert stuck.depth <= 40
        hangs.set()
