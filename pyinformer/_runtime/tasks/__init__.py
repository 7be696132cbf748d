"""Tasks and threads: hosts for our own tasks, plain tasks and threads for user code, a watchdog."""

from pyinformer._runtime.tasks._asyncio_runner import means_off, program_runner, run_on_asyncio
from pyinformer._runtime.tasks._host import (
    Closable,
    Host,
    Startable,
    close_on_exit,
    run_until_cancelled,
    start_from_anywhere,
    start_in,
    start_later,
)
from pyinformer._runtime.tasks._import_guard import check_not_imported, imported_only
from pyinformer._runtime.tasks._loop_owner import LoopOwner
from pyinformer._runtime.tasks._loop_time import loop_time, together
from pyinformer._runtime.tasks._shared_timer import SOON_SECONDS, SharedTimer, Stepped
from pyinformer._runtime.tasks._signal_listener import SignalListener, on_sigusr1
from pyinformer._runtime.tasks._throttle import Throttle
from pyinformer._runtime.tasks._time_budget import BUDGET_SECONDS, TimeBudget, spread
from pyinformer._runtime.tasks._token_bucket import TokenBucket
from pyinformer._runtime.tasks._user_error_logging import (
    FailureLog,
    LogExceptions,
    causes_text,
    check_log_exceptions,
    error_text,
    refusal_text,
    repeats_text,
    trace_text,
)
from pyinformer._runtime.tasks._user_function_checks import (
    check_callable,
    check_plain,
    checked_by,
    is_asynchronous,
    is_in_thread,
    mark_in_thread,
    name_of,
    place_of,
    refuse_awaitable,
    signature_of,
)
from pyinformer._runtime.tasks._user_tasks import (
    DEFAULT_GRACE_SECONDS,
    UserCodeTask,
    UserTask,
    UserTasks,
    begin_user_code,
    cancel_for_good,
    ends_task,
    run_shielded,
    wait_shielded,
)
from pyinformer._runtime.tasks._watch_read_batch import Turn
from pyinformer._runtime.tasks._worker_threads import WorkerThreads, released_time, run_in_daemon

__all__ = [
    "BUDGET_SECONDS",
    "DEFAULT_GRACE_SECONDS",
    "SOON_SECONDS",
    "Closable",
    "FailureLog",
    "Host",
    "LogExceptions",
    "LoopOwner",
    "SharedTimer",
    "SignalListener",
    "Startable",
    "Stepped",
    "Throttle",
    "TimeBudget",
    "TokenBucket",
    "Turn",
    "UserCodeTask",
    "UserTask",
    "UserTasks",
    "WorkerThreads",
    "begin_user_code",
    "cancel_for_good",
    "causes_text",
    "check_callable",
    "check_log_exceptions",
    "check_not_imported",
    "check_plain",
    "checked_by",
    "close_on_exit",
    "ends_task",
    "error_text",
    "imported_only",
    "is_asynchronous",
    "is_in_thread",
    "loop_time",
    "mark_in_thread",
    "means_off",
    "name_of",
    "on_sigusr1",
    "place_of",
    "program_runner",
    "refusal_text",
    "refuse_awaitable",
    "released_time",
    "repeats_text",
    "run_in_daemon",
    "run_on_asyncio",
    "run_shielded",
    "run_until_cancelled",
    "signature_of",
    "spread",
    "start_from_anywhere",
    "start_in",
    "start_later",
    "together",
    "trace_text",
    "wait_shielded",
]
