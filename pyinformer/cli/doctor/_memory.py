"""Estimate the memory that a cache takes by its mode, from the objects of one page."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial

from pyinformer.errors import InvalidObjectError
from pyinformer.objects import GroupVersionResource, ObjectCodec, has_compressor


def memory_by_mode(
    resource: GroupVersionResource, kind: str, items: Sequence[bytes]
) -> dict[str, float]:
    """Return the bytes that one object takes in each mode, indexes excluded.

    The objects are decoded as a cache decodes them, and what Python allocates for them is counted.

    Args:
        resource: the resource.
        kind: the kind of the objects; empty if their bodies have it.
        items: objects as JSON.

    Returns:
        By the values of `memory=`, and `decoded` for objects that are kept as dicts, too; empty
        without objects. `compact` is missing where no compressor is installed.
    """
    if not items:
        return {}

    codecs: dict[str, ObjectCodec[None]] = {
        "raw": ObjectCodec(resource, strip_managed_fields=False),
        "strip_managed_fields": ObjectCodec(resource),
        "metadata": ObjectCodec(resource, metadata_only=True),
        "decoded": ObjectCodec(resource),
    }
    if has_compressor():
        codecs["compact"] = ObjectCodec(resource, compact=True)
    found: dict[str, float] = {}
    for mode, codec in codecs.items():
        if kind:
            codec.learn_kind(kind)
        decode = partial(_decode, codec, as_dict=mode == "decoded")
        _kept_bytes(decode, items)  # what is kept once, such as the dictionary of `compact`
        found[mode] = _kept_bytes(decode, items) / len(items)
    return found


def _decode(codec: ObjectCodec[None], item: bytes, *, as_dict: bool) -> object:
    found = codec.decode(bytearray(item), 0, len(item))
    return (found, found.to_dict()) if as_dict else found


def _kept_bytes(decode: Callable[[bytes], object], items: Sequence[bytes]) -> int:
    kept = list[object]()
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for item in items:
            try:
                kept.append(decode(item))
            except InvalidObjectError:
                continue  # the cache skips it as well
        gc.collect()
        return max(tracemalloc.get_traced_memory()[0] - before, 0)
    finally:
        if not was_tracing:
            tracemalloc.stop()
