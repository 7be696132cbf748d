"""The objects of the embedded server, their revisions, and the log of their changes.

This is what etcd and the watch cache are to a real kube-apiserver. One lock protects all of it.
"""

from pyinformer.testing.apiserver.storage._changes import (
    BookmarkChange,
    Pending,
    StoredChange,
    Subscription,
)
from pyinformer.testing.apiserver.storage._event_expiry import EventExpiry
from pyinformer.testing.apiserver.storage._lagging_watch_cache import LaggingWatchCache
from pyinformer.testing.apiserver.storage._pod_commands import ExecCall, OnExec, PodCommands
from pyinformer.testing.apiserver.storage._pod_logs import ContainerLog, LogLine, PodLogs
from pyinformer.testing.apiserver.storage._selection import Selection
from pyinformer.testing.apiserver.storage._storage import (
    WATCH_BUFFER_EVENTS,
    ChangeReceiver,
    HistoryExpiredError,
    SavedState,
    Storage,
)
from pyinformer.testing.apiserver.storage._stored_records import (
    Record,
    go_json,
    is_same_json,
    key_of,
    make_record,
    merge_patch,
)

__all__ = [
    "WATCH_BUFFER_EVENTS",
    "BookmarkChange",
    "ChangeReceiver",
    "ContainerLog",
    "EventExpiry",
    "ExecCall",
    "HistoryExpiredError",
    "LaggingWatchCache",
    "LogLine",
    "OnExec",
    "Pending",
    "PodCommands",
    "PodLogs",
    "Record",
    "SavedState",
    "Selection",
    "Storage",
    "StoredChange",
    "Subscription",
    "go_json",
    "is_same_json",
    "key_of",
    "make_record",
    "merge_patch",
]
