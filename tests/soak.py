"""How much the long properties and storms do: little in `make test`, far more in `make soak`.

`make soak` sets PYINFORMER_SOAK. A test that grows with it still runs in `make test`, with fewer
examples, events or informers, and keeps the same promise.
"""

from __future__ import annotations

import os
from typing import Final, TypeVar

IS_SOAK: Final = bool(os.environ.get("PYINFORMER_SOAK"))
"""Whether this is `make soak`."""

_MORE_EXAMPLES: Final = 100

SizeT = TypeVar("SizeT")


def examples(count: int) -> int:
    """Return how many examples a property tries that tries `count` in `make test`."""
    return count * _MORE_EXAMPLES if IS_SOAK else count


def in_soak(size: SizeT, *, otherwise: SizeT) -> SizeT:
    """Return a size for `make soak`, or the one for `make test`."""
    return size if IS_SOAK else otherwise
