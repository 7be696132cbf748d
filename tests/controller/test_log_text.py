"""What the log says of a failed reconcile: enough to act on, and nothing of any object."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from pyinformer._logging import get_logger
from pyinformer.controller import Outcome
from pyinformer.controller._log_text import level_of, outlook_of, text_of
from pyinformer.errors import (
    ApplyConflictError,
    ConflictError,
    FencedError,
    FieldConflict,
    ForbiddenError,
    InvalidArgumentError,
    InvalidTypeError,
    ModelMismatchError,
    ReconcileTimeoutError,
    RetryAfter,
    TerminalError,
    TransportError,
)
from pyinformer.sources import Request
from tests.hostile import HOSTILE, assert_shown_safely

if TYPE_CHECKING:
    from collections.abc import Callable

_FORBIDDEN = ForbiddenError(
    status=403, reason="Forbidden", message="secret", request="PATCH /api/v1/pods/a"
)
_MISMATCH = ModelMismatchError("Database 'a'", "no int", key="a", path="spec.replicas")
_NONSENSE = InvalidTypeError("result", "rec returned bool; it must be None or a Result")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(ValueError("secret"), "ValueError", id="of-the-user"),
        pytest.param(
            _FORBIDDEN,
            "ForbiddenError (PATCH /api/v1/pods/a: 403 Forbidden)",
            id="of-the-server",
        ),
        pytest.param(
            TransportError("http://a/b", "cannot connect"),
            "TransportError (http://a/b: cannot connect)",
            id="of-the-wire",
        ),
        pytest.param(TerminalError("no such image"), "no such image", id="terminal"),
        pytest.param(_MISMATCH, "Database 'a': no int", id="model"),
        pytest.param(RetryAfter(3, "busy"), "busy", id="retry-after"),
        pytest.param(RetryAfter(3), "RetryAfter", id="retry-after-without-a-reason"),
        pytest.param(
            _NONSENSE, "result: rec returned bool; it must be None or a Result", id="result"
        ),
    ],
)
def test_an_error_is_described_without_object_content(error: Exception, words: str) -> None:
    assert text_of(error) == words


def test_the_cause_of_an_error_of_ours_is_shown() -> None:
    error = ReconcileTimeoutError(request="default/a", timeout_seconds=5.0)
    error.__cause__ = InvalidArgumentError("path", "is empty")
    assert text_of(error) == (
        "the reconcile of default/a took longer than 5 s; caused by InvalidArgumentError (path: is"
        " empty)"
    )


def test_members_of_a_group_and_the_missing_rule_are_shown() -> None:
    forbidden = ForbiddenError(
        status=403,
        reason="Forbidden",
        message="secret",
        request="list pods",
        needed="it needs list on pods",
    )
    group = ExceptionGroup("secret", [forbidden, ValueError("secret")])
    assert text_of(group) == (
        "ExceptionGroup of 2 [ForbiddenError (list pods: 403 Forbidden; it needs list on pods);"
        " ValueError]"
    )
    assert "ValueError (secret)" in text_of(group, "full")


def test_a_group_of_one_is_described_as_its_member() -> None:
    group = ExceptionGroup("secret", [ExceptionGroup("secret", [TerminalError("no quota")])])
    assert text_of(group) == "no quota"
    conflict = ConflictError(status=409, reason="Conflict", request="PUT a")
    assert level_of(ExceptionGroup("secret", [conflict])) == logging.INFO


def _apply_conflict(*conflicts: FieldConflict) -> ApplyConflictError:
    return ApplyConflictError(
        status=409,
        reason="Conflict",
        message="secret",
        request="PATCH /apis/apps/v1/statefulsets/a",
        conflicts=conflicts,
    )


def test_a_conflict_of_an_apply_names_the_fields_their_managers_and_the_cure() -> None:
    error = _apply_conflict(
        FieldConflict(".spec.replicas", "kubectl"), FieldConflict(".spec.paused", "")
    )

    assert text_of(ExceptionGroup("secret", [error])) == (
        "ApplyConflictError (PATCH /apis/apps/v1/statefulsets/a: 409 Conflict; kubectl owns"
        " .spec.replicas, another manager owns .spec.paused: apply with force=True, or leave these"
        " fields out)"
    )


def test_conflicts_without_end_keep_the_cure_in_the_line() -> None:
    conflicts = [FieldConflict(f".spec.\n{'x' * 5_000}", "\u202e" * 5_000)] * 2_000

    text = text_of(_apply_conflict(*conflicts))

    assert_shown_safely(text)
    assert text.endswith(
        ", and 1997 more fields: apply with force=True, or leave these fields out)"
    )


@pytest.mark.parametrize(
    ("error", "level"),
    [
        pytest.param(ValueError("secret"), logging.ERROR, id="of-the-user"),
        pytest.param(_FORBIDDEN, logging.ERROR, id="of-the-server"),
        pytest.param(TerminalError("no such image"), logging.ERROR, id="terminal"),
        pytest.param(_apply_conflict(), logging.WARNING, id="fields-of-other-managers"),
        pytest.param(ConflictError(status=409), logging.INFO, id="resource-version"),
        pytest.param(RetryAfter(3), logging.INFO, id="retry-after"),
    ],
)
def test_what_does_not_end_by_itself_is_louder_than_what_does(error: Exception, level: int) -> None:
    assert level_of(error) == level


def test_a_write_refused_after_a_term_is_not_logged_as_an_error() -> None:
    fenced = FencedError(lease="ops/db", reason="b has taken the Lease")
    outcome = Outcome(request=Request("a"), kind="terminal", error=fenced)
    assert level_of(fenced) == logging.INFO
    assert text_of(fenced) == "no valid term of the Lease ops/db: b has taken the Lease"
    assert outlook_of(outcome) == "the next leader reconciles it"


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("make", [TerminalError, ValueError, lambda text: RetryAfter(1, text)])
def test_an_error_text_is_one_printable_line_in_the_log(
    make: Callable[[str], Exception], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    for shown in ("classes", "full"):
        caplog.clear()
        assert_shown_safely(text_of(make(text), shown))
        get_logger("pyinformer.controller").error("%s", text_of(make(text), shown))
        assert_shown_safely(caplog.messages[0])


@pytest.mark.parametrize(
    ("after_seconds", "failures", "words"),
    [
        pytest.param(0.005, 1, "failure 1, retry in 0.005 s", id="retried"),
        pytest.param(3.0, 0, "retry in 3.000 s", id="retry-after"),
        pytest.param(None, 0, "not retried until something changes", id="terminal"),
    ],
)
def test_the_log_line_names_the_next_attempt(
    after_seconds: float | None, failures: int, words: str
) -> None:
    outcome = Outcome(
        request=Request("a"), kind="error", after_seconds=after_seconds, failures=failures
    )

    assert outlook_of(outcome) == words
