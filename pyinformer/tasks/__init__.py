"""Where tasks live: hosts for our own, plain tasks and threads for user code, and a watchdog."""

from pyinformer.tasks._functions import check_callable, name_of, place_of
from pyinformer.tasks._host import Closable, Host, Startable, close_behind, sleep_until_cancelled
from pyinformer.tasks._signals import SignalListener, telling_at_signal
from pyinformer.tasks._turns import Turns
from pyinformer.tasks._user_tasks import (
    DEFAULT_GRACE_SECONDS,
    UserTask,
    UserTasks,
    wait_shielded,
)
from pyinformer.tasks._watchdog import Watchdog, WatchdogStatistics
from pyinformer.tasks._worker_threads import WorkerThreads

__all__ = [
    "DEFAULT_GRACE_SECONDS",
    "Closable",
    "Host",
    "SignalListener",
    "Startable",
    "Turns",
    "UserTask",
    "UserTasks",
    "Watchdog",
    "WatchdogStatistics",
    "WorkerThreads",
    "check_callable",
    "close_behind",
    "name_of",
    "place_of",
    "sleep_until_cancelled",
    "telling_at_signal",
    "wait_shielded",
]
