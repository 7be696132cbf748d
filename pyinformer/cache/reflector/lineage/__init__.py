"""The history behind a server: its proof, and the reflectors that share it."""

from pyinformer.cache.reflector.lineage._groups import is_built_in
from pyinformer.cache.reflector.lineage._lineage import Lineage, LineageStatus
from pyinformer.cache.reflector.lineage._look_turns import LookTurns
from pyinformer.cache.reflector.lineage._proof import (
    HistoryVerdict,
    LiveIdentity,
    SelectorIgnoredError,
    check_is_asked_for,
    read_live,
)
from pyinformer.cache.reflector.lineage._round_trips import RoundTrip, RoundTrips
from pyinformer.cache.reflector.lineage._samples import HistorySample, history_samples

__all__ = [
    "HistorySample",
    "HistoryVerdict",
    "Lineage",
    "LineageStatus",
    "LiveIdentity",
    "LookTurns",
    "RoundTrip",
    "RoundTrips",
    "SelectorIgnoredError",
    "check_is_asked_for",
    "history_samples",
    "is_built_in",
    "read_live",
]
