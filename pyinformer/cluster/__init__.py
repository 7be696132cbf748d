"""One API server as a program sees it: how it is found, read and written, and what is shared."""

from pyinformer.cluster._cluster import Cluster
from pyinformer.cluster._connect import connect
from pyinformer.cluster._discovery import APIResource, Discovery
from pyinformer.cluster._write_observer import WriteObserver

__all__ = ["APIResource", "Cluster", "Discovery", "WriteObserver", "connect"]
