"""A server that hangs, refuses, and hangs again: swept over lengths and begins of the phases.

The soak sweeps eight times as many.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING

import pytest

from pyinformer.testing import World
from tests.leaderelection.electing import Line, Replica
from tests.soak import in_soak
from tests.waiting import now, pause

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEASE_SECONDS, _RENEW_DEADLINE_SECONDS = 15.0, 10.0
_HANGS = (0.3, 1.9, 4.9, 5.1, 9.9, 10.1, 14.9, 16.0)
_REST = in_soak(  # a leader renews every two seconds
    tuple(product((0.0, 0.5, 1.0, 1.5), (0.0, 0.1, 2.1, 4.9, 9.9, 15.1), _HANGS)),
    otherwise=tuple(product((0.0, 1.0), (0.0, 2.1, 9.9), (0.3, 5.1, 10.1, 16.0))),
)
"""When the first hang begins, how long it refuses, and how long the second hang is."""


class Phases:
    """Lets the lines of some replicas hang, and be down."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._passes = asyncio.Event()
        self._passes.set()
        for line in lines:
            line.before = self._wait

    async def _wait(self, _method: str) -> None:
        await self._passes.wait()

    async def hang(self, seconds: float) -> None:
        """Answer nothing for so long; what waits is passed on then."""
        self._passes.clear()
        await pause(seconds)
        self._passes.set()

    async def refuse(self, seconds: float) -> None:
        """Break every request for so long."""
        for line in self._lines:
            line.is_down = True
        await pause(seconds)
        for line in self._lines:
            line.is_down = False


def _terms(*replicas: Replica) -> list[tuple[float, float]]:
    """Return when the work of each term began and ended, in order."""
    end = now()
    found = [
        (began, ended)
        for one in replicas
        for began, ended in zip(
            one.began_at, [*one.ended_at, *[end] * len(one.began_at)], strict=False
        )
    ]
    return sorted(found)


@pytest.mark.soak
@pytest.mark.parametrize("strikes", ["leader", "both"])
@pytest.mark.parametrize("first", _HANGS)
def test_at_most_one_leads_in_every_phase_and_one_leads_again(strikes: str, first: float) -> None:
    for begins, refuses, second in _REST:
        with World(virtual_time=True) as world:
            world.run(partial(_scenario, world, strikes, begins, (first, refuses, second)))


async def _scenario(
    world: World, strikes: str, begins: float, lengths: tuple[float, float, float]
) -> None:
    first, refuses, second = lengths
    what = f"{strikes}: {begins:g} s, hang {first:g} s, refuse {refuses:g} s, hang {second:g} s"
    one, two = Replica(world, "one"), Replica(world, "two")
    one.start()
    await one.leads.wait()
    two.start()
    await pause(5.0 + begins)
    phases = Phases([one.line] if strikes == "leader" else [one.line, two.line])
    began_at = now()
    await phases.hang(first)
    await phases.refuse(refuses)
    await phases.hang(second)
    healed_at = now()
    await pause(2 * _LEASE_SECONDS)

    terms = _terms(one, two)
    assert all(ended <= begun for (_, ended), (begun, _) in pairwise(terms)), (
        what,
        terms,
    )
    assert one.leads.is_set() is not two.leads.is_set(), what
    for one_that_runs in (one, two):
        assert one_that_runs.task is not None
        assert not one_that_runs.task.done(), what
    last_began_at = terms[-1][0]
    assert last_began_at <= healed_at + _LEASE_SECONDS, (what, terms)
    if healed_at - began_at < _RENEW_DEADLINE_SECONDS - 5.0:  # a request takes up to 5 s
        assert len(terms) == 1, (what, terms)
    await one.stop()
    await two.stop()
