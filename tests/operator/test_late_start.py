"""An operator that starts late logs what it waits for, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.client.cluster import Cluster
from pyinformer.controller import ControllerOptions
from pyinformer.errors import CacheSyncTimeoutError
from pyinformer.operator import Operator
from pyinformer.testing import World
from tests.leaderelection.electing import Line

if TYPE_CHECKING:
    from pyinformer.operator import OperatorRun

_WAITS, _STARTED = "still starting: ", "started after "


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time, which serves no databases."""
    with World(virtual_time=True) as world:
        yield world


@pytest.fixture
def line(world: World) -> Line:
    """A connection to it."""
    return Line(world.cluster.connection)


def operator(world: World, line: Line, sync_timeout_seconds: float = 1000.0) -> OperatorRun:
    """Return an operator of databases that has not begun."""
    app = Operator("test")

    @app.reconcile(
        "acme.io/v1",
        "databases",
        options=ControllerOptions(sync_timeout_seconds=sync_timeout_seconds),
    )
    async def reconcile(request: Any, given: Any, cluster: Any) -> None:
        """Do nothing."""

    return app.running(Cluster(world.cluster.config, connection=line))


@contextmanager
def starting(world: World, run: OperatorRun, *, whole_program: bool = False) -> Iterator[None]:
    """Start an operator, and end it with the block."""

    async def begin() -> asyncio.Task[None]:
        return asyncio.create_task(run.run() if whole_program else run.start())

    async def end() -> None:
        task.cancel()
        await asyncio.wait({task})
        await run.aclose()

    task = world.run(begin)
    yield
    world.run(end)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the operator has logged of its start."""
    return [one for one in caplog.messages if one.startswith((_WAITS, _STARTED))]


def seconds_of_reports(world: World, caplog: pytest.LogCaptureFixture, until: int) -> list[int]:
    """Let time pass until then; return the seconds, in steps of 5, at which something is logged."""
    found = []
    while (now := round(world.now_seconds)) < until:
        before = len(logged(caplog))
        world.elapse(5.0)
        found += [now + 5] * (len(logged(caplog)) - before)
    return found


def test_a_slow_start_logs_what_it_waits_for(
    world: World, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    world.register("acme.io/v1", "Database", "databases")
    line.list_is_forbidden = line.watch_is_forbidden = True

    async def scenario() -> None:
        with pytest.raises(CacheSyncTimeoutError):
            async with operator(world, line, sync_timeout_seconds=8.0):
                pass

    world.run(scenario)
    assert "403 Forbidden" in logged(caplog)[-1]
    assert logged(caplog)[-1].startswith("still starting: not running")


def test_a_late_start_is_logged_at_growing_intervals_and_when_its_reason_changes(
    world: World, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    with starting(world, operator(world, line)):
        assert seconds_of_reports(world, caplog, until=100) == [5, 10, 20, 40, 80]

        line.is_forbidden = line.list_is_forbidden = line.watch_is_forbidden = True
        (changed,) = seconds_of_reports(world, caplog, until=155)
        assert "404" in logged(caplog)[-2]
        assert "403 Forbidden" in logged(caplog)[-1]
        assert seconds_of_reports(world, caplog, until=2 * changed) == [2 * changed]


@pytest.mark.parametrize("whole_program", [True, False])
def test_the_end_of_a_late_start_is_logged_at_the_level_of_its_warnings(
    world: World, line: Line, caplog: pytest.LogCaptureFixture, whole_program: bool
) -> None:
    with starting(world, operator(world, line), whole_program=whole_program):
        world.elapse(6.0)
        assert logged(caplog)[-1].startswith(_WAITS)

        world.register("acme.io/v1", "Database", "databases")
        world.elapse(100.0)
        assert logged(caplog)[-1].startswith(_STARTED)
    levels = [one.levelname for one in caplog.records if one.getMessage() in logged(caplog)]
    assert set(levels) == {"WARNING"}


def test_the_end_of_a_start_in_time_is_not_logged(
    world: World, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    world.register("acme.io/v1", "Database", "databases")
    with starting(world, operator(world, line)):
        world.elapse(100.0)
    assert logged(caplog) == []
