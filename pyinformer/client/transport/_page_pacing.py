"""Whether the next page of a list is requested, and when.

A gateway that filters lists leaves many pages empty, and a server may answer without an end with
pages that bring nothing new, each with another continue token. Such pages are requested at growing
intervals, and both they and the list as a whole are limited. Pages that bring very little are not
requested as fast as the server answers either.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, final

from pyinformer.client.transport.http import LEAST_BYTES_PER_SECOND
from pyinformer.errors import ListInconsistentError, RequestTimeoutError

MAX_EMPTY_PAGES: Final = 64
"""How many pages in a row may bring nothing new; kube-apiserver sends no such page. A gateway may
have filtered 32,000 objects out of so many, and one body costs less than what may follow."""

LIST_TOTAL_SECONDS: Final = 300.0
"""A list that takes longer, plus a second for each 16 KiB that arrived, is started again. Most
servers have forgotten the version of the first page by then; the extra time lets a slow link
transfer a million objects."""
_FEW_ITEMS: Final = 8  # servers fill their pages; of a requested 500 this is very little
_FREE_PAGES: Final = 16  # how many pages of a list may have few items before any is delayed
_FEW_PAUSE_SECONDS: Final = 0.1
_EMPTY_PAUSE_SECONDS: Final = 0.02  # times their number: 22 take 5 s, and 63 take 40 s


@final
class PagesEmptyError(ListInconsistentError):
    """Many pages of a list brought nothing new: a gateway filters them, or they have no end."""


@final
class Paging:
    """Delays and limits the pages of one list.

    Args:
        what: the list, for errors.
        total_seconds: how long it may take, plus a second for each 16 KiB that arrived.
        now: the loop's time.
        limit: how many items a page may have; 0 for any number.
    """

    def __init__(self, what: str, total_seconds: float, now: float, *, limit: int = 0) -> None:
        self._what = what
        self._total_seconds = total_seconds
        self._began_at = now
        self._found = 0
        self._empty = self._empty_in_a_row = 0
        self._limit = limit
        self._few_below = min(limit or _FEW_ITEMS, _FEW_ITEMS)
        self._free = _FREE_PAGES
        self._tokens: set[bytes] = set()
        self.received_bytes: int = 0
        """The size of what has arrived; the reader adds to it."""

    def pause_seconds(self, found: int, now: float) -> float:
        """Return the delay before the next page is requested.

        Args:
            found: how many different objects the pages had so far.
            now: the loop's time.

        Raises:
            ListInconsistentError: too many pages in a row brought nothing; or as many in all, and
                the list has taken too long, since each is followed by a pause.
            RequestTimeoutError: the list has taken too long.
        """
        waited = now - self._began_at
        is_late = waited > self._total_seconds + self.received_bytes / LEAST_BYTES_PER_SECOND
        brought, self._found = found - self._found, found
        self._empty += not brought
        self._empty_in_a_row = 0 if brought else self._empty_in_a_row + 1
        if (self._empty if is_late else self._empty_in_a_row) >= MAX_EMPTY_PAGES:
            reason = f"{self._empty} pages brought nothing, and another one follows"
            if self._limit:
                reason += "; page_size=0 requests the list as one body"
            raise PagesEmptyError(self._what, reason)
        if is_late:
            reason = f"its pages arrive too slowly: {self.received_bytes} bytes in {waited:.0f} s"
            raise RequestTimeoutError(self._what, reason, waited_seconds=waited)
        if brought:
            self._free -= brought < self._few_below
            return _FEW_PAUSE_SECONDS if brought < self._few_below and self._free < 0 else 0.0
        return _EMPTY_PAUSE_SECONDS * self._empty_in_a_row

    def repeats(self, token: str) -> bool:
        """Return whether this continue token was followed before, and remember it.

        A digest is remembered: a server may make each token 64 KiB long.
        """
        digest = blake2b(token.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        is_known = digest in self._tokens
        self._tokens.add(digest)
        return is_known
