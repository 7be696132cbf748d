"""What the requests of one cluster wait for, as figures that are read when they are collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from pyinformer.telemetry.metrics import Sample

if TYPE_CHECKING:
    from pyinformer.client.cluster._rate_limited_requests import RateLimitedRequests


class Share(Protocol):
    """What another room keeps for a cluster, such as what its informers know of the server."""

    def samples(self, labels: Mapping[str, str]) -> Iterator[Sample]:
        """Yield its figures, with these labels; called from any thread."""
        ...


def waiting_samples(
    labels: Mapping[str, str], requests: RateLimitedRequests, shares: Mapping[object, Share]
) -> Iterator[Sample]:
    """Yield the figures of the rate limits of a cluster; safe from any thread.

    Args:
        labels: the labels of all these figures.
        requests: the reads and writes.
        shares: what other rooms keep for the cluster.
    """
    waiting = {
        "rate_limit": requests.waiting_for_rate,
        "retry_after": requests.waiting_for_server,
    }
    for reason, count in waiting.items():
        yield Sample("rest_client_requests_waiting", {**labels, "reason": reason}, count)
    for share in list(shares.values()):
        yield from share.samples(labels)
