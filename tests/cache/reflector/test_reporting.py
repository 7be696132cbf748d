"""What a reflector reports: relists, states and requests for an audit, without a server."""

from __future__ import annotations

import logging
import random

import pytest

from pyinformer.cache.reflector import Guard, ReflectorState, RequestBudget, WatchListMemory
from pyinformer.cache.reflector._availability import Availability
from pyinformer.cache.reflector._reporting import AuditRequests, RelistLog, StateReporter
from pyinformer.cache.reflector.guard import OrderPolicy
from pyinformer.cache.reflector.machine import ReflectorMachine
from pyinformer.cache.reflector.machine.steps import LoadMode
from pyinformer.errors import ForbiddenError, InvalidObjectError, ProtocolError
from pyinformer.objects import DiagnosticJournal
from tests.cache.reflector.samples import PODS


class Reported:
    """A reporter with the parts that it reports of."""

    def __init__(self, *, listens: bool = True) -> None:
        self.guard, self.journal = Guard(), DiagnosticJournal()
        self.machine = ReflectorMachine(rng=random.Random(0), watch_list=WatchListMemory())
        self.availability = Availability(str(PODS))
        self.calls = 0
        self.reporter = StateReporter(
            str(PODS),
            self.machine,
            self.guard,
            self.availability,
            journal=self.journal,
            rights=RequestBudget().rights,
            on_change=self._count if listens else None,
        )

    def _count(self) -> None:
        self.calls += 1

    def fails(self, attempts: int, error: Exception | None = None) -> None:
        """Report after so many failed attempts."""
        self.machine.state, self.machine.attempts = ReflectorState.WAITING, attempts
        self.machine.last_error = error or ProtocolError("watch", "nonsense")  # type: ignore[assignment]
        self.reporter.changed()

    def written(self) -> list[str]:
        """Return the sentences of the journal."""
        return [entry.what for entry in self.journal.entries()]


def test_each_new_state_is_in_the_journal_once_with_its_reason() -> None:
    reported = Reported()
    reported.machine.state, reported.machine.reason = ReflectorState.LOADING, "paged list"
    reported.reporter.changed()
    reported.reporter.changed()
    assert reported.written() == ["loading at nothing: paged list"]
    assert reported.calls == 2


def test_a_reason_that_the_journal_has_is_not_repeated() -> None:
    reported = Reported()
    reported.reporter.known_reason = reported.machine.reason = "another history"
    reported.machine.state = ReflectorState.LOADING
    reported.reporter.changed()
    assert reported.written() == ["loading at nothing"]


def test_a_resource_that_cannot_be_followed_is_logged_once_and_its_return_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="pyinformer.cache.reflector")
    reported = Reported()
    for attempts in range(1, 9):
        reported.fails(attempts)
    reported.machine.attempts = 0
    reported.reporter.changed()
    first, second = [record.getMessage() for record in caplog.records]
    assert "cannot be followed, 3 attempts failed" in first
    assert second == "pods.v1 is followed again"


@pytest.mark.parametrize(("listens", "lines"), [(True, 0), (False, 1)])
def test_missing_rights_are_left_to_the_callback_if_there_is_one(
    caplog: pytest.LogCaptureFixture, listens: bool, lines: int
) -> None:
    Reported(listens=listens).fails(5, ForbiddenError(status=403))
    assert len(caplog.records) == lines


def test_a_relist_is_recorded_with_its_reason_and_whether_it_began_an_epoch() -> None:
    guard = Guard()
    log = RelistLog(guard)
    log.begin("the first")
    guard.loaded("100")
    log.finish(LoadMode.WATCH_LIST, "")
    log.begin("410")
    guard.loaded("200")
    log.finish(LoadMode.PAGED, "")
    log.begin("410")
    guard.loaded("150", broken=True)
    log.finish(LoadMode.PAGED, "")
    found = [
        (one.mode, one.reason, one.before, one.position, one.is_reset) for one in log.records()
    ]
    assert found == [
        ("watch-list", "", "", "100", False),
        ("paged list", "410", "100", "200", False),
        ("paged list", "410", "200", "150", True),
    ]


def test_an_audit_is_requested_once_in_ten_minutes_for_unidentified_objects(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reasons: list[str] = []
    audits = AuditRequests(str(PODS), Guard(), DiagnosticJournal(), reasons.append)
    error = InvalidObjectError("pods.v1", "metadata.name is missing")
    for now in (0.0, 1.0, 599.0, 600.0):
        audits.event_skipped(error, now)
    assert reasons == ["an object cannot be identified"] * 2
    assert len(caplog.records) == 2
    assert audits.item_skipped(1200.0)
    assert len(caplog.records) == 2, "a list logs its own objects"


def test_a_strict_order_is_kept_and_its_violation_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard, journal = Guard(), DiagnosticJournal()
    policy = OrderPolicy(guard, PODS, journal, may_relax=False)
    assert not policy.relax("per_object")
    assert not policy.relax("per_object")
    assert guard.order == "global"
    assert guard.ignores_old_bookmarks
    assert len(caplog.records) == 1


def test_versions_that_do_not_compare_are_compared_for_equality_where_that_is_allowed() -> None:
    guard = Guard()
    assert OrderPolicy(guard, PODS, DiagnosticJournal(), may_relax=True).relax("opaque")
    assert guard.order == "opaque"


def test_a_watch_that_delivers_while_all_is_well_changes_nothing_to_report() -> None:
    machine = Reported().machine
    assert not machine.progressed()
    machine.attempts = 1
    assert machine.progressed()
    assert not machine.progressed()
