"""Dicts that grow to a million keys without a long stop.

Nothing enters; what leaves is an empty dict. It behaves as every dict does, but keeps the hashes
of its keys where growing needs them.
"""

from __future__ import annotations

from typing import Any, TypeVar

_T = TypeVar("_T")


def large_dict() -> dict[str, _T]:
    """Return an empty dict for very many keys of text.

    CPython leaves the hash out of a dict that has only text for keys, so that growing has to look
    at each key. Those of a cache lie kilobytes apart, each a miss of the processor's caches: at
    700,000 of them the loop stands still for 94 ms, against 9 ms with hashes, and finding a key is
    a tenth slower besides (one core of 2 GHz, Python 3.11, 2026-11-21). A key of another kind
    makes a dict keep hashes, also once that key is gone; they cost 8 bytes per key.
    """
    table: dict[Any, Any] = {None: None}
    del table[None]
    return table
