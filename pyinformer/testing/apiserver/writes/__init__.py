"""Create, update, patch, apply and delete, with the rules of the real kube-apiserver."""

from pyinformer.testing.apiserver.writes._garbage_collector import GarbageCollector, concerns
from pyinformer.testing.apiserver.writes._scaling import scale_of
from pyinformer.testing.apiserver.writes._write_call import WriteCall
from pyinformer.testing.apiserver.writes._writes import Writes

__all__ = [
    "GarbageCollector",
    "WriteCall",
    "Writes",
    "concerns",
    "scale_of",
]
