"""One API server as a program sees it: how it is found, and what its informers share."""

from pyinformer.cluster._cluster import Cluster
from pyinformer.cluster._connect import connect

__all__ = ["Cluster", "connect"]
