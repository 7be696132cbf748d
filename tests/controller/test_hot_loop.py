"""Keys that are reconciled again and again: decided without a loop."""

from __future__ import annotations

import sys

from pyinformer.controller._hot_loop_brake import HotLoops
from pyinformer.controller.sources import Reason, RequestId


def _id(key: str) -> RequestId:
    return (key, "")


_KEY = _id("default/a")


def hot_loops(limit: int = 3) -> HotLoops:
    """Make one that finds a key hot at its fourth start within ten seconds."""
    return HotLoops(limit=limit, window_seconds=10.0, delay_seconds=1.0)


def _references(keys: list[RequestId]) -> int:
    """Return how often anything refers to these keys."""
    return sum(map(sys.getrefcount, keys))


def _heat(loops: HotLoops, now: float) -> None:
    for _ in range(4):
        loops.started(_KEY, now)


def test_exceeding_the_limit_is_reported_once() -> None:
    loops = hot_loops()
    assert [loops.started(_KEY, 0.1 * n) is not None for n in range(6)] == [
        False,
        False,
        False,
        True,
        False,
        False,
    ]


def test_only_a_hot_key_is_delayed() -> None:
    loops = hot_loops()
    _heat(loops, 2.0)
    assert loops.wait_seconds(_KEY, 2.25) == 0.75
    assert loops.wait_seconds(_KEY, 3.0) == 0.0
    assert loops.wait_seconds(_id("default/b"), 2.25) == 0.0
    assert [found.request_id for found in loops.hot(2.25)] == [_KEY]


def test_starts_in_different_windows_do_not_add_up() -> None:
    loops = hot_loops()
    assert not any(loops.started(_KEY, 5.0 * n) for n in range(100))


def test_a_key_that_continues_stays_slowed() -> None:
    loops = hot_loops()
    _heat(loops, 0.0)
    found = [loops.started(_KEY, float(second)) for second in range(1, 60)]
    assert not any(found)
    assert loops.wait_seconds(_KEY, 59.5) == 0.5


def test_a_key_stays_slowed_by_a_delay_that_is_longer_than_the_window() -> None:
    loops = HotLoops(limit=3, window_seconds=1.0, delay_seconds=10.0)
    _heat(loops, 0.0)
    loops.started(_id("default/b"), 2.0)
    assert loops.wait_seconds(_KEY, 2.0) == 8.0
    for start in (10.0, 20.0, 30.0):
        assert not loops.started(_KEY, start)
        assert loops.wait_seconds(_KEY, start) == 10.0
    for start in (45.0, 50.0):
        loops.started(_id("default/b"), start)
    assert loops.hot(50.0) == ()


def test_an_idle_key_is_forgotten() -> None:
    loops = hot_loops()
    _heat(loops, 0.0)
    loops.started(_id("default/b"), 11.0)
    loops.started(_id("default/b"), 22.0)
    assert loops.hot(22.0) == ()
    assert loops.wait_seconds(_KEY, 22.0) == 0.0


def test_a_controller_at_rest_names_no_hot_key() -> None:
    loops = hot_loops()
    _heat(loops, 0.0)
    assert loops.hot(100.0) == ()


def test_a_window_forgets_the_keys_of_the_one_before() -> None:
    loops = hot_loops()
    keys = [_id(f"default/{number}") for number in range(1_000)]
    before = _references(keys)
    for key in keys:
        loops.started(key, 0.0)
    del key
    assert _references(keys) > before
    loops.started(_KEY, 10.0)
    assert _references(keys) == before


def test_a_storm_of_keys_is_counted_in_bounded_memory_and_hot_keys_stay_hot() -> None:
    loops = hot_loops()
    _heat(loops, 0.0)
    keys = [_id(f"default/{number}") for number in range(100_000)]
    before = _references(keys)
    for key in keys:
        loops.started(key, 0.0)
    del key
    assert 0 < _references(keys) - before <= 65_536
    loops.started(_KEY, 1.0)
    assert [found.request_id for found in loops.hot(1.0)] == [_KEY]


def test_a_hot_key_is_reported_with_its_runs_inputs_and_reasons() -> None:
    loops = hot_loops(limit=10)
    requeue = Reason("reconcile", "requeue")
    found = None
    for start in range(11):
        event = Reason("pods", "updated", "default/a", str(start // 5))
        found = loops.started(_KEY, 0.1 * start, (event, requeue)) or found
    assert found is not None
    assert (found.request_id, found.starts, found.inputs) == (_KEY, 11, 3)
    assert dict(found.causes) == {"pods updated": 10, "reconcile requeue": 10}
    assert loops.hot(1.0) == (found,)


def test_the_record_of_a_hot_key_is_bounded() -> None:
    loops, found = hot_loops(limit=8_999), None
    for start in range(9_000):
        reason = Reason(f"words {start}", "enqueued", "default/a", str(start))
        found = loops.started(_KEY, 0.0, (reason,))
    assert found is not None
    assert (found.inputs, len(found.causes)) == (4_096, 16)
