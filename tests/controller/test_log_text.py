"""What the log says of a failed reconcile: enough to act on, and nothing of any object."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

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
from tests.controller.running import Calls, running
from tests.hostile import FORGED, HOSTILE, assert_shown_safely
from tests.virtual_time import elapse

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.virtual_time

_FORMAT = "controller %s: the reconcile of %s failed: "
_BEGIN = "controller c: the reconcile of default/a failed: "
_PLACE = re.compile(r" at \S+running\.py:\d+ in __call__")

_FORBIDDEN = ForbiddenError(
    status=403, reason="Forbidden", message="secret", request="PATCH /api/v1/pods/a"
)
_MISMATCH = ModelMismatchError("Database 'a'", "no int", key="a", path="spec.replicas")
_NONSENSE = InvalidTypeError("result", "rec returned bool; it must be None or a Result")


@dataclass
class Line:
    """What the log says of one failed reconcile."""

    text: str
    """What failed, without the place."""
    outlook: str
    """What happens next."""
    level: int
    trace: list[str]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    """The log of a controller."""
    caplog.set_level(logging.DEBUG, "pyinformer.controller")
    return Log(caplog)


class Log:
    """The log of controllers of which each fails once."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    async def line(self, error: BaseException, shown: str = "classes") -> Line:
        """Let a reconcile fail, and return its line in the log."""
        self._caplog.clear()
        async with running(Calls(error), log_exceptions=shown) as (_, said):
            said.say("default/a")
            await elapse(0.0001)
        (record,) = [one for one in self._caplog.records if one.msg.startswith(_FORMAT)]
        line, *trace = record.getMessage().split("\n")
        assert_shown_safely(line)
        assert line.startswith(_BEGIN)
        line, _, reasons = line.removeprefix(_BEGIN).rpartition("; reasons: ")
        assert reasons.startswith("said updated")
        text, _, outlook = line.rpartition("; ")
        return Line(_PLACE.sub("", text), outlook, record.levelno, trace)


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
async def test_an_error_is_described_without_object_content(
    log: Log, error: Exception, words: str
) -> None:
    assert (await log.line(error)).text == words


async def test_the_cause_of_an_error_of_ours_is_shown(log: Log) -> None:
    error = ReconcileTimeoutError(request="default/a", timeout_seconds=5.0)
    error.__cause__ = InvalidArgumentError("path", "is empty")
    assert (await log.line(error)).text == (
        "the reconcile of default/a took longer than 5 s; caused by InvalidArgumentError (path: is"
        " empty)"
    )


async def test_members_of_a_group_and_the_missing_rule_are_shown(log: Log) -> None:
    forbidden = ForbiddenError(
        status=403,
        reason="Forbidden",
        message="secret",
        request="list pods",
        needed="it needs list on pods",
    ).with_hint("apply the Role")
    forbidden = forbidden.with_hint("in shop")
    group = ExceptionGroup("secret", [forbidden, ValueError("secret")])
    assert (await log.line(group)).text == (
        "ExceptionGroup of 2 [ForbiddenError (list pods: 403 Forbidden; it needs list on pods;"
        " apply the Role; in shop); ValueError]"
    )
    assert "ValueError (secret)" in (await log.line(group, "full")).text


async def test_a_group_of_one_is_described_as_its_member(log: Log) -> None:
    group = ExceptionGroup("secret", [ExceptionGroup("secret", [TerminalError("no quota")])])
    assert (await log.line(group)).text == "no quota"
    conflict = ConflictError(status=409, reason="Conflict", request="PUT a")
    assert (await log.line(ExceptionGroup("secret", [conflict]))).level == logging.INFO


def _apply_conflict(*conflicts: FieldConflict) -> ApplyConflictError:
    return ApplyConflictError(
        status=409,
        reason="Conflict",
        message="secret",
        request="PATCH /apis/apps/v1/statefulsets/a",
        conflicts=conflicts,
    )


async def test_a_conflict_of_an_apply_names_the_fields_their_managers_and_the_cure(
    log: Log,
) -> None:
    error = _apply_conflict(
        FieldConflict(".spec.replicas", "kubectl"), FieldConflict(".spec.paused", "")
    )

    assert (await log.line(ExceptionGroup("secret", [error]))).text == (
        "ApplyConflictError (PATCH /apis/apps/v1/statefulsets/a: 409 Conflict; kubectl owns"
        " .spec.replicas, another manager owns .spec.paused: apply with force=True, or leave these"
        " fields out)"
    )


async def test_conflicts_without_end_keep_the_cure_in_the_line(log: Log) -> None:
    conflicts = [FieldConflict(f".spec.\n{'x' * 5_000}", "\u202e" * 5_000)] * 2_000

    text = (await log.line(_apply_conflict(*conflicts))).text

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
        pytest.param(
            ForbiddenError(status=403, causes=("NamespaceTerminating",)),
            logging.INFO,
            id="namespace-that-is-being-deleted",
        ),
    ],
)
async def test_what_does_not_end_by_itself_is_louder_than_what_does(
    log: Log, error: Exception, level: int
) -> None:
    assert (await log.line(error)).level == level


async def test_a_write_refused_after_a_term_is_not_logged_as_an_error(log: Log) -> None:
    fenced = FencedError(lease="ops/db", reason="b has taken the Lease")
    line = await log.line(fenced)
    assert line.level == logging.INFO
    assert line.text == "no valid term of the Lease ops/db: b has taken the Lease"
    assert line.outlook == "the next leader reconciles it"


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("make", [TerminalError, ValueError, lambda text: RetryAfter(1, text)])
async def test_an_error_text_is_one_printable_line_in_the_log(
    make: Callable[[str], Exception], text: str, log: Log
) -> None:
    await log.line(make(text))
    for trace in (await log.line(make(text), "full")).trace:
        assert trace.isprintable()
        assert not trace.startswith(FORGED)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(ValueError(), "failure 1, retry in 0.005 s", id="retried"),
        pytest.param(RetryAfter(3.0), "retry in 3.000 s", id="retry-after"),
        pytest.param(
            TerminalError("no such image"), "not retried until something changes", id="terminal"
        ),
    ],
)
async def test_the_log_line_names_the_next_attempt(error: Exception, words: str, log: Log) -> None:
    assert (await log.line(error)).outlook == words
