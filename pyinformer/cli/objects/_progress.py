"""What is said meanwhile, on stderr: why nothing is shown yet, and why it may be old later.

What enters are the states of an informer at moments; what leaves are lines, each said once. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from pyinformer._printable import printable
from pyinformer.informer import InformerStatus, NamespaceStatus
from pyinformer.reflector import ReflectorState

_FIRST_LINE_SECONDS: Final = 2.0  # what is quicker needs no words
_REFUSED: Final = frozenset({ReflectorState.FORBIDDEN, ReflectorState.FAILED})
_BAD_REQUEST: Final = ": 400 BadRequest"
_AT_WORK: Final = frozenset({ReflectorState.NEW, ReflectorState.LOADING})


@final
class ProgressReporter:
    """Remembers what was said."""

    def __init__(self) -> None:
        self._reported: dict[str, str] = {}
        self._behind: set[str] = set()
        self._merged = 0

    def lines(self, status: InformerStatus, elapsed_seconds: float) -> list[str]:
        """Return what is new to say.

        Args:
            status: of the informer.
            elapsed_seconds: since the command began to wait.
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
            return  # which ends the command, with words of its own
        is_on_its_way = namespace.state in _AT_WORK and not namespace.last_error
        if is_on_its_way and elapsed_seconds < _FIRST_LINE_SECONDS:
            return
        text = reason_for(namespace)
        if self._reported.get(namespace.follows) != text:
            self._reported[namespace.follows] = text
            yield f"waiting for {namespace.follows}: {text}"

    def _on_following(self, namespace: NamespaceStatus) -> Iterator[str]:
        name = namespace.follows
        if namespace.state is ReflectorState.WATCHING:
            if name in self._behind:
                self._behind.remove(name)
                yield f"{name}: followed again"
            return
        is_in_trouble = namespace.attempts or namespace.state in {*_REFUSED, ReflectorState.ABSENT}
        if is_in_trouble and name not in self._behind:
            self._behind.add(name)
            yield f"{name}: what is shown may be old: {reason_for(namespace)}"

    def _on_merging(self, status: InformerStatus) -> Iterator[str]:
        merged = sum(one.coalesced for one in status.handlers)
        if merged and not self._merged:
            yield "changes of one object are merged: whoever reads this is slower than the cluster"
        self._merged = merged


def reason_for(namespace: NamespaceStatus) -> str:
    """Say why something is not followed at present."""
    if namespace.state in _AT_WORK and not namespace.last_error:
        return "the list has not come yet"
    attempt = f", attempt {namespace.attempts}" if namespace.attempts else ""
    error = namespace.last_error or ""
    reason = "" if namespace.reason in error else namespace.reason
    return f"{': '.join(part for part in (namespace.state.value, reason, error) if part)}{attempt}"


def is_permanent_failure(namespace: NamespaceStatus) -> bool:
    """Tell whether the server will never do what it is asked for, a field that it cannot select."""
    is_bad = namespace.attempts > 1 and _BAD_REQUEST in (
        namespace.last_error or ""
    )  # not of a fallback
    return is_bad and not namespace.has_synced


def is_refused(namespace: NamespaceStatus) -> bool:
    """Tell whether waiting may be in vain: it has not synced, and the server has said no."""
    return not namespace.has_synced and namespace.state in _REFUSED
