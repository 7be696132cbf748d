"""Waits that end together."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from pyinformer._runtime.tasks import together

NOW = st.floats(0.0, 1e8)
SECONDS = st.floats(0.0, 1e5)
ROUNDING = 1e-6


@given(NOW, SECONDS)
def test_a_wait_is_not_shorter_and_at_most_an_eighth_longer(now: float, seconds: float) -> None:
    assert seconds - ROUNDING <= together(now, seconds) <= seconds * 1.125 + ROUNDING


def test_waits_that_end_within_moments_end_together() -> None:
    ends = {round(now + together(now, 30.0), 6) for now in (100.1, 100.7, 101.3, 101.9)}

    assert ends == {132.0}


def test_short_and_endless_waits_stay_as_they_are() -> None:
    assert together(7.3, 0.9) == 0.9
    assert together(7.3, math.inf) == math.inf
