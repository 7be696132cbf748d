"""The functions that cut writes off when nothing may leave any more."""

# Pure: it knows no event loop.

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import error_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.client.transport import WriteGuard

_log = get_logger(__name__)


@final
class CutOffs:
    """Calls each function once, in any thread, unless it was taken back before.

    Args:
        what: whose writes they cut off, for the log.
        outer: a guard whose consent is needed, too: its end calls them as well.
    """

    def __init__(self, what: str, outer: WriteGuard | None) -> None:
        self._what = what
        self._outer = outer
        self._functions: dict[int, Callable[[], None]] = {}
        self._numbers = count()

    def add(self, cut_off: Callable[[], None], has_ended: Callable[[], bool]) -> Callable[[], None]:
        """Add a function.

        Args:
            cut_off: what it raises is logged.
            has_ended: whether it is to be called at once.

        Returns:
            A function that removes it.
        """
        number = next(self._numbers)
        self._functions[number] = cut_off
        outer, end = self._outer, partial(self._call, number)
        take_back_outer = None if outer is None else outer.on_end(end)
        # Registered first, checked then: another thread may end it in between.
        if has_ended():
            self._call(number)

        def take_back() -> None:
            """Forget the function."""
            self._functions.pop(number, None)
            if take_back_outer is not None:
                take_back_outer()

        return take_back

    def __len__(self) -> int:
        """Count the writes that are under way."""
        return len(self._functions)

    def call_all(self) -> None:
        """Cut off everything that is under way."""
        for number in tuple(self._functions):
            self._call(number)

    def _call(self, number: int) -> None:
        """Call one function, unless another thread has called it or has taken it back."""
        cut_off = self._functions.pop(number, None)
        if cut_off is None:
            return
        try:
            cut_off()
        except Exception as error:  # noqa: BLE001 - a fence: the other writes are cut off, too
            _log.error("cutting off a write of %s raised %s", self._what, error_text(error))
