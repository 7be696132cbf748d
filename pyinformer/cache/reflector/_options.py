"""The settings of a reflector."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from pyinformer.cache.reflector._mass_delete import MassDeletePolicy
from pyinformer.client.transport import MAX_LINE_BYTES
from pyinformer.errors import InformerError, InvalidArgumentError
from pyinformer.objects import check_choice, check_flag, check_integer, check_seconds

_LEAST_OBJECT_BYTES = 4096  # metadata has to fit
_CHOICES = {"consistency": ("quorum", "any"), "order": ("auto", "global", "per_object", "opaque")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorOptions:
    """The settings of a reflector's requests; the defaults suit nearly every program."""

    use_watch_list: bool = True
    """Try a watch-list before a list. A server that refuses it is tried again after ten minutes."""
    page_size: int = 500
    """Items per page of a list; 0 requests one body. The default is that of client-go's pager."""
    consistency: Literal["quorum", "any"] = "quorum"
    """`any` lets any server answer the first load from its cache, however old. That is cheaper for
    the cluster, but after a restart a program may see older states than before it."""
    watch_timeout_seconds: tuple[float, float] = (180.0, 230.0)
    """The timeout of a watch is drawn from this range: below the idle limits of common load
    balancers (240 s), and spread so that not all watches end together."""
    silence_seconds: float = 75.0
    """A watch that delivers no whole event or bookmark for this time is replaced by a second one at
    the same position. Servers send bookmarks about once a minute. `math.inf` never replaces one."""
    mass_delete: MassDeletePolicy | None = field(default_factory=MassDeletePolicy)
    """Which lists delete so much that a second one has to confirm it; None trusts every list."""
    max_object_bytes: int = MAX_LINE_BYTES
    """Of a larger object, as JSON, only the metadata is kept, with a `problem`. The default is 40
    times the default limit of etcd."""
    order: Literal["auto", "global", "per_object", "opaque"] = "auto"
    """How resource versions compare. `auto` takes them as numbers with one order for the whole
    resource, as in all built-in and custom resources, and falls back to a weaker order only if an
    aggregated API proves otherwise. Any other value is never changed."""
    poll_seconds: float = 30.0
    """How often to list where the server sends no version from which a watch could start."""
    max_retry_seconds: Callable[[int, InformerError], float] | None = None
    """Returns the most seconds to wait after a failure, given how many attempts in a row have
    failed, and the error; None for no limit but the reflector's own. The number is 0 if the watch
    had lasted for two seconds. A longer `Retry-After` of the server still applies."""
    rng: random.Random = field(default_factory=random.Random)
    """The random generator."""

    def __post_init__(self) -> None:
        """Raise InvalidArgumentError for values that cannot work."""
        check_flag("use_watch_list", self.use_watch_list)
        for name, known in _CHOICES.items():
            check_choice(name, getattr(self, name), known)
        check_integer("page_size", self.page_size, least=0)
        check_integer("max_object_bytes", self.max_object_bytes, least=_LEAST_OBJECT_BYTES)
        if not isinstance(self.mass_delete, MassDeletePolicy | None):
            reason = f"must be a MassDeletePolicy or None, got {self.mass_delete!r}"
            raise InvalidArgumentError("mass_delete", reason)
        self._check_durations()

    def _check_durations(self) -> None:
        try:
            low, high = self.watch_timeout_seconds
            is_range = 0 < low <= high < math.inf
        except (TypeError, ValueError):
            is_range = False
        if not is_range:
            reason = f"must be a range of positive seconds, got {self.watch_timeout_seconds}"
            raise InvalidArgumentError("watch_timeout_seconds", reason)
        check_seconds("poll_seconds", self.poll_seconds, is_positive=True)
        if self.silence_seconds != math.inf:
            check_seconds("silence_seconds", self.silence_seconds, is_positive=True)
