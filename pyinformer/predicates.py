"""Predicates: which events of an object become requests of a controller."""

from pyinformer.sources import (
    Predicate,
    PredicateFunction,
    all_of,
    annotations_changed,
    any_of,
    generation_changed,
    labels_changed,
    matches,
    negate,
    resource_version_changed,
)

__all__ = [
    "Predicate",
    "PredicateFunction",
    "all_of",
    "annotations_changed",
    "any_of",
    "generation_changed",
    "labels_changed",
    "matches",
    "negate",
    "resource_version_changed",
]
