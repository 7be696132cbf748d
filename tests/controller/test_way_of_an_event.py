"""The way of an event, from the bytes of a watch to the end of its reconcile, in calls and modules.

The figures are of the code and not of a clock, so they are the same on every machine. The page
docs/explanation/how-sync-works.md shows them.
"""

from __future__ import annotations

import asyncio
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyinformer
from pyinformer import Controller
from tests.cache.informer.clusters import cluster_of
from tests.waiting import until

if TYPE_CHECKING:
    from types import FrameType

    from pyinformer import KubeObject, Request
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer

_ROOT = Path(pyinformer.__file__).parent
_WINGS = ("cache", "client", "controller", "telemetry")
_PAGE = Path(__file__).parents[2] / "docs/explanation/how-sync-works.md"


_OF_THE_LOOP = "telemetry/_step_timer"
"""Called by the event loop before and behind each wait for its sockets, whatever arrives."""


def _module(frame: FrameType) -> str:
    """Return a module of the package below its root, empty for any other code."""
    path = Path(frame.f_code.co_filename)
    is_ours = path.is_relative_to(_ROOT) and not path.is_relative_to(_ROOT / "testing")
    return path.relative_to(_ROOT).with_suffix("").as_posix() if is_ours else ""


async def modules_of_events(api: APIServer) -> list[list[str]]:
    """Return, for each of thirty updates of a config map, the module of each Python call."""
    ways: list[list[str]] = []
    versions: list[str] = []

    async def reconcile(request: Request, obj: KubeObject | None) -> None:
        """Record the version."""
        if obj is not None:
            versions.append(obj.metadata.resource_version)

    def record(frame: FrameType, event: str, argument: object) -> None:
        """Record a call."""
        if event == "call" and (module := _module(frame)) and module != _OF_THE_LOOP:
            ways[-1].append(module)

    def update(number: int) -> str:
        """Write the object as another client would."""
        metadata: JSONObject = {"name": "a", "namespace": "default"}
        body: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        written = (api.update if number else api.create)({**body, "data": {"n": str(number)}})
        return str(written["metadata"]["resourceVersion"])

    async with cluster_of(api) as cluster:
        update(0)
        informer = pyinformer.SharedInformer(cluster, "v1", "configmaps")
        async with Controller("way", reconcile, informer):
            for number in range(1, 13):  # fills caches, and versions have two digits from here on
                version = await asyncio.to_thread(update, number)
                await until(lambda: versions[-1:] == [version])  # noqa: B023 - waited for here
            for number in range(13, 43):
                ways.append([])
                sys.setprofile(record)
                try:
                    version = await asyncio.to_thread(update, number)
                    await until(lambda: versions[-1:] == [version])  # noqa: B023 - waited for here
                finally:
                    sys.setprofile(None)
    return ways


def room_of(module: str) -> str:
    """Return the room of a module; in a wing, that of the wing."""
    folder, *inside = module.split("/")[:-1]
    return f"{folder}.{inside[0]}" if inside and folder in _WINGS else folder


def moves_between_modules(calls: list[str]) -> int:
    """Return how often a call is made in another module than the call before it."""
    return sum(before != after for before, after in pairwise(calls))


async def test_the_moves_between_modules_match_the_page(apiserver: APIServer) -> None:
    # a timer of another task may fire during an update, so the update with the fewest moves counts
    calls = min(await modules_of_events(apiserver), key=moves_between_modules)
    assert moves_between_modules(calls) <= 39
    assert 0 < calls.count("controller/sources/_request") <= 2
    folders = list(dict.fromkeys(room_of(call) for call in calls if "/" in call))
    shown = re.findall(r"^\d+\. `([\w.]+)`", _PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert folders == shown
