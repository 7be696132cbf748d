"""Every work queue against a model: keys added, taken and done in whatever order.

The model is a list that is searched: slow, and plainly right. The queue must give what the model
gives, in the same order; no key may be at two workers, none lost and none invented; and a key that
has waited too long must come within the promised number of turns.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TypeAlias

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyinformer.workqueue import (
    ItemExponentialFailureRateLimiter,
    PriorityQueue,
    Queue,
)
from tests.soak import examples

AnyQueue: TypeAlias = Queue[str] | PriorityQueue[str]

KEYS = st.sampled_from("abcdefgh")
PRIORITIES = st.sampled_from([-100, 0, 0, 7])
DELAYS = st.sampled_from([-1.0, 0.0, 1.0, 2.0, 30.0])
AGEING_SECONDS = 60.0


@dataclass
class Waiting:
    """A key in the model's list."""

    key: str
    priority: int
    since: float


@dataclass
class Model:
    """What a queue is meant to be."""

    has_priorities: bool
    ready: list[Waiting] = field(default_factory=list)
    delayed: dict[str, tuple[float, int, int]] = field(default_factory=dict)  # due, came, priority
    processing: dict[str, int] = field(default_factory=dict)
    again: dict[str, int] = field(default_factory=dict)
    closed: bool = False
    turns: int = 0
    came: int = 0

    def unready(self, found: Waiting) -> None:
        self.ready.remove(found)
        if not self.ready:
            self.turns = 0

    def find(self, key: str) -> Waiting | None:
        return next((found for found in self.ready if found.key == key), None)

    def add(self, key: str, priority: int, now: float) -> None:
        if self.closed:
            return
        if key in self.delayed:
            priority = max(priority, self.delayed.pop(key)[2])
        found = self.find(key)
        if found is not None:
            if priority > found.priority:
                self.unready(found)
                self.ready.append(Waiting(key, priority, now))
        elif key in self.processing:
            self.again[key] = max(priority, self.again.get(key, priority))
        else:
            self.ready.append(Waiting(key, priority, now))

    def add_after(self, key: str, delay: float, priority: int, now: float) -> None:
        if delay <= 0 or self.find(key) or key in self.again or self.closed:
            self.add(key, priority, now)
            return
        due, came, before = self.delayed.get(key, (now + delay, -1, priority))
        if came < 0 or now + delay < due:
            self.came += 1
            due, came = now + delay, self.came
        self.delayed[key] = due, came, max(priority, before)

    def fall_due(self, now: float, *, flush: bool = False) -> None:
        for key, (due, _, priority) in sorted(self.delayed.items(), key=lambda pair: pair[1]):
            if flush or due <= now:
                del self.delayed[key]
                self.add(key, priority, now)

    def take(self, now: float) -> str | None:
        if not self.ready:
            return None
        found = self._choose(now)
        self.unready(found)
        self.processing[found.key] = found.priority
        return found.key

    def _choose(self, now: float) -> Waiting:
        if len({found.priority for found in self.ready}) > 1:
            self.turns += 1
            oldest = min(self.ready, key=lambda found: (found.since, found.priority))
            if self.turns % 4 == 0 and now - oldest.since >= AGEING_SECONDS:
                return oldest
        return max(self.ready, key=lambda found: found.priority)

    def done(self, key: str, now: float) -> None:
        if key in self.processing:
            del self.processing[key]
            if key in self.again:
                self.ready.append(Waiting(key, self.again.pop(key), now))

    def drop(self) -> set[str]:
        dropped = {found.key for found in self.ready} | set(self.delayed) | set(self.again)
        self.ready.clear()
        self.delayed.clear()
        self.again.clear()
        self.turns = 0
        return dropped


@pytest.mark.covers(
    "controller-runtime pkg/controller/priorityqueue: TestFuzzPriorityQueue",
    "controller-runtime pkg/controller/priorityqueue: TestHighPriorityItemsAreReturnedBeforeLow",
    "kube-runtime src: scheduler_should_hold_and_release_items",
)
class QueueMachine(RuleBasedStateMachine):
    """Producers and workers, taking turns as Hypothesis likes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.queue: AnyQueue = Queue[str]()
        self.is_flushing = False
        self.model = Model(has_priorities=False)
        self.limiter = ItemExponentialFailureRateLimiter(1.0, 10.0)
        self.gets = 0
        self.deadlines: dict[str, int] = {}
        self.runner = asyncio.Runner()

    @initialize(kind=st.sampled_from(["plain", "flushing", "priority"]))
    def choose(self, kind: str) -> None:
        def clock() -> float:
            return self.now

        match kind:
            case "flushing":
                self.queue = Queue[str](
                    clock=clock, rate_limiter=self._limiter(), on_shutdown="flush"
                )
            case "priority":
                self.queue = PriorityQueue[str](clock=clock, rate_limiter=self._limiter())
            case _:
                self.queue = Queue[str](clock=clock, rate_limiter=self._limiter())
        self.is_flushing = kind == "flushing"
        self.model = Model(has_priorities=kind == "priority")

    def _limiter(self) -> ItemExponentialFailureRateLimiter:
        return ItemExponentialFailureRateLimiter(1.0, 10.0)

    @rule(key=KEYS, priority=PRIORITIES)
    def add(self, key: str, priority: int) -> None:
        if isinstance(self.queue, PriorityQueue):
            self.queue.add_nowait(key, priority=priority)
        else:
            priority = 0
            self.queue.add_nowait(key)
        self.model.add(key, priority, self.now)

    @rule(key=KEYS, delay=DELAYS, priority=PRIORITIES)
    def add_after(self, key: str, delay: float, priority: int) -> None:
        if isinstance(self.queue, PriorityQueue):
            self.queue.add_after_nowait(key, delay, priority=priority)
        else:
            priority = 0
            self.queue.add_after_nowait(key, delay)
        self.model.add_after(key, delay, priority, self.now)

    @rule(key=KEYS, priority=PRIORITIES)
    def add_rate_limited(self, key: str, priority: int) -> None:
        delay = 0.0 if self.model.closed else self.limiter.when(key, self.now)
        if isinstance(self.queue, PriorityQueue):
            self.queue.add_rate_limited_nowait(key, priority=priority)
        else:
            priority = 0
            self.queue.add_rate_limited_nowait(key)
        self.model.add_after(key, delay, priority, self.now)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        assert self.queue.num_requeues(key) == self.limiter.num_requeues(key)
        self.queue.forget(key)
        self.limiter.forget(key)

    @rule(times=st.integers(1, 3))
    def get(self, times: int) -> None:
        for _ in range(times):
            before = set(self.model.processing)
            key = self.queue.get_nowait()
            assert key == self.model.take(self.now)
            assert key not in before
            self.gets += key is not None
            if key is not None:
                assert self.gets <= self.deadlines.pop(key, self.gets)

    @precondition(lambda self: self.model.ready)
    @rule(
        times=st.integers(1, 12), really_done=st.booleans(), seconds=st.sampled_from([0.0, 0.003])
    )
    def get_by_a_worker(self, times: int, really_done: bool, seconds: float) -> None:
        """Take keys as a worker does: some of them without a reading of the clock."""

        async def work() -> None:
            for _ in range(min(times, len(self.model.ready))):
                if really_done:
                    async with self.queue.item() as key:
                        self._took(key)
                        assert self.queue.is_processing(key)
                        self.now += seconds
                    self.model.done(key, self.now)
                else:
                    self._took(await self.queue.get())
                    self.now += seconds
                assert len(self.queue) >= 0  # takes in what fell due
                self.model.fall_due(self.now)

        self.runner.run(work())

    def _took(self, key: str) -> None:
        assert key not in self.model.processing
        assert key == self.model.take(self.now)
        self.gets += 1
        assert self.gets <= self.deadlines.pop(key, self.gets)

    @precondition(lambda self: self.model.processing)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.processing)))
        self.queue.done(key)
        self.model.done(key, self.now)

    @rule(key=KEYS)
    def done_of_any_key(self, key: str) -> None:
        self.queue.done(key)
        self.model.done(key, self.now)

    @rule(seconds=st.sampled_from([0.25, 1.0, 5.0, 61.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        assert len(self.queue) >= 0  # takes in what fell due
        self.model.fall_due(self.now)

    @rule(key=KEYS)
    def forget_delayed(self, key: str) -> None:
        assert self.queue.forget_delayed(key) is (self.model.delayed.pop(key, None) is not None)

    @precondition(lambda self: isinstance(self.queue, PriorityQueue))
    @rule(key=KEYS)
    def remove(self, key: str) -> None:
        assert isinstance(self.queue, PriorityQueue)
        found = self.model.find(key)
        waits = bool(found) or key in self.model.delayed or key in self.model.again
        if found is not None:
            self.model.unready(found)
        self.model.delayed.pop(key, None)
        self.model.again.pop(key, None)
        self.deadlines.pop(key, None)
        assert self.queue.remove(key) is waits

    @rule(really=st.sampled_from([False] * 9 + [True]))
    def drop_waiting(self, really: bool) -> None:
        if really:
            before = self.queue.statistics().dropped
            dropped = self.queue.drop_waiting()
            assert len(dropped) == len(set(dropped))
            assert set(dropped) == self.model.drop()
            assert self.queue.statistics().dropped - before == len(dropped)
            self.deadlines.clear()

    @rule(really=st.sampled_from([False] * 9 + [True]))
    def shut_down(self, really: bool) -> None:
        if not really:
            return
        dropped = self.queue.shut_down()
        if self.is_flushing:
            self.model.fall_due(self.now, flush=True)
            assert dropped == []
        else:
            assert sorted(dropped) == sorted(self.model.delayed)
            self.model.delayed.clear()
        self.model.closed = True

    @invariant()
    def the_queue_says_what_the_model_says(self) -> None:
        said = self.queue.statistics()
        assert len(self.queue) == said.depth == len(self.model.ready)
        assert said.delayed == len(self.model.delayed)
        assert said.processing == len(self.model.processing)
        assert said.again == len(self.model.again)
        assert sorted(self.queue.processing()) == sorted(self.model.processing)
        if self.model.ready:
            assert said.oldest_seconds == self.now - min(key.since for key in self.model.ready)

    @invariant()
    def each_key_has_the_highest_priority_that_was_wanted(self) -> None:
        if not isinstance(self.queue, PriorityQueue):
            return
        for key in "abcdefgh":
            found = self.model.find(key)
            if key in self.model.processing:
                expected = self.model.processing[key]
            elif found is not None:
                expected = found.priority
            else:
                expected = self.model.delayed.get(key, (0, 0, 0))[2]
            assert self.queue.priority_of(key) == expected

    @invariant()
    def whatever_has_waited_too_long_gets_a_deadline_in_turns(self) -> None:
        for waiting in self.model.ready:
            if self.now - waiting.since >= AGEING_SECONDS:
                older = sum(other.since <= waiting.since for other in self.model.ready)  # and self
                self.deadlines.setdefault(waiting.key, self.gets + 4 * older)
            else:
                self.deadlines.pop(waiting.key, None)  # moved up: it ages again

    def teardown(self) -> None:
        self.runner.close()
        self.now += 1000.0
        self.model.fall_due(self.now)
        while self.queue.statistics().depth or self.model.processing:
            for key in list(self.model.processing):
                self.queue.done(key)
                self.model.done(key, self.now)
            self.get(1)
        assert self.model.ready == []
        said = self.queue.statistics()
        assert (said.depth, said.delayed, said.processing, said.again) == (0, 0, 0, 0)
        if isinstance(self.queue, PriorityQueue):
            assert not any(map(self.queue.priority_of, "abcdefgh"))
            assert self.queue.taken == {}


QueueMachine.TestCase.settings = settings(max_examples=examples(50), stateful_step_count=50)
TestQueuesAgainstModel = QueueMachine.TestCase
