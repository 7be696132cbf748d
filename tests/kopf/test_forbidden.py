"""A stream without rights: from when on it is refused, and when that is logged."""

from __future__ import annotations

from pyinformer.errors import ForbiddenError, ServerError
from pyinformer.kopf._refused_requests import Refusal

NO = ForbiddenError(status=403)


def test_a_refusal_begins_with_the_first_403_and_ends_with_a_success() -> None:
    refusal = Refusal()
    assert not refusal.lasts(0.0, 1.0)
    assert refusal.observe(NO, 10.0)
    assert not refusal.observe(NO, 20.0)
    assert not refusal.observe(ServerError(status=500), 21.0)
    assert [refusal.lasts(15.0, now) for now in (24.0, 25.0)] == [False, True]
    assert refusal.seconds(25.0) == 15.0
    assert not refusal.observe(None, 30.0)
    assert not refusal.lasts(0.0, 31.0)
    assert refusal.seconds(31.0) == 0.0
    assert refusal.observe(NO, 40.0)


def test_a_lasting_refusal_is_logged_after_its_delay_and_then_every_five_minutes() -> None:
    refusal = Refusal()
    refusal.observe(NO, 0.0)
    warned = [now for now in range(0, 1000, 10) if refusal.warns(50.0, now)]
    assert warned == [50, 350, 650, 950]
    refusal.observe(None, 1000.0)
    refusal.observe(NO, 1010.0)
    assert [refusal.warns(50.0, now) for now in (1050.0, 1060.0)] == [False, True]


def test_a_watch_that_is_accepted_and_refused_at_once_does_not_end_it() -> None:
    """Some servers send 403 inside of an accepted watch."""
    refusal = Refusal()
    assert refusal.observe(NO, 0.0)
    for now in (10.0, 20.0, 30.0):
        refusal.observe(None, now)
        assert not refusal.lasts(15.0, now)
        assert not refusal.observe(NO, now + 0.1)
    assert refusal.lasts(15.0, 30.1)
    assert refusal.seconds(30.1) == 30.1
    refusal.observe(None, 40.0)
    assert refusal.observe(NO, 50.0)
