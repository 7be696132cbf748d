"""Settings of a reflector."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal

from pyinformer.apimachinery import InvalidArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorOptions:
    """How a reflector talks to its server. The defaults are right for nearly everybody."""

    use_watch_list: bool = True
    """Try a watch-list before a list. A server that refuses it is asked again after ten minutes."""
    page_size: int = 500
    """Items per page of a list; 0 asks for one body. The default is that of upstream's pager."""
    consistency: Literal["quorum", "any"] = "quorum"
    """`any` lets the first load be answered from any server's cache, however old: cheaper for
    the cluster, and after a restart it may show a past that was seen to be over."""
    watch_timeout_seconds: tuple[float, float] = (180.0, 230.0)
    """Watches are asked to end after a time drawn from this range: below the idle limits of
    common load balancers (240 s), and spread so that not all end together."""
    initial_events_idle_seconds: float = 30.0
    """A watch-list that is silent for so long before its end falls back to a list."""
    initial_events_total_seconds: float = 300.0
    """A watch-list that takes so long falls back to a list."""
    silence_seconds: float = 75.0
    """A watch that delivers nothing for so long, not even a bookmark, is doubled by a second one at
    the same position, which takes its place. Servers send bookmarks about once a minute."""
    rng: random.Random = field(default_factory=random.Random)
    """The source of chance."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        low, high = self.watch_timeout_seconds
        if not 0 < low <= high:
            reason = f"({low}, {high}) is no range of positive seconds"
            raise InvalidArgumentError("watch_timeout_seconds", reason)
        if self.page_size < 0:
            raise InvalidArgumentError("page_size", f"{self.page_size} is negative; 0 is no paging")
        for name in (
            "initial_events_idle_seconds",
            "initial_events_total_seconds",
            "silence_seconds",
        ):
            if not getattr(self, name) > 0:
                raise InvalidArgumentError(name, f"{getattr(self, name)} is not positive")
