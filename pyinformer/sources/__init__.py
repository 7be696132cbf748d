"""From a change to the requests that it means: informers, mappings, owners, and timers."""

from pyinformer.sources._informer_source import SourceOptions
from pyinformer.sources._mapped import PrimarySource, WatchedSource
from pyinformer.sources._mapping import Keys, MappingFunction
from pyinformer.sources._owned import OwnedSource
from pyinformer.sources._owners import OwnerKind
from pyinformer.sources._predicates import (
    Predicate,
    PredicateFunction,
    StateFunction,
    all_of,
    annotations_changed,
    any_of,
    generation_changed,
    labels_changed,
    matches,
    negate,
    resource_version_changed,
)
from pyinformer.sources._request import Reason, Request
from pyinformer.sources._source import Enqueue, Source, SourceInformer, SourceStatus
from pyinformer.sources._timer import KeysFunction, TimerSource

__all__ = [
    "Enqueue",
    "Keys",
    "KeysFunction",
    "MappingFunction",
    "OwnedSource",
    "OwnerKind",
    "Predicate",
    "PredicateFunction",
    "PrimarySource",
    "Reason",
    "Request",
    "Source",
    "SourceInformer",
    "SourceOptions",
    "SourceStatus",
    "StateFunction",
    "TimerSource",
    "WatchedSource",
    "all_of",
    "annotations_changed",
    "any_of",
    "generation_changed",
    "labels_changed",
    "matches",
    "negate",
    "resource_version_changed",
]
