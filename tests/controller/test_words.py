"""What the log says of a failed reconcile: enough to act on, and nothing of any object."""

from __future__ import annotations

import pytest

from pyinformer.apimachinery import (
    ForbiddenError,
    InvalidTypeError,
    ModelMismatchError,
    RetryAfter,
    TerminalError,
    TransportError,
)
from pyinformer.controller._outcomes import Outcome
from pyinformer.controller._words import outlook_of, words_of
from pyinformer.sources._request import Request

_FORBIDDEN = ForbiddenError(
    status=403, reason="Forbidden", message="secret", request="PATCH /api/v1/pods/a"
)
_MISMATCH = ModelMismatchError("Database 'a'", "no int", key="a", path="spec.replicas")
_NONSENSE = InvalidTypeError("result", "rec returned bool; it must be None or a Result")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(ValueError("secret"), "ValueError at an unknown place", id="of-the-user"),
        pytest.param(
            _FORBIDDEN,
            "ForbiddenError (PATCH /api/v1/pods/a: 403 Forbidden) at an unknown place",
            id="of-the-server",
        ),
        pytest.param(
            TransportError("http://a/b", "cannot connect"),
            "TransportError (http://a/b: cannot connect) at an unknown place",
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
def test_an_error_is_said_without_what_objects_hold(error: Exception, words: str) -> None:
    assert words_of(error) == words


@pytest.mark.parametrize(
    ("after_seconds", "failures", "words"),
    [
        pytest.param(0.005, 1, "failure 1, again in 0.005 s", id="retried"),
        pytest.param(3.0, 0, "again in 3.000 s", id="retry-after"),
        pytest.param(None, 0, "not tried again until something changes", id="terminal"),
    ],
)
def test_what_happens_next_is_said(after_seconds: float | None, failures: int, words: str) -> None:
    outcome = Outcome(
        request=Request("a"), kind="error", after_seconds=after_seconds, failures=failures
    )

    assert outlook_of(outcome) == words
