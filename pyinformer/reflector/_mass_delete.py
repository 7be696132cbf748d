"""Whether a list would delete so much that one answer is not enough to believe it.

What enters are two numbers, how much is cached and how much of it a new list lacks; what leaves is
a yes or a no. Pure. Who acts on it is the loader: it holds such a list back and asks once more, on
a connection of its own, and believes that second answer whatever it says. So a truncated list, a
proxy's empty answer or an empty peer delete nothing, and a deletion that is true is only delayed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from pyinformer.apimachinery import InvalidArgumentError

EVERYTHING_FROM: Final = 10
"""From so many objects on, losing all of them is suspicious. A scope with a few of them empties in
the ordinary course of things, and a second list of nothing would be asked for each time."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MassDeletePolicy:
    """Which lists are confirmed by a second one before they are believed.

    Raises:
        InvalidArgumentError: a setting that could never apply, or would always.
    """

    share: float = 0.5
    """A list that lacks more than this share of what is cached is confirmed; from 0 (any loss) to
    below 1. The default: no rollout replaces more than half of its objects under other names."""
    at_least: int = 100
    """The share counts only if so many objects are cached; 1 or more. Below, ordinary changes are
    large shares."""
    everything: bool = True
    """Confirm as well a list that lacks everything, if ten objects or more are cached."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        share, least = self.share, self.at_least
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise InvalidArgumentError("share", f"{share!r} is no number")
        if not 0 <= share < 1:
            reason = f"{share} is out of range: give 0 or more, and less than 1, since a list never"
            raise InvalidArgumentError("share", f"{reason} lacks more than everything")
        if isinstance(least, bool) or not isinstance(least, int) or least < 1:
            raise InvalidArgumentError("at_least", f"{least!r} is no number of objects from 1 on")
        if not isinstance(self.everything, bool):
            raise InvalidArgumentError("everything", f"{self.everything!r} is neither yes nor no")


def is_mass_delete(cached: int, gone: int, policy: MassDeletePolicy | None) -> bool:
    """Tell whether a list has to be confirmed before it is believed.

    Args:
        cached: how many objects are cached.
        gone: how many of these the list lacks. One that has another object in its place counts:
            another cluster may have the same names.
        policy: None never asks for a confirmation.
    """
    if policy is None or gone <= 0:
        return False
    if policy.everything and gone >= cached >= EVERYTHING_FROM:
        return True
    return cached >= policy.at_least and gone > policy.share * cached
