"""What a reflector doubts: is the history the one it followed, and is its cache whole?

What enters are losses, proofs and their failures, and demands for a load; what leaves is whether
to prove the history before the next watch, and whether the next load believes what is cached.
Pure: the time is passed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.apimachinery import APIStatusError

if TYPE_CHECKING:
    from pyinformer.apimachinery import InformerError

_PROVEN_SECONDS = 15.0  # a server that is restored is away for longer than that
_REFUSED_PROOFS = 3  # then it is watched unproven: who refuses lists may still serve watches
_FAILED_PROOFS = 8  # likewise; in a minute or two it is not the server that is away, but its lists


class Doubts:
    """The doubts of one reflector."""

    def __init__(self) -> None:
        self.distrust: bool = False
        """The server's history was proven to be another; until everything is loaded again."""
        self.lost_at: float | None = None
        """When the watch was lost; None while nothing suggests another history."""
        self.is_silent: bool = False
        """It was lost because nothing came: only the resource itself can tell whether it is."""
        self.distrust_reason: str = ""
        """What proves that, for people: also when such a load is tried again after an error."""
        self.waits_for_its_turn: bool = False
        """Breaks of the history follow each other too fast: the load of the latest is delayed."""
        self._demanded = ""
        self._distrusts_next = False
        self._in_touch_at = float("-inf")
        self._failed_proofs = 0

    @property
    def demands_load(self) -> bool:
        """Whether everything is to be loaded instead of the next watch."""
        return bool(self._demanded)

    def demand_load(self, reason: str, *, distrust: bool = False) -> None:
        """Load everything instead of the next watch.

        Args:
            reason: why, for people.
            distrust: the server's history is another one.
        """
        self._demanded = reason
        self.distrust = self.distrust or distrust
        self._distrusts_next = self._distrusts_next or distrust
        if distrust:
            self.distrust_reason = reason

    def load_begins(self) -> None:
        """Take note that a load asks the server from here on: it answers what was demanded."""
        self._demanded = ""
        self._distrusts_next = self.waits_for_its_turn = False

    def _doubt_no_more(self, now: float) -> None:
        """Take note of a complete load; it answers nothing that was demanded since it began."""
        self.distrust = self._distrusts_next
        if not self.distrust:
            self.distrust_reason = ""
        if not self._demanded:
            self.lost_at = None
        self._touch(now)

    def _touch(self, now: float) -> None:
        """Take note that the history was the same up to now: nothing was lost meanwhile."""
        self._in_touch_at = now
        self._failed_proofs = 0
        self.is_silent = False

    def _doubt_if_out_of_touch(self, now: float) -> None:
        """Doubt the history before a watch that follows a long time without one."""
        if self.lost_at is None and now - self._in_touch_at > _PROVEN_SECONDS:
            self.lost_at = now

    def _is_worth_waiting(self, error: InformerError) -> bool:
        """Tell whether a proof that has failed is to be asked for again before the next watch."""
        self._failed_proofs += 1
        refuses = isinstance(error, APIStatusError)
        return self._failed_proofs <= (_REFUSED_PROOFS if refuses else _FAILED_PROOFS)
