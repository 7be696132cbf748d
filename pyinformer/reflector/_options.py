"""Settings of a reflector."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Literal

from pyinformer.apimachinery import InvalidArgumentError, check_seconds
from pyinformer.reflector._mass_delete import MassDeletePolicy
from pyinformer.transport import MAX_LINE_BYTES

_LEAST_OBJECT_BYTES = 4096
_WORDS = {
    "consistency": ("quorum", "any"),
    "order": ("auto", "global", "per_object", "opaque"),
}
_ENDLESS = frozenset({"silence_seconds", "relist_after_outage_seconds"})  # the others would hang
_DURATIONS = (
    "initial_events_idle_seconds",
    "initial_events_total_seconds",
    "list_total_seconds",
    "poll_seconds",
    *sorted(_ENDLESS),
)


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
    list_total_seconds: float = 300.0
    """A list of several pages that takes so long, and a second more for each 16 KiB that arrived,
    is given up and begun anew. After five minutes most servers have forgotten the version of the
    first page; a million objects earn the time that a slow link needs for them."""
    silence_seconds: float = 75.0
    """A watch that delivers no whole event or bookmark for so long is doubled by a second one at
    the same position, which takes its place. Servers send bookmarks about once a minute.
    `math.inf` never doubts a stream."""
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
        self._check_words()
        self._check_sizes()
        self._check_durations()
        if not isinstance(self.mass_delete, MassDeletePolicy | None):
            reason = f"{self.mass_delete!r} is no MassDeletePolicy; None switches it off"
            raise InvalidArgumentError("mass_delete", reason)

    def _check_words(self) -> None:
        if not isinstance(self.use_watch_list, bool):
            reason = f"{self.use_watch_list!r} is neither yes nor no"
            raise InvalidArgumentError("use_watch_list", reason)
        for name, known in _WORDS.items():
            if getattr(self, name) not in known:
                reason = f"{getattr(self, name)!r} is none of {', '.join(known)}"
                raise InvalidArgumentError(name, reason)

    def _check_sizes(self) -> None:
        for name in ("page_size", "max_object_bytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise InvalidArgumentError(name, f"{value!r} is no whole number")
        if self.page_size < 0:
            raise InvalidArgumentError("page_size", f"{self.page_size} is negative; 0 is no paging")
        if self.max_object_bytes < _LEAST_OBJECT_BYTES:
            reason = (
                f"{self.max_object_bytes} is below {_LEAST_OBJECT_BYTES}: not even metadata fits"
            )
            raise InvalidArgumentError("max_object_bytes", reason)

    def _check_durations(self) -> None:
        try:
            low, high = self.watch_timeout_seconds
            is_range = 0 < low <= high < math.inf
        except (TypeError, ValueError):
            is_range = False
        if not is_range:
            reason = f"{self.watch_timeout_seconds} is no range of positive seconds"
            raise InvalidArgumentError("watch_timeout_seconds", reason)
        for name in _DURATIONS:
            value = getattr(self, name)
            if name not in _ENDLESS or value != math.inf:
                check_seconds(name, value)
            if value == 0:
                raise InvalidArgumentError(name, f"{value} is not positive")
