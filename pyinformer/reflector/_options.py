"""Settings of a reflector."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal

from pyinformer.apimachinery import InvalidArgumentError
from pyinformer.reflector._mass_delete import MassDeletePolicy
from pyinformer.transport import MAX_LINE_BYTES

_LEAST_OBJECT_BYTES = 4096


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
    mass_delete: MassDeletePolicy | None = field(default_factory=MassDeletePolicy)
    """Which lists delete so much that a second one has to confirm it; None believes every list."""
    max_object_bytes: int = MAX_LINE_BYTES
    """Of an object of more bytes, as JSON, only the metadata is kept, with a `problem`. The default
    is forty times what etcd takes by default."""
    relist_after_outage_seconds: float = 300.0
    """After so long without any contact everything is listed, though the watch could go on: what a
    restore undid and no witness tells of is found then. `math.inf` never does."""
    order: Literal["auto", "global", "per_object", "opaque"] = "auto"
    """How resource versions compare. `auto` takes them as numbers with one order for the whole
    resource, as all built-in and custom resources have it, and less only if an API server behind an
    aggregator proves otherwise; what is named here is never changed."""
    poll_seconds: float = 30.0
    """How often to list where no version is given from which a watch could go on."""
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
        if not isinstance(self.mass_delete, MassDeletePolicy | None):
            reason = f"{self.mass_delete!r} is no MassDeletePolicy; None switches it off"
            raise InvalidArgumentError("mass_delete", reason)
        if self.max_object_bytes < _LEAST_OBJECT_BYTES:
            reason = (
                f"{self.max_object_bytes} is below {_LEAST_OBJECT_BYTES}: not even metadata fits"
            )
            raise InvalidArgumentError("max_object_bytes", reason)
        for name in (
            "initial_events_idle_seconds",
            "initial_events_total_seconds",
            "silence_seconds",
            "poll_seconds",
            "relist_after_outage_seconds",
        ):
            if not getattr(self, name) > 0:
                raise InvalidArgumentError(name, f"{getattr(self, name)} is not positive")
