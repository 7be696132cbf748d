"""The etcd restore: the server goes back in time, and a watch from the future is silent.

In goes a server that is restored from a backup under its clients; out comes what they hold when it
has been back for a while, and how long it took.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias, final

import anyio

from pyinformer.cli.scenes._environment import (
    Environment,
    capture_logs,
    connected,
    service,
    wait_until,
)
from pyinformer.cli.scenes._plain_informer import following_services
from pyinformer.cli.scenes._proxy import Proxy
from pyinformer.cli.scenes._scene import Claim, Scene, SceneResult, fact
from pyinformer.informer import SharedInformerFactory

_IN_THE_BACKUP = 5
_LOST = 60  # written after the backup; a real server writes some itself when it starts
_WRITTEN_SINCE = 10  # fewer: the server is still behind what its clients have seen
_HEALED_WITHIN_SECONDS = 15.0
_LOOKED_AT_AFTER_SECONDS = 5.0  # the plain one; and again when the server has passed its position
_PATIENCE_SECONDS = 100.0
_BREATH_SECONDS = 2.0  # in which whoever is told at all is told

Uids: TypeAlias = dict[str, str]
"""The uid of each Service, by name."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """What a program held after the restore, against what the server had."""

    phantoms: int = fact("objects in the cache that no server has")
    missing: int = fact("objects of the server that the cache lacks")
    phantoms_later: int = fact("later, past the old position: objects that no server has")
    missing_later: int = fact("later, past the old position: objects that it lacks")
    seconds: float = fact("seconds until it equalled the server (plain: looked at after 5)")
    deletions_reported: int = fact("deletions that its handlers were told")


@final
@dataclass(slots=True)
class _Program:
    """A program behind a proxy."""

    proxy: Proxy
    cached: Callable[[], Uids]
    deletions: Callable[[], int]
    seconds: float = _HEALED_WITHIN_SECONDS
    wrong: tuple[int, int] = (0, 0)
    wrong_later: tuple[int, int] = (0, 0)

    async def equal(self, live: Uids, *, timeout_seconds: float) -> bool:
        """Wait until the cache equals the server."""
        return await wait_until(lambda: self.cached() == live, timeout_seconds=timeout_seconds)

    async def has(self, name: str) -> None:
        """Wait for an object."""
        await wait_until(lambda: name in self.cached(), timeout_seconds=_PATIENCE_SECONDS)

    async def heal(self, live: Uids, timeout_seconds: float) -> None:
        """Come back, and measure how long the cache differs from the server."""
        began = anyio.current_time()
        self.proxy.resume()
        await self.equal(live, timeout_seconds=timeout_seconds)
        self.seconds = anyio.current_time() - began
        self.wrong = self.against(live)

    def against(self, live: Uids) -> tuple[int, int]:
        """Return how many objects are phantoms, and how many are missing."""
        cached = self.cached()
        phantoms = sum(live.get(name) != uid for name, uid in cached.items())
        return phantoms, sum(cached.get(name) != uid for name, uid in live.items())

    def result(self) -> RestoreResult:
        """Return what was measured."""
        return RestoreResult(
            phantoms=self.wrong[0],
            missing=self.wrong[1],
            phantoms_later=self.wrong_later[0],
            missing_later=self.wrong_later[1],
            seconds=self.seconds,
            deletions_reported=self.deletions(),
        )


async def perform(environment: Environment) -> SceneResult[RestoreResult]:
    """Restore the server under both programs, each behind its own proxy.

    Cancellation:
        Ends it.
    """
    namespace = environment.namespace()
    _write(environment, namespace, "kept", _IN_THE_BACKUP)
    restore = await environment.back_up()
    with capture_logs() as logged:
        async with _plain(environment, namespace) as left, _ours(environment, namespace) as right:
            programs = (left, right)
            seen = _write(environment, namespace, "lost", _LOST)
            for program in programs:
                live = environment.uids("services", namespace)
                await program.equal(live, timeout_seconds=_PATIENCE_SECONDS)
                program.proxy.disconnect()
            await restore()
            _write(environment, namespace, "new", _WRITTEN_SINCE)
            live = environment.uids("services", namespace)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(right.heal, live, _HEALED_WITHIN_SECONDS)
                tasks.start_soon(left.heal, live, _LOOKED_AT_AFTER_SECONDS)
            await _pass(environment, namespace, seen, programs)
    return _result_of(left.result(), right.result(), logged)


def _result_of(
    plain: RestoreResult, ours: RestoreResult, logged: Mapping[str, int]
) -> SceneResult[RestoreResult]:
    errors = sum(times for line, times in logged.items() if line.startswith("ERROR"))
    return SceneResult(
        plain=plain,
        ours=ours,
        outage=(
            Claim("the plain informer kept what no server has", plain.phantoms == _LOST),
            Claim("it lacked what was written since", plain.missing == _WRITTEN_SINCE),
            Claim(
                "it was no better when the server had passed the old position",
                plain.phantoms_later == _LOST and plain.missing_later >= _WRITTEN_SINCE,
            ),
        ),
        prevented=(
            Claim(
                f"ours equalled the server within {_HEALED_WITHIN_SECONDS:.0f} s",
                (ours.phantoms, ours.missing) == (0, 0),
            ),
            Claim("its handlers were told of all that was lost", ours.deletions_reported == _LOST),
            Claim("one line at ERROR said so", errors == 1),
            Claim("it equalled it later too", (ours.phantoms_later, ours.missing_later) == (0, 0)),
        ),
        logged=logged,
    )


def _write(environment: Environment, namespace: str, prefix: str, count: int) -> int:
    """Create Services, and return the resource version of the last."""
    version = 0
    for number in range(count):
        created = environment.api.create(service(f"{prefix}-{number}", namespace))
        version = int(created["metadata"]["resourceVersion"])
    return version


async def _pass(
    environment: Environment, namespace: str, seen: int, programs: Sequence[_Program]
) -> None:
    """Write until the server has passed what was seen before the restore, and look again."""
    number = 0
    while _write(environment, namespace, f"later-{number}", 1) <= seen:
        number += 1
    live = environment.uids("services", namespace)
    last = f"later-{number}-0"
    for program in programs:
        await program.has(last)
        await program.equal(live, timeout_seconds=_BREATH_SECONDS)
        program.wrong_later = program.against(live)


@asynccontextmanager
async def _plain(environment: Environment, namespace: str) -> AsyncIterator[_Program]:
    received = list[str]()

    def handle(kind: str, _: object) -> None:
        received.append(kind)

    async with (
        environment.proxy() as proxy,
        following_services(proxy.url, namespace, handler=handle, after_error="resume") as services,
    ):
        yield _Program(
            proxy,
            lambda: {name: one.metadata.uid for name, one in services.cache.items()},
            lambda: received.count("DELETED"),
        )


@asynccontextmanager
async def _ours(environment: Environment, namespace: str) -> AsyncIterator[_Program]:
    deleted = list[str]()
    async with (
        environment.proxy() as proxy,
        connected(proxy) as cluster,
        SharedInformerFactory(cluster) as factory,
    ):
        services = factory.informer("v1", "services", namespaces=namespace)
        services.add_event_handler(on_delete=lambda obj: deleted.append(obj.key))
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=_PATIENCE_SECONDS)
        yield _Program(
            proxy,
            lambda: {one.metadata.name: one.metadata.uid for one in services.lister.list()},
            lambda: len(deleted),
        )


SCENE = Scene(
    name="etcd-restore",
    number="C07",
    title="etcd is restored from a backup, and a watch from the future is silent",
    references="kubernetes#107457; etcd#16028; client-go 0.37.1 measured: wrong for ever",
    story=(
        "After a disaster, etcd is restored from a backup, and its resource versions go on from"
        " there. Whoever watches from a later one is let in and told nothing: a watch from the"
        " future is no error. kube-proxy was blind for hours. When the server's versions pass the"
        " old position, events flow again, and everything in between is lost without a word: in"
        " our measurement client-go kept 50 objects that were gone and lacked 40 that were there,"
        " for as long as it ran. `etcdutl snapshot restore --bump-revision` prevents it, where the"
        " operator knows of it."
    ),
    plain=(
        "as client-go, it watches on from its last resource version when a connection breaks, and"
        " lists again after a 410 only; one that lists after each break heals, and is the herd of"
        " scene 1.3"
    ),
    ours=(
        "After a connection was lost, the history is proven before it is trusted: one question per"
        " cluster whether the server has reached our position, and whether the newest object and"
        " the newest deletion that we saw are as we saw them. If not, a new epoch begins: it says"
        " so once, lists, and tells handlers the difference."
    ),
    verdict="the restore is proven, said, and healed; handlers hear what was lost",
    perform=perform,
)
