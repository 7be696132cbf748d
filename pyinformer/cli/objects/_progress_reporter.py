"""Progress reports on stderr: why nothing is printed yet, and why the output may be stale.

The reason is reported once, then only the number of the attempt: 2, 4, 8. Pure.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from pyinformer._printable import printable
from pyinformer.cache.informer import InformerStatus, NamespaceStatus
from pyinformer.cache.reflector import ReflectorState

_FIRST_LINE_SECONDS: Final = 2.0  # faster steps are not reported
_REFUSED: Final = frozenset({ReflectorState.FORBIDDEN, ReflectorState.FAILED})
_BAD_REQUEST: Final = ": 400 BadRequest"
_AT_WORK: Final = frozenset({ReflectorState.NEW, ReflectorState.LOADING})


@final
class ProgressReporter:
    """Turns the status of an informer into lines, and remembers which were reported."""

    def __init__(self) -> None:
        self._reported: dict[str, tuple[str, int]] = {}
        """What each namespace waits for, and the number of the attempt in its newest line."""
        self._behind: set[str] = set()
        self._merged = 0

    def lines(self, status: InformerStatus, elapsed_seconds: float) -> list[str]:
        """Return the lines that were not reported yet.

        Args:
            status: the status of the informer.
            elapsed_seconds: how long the command has waited.
        """
        found = [
            line for one in status.namespaces for line in self._on_namespace(one, elapsed_seconds)
        ]
        return [printable(line) for line in (*found, *self._on_merging(status))]

    def _on_namespace(self, namespace: NamespaceStatus, elapsed_seconds: float) -> Iterator[str]:
        if namespace.has_synced:
            yield from self._on_following(namespace)
            return
        if namespace.state is ReflectorState.ABSENT:
            return  # the command ends, with its own message
        is_on_its_way = namespace.state in _AT_WORK and not namespace.last_error
        if is_on_its_way and elapsed_seconds < _FIRST_LINE_SECONDS:
            return
        name, attempts = namespace.follows, namespace.attempts
        reason = namespace.last_error or namespace.reason
        reported, attempt = self._reported.get(name, ("", 0))
        if reported != reason:
            self._reported[name] = reason, attempts
            yield f"waiting for {name}: {reason_for(namespace)}"
        elif attempts >= 2 * max(attempt, 1):
            self._reported[name] = reason, attempts
            yield f"waiting for {name}: the same after attempt {attempts}"

    def _on_following(self, namespace: NamespaceStatus) -> Iterator[str]:
        name = namespace.follows
        if namespace.state is ReflectorState.WATCHING:
            if name in self._behind:
                self._behind.remove(name)
                yield f"{name}: is followed again"
            return
        is_in_trouble = namespace.attempts or namespace.state in {*_REFUSED, ReflectorState.ABSENT}
        if is_in_trouble and name not in self._behind:
            self._behind.add(name)
            yield f"{name}: the output may be stale: {reason_for(namespace)}"

    def _on_merging(self, status: InformerStatus) -> Iterator[str]:
        merged = sum(one.coalesced for one in status.handlers)
        if merged and not self._merged:
            yield "changes of one object are merged: the reader of the output is too slow"
        self._merged = merged


def reason_for(namespace: NamespaceStatus) -> str:
    """Return why a namespace is not followed at present."""
    if namespace.state in _AT_WORK and not namespace.last_error:
        return "the list has not arrived yet"
    attempt = f", attempt {namespace.attempts}" if namespace.attempts else ""
    error, reason = namespace.last_error or "", namespace.reason
    if error in reason:  # empty, or a reason that begins with it
        error = ""
    elif reason in error:
        reason = ""
    return f"{': '.join(part for part in (namespace.state.value, reason, error) if part)}{attempt}"


def is_permanent_failure(namespace: NamespaceStatus) -> bool:
    """Return whether the server can never serve the request, such as an unknown field selector."""
    is_bad = namespace.attempts > 1 and _BAD_REQUEST in (
        namespace.last_error or ""
    )  # the first attempt may have been a fallback
    return is_bad and not namespace.has_synced


def is_refused(namespace: NamespaceStatus) -> bool:
    """Return whether a namespace has not synced because the server refuses it."""
    return not namespace.has_synced and namespace.state in _REFUSED
