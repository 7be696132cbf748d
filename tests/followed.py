"""What the informers of a cluster know of its server together, which has no public face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.cache.reflector import FollowedServer, RequestBudgetOptions
from pyinformer.client.cluster import state_of

if TYPE_CHECKING:
    from pyinformer import Cluster


def server_behind(cluster: Cluster) -> FollowedServer:
    """Return what the informers of a cluster share."""
    return state_of(cluster).share(FollowedServer)


def limited(cluster: Cluster, budget: RequestBudgetOptions) -> FollowedServer:
    """Give informers that are made from now on other limits than all programs have."""
    state_of(cluster).shares[FollowedServer] = FollowedServer(budget)
    return server_behind(cluster)
