"""Dicts for very many keys."""

from __future__ import annotations

import gc
import sys

from pyinformer.apimachinery import large_dict


def test_a_large_dict_keeps_the_hashes_of_its_keys_however_it_grows() -> None:
    """Without them, growing would read every key; they show in its size."""
    plain: dict[str, int] = {}
    large: dict[str, int] = large_dict()
    for number in range(10_000):
        plain[f"key-{number}"] = large[f"key-{number}"] = number
    assert sys.getsizeof(large) > sys.getsizeof(plain)
    assert large == plain
    assert list(large) == list(plain)


def test_a_large_dict_is_as_empty_and_as_invisible_to_the_collector_as_any() -> None:
    large: dict[str, str] = large_dict()
    assert not large
    large["key"] = "value"
    assert not gc.is_tracked(large)
