"""The bounds of a Cluster's writes: their rate, and how long a busy server is retried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from pyinformer.apimachinery import check_integer, check_seconds
from pyinformer.errors import InvalidArgumentError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Bounds of the writes of one Cluster."""

    writes_per_second: float | None = 100.0
    """The average rate; None for no limit. The default keeps an endless loop of writes from slowing
    down other clients; the server's priority and fairness does the rest."""

    burst: int = 200
    """How many writes may be sent at once after a pause: two seconds' worth."""

    retry_limit: int = 10
    """How often a write is sent again after a 429, which means that it was not carried out; 0 for
    never. The default is client-go's."""

    retry_timeout_seconds: float = 30.0
    """How long those retries may wait together. If the server asks for a longer wait than is left,
    its error is raised at once."""

    def __post_init__(self) -> None:
        rate = self.writes_per_second
        is_rate = isinstance(rate, int | float) and 0 < rate < float("inf")
        if rate is not None and not is_rate:
            reason = f"must be a number above 0, or None for no limit, got {rate!r}"
            raise InvalidArgumentError("writes_per_second", reason)
        check_integer("burst", self.burst)
        check_integer("retry_limit", self.retry_limit, least=0)
        check_seconds("retry_timeout_seconds", self.retry_timeout_seconds)
