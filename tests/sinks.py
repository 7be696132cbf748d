"""The owner of a store sink, for tests that drive a sink without an informer."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class SinkOwner:
    """Keeps what the sink reports."""

    announces: bool = False
    is_resetting: bool = False
    synced: int = 0
    """How often the sink has reported that it has synced."""
    crashes: list[Exception] = field(default_factory=list)

    def on_synced(self) -> None:
        """Count."""
        self.synced += 1

    def on_crash(self, error: Exception) -> None:
        """Keep the error."""
        self.crashes.append(error)
