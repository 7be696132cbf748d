"""Durations as users give them: float seconds, 0 or more, finite."""

from __future__ import annotations

import math

from pyinformer.apimachinery._errors import InvalidArgumentError


def check_seconds(name: str, seconds: float) -> None:
    """Refuse a duration that is none.

    Raises:
        InvalidArgumentError: naming the argument.
    """
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    usable = is_number and seconds >= 0 and math.isfinite(seconds)
    if not usable:
        reason = f"{seconds!r} is no duration; give seconds, 0 or more"
        raise InvalidArgumentError(name, reason)
