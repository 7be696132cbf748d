"""How logs show errors that user code has raised, and how often.

The text of a foreign error may quote an object, such as a Secret, and is shown only if the program
allows it. Without that, logs show the classes of the error, its causes and the members of its
groups, where they were raised, and the texts of pyinformer's own errors.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias, final, get_args

from pyinformer._printable import Lines, printable, shortened
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks._user_function_checks import place_of
from pyinformer.errors import (
    APIStatusError,
    ApplyConflictError,
    InformerError,
    InvalidArgumentError,
    ModelMismatchError,
    RetryAfter,
    TerminalError,
)

LogExceptions: TypeAlias = Literal["classes", "full"]
"""How logs show an error: `classes` hides the texts of foreign errors, `full` shows them."""

_MAX_ERRORS: Final = 8  # of a chain and its groups: more would hide the first
_MAX_MEMBERS: Final = 4  # of one group
_MAX_TEXT_CHARS: Final = 1_000  # of one error's text
_MAX_CONFLICTS: Final = 3  # fields of an apply in one text
_MAX_FIELD_CHARS: Final = 100  # of a field or its manager; the cure has to fit in the text
_MAX_CAUSES: Final = 4  # of a refusal
_MAX_CAUSE_CHARS: Final = 150
_MAX_FRAMES: Final = 20  # of one error, the innermost
_PERIOD_SECONDS: Final = 60.0
_MAX_KINDS: Final = 64  # a program may make classes without end


def check_log_exceptions(value: object) -> None:
    """Refuse a value that is not one of the two choices.

    Raises:
        InvalidArgumentError: as described.
    """
    if value not in get_args(LogExceptions):
        raise InvalidArgumentError("log_exceptions", f"must be 'classes' or 'full', got {value!r}")


def error_text(error: BaseException, shown: LogExceptions = "classes") -> str:
    """Return an error, its causes and the members of its groups, in one line.

    Args:
        error: the error; it may be of a user's class whose methods raise.
        shown: whether the texts of foreign errors are shown.
    """
    try:
        return printable("; ".join(_chain(error, shown, set())))
    except ENDS_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001 - a fence: attributes of a user's class
        return type(error).__name__


def causes_text(error: BaseException, shown: LogExceptions = "classes") -> str:
    """Return the causes of an error, each after a semicolon; empty if there are none."""
    link, cause = _cause_of(error)
    return "" if cause is None else f"; {link}{error_text(cause, shown)}"


def trace_text(error: BaseException) -> Lines:
    """Return the traceback of an error and its causes, a line for each call, without texts."""
    lines: list[str] = []
    seen = set[int]()
    link = ""
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen and len(seen) < _MAX_ERRORS:
        seen.add(id(cause))
        lines.append(f"{link}{type(cause).__name__}")
        lines += [
            f"  at {frame.filename}:{frame.lineno} in {frame.name}"
            for frame in traceback.extract_tb(cause.__traceback__)[-_MAX_FRAMES:]
        ]
        link, cause = _cause_of(cause)
    return Lines("\n".join(map(printable, lines)))


@final
class FailureLog:
    """Decides which failures of a function are logged: one per minute of each kind.

    A kind is the error's class and the place where it was raised. At most 65 kinds are held.
    """

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[float, int]] = {}  # when it was logged, how many followed

    def due(self, error: BaseException, now: float) -> int | None:
        """Count a failure, and decide whether to log it.

        Args:
            error: the error.
            now: monotonic seconds.

        Returns:
            None if the failure is not to be logged; else how many of its kind have not been logged
            since the last one that was.
        """
        return self.due_kind(f"{type(error).__qualname__} {place_of(error)}", now)

    def due_kind(self, kind: str, now: float) -> int | None:
        """Count an occurrence of a kind; as `due`."""
        kind = self._room_for(kind, now)
        logged_at, unlogged = self._kinds.get(kind, (None, 0))
        if logged_at is not None and now - logged_at < _PERIOD_SECONDS:
            self._kinds[kind] = logged_at, unlogged + 1
            return None
        self._kinds[kind] = now, 0
        return unlogged

    def _room_for(self, kind: str, now: float) -> str:
        """Return the kind; if there is no room for it, the common kind of all others."""
        kinds = self._kinds
        if kind in kinds or len(kinds) < _MAX_KINDS:
            return kind
        for known, (logged_at, _) in tuple(kinds.items()):
            if known and now - logged_at >= _PERIOD_SECONDS:
                kinds.pop(known, None)  # another thread may have removed it
        return kind if len(kinds) < _MAX_KINDS else ""


def repeats_text(unlogged: int) -> str:
    """Return the end of a log line: how many failures of its kind were not logged; empty for 0."""
    return f"; {unlogged} more of this kind since the last such line" if unlogged else ""


def _chain(error: BaseException, shown: LogExceptions, seen: set[int]) -> Iterator[str]:
    link = ""
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if len(seen) >= _MAX_ERRORS:
            yield "and more"
            return
        seen.add(id(cause))
        yield f"{link}{_one(cause, shown, seen)}"
        link, cause = _cause_of(cause)


def _cause_of(error: BaseException) -> tuple[str, BaseException | None]:
    if error.__cause__ is not None:
        return "caused by ", error.__cause__
    if error.__context__ is not None and not error.__suppress_context__:
        return "while handling ", error.__context__
    return "", None


def _one(error: BaseException, shown: LogExceptions, seen: set[int]) -> str:
    words = type(error).__name__
    text = shortened(_text_of(error, shown), _MAX_TEXT_CHARS)
    if text:
        words = f"{words} ({text})"
    if isinstance(error, BaseExceptionGroup):
        members = error.exceptions
        parts = [each for member in members[:_MAX_MEMBERS] for each in _chain(member, shown, seen)]
        if len(members) > _MAX_MEMBERS:
            parts.append(f"and {len(members) - _MAX_MEMBERS} more")
        return f"{words} of {len(members)} [{'; '.join(parts)}]"
    return f"{words} {place_of(error)}" if error.__traceback__ is not None else words


def _text_of(error: BaseException, shown: LogExceptions) -> str:
    """Return the text of an error, as far as logs may show it."""
    try:
        if shown == "full":
            return str(error)
        if isinstance(error, APIStatusError):  # the server's message may quote the object
            answer = f"{error.request}: {error.status} {error.reason}".rstrip()
            return "; ".join(filter(None, (answer, refusal_text(error))))
        if isinstance(error, ModelMismatchError):  # its reason may quote the object
            return error.shown
        if isinstance(error, TerminalError | RetryAfter):
            return error.reason
        is_ours = type(error).__module__.partition(".")[0] == _PACKAGE
        return str(error) if isinstance(error, InformerError) and is_ours else ""
    except ENDS_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001 - a fence: a user's class whose __str__ raises
        return ""


def refusal_text(error: APIStatusError) -> str:
    """Return why a server refused a request, and the cure if one is known; empty if unknown.

    No value of an object is in it, unlike in the server's message.
    """
    if isinstance(error, ApplyConflictError):
        return _conflicts_text(error)
    shown = [shortened(str(one), _MAX_CAUSE_CHARS) for one in error.refusal_causes[:_MAX_CAUSES]]
    if len(error.refusal_causes) > _MAX_CAUSES:
        shown.append(f"and {len(error.refusal_causes) - _MAX_CAUSES} more")
    return "; ".join(filter(None, (", ".join(shown), error.needed, error.hint)))


def _conflicts_text(error: ApplyConflictError) -> str:
    shown = [
        f"{shortened(manager, _MAX_FIELD_CHARS) or 'another manager'} owns"
        f" {shortened(field, _MAX_FIELD_CHARS)}"
        for field, manager in error.conflicts[:_MAX_CONFLICTS]
    ]
    if len(error.conflicts) > _MAX_CONFLICTS:
        shown.append(f"and {len(error.conflicts) - _MAX_CONFLICTS} more fields")
    owned = ", ".join(shown) or "other managers own some fields"
    return f"{owned}: apply with force=True, or leave these fields out"


_PACKAGE: Final = __name__.partition(".")[0]
