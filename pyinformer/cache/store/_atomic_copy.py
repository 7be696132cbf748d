"""A copy of several collections at one moment, while another thread writes them.

CPython switches threads between bytecodes, and not within a C call that runs no Python code.
"""

from __future__ import annotations

from itertools import chain, starmap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def copy_at_once(*iterables: Iterable[Any]) -> list[Any]:
    """Return the items of all iterables, one after the other, as they are at one moment.

    Args:
        iterables: dicts, views of dicts, lists, and `map` objects over such that call functions of
            C which allocate nothing that the garbage collector tracks.

    Raises:
        RuntimeError: a dict changed its size just before the moment; the read must be repeated.
    """
    # `starmap` makes all iterators first, then `chain` reads them. In between nothing is allocated
    # that the collector tracks: on Python 3.11 such an allocation can run finalizers, within which
    # threads switch.
    return list(chain.from_iterable(starmap(chain, (map(iter, iterables),))))
