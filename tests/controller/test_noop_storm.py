"""A storm of no-op writes in a running controller, on virtual time.

The test reports writes to the context's writer, as a Cluster does, so it needs no server;
tests/client/cluster/test_write_context.py tests what a Cluster reports.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from pyinformer import Controller, Request, Result
from pyinformer.client.cluster import CURRENT_WRITER
from pyinformer.controller.sources import Reason
from pyinformer.errors import InvalidArgumentError
from pyinformer.telemetry.metrics import MetricsRegistry
from pyinformer.workqueue import LOW_PRIORITY
from tests.controller.running import Said, options, running
from tests.telemetry.metrics.reading import collected
from tests.virtual_time import elapse

pytestmark = pytest.mark.virtual_time

_OBJECTS = 13_000
_WORK_SECONDS = 0.001


class Buggy:
    """A reconcile whose comparison never becomes equal, until it is mended."""

    def __init__(self, *, work_seconds: float = _WORK_SECONDS) -> None:
        self.seen = Counter[str]()
        self.times: list[tuple[float, str]] = []
        self.is_mended = False
        self.changes = set[str]()
        self.again: Result | None = None
        self.failing: Exception | None = None
        self.fails_from = 0
        self._work_seconds = work_seconds

    @property
    def writes(self) -> int:
        """The number of its no-op writes."""
        return sum(self.seen.values())

    async def __call__(self, request: Request, obj: object) -> Result | None:
        """Work a while, and write.

        Cancellation:
            Safe.
        """
        await elapse(self._work_seconds)
        self.times.append((asyncio.get_running_loop().time(), str(request)))
        if self.failing is not None and len(self.times) > self.fails_from:
            raise self.failing
        if not self.is_mended:
            self.seen[str(request)] += 1
            tell(changed=str(request) in self.changes)
        return self.again


def tell(*, changed: bool) -> None:
    """Be the cluster that has carried out a write."""
    writer = CURRENT_WRITER.get()
    assert writer is not None
    writer.wrote(changed=changed)


def storm(said: Said, objects: int) -> None:
    """Remind of every object at once."""
    for number in range(objects):
        said.say(f"default/{number}", priority=LOW_PRIORITY)


def held(controller: Controller[None]) -> int:
    """Return how many requests the breaker holds."""
    return controller.status().noop_writes.held


async def test_a_storm_of_noop_writes_is_one_error_and_a_status_flag(
    caplog: pytest.LogCaptureFixture,
) -> None:
    buggy = Buggy()
    async with running(buggy) as (controller, said):
        storm(said, 19)
        await elapse(1.0)
        assert not controller.status().noop_writes.is_storm
        storm(said, 2_000)
        await elapse(3.0)
        found = controller.status().noop_writes
        assert (found.is_storm, found.noops, found.noop_ratio) == (True, 2_019, 1.0)
        assert (found.breaker, found.held, len(found.top)) == ("off", 0, 10)
        await elapse(100.0)
        assert not controller.status().noop_writes.is_storm
    errors = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "100 % of its newest writes changed nothing, 20 so far" in errors[0].message
    assert "applies or updates at each call, without a comparison" in errors[0].message


async def test_the_breaker_holds_the_storm_and_real_events_pass_without_delay() -> None:
    buggy = Buggy()
    async with running(buggy, noop_breaker=True) as (controller, said):
        storm(said, _OBJECTS)
        await elapse(1.0)
        at = asyncio.get_running_loop().time()
        said.say("default/12000", resource_version="7")
        said.say("other/a", resource_version="8")
        await elapse(0.1)
        started = {key: time - at for time, key in buggy.times if time > at}
        assert started.keys() >= {"default/12000", "other/a"}
        assert all(wait < 0.1 for wait in started.values())
        await elapse(8.9)
        assert buggy.writes <= 20 + 2 + 10
        found = controller.status().noop_writes
        assert found.breaker == "open"
        assert found.held + len(buggy.seen) == _OBJECTS + 1


async def test_without_the_breaker_a_real_event_waits_only_for_the_reconcile_in_work() -> None:
    buggy = Buggy()
    async with running(buggy) as (_, said):
        storm(said, 3_000)
        await elapse(1.0)
        at = asyncio.get_running_loop().time()
        said.say("default/2000", resource_version="7")
        await elapse(0.01)
        assert next(time for time, key in buggy.times if key == "default/2000") - at < 0.1
        await elapse(30.0)
    assert len(buggy.seen) == 3_000


async def test_the_breaker_releases_requests_when_the_storm_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="pyinformer.controller")
    buggy = Buggy()
    async with running(buggy, noop_breaker=True) as (controller, said):
        storm(said, 1_000)
        await elapse(10.0)
        assert held(controller) > 900
        buggy.is_mended = True
        await elapse(5.0)
        found = controller.status().noop_writes
        assert (found.breaker, found.held) == ("closed", 0)
        assert {key for _, key in buggy.times} == {f"default/{n}" for n in range(1_000)}
        await elapse(60.0)
        said.say("default/1")
        await elapse(1.0)
        assert not controller.status().noop_writes.is_storm
    told = [one.message for one in caplog.records if "controller c: " in one.message]
    assert sum("requests of low priority are held" in one for one in told) == 1
    assert sum("held requests are released" in one for one in told) == 1
    assert sum("ended after" in one for one in told) == 1


async def test_a_failing_lane_is_released_after_a_minute_without_noop_writes() -> None:
    """Failures prove nothing about writes: a try that failed is not a good one."""
    buggy = Buggy()
    buggy.failing = ValueError("no such zone")
    async with running(buggy, noop_breaker=True, backoff_seconds=500.0) as (
        controller,
        said,
    ):
        buggy.fails_from = 20
        storm(said, 200)
        await elapse(55.0)
        assert held(controller) > 100
        await elapse(30.0)
        found = controller.status().noop_writes
        assert (found.breaker, found.held, found.is_storm) == ("closed", 0, False)
        assert len(buggy.times) >= 200


async def test_during_a_storm_every_held_object_is_reconciled_in_turn() -> None:
    buggy = Buggy()
    async with running(buggy, noop_breaker=True) as (controller, said):
        storm(said, 300)
        await elapse(400.0)
        assert held(controller) == 0
    assert set(buggy.seen) == {f"default/{n}" for n in range(300)}


async def test_resyncs_of_held_requests_do_not_accumulate_or_postpone_them() -> None:
    buggy = Buggy()
    async with running(buggy, noop_breaker=True) as (controller, said):
        for _ in range(20):
            storm(said, 100)
            await elapse(1.0)
        assert held(controller) <= 100
        assert buggy.writes <= 20 + 20
        await elapse(100.0)
    assert len(buggy.seen) == 100


async def test_a_key_with_only_noop_writes_is_held_and_its_events_pass() -> None:
    buggy = Buggy()
    buggy.again = Result(0.05)
    async with running(buggy, noop_breaker=True) as (controller, said):
        said.say("default/a")
        await elapse(10.0)
        assert buggy.writes <= 20 + 11
        before = buggy.writes
        for version in range(10):
            said.say("default/a", resource_version=str(version))
            await elapse(0.01)
        assert buggy.writes == before + 10
        assert controller.status().noop_writes.top == (("default/a", buggy.writes),)


async def test_low_requests_whose_writes_change_something_are_not_held() -> None:
    buggy = Buggy()
    buggy.changes = {f"default/{n}" for n in range(2_000)}
    async with running(buggy, noop_breaker=True) as (controller, said):
        storm(said, 2_000)
        await elapse(3.0)
        assert controller.status().noop_writes.held_total == 0
    assert len(buggy.seen) == 2_000


async def test_a_reminder_after_an_event_does_not_make_the_event_wait() -> None:
    """However many reminders follow: that something happened is not forgotten."""
    buggy = Buggy(work_seconds=0.5)
    async with running(buggy, noop_breaker=True) as (controller, said):
        for _ in range(21):
            said.say("default/a")
            await elapse(0.6)
        said.say("default/b")
        assert controller.status().noop_writes.is_storm
        said.say("default/a", resource_version="7")
        for _ in range(20):
            assert said.enqueue is not None
            said.enqueue(Request("default/a"), Reason("said", "resync", "default/a"), priority=-1)
        await elapse(1.2)
        assert buggy.times[-1][1] == "default/a"


async def test_held_requests_count_as_dropped_at_the_close() -> None:
    buggy = Buggy()
    async with running(buggy, noop_breaker=True) as (controller, said):
        storm(said, 500)
        await elapse(1.0)
    done = len(buggy.seen)
    assert controller.status().dropped + done == 500


async def test_noop_writes_storms_and_held_requests_have_metrics() -> None:
    registry = MetricsRegistry()
    buggy = Buggy()
    controller: Controller[None] = Controller(
        "c", buggy, options=options(noop_breaker=True), metrics=registry
    )
    said = Said()
    controller.add_source(said)

    def figures() -> dict[str, float]:
        begin, end = "controller_", '{controller="c"}'
        found = collected(registry, "controller_noop", "controller_writes")
        return {key.removeprefix(begin).removesuffix(end): n for key, n in found.items()}

    async with controller:
        storm(said, 100)
        await elapse(10.5)
        assert figures() == {
            "writes_total": buggy.writes,
            "noop_writes_total": buggy.writes,
            "noop_storm": 1,
            "noop_storms_total": 1,
            "noop_breaker_open": 1,
            "noop_breaker_depth": held(controller),
            "noop_breaker_held_total": 80,
        }
        buggy.is_mended = True
        await elapse(10.0)
        after = figures()
    assert [after[f"noop_breaker_{name}"] for name in ("open", "depth")] == [0, 0]
    assert after["noop_storms_total"] == 1


async def test_writes_outside_a_reconcile_have_no_controller() -> None:
    buggy = Buggy()
    async with running(buggy) as (_, said):
        said.say("default/a")
        await elapse(1.0)
        assert CURRENT_WRITER.get() is None


def test_a_breaker_that_is_neither_on_nor_off_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgumentError, match="noop_breaker"):
        options(noop_breaker="yes")


class _Share:
    """The gate and the guard of requests that another process may have."""

    def __init__(self) -> None:
        self.is_whole = True
        self.kept = ""

    def admits(self, request_id: tuple[str, str]) -> bool:
        """Return whether a request may wait."""
        return self.is_whole or request_id[0] == self.kept

    def guard_of(self, request_id: tuple[str, str]) -> _Share | None:
        """Return what guards a reconcile that may start."""
        return self if self.admits(request_id) else None

    def on_started(self) -> None:
        """Do nothing."""

    def check(self) -> None:
        """Let every write leave."""

    def on_end(self, _cut_off: object) -> Any:
        """Never call it."""

    def record_write(self, resource: str, resource_version: str) -> None:
        """Do nothing."""

    def record_refusal(self, lease: str) -> None:
        """Do nothing."""


async def test_a_probe_that_another_process_has_got_holds_the_others_no_longer() -> None:
    buggy, share = Buggy(), _Share()
    async with running(buggy, noop_breaker=True) as (controller, said):
        controller.engine.requests.gate = share
        storm(said, 2000)
        await elapse(5.0)
        assert held(controller) > 100
        buggy.is_mended = True
        share.is_whole, share.kept = False, "default/1999"
        buggy.times.clear()
        await controller.engine.forget_foreign()
        await elapse(60.0)
        assert held(controller) == 0
        assert {key for _, key in buggy.times} <= {share.kept}
