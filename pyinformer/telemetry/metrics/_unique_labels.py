"""Label values that must differ between clusters, or between controllers."""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING, Final, final
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Container

    from pyinformer.telemetry.metrics._protocol import Metrics


def qualified(name: str, cluster: str) -> str:
    """Return a name that is unique among the clusters of a program: `east:databases`.

    Args:
        name: a name within its cluster.
        cluster: the name of the cluster; empty for the only one, which is left out.
    """
    return f"{cluster}:{name}" if cluster else name


def distinct(name: str, taken: Container[str]) -> str:
    """Return a name; if it is taken, with the first free number: `east#2`."""
    numbered = (f"{name}#{number}" for number in count(2))
    return name if name not in taken else next(one for one in numbered if one not in taken)


@final
class UniqueLabel:
    """A label value that no other owner with the same metrics has until this one is released.

    Args:
        metrics: where the figures of the owner go.
        label: the label's name: `name` for clusters, `controller` for controllers.
        wanted: the value that the owner wants; it gets a number if another owner has it.
    """

    def __init__(self, metrics: Metrics, label: str, wanted: str) -> None:
        self.metrics: Metrics = metrics
        self.label: str = label
        with _lock:
            same = (one for one in _open if one.metrics is metrics and one.label == label)
            self.text: str = distinct(wanted, {one.text for one in same})
            """The value."""
            _open.add(self)

    def release(self) -> None:
        """Free the value for another owner; a second call does nothing."""
        with _lock:
            _open.discard(self)


_lock: Final = threading.RLock()
_open: Final[WeakSet[UniqueLabel]] = WeakSet()
"""Changed under the lock."""
