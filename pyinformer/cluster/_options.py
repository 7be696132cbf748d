"""The bounds of writing: how fast, and how patient with a server that is busy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from pyinformer.apimachinery import InvalidArgumentError, check_seconds


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Bounds of the writes of one Cluster."""

    writes_per_second: float | None = 100.0
    """How many writes may leave in the long run; None for no limit. The default keeps a loop that
    writes for ever from being felt by others; the server's own priority and fairness does the
    rest."""

    burst: int = 200
    """How many writes may leave at once after a pause: two seconds' worth."""

    retry_limit: int = 10
    """How often a write is sent again that the server put off with 429, which means that it was
    not carried out; 0 for never. As many times as client-go."""

    retry_timeout_seconds: float = 30.0
    """How long those retries may wait together. A server that asks for more patience than is left
    is not waited for: its error is raised at once."""

    def __post_init__(self) -> None:
        rate = self.writes_per_second
        is_rate = isinstance(rate, int | float) and 0 < rate < float("inf")
        if rate is not None and not is_rate:
            reason = f"{rate!r} is no rate; None for no limit"
            raise InvalidArgumentError("writes_per_second", reason)
        for name, least in (("burst", 1), ("retry_limit", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidArgumentError(name, f"{value!r} is no number from {least} on")
        check_seconds("retry_timeout_seconds", self.retry_timeout_seconds)
