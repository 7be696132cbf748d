"""Several clusters in one controller: each has a name, or requests would confuse their objects."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import Controller, SharedInformer
from pyinformer.controller.sources import PrimarySource
from pyinformer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pyinformer import Cluster

_Maps = SharedInformer[None]


@asynccontextmanager
async def clusters(*names: str) -> AsyncIterator[list[Cluster]]:
    """Connect to clusters that are asked for nothing."""
    found = [
        pyinformer.connect(server=f"http://127.0.0.1:{port}", name=name)
        for port, name in enumerate(names, start=1)
    ]
    opened = [await one.__aenter__() for one in found]
    try:
        yield opened
    finally:
        for one in opened:
            await one.aclose()


def _maps(cluster: Cluster, namespace: str = "default") -> _Maps:
    return SharedInformer(cluster, "v1", "configmaps", namespaces=namespace)


async def _reconcile(request: pyinformer.Request, obj: object) -> None: ...


_WAYS: dict[str, Callable[[Controller[None], _Maps], object]] = {
    "owns": lambda controller, maps: controller.owns(maps),
    "watches": lambda controller, maps: controller.watches(maps, lambda obj: str(obj.key)),
    "add_source": lambda controller, maps: controller.add_source(PrimarySource(maps), maps),
}


@pytest.mark.parametrize(("name", "words"), [("", "have no name"), ("eu", "are both named 'eu'")])
@pytest.mark.parametrize("way", ["primary", *_WAYS])
async def test_two_clusters_of_one_name_are_refused(name: str, words: str, way: str) -> None:
    async with clusters(name, name) as (one, other):
        with pytest.raises(InvalidArgumentError, match=words) as raised:
            if way == "primary":
                Controller("maps", _reconcile, [_maps(one), _maps(other)])
            else:
                _WAYS[way](Controller("maps", _reconcile, _maps(one)), _maps(other))
    text = str(raised.value)
    assert "http://127.0.0.1:1" in text
    assert "http://127.0.0.1:2" in text
    assert "connect(..., name=" in text


@pytest.mark.parametrize("names", [("eu", "us"), ("", "us")])
@pytest.mark.parametrize("way", ["watches", "add_source"])
async def test_clusters_with_names_of_their_own_are_taken(names: Any, way: str) -> None:
    async with clusters(*names) as (one, other):
        _WAYS[way](Controller("maps", _reconcile, _maps(one)), _maps(other))
        controller = Controller("maps", _reconcile, [_maps(one), _maps(other), _maps(one, "b")])
        controller.owns(_maps(other, "b"))
        with pytest.raises(InvalidArgumentError, match="without a primary"):
            Controller("maps", _reconcile, _maps(one)).owns(_maps(other))


async def test_two_informers_of_an_unnamed_cluster_are_taken() -> None:
    async with clusters("") as (one,):
        controller = Controller("maps", _reconcile, [_maps(one), _maps(one, "b")])
        controller.owns(_maps(one, "c"))
