"""Histories of runs under faults: who records what, and the checker that judges the log alone."""

from pyinformer.testing.histories._checker import EXPECTED, check_history
from pyinformer.testing.histories._digests import digest, digest_of, status_digests
from pyinformer.testing.histories._etcd_log import resource_name
from pyinformer.testing.histories._etcd_truth import EtcdTruth
from pyinformer.testing.histories._history import History, read_history
from pyinformer.testing.histories._recorder import CatchesUp, Recorder
from pyinformer.testing.histories._records import (
    AuditedRecord,
    FaultRecord,
    FollowedRecord,
    HandledRecord,
    Happening,
    ReadRecord,
    ReconciledRecord,
    ReconcilingRecord,
    Record,
    ResourcesRecord,
    RestedRecord,
    RestoredRecord,
    RunRecord,
    SampledRecord,
    TruthRecord,
    Verb,
    Version,
    WaitedRecord,
    WaitingRecord,
    WroteRecord,
)
from pyinformer.testing.histories._server_truth import ServerTruth
from pyinformer.testing.histories._verdict import (
    KNOWN_OF_CLIENT_GO,
    Rule,
    Verdict,
    Violation,
)

__all__ = [
    "EXPECTED",
    "KNOWN_OF_CLIENT_GO",
    "AuditedRecord",
    "CatchesUp",
    "EtcdTruth",
    "FaultRecord",
    "FollowedRecord",
    "HandledRecord",
    "Happening",
    "History",
    "ReadRecord",
    "ReconciledRecord",
    "ReconcilingRecord",
    "Record",
    "Recorder",
    "ResourcesRecord",
    "RestedRecord",
    "RestoredRecord",
    "Rule",
    "RunRecord",
    "SampledRecord",
    "ServerTruth",
    "TruthRecord",
    "Verb",
    "Verdict",
    "Version",
    "Violation",
    "WaitedRecord",
    "WaitingRecord",
    "WroteRecord",
    "check_history",
    "digest",
    "digest_of",
    "read_history",
    "resource_name",
    "status_digests",
]
