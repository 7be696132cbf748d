"""Settings of a pool of clusters."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import final

from pyinformer.apimachinery import InvalidArgumentError, check_seconds


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPoolOptions:
    """How patient a pool is with a cluster."""

    open_timeout_seconds: float = 60.0
    """How long opening one may take, until it is ready, however long somebody waits for it. Then
    everything of it is closed again and the attempt has failed."""

    retry_initial_seconds: float = 1.0
    """After a first failure, the next attempt may begin after about so long; each further failure
    in a row doubles it. Until then the pool answers at once with the cause."""

    retry_max_seconds: float = 60.0
    """The longest time between two attempts."""

    close_timeout_seconds: float = 30.0
    """How long closing one may take before it is cut off."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for option in fields(self):
            value = getattr(self, option.name)
            check_seconds(option.name, value)
            if not value:
                raise InvalidArgumentError(option.name, f"{value} is not above 0")
        if self.retry_max_seconds < self.retry_initial_seconds:
            reason = f"{self.retry_max_seconds} is below retry_initial_seconds"
            raise InvalidArgumentError("retry_max_seconds", reason)
