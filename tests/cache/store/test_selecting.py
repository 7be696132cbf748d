"""Selecting among many objects: each record of labels is asked about once, if that pays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec
import pytest

from pyinformer.cache.store import Indexer
from pyinformer.objects import KubeObject, LabelRequirement, Labels, LabelSelector
from tests.cache.store.objects import replace
from tests.pods import make

COUNT = 10_000


def labelled(number: int, labels: Labels) -> KubeObject:
    """Return an object with these labels."""
    obj = make(f"ns/p{number}")
    return msgspec.structs.replace(
        obj, metadata=msgspec.structs.replace(obj.metadata, labels=labels)
    )


def labels_of(number: int, workloads: int) -> dict[str, str]:
    """Return the labels of the number-th of so many workloads."""
    return {"workload": f"w{number % workloads}", "tier": "abcd"[number % 4]}


def select(objects: list[KubeObject], selector: LabelSelector) -> list[KubeObject]:
    """Return the objects that a cache selects in its first read, for which it has no index."""
    store: Indexer[None] = Indexer()
    replace(store, *objects)
    return store.matching(selector)


class Asked:
    """A selector that counts how often labels are compared with it."""

    def __init__(self, selector: str) -> None:
        parsed = LabelSelector.parse(selector)
        self.requirements: tuple[LabelRequirement, ...] = parsed.requirements
        self._matches = parsed.matches
        self.times = 0

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Compare labels."""
        self.times += 1
        return self._matches(labels)


@pytest.mark.parametrize("selector", ["tier=b", "workload=w7", "tier in (a,c),workload!=w4"])
@pytest.mark.parametrize("workloads", [1, 20, 600, COUNT])
def test_selected_objects_are_the_matching_ones_in_order(selector: str, workloads: int) -> None:
    shared = [Labels.of(labels_of(number, workloads)) for number in range(workloads)]
    objects = [labelled(number, shared[number % workloads]) for number in range(COUNT)]
    parsed = LabelSelector.parse(selector)
    wanted = [obj for obj in objects if parsed.matches(dict(obj.metadata.labels))]
    assert wanted or workloads == 1
    assert select(objects, parsed) == wanted


def test_shared_labels_are_matched_once() -> None:
    shared = [Labels.of(labels_of(number, 600)) for number in range(600)]
    objects = [labelled(number, shared[number % 600]) for number in range(COUNT)]
    asked = Asked("tier=b")
    select(objects, cast("LabelSelector", asked))
    assert asked.times == 600


def test_distinct_labels_are_matched_one_by_one() -> None:
    objects = [labelled(n, Labels.of({"pod": str(n)})) for n in range(COUNT)]
    asked = Asked("pod=7")
    assert [obj.key for obj in select(objects, cast("LabelSelector", asked))] == ["ns/p7"]
    assert asked.times == COUNT
