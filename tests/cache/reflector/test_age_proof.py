"""As of when a cache holds what the server has: only a request that was sent proves it."""

from __future__ import annotations

import math

from pyinformer.cache.reflector._age_proof import (
    DOUBT_SECONDS,
    PERIOD_SECONDS,
    UNREAD_PERIOD_SECONDS,
    AgeProof,
)
from pyinformer.cache.reflector.lineage import RoundTrip


def test_nothing_is_known_before_the_first_load() -> None:
    age_proof = AgeProof()
    assert age_proof.as_of("") is None
    age_proof.loaded(None)
    assert age_proof.as_of("5") is None, "any server may have answered, from any old state"


def test_a_load_is_as_of_its_first_request() -> None:
    age_proof = AgeProof()
    age_proof.loaded(100.0)
    assert age_proof.as_of("5") == 100.0
    assert age_proof.as_of("50000") == 100.0, "a position that moves proves nothing"


def test_a_round_trip_counts_once_its_version_is_reached() -> None:
    age_proof = AgeProof()
    age_proof.loaded(100.0)
    age_proof.expect(RoundTrip(110.0, "20"), "5")
    age_proof.expect(RoundTrip(120.0, "30"), "5")
    assert age_proof.as_of("19") == 100.0
    assert age_proof.as_of("20") == 110.0
    assert age_proof.as_of("29") == 110.0
    assert age_proof.as_of("30") == 120.0
    assert age_proof.as_of("100") == 120.0, "three digits are more than two"


def test_a_round_trip_of_the_present_position_counts_at_once() -> None:
    age_proof = AgeProof()
    age_proof.loaded(100.0)
    age_proof.expect(RoundTrip(110.0, "5"), "5")
    assert age_proof.as_of("5") == 110.0


def test_a_round_trip_that_is_proven_counts_without_the_position() -> None:
    age_proof = AgeProof()
    age_proof.loaded(100.0)
    trip = RoundTrip(110.0, "20")
    age_proof.expect(trip, "5")
    age_proof.proven(trip)
    assert age_proof.as_of("5") == 110.0
    age_proof.proven(RoundTrip(105.0, "19"))
    assert age_proof.as_of("5") == 110.0, "an older proof takes nothing away"


def test_a_load_forgets_what_was_expected_of_the_history_before_it() -> None:
    age_proof = AgeProof()
    age_proof.expect(RoundTrip(110.0, "20"), "5")
    age_proof.loaded(115.0)
    assert age_proof.as_of("30") == 115.0


def test_round_trips_that_are_never_reached_do_not_pile_up() -> None:
    age_proof = AgeProof()
    age_proof.loaded(0.0)
    for number in range(1, 2000):
        age_proof.expect(RoundTrip(float(number), str(1000 + number)), "5")
    assert len(age_proof._pending) <= 16
    assert age_proof.as_of("999999") == 1999.0
    assert age_proof.as_of("5") == 0.0


def test_a_reader_with_a_limit_gets_round_trips_within_it_for_a_minute() -> None:
    age_proof = AgeProof()
    woken: list[bool] = []
    age_proof.on_wanted = lambda: woken.append(True)
    assert age_proof.period_seconds(0.0) == UNREAD_PERIOD_SECONDS
    age_proof.want(300.0, 0.0)
    assert not woken
    age_proof.want(8.0, 0.0)
    assert age_proof.period_seconds(1.0) == 2.0
    assert age_proof.doubt_seconds(1.0) == 4.0
    age_proof.want(8.0, 1.0)
    assert len(woken) == 1, "reads are frequent"
    age_proof.want(4.0, 2.0)
    assert len(woken) == 2
    age_proof.want(20.0, 3.0)
    assert age_proof.period_seconds(3.0) == 1.0, "the strictest reader decides"
    assert age_proof.period_seconds(100.0) == UNREAD_PERIOD_SECONDS
    assert age_proof.doubt_seconds(100.0) == DOUBT_SECONDS


def test_a_limit_of_zero_makes_no_loop() -> None:
    age_proof = AgeProof()
    age_proof.want(0.0, 0.0)
    assert age_proof.period_seconds(0.0) >= 1.0
    assert age_proof.doubt_seconds(0.0) >= 1.0


def test_a_proof_is_asked_for_until_it_is_newer_than_the_question() -> None:
    age_proof = AgeProof()
    age_proof.loaded(100.0)
    assert not age_proof.is_asked("5")
    age_proof.ask(107.0)
    assert age_proof.is_asked("5")
    age_proof.expect(RoundTrip(106.0, "5"), "5")
    assert age_proof.is_asked("5"), "it was sent before"
    age_proof.expect(RoundTrip(107.5, "5"), "5")
    assert not age_proof.is_asked("5")
    assert age_proof.asked_at != -math.inf


def test_the_age_is_renewed_more_often_while_a_reader_asks_for_it() -> None:
    age_proof = AgeProof()
    woken: list[bool] = []
    age_proof.on_wanted = lambda: woken.append(True)
    assert age_proof.period_seconds(1000.0) == UNREAD_PERIOD_SECONDS
    age_proof.read(1000.0)
    age_proof.read(1060.0)
    assert len(woken) == 1, "the first one after a pause"
    assert age_proof.period_seconds(1180.0) == PERIOD_SECONDS
    assert age_proof.is_read(1180.0), "metrics are collected once a minute"
    assert age_proof.period_seconds(1240.0) == UNREAD_PERIOD_SECONDS
    age_proof.read(1240.0)
    assert len(woken) == 2


def test_a_round_trip_that_is_expected_twice_is_kept_once() -> None:
    age_proof = AgeProof()
    trip = RoundTrip(110.0, "20")
    for _ in range(3):
        age_proof.expect(trip, "5")
    assert age_proof._pending == (trip,)
    assert age_proof.misses("5", 111.0)
    assert not age_proof.misses("5", 109.0)
    assert not age_proof.misses("20", 111.0)
