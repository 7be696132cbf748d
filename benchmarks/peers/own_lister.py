"""What reads from a full cache cost: by key, by index, by selector, and two fields of each object.

As client_go/reads.go measures: every key and every bucket is read by turns, selectors are parsed
before, and the median of repeats counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

import pyinformer
from benchmarks.harness.processes import cpu_seconds

_REPEATS = 15
_REPEATS_OF_DECODES = 3
_MICRO = 1e6

_Object = pyinformer.KubeObject[Any]


def time_lister(informer: pyinformer.SharedInformer[Any]) -> dict[str, float]:
    """Time every kind of read; the cache needs at least one object."""
    lister = informer.lister
    keys = sorted(lister.keys())
    nodes = lister.index_values("node")
    name = lister[keys[0]].metadata.labels["app.kubernetes.io/name"]
    selectors = {
        "select_quarter": pyinformer.objects.LabelSelector.parse("tier=backend"),
        "select_few": pyinformer.objects.LabelSelector.parse(f"app.kubernetes.io/name={name}"),
        "select_without_index": pyinformer.objects.LabelSelector.parse("tier!=backend"),
    }
    figures = {
        "read_key_us": _each(lister.get, keys),
        "read_index_us": _each(lambda node: lister.by_index("node", node), nodes),
        "read_index_results": len(keys) / len(nodes),
    }
    for figure, selector in selectors.items():
        figures[f"{figure}_results"] = float(len(lister.list(label_selector=selector)))
        figures[f"{figure}_us"] = _time(partial(lister.list, label_selector=selector))
    for how, read in _WAYS.items():
        repeats = _REPEATS if how == "view" else _REPEATS_OF_DECODES
        figures[f"two_fields_{how}_us"] = _time(partial(_read_all, lister, read), repeats)
    return figures


def _read_all(lister: pyinformer.Lister[Any], read: Callable[[list[_Object]], None]) -> None:
    read(lister.list())


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""


class _Pod(msgspec.Struct, rename="camel"):
    spec: _Spec
    status: _Status


def _by_view(pods: list[_Object]) -> None:
    for pod in pods:
        view = pod.view
        _ = view.spec.node_name, view.status.phase


def _by_path(pods: list[_Object]) -> None:
    for pod in pods:
        _ = pod.at("spec.nodeName", str), pod.at("status.phase", str)


def _by_dict(pods: list[_Object]) -> None:
    for pod in pods:
        found: Any = pod.to_dict()
        _ = found["spec"]["nodeName"], found["status"]["phase"]


def _by_type(pods: list[_Object]) -> None:
    for pod in pods:
        found = pod.as_type(_Pod)
        _ = found.spec.node_name, found.status.phase


_WAYS = {"view": _by_view, "path": _by_path, "dict": _by_dict, "typed": _by_type}


def _each(read: Callable[[str], object], what: list[str]) -> float:
    def read_each() -> None:
        for one in what:
            read(one)

    return _time(read_each) / len(what)


def _time(read: Callable[[], object], repeats: int = _REPEATS) -> float:
    read()  # compiles paths
    return statistics.median(_once(read) for _ in range(repeats)) * _MICRO


def _once(read: Callable[[], object]) -> float:
    started = cpu_seconds()
    read()
    return cpu_seconds() - started
