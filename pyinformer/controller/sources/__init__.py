"""Sources: from events of informers and the passing of time to a controller's requests."""

from pyinformer.controller.sources._informer_source import PrimarySource
from pyinformer.controller.sources._informer_source import reason_of_event as reason_of_event
from pyinformer.controller.sources._mapping_results import Keys, MappingFunction
from pyinformer.controller.sources._mapping_results import check_mapping as check_mapping
from pyinformer.controller.sources._owned import OwnedSource, OwnerKind
from pyinformer.controller.sources._periodic_schedule import next_beat_at as next_beat_at
from pyinformer.controller.sources._predicates import (
    Predicate,
    PredicateFunction,
    StateFunction,
    all_of,
    annotations_changed,
    any_of,
    generation_changed,
    labels_changed,
    matches,
    matches_labels,
    negate,
    resource_version_changed,
)
from pyinformer.controller.sources._request import Reason, Request
from pyinformer.controller.sources._request import RequestId as RequestId
from pyinformer.controller.sources._request import request_for as request_for
from pyinformer.controller.sources._request import request_text as request_text
from pyinformer.controller.sources._source import (
    Enqueue,
    Source,
    SourceInformer,
    SourceOptions,
    SourceStatus,
)
from pyinformer.controller.sources._source import check_period as check_period
from pyinformer.controller.sources._timer import KeysFunction, TimerSource
from pyinformer.controller.sources._watched import WatchedSource

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
    "matches_labels",
    "negate",
    "resource_version_changed",
]
