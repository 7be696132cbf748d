"""Progress reports on stderr: each line once, and only what a user needs to know."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pyinformer.cache.informer import NamespaceStatus
from pyinformer.cache.reflector import ReflectorState
from pyinformer.cli.objects._progress_reporter import ProgressReporter, is_refused

_LOADING = NamespaceStatus(
    follows="pods.v1 in shop",
    namespace="shop",
    has_synced=False,
    objects=0,
    position="",
    state=ReflectorState.LOADING,
    age_seconds=None,
    reason="watch-list",
    attempts=0,
    last_error=None,
)
_FAILING = replace(
    _LOADING, state=ReflectorState.WAITING, attempts=2, last_error="refused\x1b[2J", reason=""
)
_FOLLOWED = replace(_LOADING, has_synced=True, state=ReflectorState.WATCHING)
_BEHIND = replace(_FOLLOWED, state=ReflectorState.WAITING, attempts=1, last_error="gone", reason="")


def _status(*scopes: NamespaceStatus, coalesced: int = 0) -> Any:
    return SimpleNamespace(namespaces=scopes, handlers=[SimpleNamespace(coalesced=coalesced)])


def test_a_fast_sync_prints_no_progress() -> None:
    assert ProgressReporter().lines(_status(_LOADING), 0.5) == []


def test_a_slow_sync_is_reported_once() -> None:
    progress = ProgressReporter()

    assert progress.lines(_status(_LOADING), 2.5) == [
        "waiting for pods.v1 in shop: the list has not arrived yet"
    ]
    assert progress.lines(_status(_LOADING), 9.5) == []


def test_an_error_is_reported_once_then_the_number_of_attempts_at_growing_intervals() -> None:
    progress = ProgressReporter()

    assert progress.lines(_status(_FAILING), 0.0) == [
        "waiting for pods.v1 in shop: waiting: refused\\x1b[2J, attempt 2"
    ]
    later = [
        line
        for attempt in range(2, 17)
        for line in progress.lines(_status(replace(_FAILING, attempts=attempt)), 1.0)
    ]
    assert later == [
        f"waiting for pods.v1 in shop: the same after attempt {attempt}" for attempt in (4, 8, 16)
    ]
    other = replace(_FAILING, attempts=17, last_error="timed out")
    assert progress.lines(_status(other), 1.0) == [
        "waiting for pods.v1 in shop: waiting: timed out, attempt 17"
    ]


def test_a_reason_that_repeats_the_error_is_not_shown_twice() -> None:
    queued = replace(_FAILING, last_error="refused", reason="refused; waiting for its turn to list")

    assert ProgressReporter().lines(_status(queued), 1.0) == [
        "waiting for pods.v1 in shop: waiting: refused; waiting for its turn to list, attempt 2"
    ]


def test_the_shown_state_is_marked_old_until_it_is_followed_again() -> None:
    progress = ProgressReporter()

    assert progress.lines(_status(_FOLLOWED), 1.0) == []
    (behind,) = progress.lines(_status(_BEHIND), 2.0)
    assert behind.startswith("pods.v1 in shop: the output may be stale: waiting: gone")
    assert progress.lines(_status(_BEHIND), 3.0) == []
    assert progress.lines(_status(_FOLLOWED), 4.0) == ["pods.v1 in shop: is followed again"]


def test_a_slow_reader_is_reported_once() -> None:
    progress = ProgressReporter()

    assert "merged" in progress.lines(_status(_FOLLOWED, coalesced=3), 1.0)[0]
    assert progress.lines(_status(_FOLLOWED, coalesced=9), 2.0) == []


@pytest.mark.parametrize(
    ("scope", "refused"),
    [
        pytest.param(_LOADING, False, id="loading"),
        pytest.param(replace(_LOADING, state=ReflectorState.FORBIDDEN), True, id="forbidden"),
        pytest.param(replace(_FOLLOWED, state=ReflectorState.FORBIDDEN), False, id="synced"),
    ],
)
def test_only_a_resource_that_never_synced_fails_the_command(
    scope: NamespaceStatus, *, refused: bool
) -> None:
    assert is_refused(scope) is refused
