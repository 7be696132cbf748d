"""What tests read of kopf, and no public name says; each in one place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import kopf


class Counting(asyncio.Condition):
    """A condition that counts its notifications."""

    notifications = 0

    def notify_all(self) -> None:
        """Count."""
        self.notifications += 1
        super().notify_all()


def counted(toggles: Any) -> Counting:
    """Return the condition of a set of toggles, which counts from now on."""
    toggles._condition = condition = Counting()
    return condition


def activities(registry: kopf.OperatorRegistry) -> set[str]:
    """Return the ids of the probes and of the other activities of a registry."""
    return {one.id for one in registry._activities.get_all_handlers()}
