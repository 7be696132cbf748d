"""How logs show errors of user code: every class, foreign texts only if allowed, not often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer._runtime.tasks import (
    FailureLog,
    causes_text,
    check_log_exceptions,
    error_text,
    repeats_text,
    trace_text,
)
from pyinformer.errors import (
    APIStatusError,
    ForbiddenError,
    InformerError,
    InvalidArgumentError,
    InvalidError,
    RetryAfter,
    TerminalError,
    TransportError,
)
from tests.hostile import HOSTILE, assert_shown_safely

if TYPE_CHECKING:
    from pyinformer._runtime.tasks import LogExceptions

_SECRET = "hunter2"
_HERE = rf"at {__file__}:\d+ in raised"


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """Return an error with the traceback of a real one."""
    try:
        if cause is None:
            raise error
        raise error from cause
    except BaseException as caught:
        return caught


class ShyError(Exception):
    """An error whose texts cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError


class ForeignError(InformerError):
    """A program's own class."""


def _forbidden() -> ForbiddenError:
    return ForbiddenError(
        status=403,
        reason="Forbidden",
        message=f"the server's own words: {_SECRET}",
        request="list pods",
        needed="needs list on pods",
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(ValueError(_SECRET), "ValueError", id="foreign"),
        pytest.param(ShyError(), "ShyError", id="cannot-say"),
        pytest.param(ForeignError(_SECRET), "ForeignError", id="of-the-program"),
        pytest.param(
            InvalidArgumentError("path", "is empty"),
            "InvalidArgumentError (path: is empty)",
            id="ours",
        ),
        pytest.param(
            TransportError("https://a/", "refused"),
            "TransportError (https://a/: refused)",
            id="wire",
        ),
        pytest.param(TerminalError("no quota"), "TerminalError (no quota)", id="terminal"),
        pytest.param(RetryAfter(3, "later"), "RetryAfter (later)", id="retry-after"),
        pytest.param(
            _forbidden(),
            "ForbiddenError (list pods: 403 Forbidden; needs list on pods)",
            id="missing-rule",
        ),
        pytest.param(
            InvalidError(status=422, reason="Invalid", message=_SECRET, request="create secrets"),
            "InvalidError (create secrets: 422 Invalid)",
            id="refused-content",
        ),
    ],
)
def test_classes_and_texts_of_our_errors_are_shown(error: BaseException, text: str) -> None:
    assert error_text(error) == text
    assert error_text(raised(error)).startswith(f"{text} at {__file__}:")


def test_every_class_of_a_chain_is_shown() -> None:
    ours = raised(InvalidArgumentError("path", "is empty"), raised(KeyError(_SECRET)))
    text = error_text(raised(ValueError(_SECRET), ours))
    assert _SECRET not in text
    first, second, third = text.split("; ")
    assert first.startswith("ValueError at ")
    assert second.startswith("caused by InvalidArgumentError (path: is empty) at ")
    assert third.startswith("caused by KeyError at ")
    assert causes_text(raised(ValueError(), ours)) == f"; {second}; {third}"
    assert causes_text(ValueError()) == ""


def test_a_context_is_shown_unless_it_is_suppressed() -> None:
    error = ValueError(_SECRET)
    error.__context__ = KeyError(_SECRET)
    assert error_text(error) == "ValueError; while handling KeyError"
    error.__suppress_context__ = True
    assert error_text(error) == "ValueError"


def test_the_members_of_groups_are_shown() -> None:
    inner = ExceptionGroup("inner", [_forbidden(), KeyError(_SECRET)])
    text = error_text(ExceptionGroup(_SECRET, [inner, ValueError(_SECRET)]))
    assert text == (
        "ExceptionGroup of 2 [ExceptionGroup of 2 [ForbiddenError (list pods: 403 Forbidden; needs"
        " list on pods); KeyError]; ValueError]"
    )


def test_a_chain_and_a_group_are_shown_up_to_a_bound() -> None:
    group = ExceptionGroup("many", [ValueError(number) for number in range(1000)])
    assert error_text(group).endswith("ValueError; and 996 more]")
    chain: BaseException = ValueError()
    for _ in range(1000):
        chain = raised(ValueError(), chain)
    assert error_text(chain).count("ValueError") == 8
    assert error_text(chain).endswith("; and more")
    assert trace_text(chain).count("ValueError") == 8


def test_a_chain_that_leads_back_to_itself_ends() -> None:
    one, two = ValueError(), KeyError()
    one.__cause__, two.__cause__ = two, one
    assert error_text(one) == "ValueError; caused by KeyError"
    assert trace_text(one) == "ValueError\ncaused by KeyError"


def test_full_error_texts_are_shown_and_bounded() -> None:
    text = error_text(raised(ValueError(_SECRET), KeyError(_SECRET)), "full")
    assert text.startswith(f"ValueError ({_SECRET}) at ")
    assert text.endswith(f"; caused by KeyError ('{_SECRET}')")
    assert len(error_text(ValueError("x" * 100_000), "full")) < 1100
    assert error_text(ShyError(), "full") == "ShyError"


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("shown", ["classes", "full"])
def test_no_text_of_an_error_ends_the_line(text: str, shown: LogExceptions) -> None:
    for error in (ValueError(text), TerminalError(text), _status(text)):
        assert_shown_safely(error_text(raised(error), shown))
        assert_shown_safely(error_text(ExceptionGroup(text, [error]), shown))
        calls = 0 if error.__traceback__ is None else 1
        assert_shown_safely(trace_text(error), lines=1 + calls)


def _status(text: str) -> APIStatusError:
    return ForbiddenError(status=403, reason=text, message=text, request=text, needed=text)


def test_the_calls_are_shown_without_any_text() -> None:
    trace = trace_text(raised(ValueError(_SECRET), raised(KeyError(_SECRET))))
    lines = [line.partition(":")[0] for line in trace.split("\n")]
    assert lines == ["ValueError", f"  at {__file__}", "caused by KeyError", f"  at {__file__}"]


def test_one_line_per_kind_and_minute_and_every_failure_is_counted() -> None:
    log, error, other = FailureLog(), raised(ValueError()), raised(KeyError())
    assert [log.due(error, second * 0.01) for second in range(1000)] == [0, *[None] * 999]
    assert log.due(other, 10.0) == 0
    assert log.due(error, 59.9) is None
    assert log.due(error, 60.0) == 1000
    assert log.due(error, 120.0) == 0
    assert repeats_text(1000) == "; 1000 more of this kind since the last such line"
    assert repeats_text(0) == ""


def test_dynamic_error_classes_are_at_most_64_lines_and_one_for_the_rest() -> None:
    log = FailureLog()
    made = [type(f"Odd{number}", (ValueError,), {})() for number in range(1000)]
    assert sum(log.due(error, 1.0) is not None for error in made) == 65
    assert sum(log.due(error, 62.0) is not None for error in made) == 65


@pytest.mark.parametrize("bad", ["none", "", None, True, ["full"]])
def test_another_choice_is_refused(bad: object) -> None:
    check_log_exceptions("full")
    with pytest.raises(InvalidArgumentError, match="must be 'classes' or 'full'"):
        check_log_exceptions(bad)
