"""What follows from the end of a reconcile, rule by rule, and against a model of all rules."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pyinformer import Request, Result, RetryAfter, TerminalError
from pyinformer.controller import Outcome
from pyinformer.controller._requeue_policy import RequeuePolicy
from pyinformer.controller.sources import request_text
from tests.limiters import doubling
from tests.soak import examples

_KEY = Request("default/a")
_ERROR = ValueError("secret")


def outcomes() -> RequeuePolicy:
    """Make one whose delays are 1, 2, 4 and at most 100 seconds."""
    return RequeuePolicy(doubling(1.0, 100.0)())


def _after(outcome: Outcome) -> float:
    assert outcome.after_seconds is not None
    return outcome.after_seconds


@pytest.mark.covers("controller-runtime pkg/reconcile: Result / IsZero should return true if empty")
def test_success_does_not_come_back() -> None:
    outcome = outcomes().succeeded(_KEY, None)
    assert (outcome.kind, outcome.after_seconds, outcome.is_failure) == ("success", None, False)


@pytest.mark.covers("controller-runtime pkg/reconcile: Result / IsZero should return true if empty")
def test_a_result_without_a_time_is_a_success() -> None:
    assert outcomes().succeeded(_KEY, Result(priority=5)).kind == "success"


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should requeue a Request after a duration",
    "controller-runtime pkg/reconcile: Result / IsZero should return true if empty",
)
def test_a_requeue_comes_back_at_its_time_and_priority() -> None:
    outcome = outcomes().succeeded(_KEY, Result(requeue_after_seconds=0.0, priority=7))
    assert (outcome.kind, outcome.after_seconds, outcome.priority) == ("requeue", 0.0, 7)


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should call Reconciler if an item is enqueued",
    "controller-runtime pkg/internal/controller: should requeue a Request after a duration",
)
def test_errors_are_retried_at_growing_intervals_up_to_the_maximum() -> None:
    deciding, now, delays = outcomes(), 0.0, []
    for _ in range(9):
        delay = _after(deciding.failed(_KEY, _ERROR, now))
        delays.append(delay)
        now += delay
    assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0, 100.0]


def test_the_worst_of_the_failing_keys_come_first() -> None:
    deciding = outcomes()
    for name, times in (("twice", 2), ("often", 4), ("once", 1), ("postponed", 0)):
        for attempt in range(times):
            deciding.failed(Request(name), _ERROR, attempt * 100.0)
    deciding.failed(Request("postponed"), RetryAfter(5.0), 300.0)
    deciding.succeeded(Request("twice"), None)
    found = [(request_text(key), *failing[:3]) for key, failing in deciding.worst(2)]
    assert found == [("often", 4, 308.0, "ValueError"), ("once", 1, 1.0, "ValueError")]
    assert deciding.worst(3)[2][1][:3] == (0, 305.0, "RetryAfter")


def test_the_worst_are_chosen_from_the_keys_that_failed_first() -> None:
    """The status is read at every probe, and there may be any number of failing keys."""
    deciding = outcomes()
    for number in range(1_500):
        deciding.failed(Request(f"default/{number}"), _ERROR, 0.0)
    deciding.failed(Request("default/1499"), _ERROR, 100.0)
    assert len(deciding) == 1_500
    assert {failing.failures for _, failing in deciding.worst(2_000)} == {1}
    assert len(deciding.worst(2_000)) == 1_000


def test_a_thousand_failures_overflow_nothing() -> None:
    deciding, now = outcomes(), 0.0
    for _ in range(1_100):
        now += _after(deciding.failed(_KEY, _ERROR, now))
    assert _after(deciding.failed(_KEY, _ERROR, now)) == 100.0


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should not reset backoff until there's a"
)
@pytest.mark.parametrize(
    "forgetting",
    [
        pytest.param(lambda deciding: deciding.succeeded(_KEY, None), id="success"),
        pytest.param(lambda deciding: deciding.succeeded(_KEY, Result(9.0)), id="requeue"),
        pytest.param(lambda deciding: deciding.failed(_KEY, TerminalError("no"), 0), id="terminal"),
    ],
)
def test_a_success_forgets_the_backoff(forgetting: object) -> None:
    deciding = outcomes()
    deciding.failed(_KEY, _ERROR, 0.0)
    deciding.failed(_KEY, _ERROR, 5.0)
    assert callable(forgetting)
    forgetting(deciding)
    assert (len(deciding), deciding.failures_of(_KEY)) == (0, 0)
    assert _after(deciding.failed(_KEY, _ERROR, 6.0)) == 1.0


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should not requeue a Request if there is a",
    "controller-runtime pkg/reconcile: should allow unwrapping inner error from terminal error",
)
def test_a_terminal_error_is_not_retried() -> None:
    outcome = outcomes().failed(_KEY, TerminalError("no such zone"), 0.0)
    assert (outcome.kind, outcome.after_seconds, outcome.is_failure) == ("terminal", None, True)


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should not reset backoff until there's a"
)
def test_retry_after_sets_the_delay_and_is_not_a_failure() -> None:
    deciding = outcomes()
    deciding.failed(_KEY, _ERROR, 0.0)
    outcome = deciding.failed(_KEY, RetryAfter(30), 1.0)
    assert (outcome.kind, outcome.after_seconds, outcome.failures) == ("retry_after", 30.0, 1)
    assert _after(deciding.failed(_KEY, _ERROR, 31.0)) == 2.0


def test_a_failure_during_a_pending_retry_keeps_its_deadline_and_does_not_count() -> None:
    deciding = outcomes()
    deciding.failed(_KEY, _ERROR, 0.0)
    deciding.failed(_KEY, _ERROR, 1.0)  # the retry is due at 3
    outcome = deciding.failed(_KEY, _ERROR, 1.5)
    assert (outcome.after_seconds, outcome.failures) == (1.5, 2)
    outcome = deciding.failed(_KEY, _ERROR, 3.0)
    assert (outcome.after_seconds, outcome.failures) == (4.0, 3)


def test_a_retry_after_that_names_no_time_is_an_error_like_any() -> None:
    class Forgetful(RetryAfter):
        def __init__(self) -> None:
            Exception.__init__(self)

    class Broken(Forgetful):
        def __getattribute__(self, name: str) -> object:
            if name == "retry_after_seconds":
                raise ValueError
            return super().__getattribute__(name)

    assert outcomes().failed(_KEY, Forgetful(), 0.0).kind == "error"
    assert outcomes().failed(_KEY, Broken(), 0.0).kind == "error"


def test_retry_after_counts_whatever_retry_is_pending() -> None:
    """An object that is mended after many failures says when it wants to be looked at again."""
    deciding = outcomes()
    deciding.failed(_KEY, RetryAfter(60), 0.0)
    assert _after(deciding.failed(_KEY, RetryAfter(1), 10.0)) == 1.0
    assert _after(deciding.failed(_KEY, RetryAfter(100), 10.0)) == 100.0


def test_a_failure_before_a_time_that_was_asked_for_is_backed_off_by_itself() -> None:
    """The time was for another state, and may be hours away; an event has brought this run."""
    deciding = outcomes()
    deciding.failed(_KEY, RetryAfter(3600), 0.0)
    assert _after(deciding.failed(_KEY, _ERROR, 60.0)) == 1.0
    outcome = deciding.failed(_KEY, _ERROR, 60.5)  # a retry is pending now
    assert (outcome.after_seconds, outcome.failures) == (0.5, 1)
    assert _after(deciding.failed(_KEY, _ERROR, 61.0)) == 2.0


def test_keys_do_not_share_backoff() -> None:
    deciding = outcomes()
    deciding.failed(_KEY, _ERROR, 0.0)
    assert _after(deciding.failed(Request("default/a", "prod"), _ERROR, 1.0)) == 1.0


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(ExceptionGroup("g", [TerminalError("no")]), "terminal", id="one"),
        pytest.param(
            ExceptionGroup("g", [ExceptionGroup("h", [RetryAfter(1)])]), "retry_after", id="nested"
        ),
        pytest.param(ExceptionGroup("g", [TerminalError("no"), _ERROR]), "error", id="several"),
    ],
)
def test_a_group_with_one_exception_is_treated_as_that_exception(
    error: Exception, kind: str
) -> None:
    outcome = outcomes().failed(_KEY, error, 0.0)
    assert (outcome.kind, outcome.error) == (kind, error)


class OutcomesAgainstAModel(RuleBasedStateMachine):
    """Whatever happens in whatever order, the rules hold for each key by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.deciding = outcomes()
        self.failures: dict[Request, int] = {}
        self.retry_at: dict[Request, float] = {}
        self.wanted: set[Request] = set()

    keys = st.sampled_from([Request("a/x"), Request("a/y"), Request("a/x", "prod")])

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0, 1_000.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    @rule(key=keys)
    def reach_the_retry(self, key: Request) -> None:
        """Let time pass until the retry of a key is due."""
        self.now = max(self.now, self.retry_at.get(key, 0.0))

    @rule(key=keys, after=st.sampled_from([None, 0.0, 5.0]))
    def succeed(self, key: Request, after: float | None) -> None:
        """Return from a reconcile."""
        outcome = self.deciding.succeeded(key, Result(after))
        assert outcome.after_seconds == after
        self._forget(key)

    @rule(key=keys)
    def end_for_good(self, key: Request) -> None:
        """Raise what is not retried."""
        assert self.deciding.failed(key, TerminalError("no"), self.now).after_seconds is None
        self._forget(key)

    @rule(key=keys)
    def fail(self, key: Request) -> None:
        """Raise anything."""
        pending = self.retry_at.get(key, self.now)
        outcome = self.deciding.failed(key, _ERROR, self.now)
        if pending <= self.now or key in self.wanted:
            self.wanted.discard(key)
            self.retry_at.pop(key, None)
            failures = self.failures.get(key, 0)
            self.failures[key] = failures + 1
            pending = self.now + min(100.0, 2.0**failures)
        self._expect(key, outcome, pending)

    @rule(key=keys, seconds=st.sampled_from([0.0, 2.0, 500.0]))
    def fail_with_a_time(self, key: Request, seconds: float) -> None:
        """Raise what names its time."""
        self.failures.setdefault(key, 0)
        self.retry_at.pop(key, None)
        outcome = self.deciding.failed(key, RetryAfter(seconds), self.now)
        self.wanted.add(key)
        self._expect(key, outcome, self.now + seconds)

    @invariant()
    def nothing_else_is_remembered(self) -> None:
        """Hold exactly the keys whose retry is pending."""
        assert len(self.deciding) == len(self.retry_at)
        assert all(self.deciding.failures_of(key) == n for key, n in self.failures.items())

    def _expect(self, key: Request, outcome: Outcome, retry_at: float) -> None:
        assert outcome.after_seconds == pytest.approx(retry_at - self.now)
        assert retry_at >= self.retry_at.get(key, 0.0) or self.retry_at[key] <= self.now
        assert outcome.failures == self.failures[key]
        self.retry_at[key] = self.now + _after(outcome)

    def _forget(self, key: Request) -> None:
        self.failures.pop(key, None)
        self.retry_at.pop(key, None)
        self.wanted.discard(key)


TestOutcomesAgainstAModel = OutcomesAgainstAModel.TestCase
TestOutcomesAgainstAModel.settings = settings(deadline=None, max_examples=examples(50))
