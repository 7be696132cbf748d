"""Writes that change nothing, and the breaker: decided without a loop and without a clock."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer.controller._noop_storm_breaker import NoopStormBreaker
from pyinformer.controller._noop_write_storms import NoopWriteStorms, Storm
from pyinformer.controller.sources import RequestId
from tests.soak import examples


def _id(key: str) -> RequestId:
    return (key, "")


_A, _B = _id("default/a"), _id("default/b")


def test_nineteen_writes_are_not_an_alarm_and_the_twentieth_is_one_alarm() -> None:
    noops = NoopWriteStorms()
    began = [noops.wrote(_A, float(second), changed=False) for second in range(40)]
    assert began == [second == 19 for second in range(40)]
    assert (noops.is_storm, noops.writes, noops.noops, noops.ratio()) == (True, 40, 40, 1.0)


def test_half_of_the_writes_are_not_an_alarm_and_more_than_half_are() -> None:
    noops = NoopWriteStorms()
    assert not any(noops.wrote(_A, float(n), changed=n % 2 == 0) for n in range(100))
    assert any(noops.wrote(_A, 100.0 + n, changed=n % 4 == 0) for n in range(100))


def test_a_share_of_noop_writes_hours_apart_is_not_an_alarm() -> None:
    noops = NoopWriteStorms()
    assert not any(noops.wrote(_A, 3600.0 * hour, changed=False) for hour in range(100))


def test_a_rate_is_an_alarm_whatever_the_share() -> None:
    noops = NoopWriteStorms()
    writes = ((0.01 * n, n % 4 != 0) for n in range(2_000))
    began = [at for at, changed in writes if noops.wrote(_A, at, changed=changed)]
    assert began == [4.0]  # the hundred and first of them
    assert noops.ratio() == 0.25


def test_a_rate_below_the_limit_is_not_an_alarm() -> None:
    noops = NoopWriteStorms()
    assert not any(noops.wrote(_A, 0.026 * n, changed=n % 4 != 0) for n in range(4_000))


def test_a_storm_ends_when_most_writes_change_something_again() -> None:
    noops = NoopWriteStorms()
    for second in range(30):
        noops.wrote(_A, float(second), changed=False)
    over = list[Storm]()
    for second in range(30, 230):
        noops.wrote(_A, float(second), changed=True)
        over += [storm for storm in [noops.ended(float(second))] if storm]
    assert len(over) == 1
    assert over[0].noops == 30
    assert not noops.is_storm


def test_a_storm_ends_after_a_quiet_minute() -> None:
    noops = NoopWriteStorms()
    for _ in range(20):
        noops.wrote(_A, 5.0, changed=False)
    assert noops.ended(64.9) is None
    assert noops.ended(65.0) is not None
    assert noops.ended(66.0) is None


def test_a_storm_by_its_rate_ends_when_the_rate_has_halved() -> None:
    noops, now = NoopWriteStorms(), 0.0
    while not noops.is_storm:
        now += 0.02
        noops.wrote(_A, now, changed=False)
        for _ in range(4):
            noops.wrote(_B, now, changed=True)
    assert 100 <= noops.noops <= 102
    over = list[Storm]()
    for per_second in (8.0, 4.0):
        for _ in range(200):
            now += 1 / per_second
            noops.wrote(_A, now, changed=False)
            for _ in range(4):
                noops.wrote(_B, now, changed=True)
            over += [storm for storm in [noops.ended(now)] if storm]
        assert len(over) == (per_second == 4.0)


def test_keys_with_only_noop_writes_are_listed_worst_first() -> None:
    noops = NoopWriteStorms()
    for _ in range(3):
        noops.wrote(_A, 0.0, changed=False)
    noops.wrote(_B, 0.0, changed=False)
    assert noops.top(10) == [(_A, 3), (_B, 1)]
    noops.wrote(_A, 1.0, changed=True)
    assert (noops.only_noops(_A), noops.only_noops(_B)) == (False, True)


def test_a_storm_of_keys_is_counted_in_bounded_memory_and_the_worst_stay() -> None:
    noops = NoopWriteStorms()
    for _ in range(1_000):
        noops.wrote(_A, 0.0, changed=False)
    for number in range(100_000):
        noops.wrote(_id(f"default/{number}"), 0.0, changed=False)
    assert len(noops.top(200_000)) <= 16_384
    assert noops.top(1)[0][0] == _A
    for _ in range(100):
        noops.wrote(_A, 0.0, changed=True)
    assert noops.ratio() == 0.0  # of the newest hundred writes


_writes = st.lists(st.tuples(st.floats(0.0, 30.0), st.booleans()), max_size=300)


@given(_writes)
@settings(max_examples=examples(50))
def test_counts_are_those_of_a_plain_recount_and_storms_alternate(
    steps: list[tuple[float, bool]],
) -> None:
    """At any moment the ratio is that of the newest hundred writes of ten minutes."""
    noops, now, seen = NoopWriteStorms(), 0.0, list[tuple[float, bool]]()
    was_storm = False
    for passed, changed in steps:
        now += passed
        seen.append((now, changed))
        began = noops.wrote(_A, now, changed=changed)
        newest = [one for at, one in seen[-100:] if at > now - 600.0]
        share = newest.count(False) / len(newest) if len(newest) >= 20 else 0.0
        assert noops.ratio() == share
        assert began == (noops.is_storm and not was_storm)
        if share > 0.5 and not changed:
            assert noops.is_storm
        ended = noops.ended(now)
        assert (ended is not None) == (not noops.is_storm and (was_storm or began))
        was_storm = noops.is_storm
    assert noops.noops == sum(not changed for _, changed in seen)


def breaker(*, is_enabled: bool = True) -> NoopStormBreaker:
    """Make one that lets a request try each second."""
    return NoopStormBreaker(is_enabled=is_enabled, probe_seconds=1.0)


def test_a_breaker_that_is_off_never_opens() -> None:
    one = breaker(is_enabled=False)
    assert not one.open()
    assert not one.holds(_A, -100, 0.0)
    assert one.state == "off"


def test_one_request_per_second_tries_and_the_others_wait_in_their_order() -> None:
    one = breaker()
    one.started(_B, 0.0, may_wait=True)
    assert one.open()
    assert all(one.holds(_id(f"default/{n}"), -100, 0.25) for n in range(3))
    tried = list[tuple[str, float]]()
    now = 0.25
    for _ in range(3):
        probe = one.next_probe(now)
        assert probe is not None
        assert one.next_probe(now) is None
        now += probe.after_seconds
        assert not one.holds(probe.request_id, probe.priority, now)
        one.started(probe.request_id, now, may_wait=True)
        tried.append((probe.request_id[0], now))
    assert tried == [("default/0", 1.0), ("default/1", 2.0), ("default/2", 3.0)]
    assert not one.held


def test_a_request_that_comes_before_its_turn_continues_waiting() -> None:
    one = breaker()
    one.started(_B, 0.0, may_wait=True)
    one.open()
    one.holds(_A, -100, 0.0)
    assert one.next_probe(0.0) == (_A, -100, 1.0)
    assert one.holds(_A, -100, 0.4)
    assert one.next_probe(0.4) == (_A, -100, 0.6)


def test_three_good_tries_in_a_row_close_the_breaker_and_release_all() -> None:
    one = breaker()
    one.open()
    for number in range(10):
        one.holds(_id(f"default/{number}"), -number, 0.0)
    assert [one.ended(is_noop=bad) for bad in (False, False, True, False, False)] == [False] * 5
    states = [one.state]
    assert one.ended(is_noop=False)
    assert [*states, one.state] == ["half-open", "closed"]
    assert len(one.release(4)) == 4
    assert one.release(100)[-1] == (_id("default/9"), -9)
    assert not one.held


_KEYS = st.sampled_from([_id(f"default/{name}") for name in "abcdef"])
_steps = st.lists(
    st.tuples(
        st.sampled_from(["low", "low", "event", "time", "good", "bad", "open"]),
        _KEYS,
        st.floats(0.0, 2.0),
    ),
    max_size=200,
)


class _Queue:
    """A model of the queue around a breaker: each key waits in one of the two, or ran."""

    def __init__(self) -> None:
        self.breaker = breaker()
        self.now = 0.0
        self.waiting = dict[RequestId, tuple[float, int]]()  # due time and priority
        self.owed = set[RequestId]()
        self.tries = list[float]()

    def step(self, name: str, request: RequestId, passed: float) -> None:
        """Have something happen, and take what is due."""
        if name in {"low", "event"}:
            self.owed.add(request)
            priority = -100 if name == "low" else 0
            known = self.waiting.get(request, (0.0, priority))
            self.waiting[request] = (self.now, max(priority, known[1]))
        elif name == "time":
            self.now += passed
        elif name == "open":
            self.breaker.open()
        else:
            self.breaker.ended(is_noop=name == "bad")
            self.settle()
        self.take_due()

    def settle(self) -> None:
        """Do what the engine does after each start and end."""
        for request, priority in self.breaker.release(2):
            self.waiting[request] = (self.now, priority)
        probe = self.breaker.next_probe(self.now)
        if probe is not None:
            due = self.now + probe.after_seconds
            self.waiting.setdefault(probe.request_id, (due, probe.priority))

    def take_due(self) -> None:
        """Start or hold whatever is due."""
        for request, (due, priority) in list(self.waiting.items()):
            if due <= self.now:
                del self.waiting[request]
                self._take(request, priority)

    def _take(self, request: RequestId, priority: int) -> None:
        is_low, is_open = priority < 0, self.breaker.is_open
        if not (is_low and self.breaker.holds(request, priority, self.now)):
            self.breaker.started(request, self.now, may_wait=is_low)
            self.owed.discard(request)
            if is_low and is_open:
                self.tries.append(self.now)
        self.settle()


@given(_steps)
@settings(max_examples=examples(100))
def test_whatever_happens_no_request_is_lost_and_tries_keep_their_distance(
    steps: list[tuple[str, RequestId, float]],
) -> None:
    queue = _Queue()
    for step in steps:
        queue.step(*step)
        assert queue.owed <= {*queue.waiting, *queue.breaker.held}
        assert all(priority < 0 for _, priority in queue.waiting.values())  # no event waits
    assert all(later - earlier > 0.999 for earlier, later in pairwise(queue.tries))
    queue.breaker.close()
    for _ in range(100):
        queue.settle()
        queue.take_due()
        queue.now += 1.0
    assert not queue.owed
