"""Scene C07: etcd is restored from a backup, and a watch from the future stays silent.

The scene compares both caches with the restored server, and measures how long they differ.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias, final

import anyio

from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.informer import SharedInformerFactory
from pyinformer.cli.scenes._plain_informer import following_services
from pyinformer.cli.scenes._proxy import Proxy
from pyinformer.cli.scenes._scene import Claim, Scene, SceneResult, fact
from pyinformer.cli.scenes._server import SceneServer, capture_logs, connected, service, wait_until

_IN_THE_BACKUP = 5
_LOST = 60  # written after the backup; more than a real server writes at its start
_WRITTEN_SINCE = 10  # fewer: the server is still behind the position of its clients
_HEALED_WITHIN_SECONDS = 15.0
_LOOKED_AT_AFTER_SECONDS = 5.0  # the plain one; and again when the server has passed its position
_PATIENCE_SECONDS = 100.0
_BREATH_SECONDS = 2.0  # enough for every event that is delivered at all

Uids: TypeAlias = dict[str, str]
"""The uid of each Service, by name."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """The cache of a program after the restore, compared with the server."""

    phantoms: int = fact("cached objects that the server does not have")
    missing: int = fact("objects of the server that the cache lacks")
    phantoms_later: int = fact("later, past the old position: cached objects not on the server")
    missing_later: int = fact("later, past the old position: objects that the cache lacks")
    seconds: float = fact("seconds until it equalled the server (plain: checked after 5)")
    deletions_reported: int = fact("deletions that its handlers received")


@final
@dataclass(slots=True)
class _Program:
    """A program behind its proxy."""

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
        """Wait until the cache has an object."""
        await wait_until(lambda: name in self.cached(), timeout_seconds=_PATIENCE_SECONDS)

    async def heal(self, live: Uids, timeout_seconds: float) -> None:
        """Reconnect, and measure how long the cache differs from the server."""
        began = loop_time()
        self.proxy.resume()
        await self.equal(live, timeout_seconds=timeout_seconds)
        self.seconds = loop_time() - began
        self.wrong = self.against(live)

    def against(self, live: Uids) -> tuple[int, int]:
        """Return how many cached objects do not exist, and how many objects are missing."""
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


async def perform(server: SceneServer) -> SceneResult[RestoreResult]:
    """Restore the server under both programs, each behind its own proxy.

    Cancellation:
        Ends the scene.
    """
    namespace = server.namespace()
    _write(server, namespace, "kept", _IN_THE_BACKUP)
    restore = await server.back_up()
    with capture_logs() as logged:
        async with _plain(server, namespace) as left, _ours(server, namespace) as right:
            programs = (left, right)
            seen = _write(server, namespace, "lost", _LOST)
            for program in programs:
                live = server.uids("services", namespace)
                await program.equal(live, timeout_seconds=_PATIENCE_SECONDS)
                program.proxy.disconnect()
            await restore()
            _write(server, namespace, "new", _WRITTEN_SINCE)
            live = server.uids("services", namespace)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(right.heal, live, _HEALED_WITHIN_SECONDS)
                tasks.start_soon(left.heal, live, _LOOKED_AT_AFTER_SECONDS)
            await _pass(server, namespace, seen, programs)
    return _result_of(left.result(), right.result(), logged)


def _result_of(
    plain: RestoreResult, ours: RestoreResult, logged: Mapping[str, int]
) -> SceneResult[RestoreResult]:
    errors = sum(times for line, times in logged.items() if line.startswith("ERROR"))
    return SceneResult(
        plain=plain,
        ours=ours,
        outage=(
            Claim(
                "the plain informer kept objects that the server does not have",
                plain.phantoms == _LOST,
            ),
            Claim("it lacked the objects written since", plain.missing == _WRITTEN_SINCE),
            Claim(
                "that did not change when the server had passed the old position",
                plain.phantoms_later == _LOST and plain.missing_later >= _WRITTEN_SINCE,
            ),
        ),
        prevented=(
            Claim(
                f"pyinformer equalled the server within {_HEALED_WITHIN_SECONDS:.0f} s",
                (ours.phantoms, ours.missing) == (0, 0),
            ),
            Claim(
                "its handlers received a deletion for every lost object",
                ours.deletions_reported == _LOST,
            ),
            Claim("one ERROR was logged", errors == 1),
            Claim(
                "it equalled the server later, too",
                (ours.phantoms_later, ours.missing_later) == (0, 0),
            ),
        ),
        logged=logged,
    )


def _write(server: SceneServer, namespace: str, prefix: str, count: int) -> int:
    """Create Services, and return the resource version of the last."""
    version = 0
    for number in range(count):
        created = server.api.create(service(f"{prefix}-{number}", namespace))
        version = int(created["metadata"]["resourceVersion"])
    return version


async def _pass(
    server: SceneServer, namespace: str, seen: int, programs: Sequence[_Program]
) -> None:
    """Write until the server has passed the position before the restore, and compare again."""
    number = 0
    while _write(server, namespace, f"later-{number}", 1) <= seen:
        number += 1
    live = server.uids("services", namespace)
    last = f"later-{number}-0"
    for program in programs:
        await program.has(last)
        await program.equal(live, timeout_seconds=_BREATH_SECONDS)
        program.wrong_later = program.against(live)


@asynccontextmanager
async def _plain(server: SceneServer, namespace: str) -> AsyncIterator[_Program]:
    received = list[str]()

    def handle(kind: str, _: object) -> None:
        received.append(kind)

    async with (
        server.proxy() as proxy,
        following_services(proxy.url, namespace, handler=handle, after_error="resume") as services,
    ):
        yield _Program(
            proxy,
            lambda: {name: one.metadata.uid for name, one in services.cache.items()},
            lambda: received.count("DELETED"),
        )


@asynccontextmanager
async def _ours(server: SceneServer, namespace: str) -> AsyncIterator[_Program]:
    deleted = list[str]()
    async with (
        server.proxy() as proxy,
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
    references="kubernetes#107457; etcd#16028; client-go 0.37.1 measured: permanently wrong",
    story=(
        "After a disaster, etcd is restored from a backup, and its resource versions continue from"
        " there. The server accepts a watch from a later version without an error, and sends no"
        " events. kube-proxy received none for hours. When the versions of the server pass the old"
        " position, events arrive again, and everything in between is lost silently: in our"
        " measurement client-go kept 50 deleted objects and lacked 40 existing ones for as long as"
        " it ran. `etcdutl snapshot restore --bump-revision` prevents this, if the operator knows"
        " about it."
    ),
    plain=(
        "as client-go, it resumes from its last resource version when a connection breaks, and"
        " lists again only after a 410; one that lists after each break recovers, but causes the"
        " overload of scene 1.3"
    ),
    ours=(
        "After a lost connection the history is checked before it is trusted: one request per"
        " cluster checks whether the server has reached our position, and whether the newest object"
        " and the newest deletion are as we saw them. If not, pyinformer logs one ERROR, lists"
        " again, and reports the difference to handlers."
    ),
    verdict="the restore is detected, logged and repaired; handlers receive what was lost",
    perform=perform,
)
