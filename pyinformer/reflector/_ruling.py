"""The words in which events are judged: orders, verdicts, and why a stream is suspected.

An order says what resource versions can prove; a verdict says what the store and its handlers are
to do; a suspicion says why a stream cannot be followed any further. Only values, no decisions.
"""

from __future__ import annotations

import enum
from typing import Literal, TypeAlias

Order: TypeAlias = Literal["global", "per_object", "opaque"]
"""What resource versions prove. `global`: any two of a resource compare, as built-in resources and
custom resources promise. `per_object`: only two of the same object do. `opaque`: only equality
means anything. The last two are for aggregated APIs that keep their state in their own way."""

ORDERS: tuple[Order, ...] = ("global", "per_object", "opaque")


class Verdict(enum.Enum):
    """What is to be done with an event."""

    ADD = enum.auto()
    UPDATE = enum.auto()
    REPLACE = enum.auto()
    """Another object under the same name: delete the cached one, then add."""
    REMOVE = enum.auto()
    REMOVE_UNSEEN = enum.auto()
    """The cached object is proven dead, though its own deletion was missed."""
    SKIP = enum.auto()
    """Nothing to do; the position may have moved."""


class Suspicion(enum.Enum):
    """Why a stream cannot be followed any further."""

    MALFORMED = "a resource version that cannot be compared"
    UNPROVEN = "an event older than the position that cannot be proven stale"
    REGRESSIONS = "several events older than the position"
    BOOKMARK = "a bookmark older than the position"
    CONTRADICTED = "a look at one key that is older than what is cached"


class Passing(enum.Enum):
    """Why an event is not simply taken."""

    DUPLICATE = enum.auto()
    """It is what is cached."""
    STALE = enum.auto()
    """It is older than what is cached, or of an object that is dead."""
    UNPROVEN = enum.auto()
    """Nothing proves it right or wrong."""
    UNSEEN = enum.auto()
    """A deletion of another object that proves the cached one dead, too."""
