"""How a cluster is reached: its address, credentials, and options of connections and requests."""

from pyinformer.cluster import Body, ClusterPoolOptions, Discovery, WriteObserver, WriteOptions
from pyinformer.reflector import Admission, AdmissionOptions
from pyinformer.transport import ClusterConfig, ConnectionOptions, Credentials, KubeconfigPolicy

__all__ = [
    "Admission",
    "AdmissionOptions",
    "Body",
    "ClusterConfig",
    "ClusterPoolOptions",
    "ConnectionOptions",
    "Credentials",
    "Discovery",
    "KubeconfigPolicy",
    "WriteObserver",
    "WriteOptions",
]
