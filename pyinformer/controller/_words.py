"""What a controller's log says of a reconcile that failed.

In goes an error, out come words and a level. Of an error of the user's only its type and its place
are told, since its text may quote an object; of the server's answer what was asked and the status,
since its message may quote what it refused.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyinformer.apimachinery import (
    APIStatusError,
    ConflictError,
    InvalidTypeError,
    ModelMismatchError,
    ReconcileTimeoutError,
    RetryAfter,
    TerminalError,
    TransportError,
)
from pyinformer.tasks import place_of

if TYPE_CHECKING:
    from pyinformer.controller._outcomes import Outcome


def words_of(error: BaseException) -> str:
    """Return what failed, without the content of any object; never fails itself."""
    try:
        said = _said(error)
    except Exception:  # noqa: BLE001 - a fence: a subclass of the user's that cannot say it
        said = None
    return said or f"{_kind(error)} {place_of(error)}"


def outlook_of(outcome: Outcome) -> str:
    """Return what happens next; a RetryAfter is no failure and has no number."""
    if outcome.after_seconds is None:
        return "not tried again until something changes"
    again = f"again in {outcome.after_seconds:.3f} s"
    return f"failure {outcome.failures}, {again}" if outcome.failures else again


def level_of(error: BaseException) -> int:
    """Conflicts are how optimistic locking works, and RetryAfter is what somebody meant."""
    return logging.INFO if isinstance(error, ConflictError | RetryAfter) else logging.WARNING


def _said(error: BaseException) -> str | None:
    """Return an error's own words, if they are for logs."""
    if isinstance(error, ModelMismatchError):
        return f"{error.what}: {error.reason}"
    if isinstance(error, TerminalError):
        return error.reason
    if isinstance(error, RetryAfter):  # when is said by the outlook
        return error.reason or "RetryAfter"
    if isinstance(error, ReconcileTimeoutError) or _is_about_result(error):
        return str(error)
    return None


def _kind(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, APIStatusError):
        return f"{name} ({error.request}: {error.status} {error.reason})"
    return f"{name} ({error})" if isinstance(error, TransportError) else name


def _is_about_result(error: BaseException) -> bool:
    """Tell whether a reconcile returned nonsense, which is said in the names of types."""
    return isinstance(error, InvalidTypeError) and error.argument == "result"
