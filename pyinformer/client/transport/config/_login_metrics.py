"""The outcomes of logins that no metrics have counted yet.

Credentials are made before the connections that use them, and may be shared; whichever connection
asks first counts an outcome, so each is counted once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, TypeAlias, TypeVar, final

_T = TypeVar("_T")

PluginCall: TypeAlias = tuple[int, str]
"""The exit code of an exec plug-in, and client-go's word for its outcome."""

_MOST_OUTCOMES: Final = 1_000  # without metrics nothing takes them


@final
class LoginMetrics:
    """Keeps the outcomes of one user's logins until they are taken; safe from any thread."""

    def __init__(self) -> None:
        self._logins: deque[bool] = deque(maxlen=_MOST_OUTCOMES)
        self._calls: deque[PluginCall] = deque(maxlen=_MOST_OUTCOMES)

    def logged_in(self, *, is_success: bool) -> None:
        """Record a login, or the reading of a token file."""
        self._logins.append(is_success)

    def plugin_called(self, code: int, status: str) -> None:
        """Record a run of an exec plug-in.

        Args:
            code: its exit code; -1 if a signal has ended it, and 1 if it did not start.
            status: client-go's word for its outcome, such as `no_error`.
        """
        self._calls.append((code, status))

    def take_logins(self) -> Iterator[bool]:
        """Yield whether each login succeeded, once."""
        yield from _drained(self._logins)

    def take_plugin_calls(self) -> Iterator[PluginCall]:
        """Yield each run of an exec plug-in, once."""
        yield from _drained(self._calls)


def _drained(found: deque[_T]) -> Iterator[_T]:
    try:
        while True:
            yield found.popleft()
    except IndexError:  # another thread may take the last one
        return
