"""Similar names for errors that ask "did you mean ...?"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

_MOST_NEAR: Final = 3
_MOST_WORK: Final = 300_000  # pairs of letters: a server may name millions of words, or long ones
_LEAST_LIKENESS: Final = 0.7  # below it, endpoints is similar to deployments


def near_names(name: str, known: Mapping[str, str]) -> tuple[str, ...]:
    """Return up to three similar names, the most similar first.

    Args:
        name: the name that was not found, in any case.
        known: the names that exist, by each lower-case word for them.
    """
    some = _comparable(name, known)
    close = difflib.get_close_matches(name.lower(), some, _MOST_NEAR * 2, _LEAST_LIKENESS)
    return tuple(dict.fromkeys(known[word] for word in close))[:_MOST_NEAR]


def _comparable(name: str, words: Iterable[str]) -> Iterator[str]:
    """Yield the words of a similar length, as many as can be compared in a moment."""
    work = 0
    for word in words:
        shared = 2 * min(len(name), len(word))
        if shared >= _LEAST_LIKENESS * (len(name) + len(word)):
            work += len(name) * len(word)
            if work > _MOST_WORK:
                return
            yield word


def did_you_mean(near: tuple[str, ...]) -> str:
    """Return the question that ends an error; empty without similar names."""
    return f"did you mean {' or '.join(near)}?" if near else ""
