"""Whether a list would delete so many objects that it needs confirmation.

The loader holds such a list back, lists again on a new connection, and applies the second list
whatever it holds. So a truncated list, a proxy's empty answer or an empty peer deletes nothing, and
a real mass deletion is only delayed.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import check_flag, check_integer

MANY: Final = 10
"""From this number of objects on, losing all of them is suspicious. A scope with fewer objects is
often emptied in normal operation: that is confirmed too, since a list of nothing costs little, and
it is an error only if the second list shows another state."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MassDeletePolicy:
    """Which lists are confirmed by a second list before they are applied.

    Raises:
        InvalidArgumentError: a value out of range.
    """

    share: float = 0.5
    """A list that lacks more than this share of the cached objects is confirmed; from 0 (any loss)
    to below 1. The default: no rollout replaces more than half of its objects under other names."""
    at_least: int = 100
    """The share counts only if at least this many objects are cached; 1 or more. In a smaller cache
    ordinary changes are large shares."""
    everything: bool = True
    """Also confirm a list that is empty, or that lacks everything if ten objects or more are
    cached."""

    def __post_init__(self) -> None:
        """Raise InvalidArgumentError for values that cannot work."""
        share = self.share
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise InvalidArgumentError("share", f"must be a number >= 0 and < 1, got {share!r}")
        check_integer("at_least", self.at_least)
        check_flag("everything", self.everything)


def is_mass_delete(
    cached: int, gone: int, policy: MassDeletePolicy | None, *, is_empty: bool = False
) -> bool:
    """Return whether a list has to be confirmed before it is applied.

    Args:
        cached: how many objects are cached.
        gone: how many of them the list lacks. An object that was replaced under its name counts,
            since another cluster may have the same names.
        policy: None never requires a confirmation.
        is_empty: the list has no object at all.
    """
    if policy is None or gone <= 0:
        return False
    if policy.everything and gone >= cached and (is_empty or cached >= MANY):
        return True
    return cached >= policy.at_least and gone > policy.share * cached
