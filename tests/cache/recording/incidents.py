"""What tests of recordings share: a server in trouble, an informer that is recorded, its replay."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyinformer
from pyinformer.cache import ReflectorOptions
from pyinformer.errors import NotFoundError
from pyinformer.testing import APIServer, Fault, replay
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject

FAULTS = (
    Fault(verb="watch", cut_after_bytes=(0, 20_000), times=4, probability=0.7),
    Fault(verb="watch", cut_after_bytes=(0, 5_000), cut="close", times=2, probability=0.5),
    Fault(verb="watch", cut_after_bytes=(0, 5_000), cut="end", times=2, probability=0.5),
    Fault(verb="list", cut_after_bytes=(0, 10_000), times=3, probability=0.5),
    Fault(verb="list", status=500, times=2, probability=0.3),
    Fault(verb="watch", status=429, retry_after_seconds=0, times=2, probability=0.3),
    Fault(verb="list", status=410, skip=2, times=2, probability=0.3),
    Fault(verb="watch", delay_seconds=0.02, times=3, probability=0.5),
)


class Call(NamedTuple):
    """A call of a handler."""

    event: str
    key: str
    resource_version: str
    details: tuple[object, ...]


class Calls:
    """A handler that remembers its calls, and when they came."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.times: list[float] = []

    def __call__(self, event: pyinformer.Event[Any]) -> None:
        """Remember an event."""
        self.times.append(asyncio.get_running_loop().time())
        self.calls.append(_call_of(event))


def _call_of(event: pyinformer.Event[Any]) -> Call:
    match event:
        case pyinformer.Added(obj):
            details: tuple[object, ...] = ()
        case pyinformer.Updated(old, obj):
            details = (old.metadata.resource_version,)
        case pyinformer.Deleted(obj):
            details = (event.final_state_unknown, event.may_still_exist)
    return Call(type(event).__name__, str(obj.key), obj.metadata.resource_version, details)


def contents(informer: pyinformer.SharedInformer[Any]) -> dict[str, bytes]:
    """Return what a cache holds, by key."""
    return {str(obj.key): obj.raw for obj in informer.lister.list(allow_unsynced=True)}


def config_map(name: str, value: str = "0") -> JSONObject:
    """Return a ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"value": value},
    }


def open_file(path: Path) -> int:
    """Return the number under which this process has a file open."""
    for one in Path("/proc/self/fd").iterdir():
        if one.is_symlink() and one.readlink() == path:
            return int(one.name)
    raise AssertionError(f"{path} is not open")


class Outcome(NamedTuple):
    """What an informer made of an incident."""

    calls: list[Call]
    cache: dict[str, bytes]


def churn(server: APIServer, rng: random.Random, steps: int) -> None:
    """Create, change, recreate and delete ConfigMaps."""
    for _ in range(steps):
        name = f"map-{rng.randrange(25)}"
        try:
            server.get("v1", "configmaps", name)
        except NotFoundError:
            server.create(config_map(name, str(rng.random())))
            continue
        if rng.random() < 0.25:
            server.delete("v1", "configmaps", name)
        else:
            data = {"data": {"value": str(rng.random())}}
            server.patch("v1", "configmaps", name, data)


async def record_chaos(path: Path, seed: int, *, rounds: int = 5, joins: bool = False) -> Outcome:
    """Record an informer under faults.

    Args:
        path: the file.
        seed: of everything that is drawn.
        rounds: how many blows the server gets.
        joins: begin to record when the informer has synced.
    """
    rng = random.Random(seed)
    options = ReflectorOptions(
        use_watch_list=bool(seed % 2), page_size=7, rng=random.Random(seed), mass_delete=None
    )
    handler = Calls()
    with APIServer(watch_cache_size=30, history_size=60, seed=seed) as server:
        churn(server, rng, 20)
        async with pyinformer.connect(server=server.url) as cluster:
            maps = pyinformer.SharedInformer(
                cluster, "v1", "configmaps", namespaces="default", options=options
            )
            recording = maps.record(path)
            if joins:
                await maps.start()
                await maps.wait_for_cache_sync(timeout_seconds=100)
            async with recording:
                await maps.start()
                maps.add_event_handler(handler, mailbox_size=100_000)
                for _ in range(rounds):
                    server.faults.add(*FAULTS)
                    await asyncio.to_thread(churn, server, rng, rng.randint(5, 30))
                    match rng.randrange(4):
                        case 0:
                            server.restart(keep_history=True)
                        case 1:
                            server.restart(keep_history=False)
                        case 2:
                            server.compact()
                        case _:
                            server.end_watches()
                await asyncio.to_thread(server.faults.clear)
                server.create(config_map("last"))
                last = await maps.wait_for(
                    "default/last", lambda one: one is not None, timeout_seconds=100
                )
                assert last is not None
                await until(lambda: any(one.key == "default/last" for one in handler.calls))
            await maps.aclose()
            return Outcome(handler.calls, contents(maps))


def replayed(path: Path) -> tuple[Outcome, list[float]]:
    """Replay a recording; return what came of it, and when the calls came."""
    handler = Calls()
    with replay(path) as played:
        informer = played.informer()
        informer.add_event_handler(handler, mailbox_size=100_000)
        played.run()
        return Outcome(handler.calls, contents(informer)), handler.times
