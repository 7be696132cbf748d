"""What a controller's log says of a reconcile that failed.

The log never shows the content of an object, unless the program asks for the texts of all errors.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyinformer._printable import printable
from pyinformer.apimachinery import (
    ConflictError,
    InvalidTypeError,
    ModelMismatchError,
    ReconcileTimeoutError,
    RetryAfter,
    TerminalError,
)
from pyinformer.controller._outcomes import only_cause
from pyinformer.tasks import LogExceptions, causes_text, error_text

if TYPE_CHECKING:
    from pyinformer.controller._outcomes import Outcome


def words_of(error: BaseException, shown: LogExceptions = "classes") -> str:
    """Return what failed and why; never fails itself.

    Args:
        error: what the reconcile raised.
        shown: whether the texts of foreign errors are shown.
    """
    error = only_cause(error)
    try:
        said = _said(error)
    except Exception:  # noqa: BLE001 - a fence: a subclass of the user's that cannot say it
        said = None
    if said and isinstance(error, ModelMismatchError):
        return printable(said)  # its cause is the same, in other words
    return printable(f"{said}{causes_text(error, shown)}") if said else error_text(error, shown)


def outlook_of(outcome: Outcome) -> str:
    """Return what happens next; a RetryAfter is no failure and has no number."""
    if outcome.after_seconds is None:
        return "not tried again until something changes"
    again = f"again in {outcome.after_seconds:.3f} s"
    return f"failure {outcome.failures}, {again}" if outcome.failures else again


def level_of(error: BaseException) -> int:
    """Conflicts are how optimistic locking works, and RetryAfter is what somebody meant."""
    return logging.INFO if is_meant(error) else logging.WARNING


def is_meant(error: BaseException) -> bool:
    """Tell whether an error is part of how a reconcile works: no call of it is worth a line."""
    return isinstance(only_cause(error), ConflictError | RetryAfter)


def _said(error: BaseException) -> str | None:
    """Return an error's own words, if they are for logs and name their cause by themselves."""
    if isinstance(error, ModelMismatchError):
        return f"{error.what}: {error.reason}"
    if isinstance(error, TerminalError):
        return error.reason
    if isinstance(error, RetryAfter):  # when is said by the outlook
        return error.reason or "RetryAfter"
    if isinstance(error, ReconcileTimeoutError) or _is_about_result(error):
        return str(error)
    return None


def _is_about_result(error: BaseException) -> bool:
    """Tell whether a reconcile returned nonsense, which is said in the names of types."""
    return isinstance(error, InvalidTypeError) and error.argument == "result"
