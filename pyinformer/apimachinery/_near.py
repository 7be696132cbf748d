"""Names that come near to one that was not found, for errors that ask "did you mean ...?"."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from itertools import islice
from typing import Final

_MOST_NEAR: Final = 3
_MOST_WORDS: Final = 10_000  # a server may name millions, and each is compared
_LEAST_LIKENESS: Final = 0.7  # below it, endpoints come near to deployments


def near_names(name: str, known: Mapping[str, str]) -> tuple[str, ...]:
    """Return up to three names that come near, the nearest first.

    Args:
        name: what was not found, in any case.
        known: what exists, by each word in lower case that stands for it.
    """
    some = islice(known, _MOST_WORDS)
    close = difflib.get_close_matches(name.lower(), some, _MOST_NEAR * 2, _LEAST_LIKENESS)
    return tuple(dict.fromkeys(known[word] for word in close))[:_MOST_NEAR]


def did_you_mean(near: tuple[str, ...]) -> str:
    """Return the question that an error ends with; empty if nothing comes near."""
    return f"did you mean {' or '.join(near)}?" if near else ""
