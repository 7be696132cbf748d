"""What reads from a full cache cost: by key, by index, by selector, and two fields of each object.

Enters: an informer that has synced, with a view and an index by node. Leaves: microseconds of CPU
per call, by name; for two fields, per object of one list.
Invariant: selectors are parsed before; the median of repeats counts, of which each is long enough
for the clock.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import msgspec

import pyinformer

_REPEATS = 9
_LEAST_SECONDS = 0.02
_MICRO = 1e6
_DECODED_AT_MOST = 2_000


def time_lister(informer: pyinformer.SharedInformer[Any]) -> dict[str, float]:
    """Time every kind of read; the cache needs at least one object."""
    lister = informer.lister
    first = lister.list()[0]
    key, node, labels = first.key, first.view.spec.node_name, first.metadata.labels
    name = labels["app.kubernetes.io/name"]
    quarter = pyinformer.LabelSelector.parse("tier=backend")
    few = pyinformer.LabelSelector.parse(f"app.kubernetes.io/name={name}")
    objects = len(lister.list())
    decoded = min(objects, _DECODED_AT_MOST)
    share = lister.list()[:decoded]
    return {
        "read_key_us": _time(lambda: lister.get(key)),
        "read_index_us": _time(lambda: lister.by_index("node", node)),
        "read_index_results": float(len(lister.by_index("node", node))),
        "select_quarter_us": _time(lambda: lister.list(label_selector=quarter)),
        "select_quarter_results": float(len(lister.list(label_selector=quarter))),
        "select_few_us": _time(lambda: lister.list(label_selector=few)),
        "select_few_results": float(len(lister.list(label_selector=few))),
        "two_fields_view_us": _time(lambda: _by_view(lister.list())) / objects,
        "two_fields_path_us": _time(lambda: _by_path(share)) / decoded,
        "two_fields_dict_us": _time(lambda: _by_dict(share)) / decoded,
        "two_fields_typed_us": _time(lambda: _by_type(share)) / decoded,
    }


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""


class _Pod(msgspec.Struct, rename="camel"):
    spec: _Spec
    status: _Status


def _by_view(pods: list[pyinformer.KubeObject[Any]]) -> None:
    for pod in pods:
        view = pod.view
        _ = view.spec.node_name, view.status.phase


def _by_path(pods: list[pyinformer.KubeObject[Any]]) -> None:
    for pod in pods:
        _ = pod.at("spec.nodeName", str), pod.at("status.phase", str)


def _by_dict(pods: list[pyinformer.KubeObject[Any]]) -> None:
    for pod in pods:
        found: Any = pod.to_dict()
        _ = found["spec"]["nodeName"], found["status"]["phase"]


def _by_type(pods: list[pyinformer.KubeObject[Any]]) -> None:
    for pod in pods:
        found = pod.as_type(_Pod)
        _ = found.spec.node_name, found.status.phase


def _time(read: Callable[[], object]) -> float:
    """Return microseconds of CPU per call."""
    read()
    calls = 1
    while (spent := _spent(read, calls)) < _LEAST_SECONDS:
        calls = calls * 2 if spent < _LEAST_SECONDS / 10 else calls * 4 // 3 + 1
    return statistics.median(_spent(read, calls) for _ in range(_REPEATS)) / calls * _MICRO


def _spent(read: Callable[[], object], calls: int) -> float:
    started = time.process_time()
    for _ in range(calls):
        read()
    return time.process_time() - started
