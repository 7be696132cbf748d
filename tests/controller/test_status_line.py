"""The status of a controller in one line, as its log, the status page and doctor show it."""

from __future__ import annotations

from tests.controller.statuses import in_trouble


def test_the_line_has_the_worst_first_then_what_waits_and_what_fails() -> None:
    assert in_trouble("copies").line() == (
        "controller copies: STORM: 56 % of its newest writes changed nothing; 0 keys wait;"
        " 0 are reconciled; 60 requests held (breaker open); 2 delayed;"
        " 1 fails, last: ValueError at x; 2 given up until a change"
    )
