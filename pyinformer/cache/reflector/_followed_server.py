"""What the reflectors of one cluster connection know of its server together."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer.cache.reflector._request_budget import RequestBudget, RequestBudgetOptions
from pyinformer.cache.reflector.lineage import Lineage
from pyinformer.cache.reflector.machine import WatchListMemory
from pyinformer.telemetry.metrics import Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@final
class FollowedServer:
    """The server that the reflectors of one cluster connection follow.

    Args:
        budget: how much they may ask of it at a time; None for the usual limits.
    """

    def __init__(self, budget: RequestBudgetOptions | None = None) -> None:
        self.request_budget: RequestBudget = RequestBudget(budget)
        """How much they ask of it at a time."""
        self.lineage: Lineage = Lineage(attempt=self.request_budget.attempt)
        """Whether its history is still the one that was followed."""
        self.watch_list_memory: WatchListMemory = WatchListMemory()
        """Whether it supports watch-lists."""

    def samples(self, labels: Mapping[str, str]) -> Iterator[Sample]:
        """Yield the figures of its limits; safe from any thread.

        Args:
            labels: the labels of all of them.
        """
        now = self.request_budget.statistics()
        waiting = {"list_slot": now.waiting_to_list, "watch_rate": now.waiting_to_attempt}
        for reason, count in waiting.items():
            yield Sample("rest_client_requests_waiting", {**labels, "reason": reason}, count)
        yield Sample("rest_client_lists_in_flight", labels, now.listing)
        yield Sample("rest_client_lists_overdue_total", labels, now.overdue)
