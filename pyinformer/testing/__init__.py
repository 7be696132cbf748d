"""The public test kit: an embedded Kubernetes API server, a real one, and World without a server.

`import pyinformer` loads nothing of it. Each name loads its modules when it is first used, so a
test with the embedded server does not load what builds the real one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer._runtime.late_names import late_getattr

if TYPE_CHECKING:
    from pyinformer.testing._admission import Reviewed, review
    from pyinformer.testing._connector import Connector
    from pyinformer.testing._definition_files import definitions_in
    from pyinformer.testing._fault_run import FaultRun
    from pyinformer.testing._lossless_conversion import assert_lossless
    from pyinformer.testing.apiserver.access import Token
    from pyinformer.testing.apiserver.requests import (
        Fault,
        FaultScript,
        InterceptedRequest,
        Interception,
        Interceptor,
        RequestRecord,
    )
    from pyinformer.testing.apiserver.server import APIServer, ServerReplica
    from pyinformer.testing.apiserver.storage import ExecCall, SavedState
    from pyinformer.testing.faults import (
        ChangingFacts,
        EtcdRelay,
        FaultLab,
        FaultProxy,
        FaultSchedule,
        ServerAddress,
        TimedFault,
    )
    from pyinformer.testing.histories import (
        EtcdTruth,
        History,
        Recorder,
        ServerTruth,
        Verdict,
        check_history,
    )
    from pyinformer.testing.kube_apiserver import KubeAPIServer, SavedEtcd, StaticToken
    from pyinformer.testing.replays import IncompleteRecordingWarning, Replay, replay
    from pyinformer.testing.world import World, WriteRecord

_HOMES = {
    "APIServer": "apiserver.server",
    "ChangingFacts": "faults",
    "Connector": "_connector",
    "EtcdRelay": "faults",
    "EtcdTruth": "histories",
    "ExecCall": "apiserver.storage",
    "Fault": "apiserver.requests",
    "FaultLab": "faults",
    "FaultProxy": "faults",
    "FaultRun": "_fault_run",
    "FaultSchedule": "faults",
    "FaultScript": "apiserver.requests",
    "History": "histories",
    "IncompleteRecordingWarning": "replays",
    "InterceptedRequest": "apiserver.requests",
    "Interception": "apiserver.requests",
    "Interceptor": "apiserver.requests",
    "KubeAPIServer": "kube_apiserver",
    "Recorder": "histories",
    "Replay": "replays",
    "RequestRecord": "apiserver.requests",
    "Reviewed": "_admission",
    "SavedEtcd": "kube_apiserver",
    "SavedState": "apiserver.storage",
    "ServerAddress": "faults",
    "ServerReplica": "apiserver.server",
    "ServerTruth": "histories",
    "StaticToken": "kube_apiserver",
    "TimedFault": "faults",
    "Token": "apiserver.access",
    "Verdict": "histories",
    "World": "world",
    "WriteRecord": "world",
    "assert_lossless": "_lossless_conversion",
    "check_history": "histories",
    "definitions_in": "_definition_files",
    "replay": "replays",
    "review": "_admission",
}

__all__ = [
    "APIServer",
    "ChangingFacts",
    "Connector",
    "EtcdRelay",
    "EtcdTruth",
    "ExecCall",
    "Fault",
    "FaultLab",
    "FaultProxy",
    "FaultRun",
    "FaultSchedule",
    "FaultScript",
    "History",
    "IncompleteRecordingWarning",
    "InterceptedRequest",
    "Interception",
    "Interceptor",
    "KubeAPIServer",
    "Recorder",
    "Replay",
    "RequestRecord",
    "Reviewed",
    "SavedEtcd",
    "SavedState",
    "ServerAddress",
    "ServerReplica",
    "ServerTruth",
    "StaticToken",
    "TimedFault",
    "Token",
    "Verdict",
    "World",
    "WriteRecord",
    "assert_lossless",
    "check_history",
    "definitions_in",
    "replay",
    "review",
]

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__ = late_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
