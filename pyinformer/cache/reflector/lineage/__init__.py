"""The history behind a server: its proof, and the reflectors that share it."""

from pyinformer.cache.reflector.lineage._comparison_turns import ComparisonTurns
from pyinformer.cache.reflector.lineage._groups import is_built_in
from pyinformer.cache.reflector.lineage._lineage import Lineage, LineageStatus
from pyinformer.cache.reflector.lineage._proof import (
    HistoryVerdict,
    LiveIdentity,
    SelectorIgnoredError,
    check_is_asked_for,
    read_live,
)
from pyinformer.cache.reflector.lineage._quorum_lists import QuorumLists, RoundTrip
from pyinformer.cache.reflector.lineage._samples import HistorySample, history_samples

__all__ = [
    "ComparisonTurns",
    "HistorySample",
    "HistoryVerdict",
    "Lineage",
    "LineageStatus",
    "LiveIdentity",
    "QuorumLists",
    "RoundTrip",
    "SelectorIgnoredError",
    "check_is_asked_for",
    "history_samples",
    "is_built_in",
    "read_live",
]
