"""The blocking API: the same informers and clusters, for programs without an event loop.

Start with `pyinformer.run_in_thread()`. Methods have the names and the arguments of the
asynchronous API, and the Lister is the same object.
"""

from pyinformer.blocking._cluster import BlockingCluster
from pyinformer.blocking._cluster_functions import (
    create_or_update,
    finalizer,
    retry_on_conflict,
    upgrade_managed_fields,
)
from pyinformer.blocking._event_stream import BlockingEventStream
from pyinformer.blocking._factory import BlockingInformerFactory
from pyinformer.blocking._informer import BlockingInformer, BlockingRegistration
from pyinformer.blocking._log_stream import BlockingLogStream
from pyinformer.blocking._loop_calls import timeout
from pyinformer.blocking._object_list import BlockingObjectList
from pyinformer.blocking._recording import BlockingRecording
from pyinformer.blocking._runner import Runner, run_in_thread
from pyinformer.blocking._task_calls import run_with_cluster as run_with_cluster

__all__ = [
    "BlockingCluster",
    "BlockingEventStream",
    "BlockingInformer",
    "BlockingInformerFactory",
    "BlockingLogStream",
    "BlockingObjectList",
    "BlockingRecording",
    "BlockingRegistration",
    "Runner",
    "create_or_update",
    "finalizer",
    "retry_on_conflict",
    "run_in_thread",
    "timeout",
    "upgrade_managed_fields",
]
