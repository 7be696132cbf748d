"""The text of a controller's log line for a reconcile that failed.

It never shows the content of an object, unless the program asks for the texts of all errors.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyinformer._printable import printable
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import LogExceptions, causes_text, error_text
from pyinformer.controller._requeue_policy import only_cause
from pyinformer.errors import (
    ApplyConflictError,
    ConflictError,
    FencedError,
    ForbiddenError,
    InvalidTypeError,
    ModelMismatchError,
    ReconcileTimeoutError,
    RetryAfter,
    TerminalError,
)

if TYPE_CHECKING:
    from pyinformer.controller._requeue_policy import Outcome


def text_of(error: BaseException, shown: LogExceptions = "classes") -> str:
    """Return what failed and why. Never raises.

    Args:
        error: what the reconcile raised.
        shown: whether the texts of foreign errors are shown.
    """
    error = only_cause(error)
    try:
        text = _own_text(error)
    except ENDS_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001 - the guard of a user's error class
        text = None
    if text and isinstance(error, ModelMismatchError):
        return printable(text)  # its cause has the same text
    return printable(f"{text}{causes_text(error, shown)}") if text else error_text(error, shown)


def outlook_of(outcome: Outcome) -> str:
    """Return what happens next; a RetryAfter is not counted as a failure."""
    if outcome.after_seconds is None:
        if outcome.error is not None and isinstance(only_cause(outcome.error), FencedError):
            return "the next leader reconciles it"
        return "not retried until something changes"
    again = f"retry in {outcome.after_seconds:.3f} s"
    return f"failure {outcome.failures}, {again}" if outcome.failures else again


def level_of(error: BaseException) -> int:
    """Return the log level of an error; INFO for what is a part of normal work."""
    if is_expected(error):
        return logging.INFO
    return logging.WARNING if _is_apply_conflict(error) else logging.ERROR


def is_expected(error: BaseException) -> bool:
    """Return whether an error is a part of normal work, so that its calls are not logged.

    Such are conflicts, RetryAfter, lost terms, and writes into a namespace that is being deleted.
    """
    cause = only_cause(error)
    if isinstance(cause, ForbiddenError):
        return cause.is_terminating
    is_retried = isinstance(cause, ConflictError | FencedError | RetryAfter)
    return is_retried and not _is_apply_conflict(error)


def _is_apply_conflict(error: BaseException) -> bool:
    """Return whether other managers own fields, which a new read and a retry do not change."""
    return isinstance(only_cause(error), ApplyConflictError)


def _own_text(error: BaseException) -> str | None:
    """Return an error's text if it is safe in logs and names its cause."""
    if isinstance(error, ModelMismatchError):
        return f"{error.what}: {error.shown}"
    if isinstance(error, FencedError):
        return f"no valid term of the Lease {error.lease}: {error.reason}"
    if isinstance(error, TerminalError):
        return error.reason
    if isinstance(error, RetryAfter):  # its time is in the outlook
        return error.reason or "RetryAfter"
    if isinstance(error, ReconcileTimeoutError) or _is_about_result(error):
        return str(error)
    return None


def _is_about_result(error: BaseException) -> bool:
    """Return whether a reconcile returned an invalid value; the text names only types."""
    return isinstance(error, InvalidTypeError) and error.argument == "result"
