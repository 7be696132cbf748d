"""What the requests of one cluster wait for, as figures that are read when they are collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyinformer.metrics import Sample

if TYPE_CHECKING:
    from pyinformer.cluster._throttled_requests import ThrottledRequests
    from pyinformer.reflector import RequestBudget


def waiting_samples(
    labels: Mapping[str, str], requests: ThrottledRequests, budget: RequestBudget
) -> Iterator[Sample]:
    """Yield the figures of the rate limits of a cluster; safe from any thread.

    Args:
        labels: the labels of all these figures.
        requests: the reads and writes.
        budget: what the informers request.
    """
    informers = budget.statistics()
    waiting = {
        "rate_limit": requests.waiting_for_rate,
        "retry_after": requests.waiting_for_server,
        "list_slot": informers.waiting_to_list,
        "watch_rate": informers.waiting_to_attempt,
    }
    for reason, count in waiting.items():
        yield Sample("rest_client_requests_waiting", {**labels, "reason": reason}, count)
    yield Sample("rest_client_lists_in_flight", labels, informers.listing)
    yield Sample("rest_client_lists_overdue_total", labels, informers.overdue)
