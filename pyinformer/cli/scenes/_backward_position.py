"""Scene 1.2: a DELETED event has an old resource version, and old events are replayed.

A proxy sends deletions as kube-apiserver did before 1.9.2; a Service lives through all of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final

from pyinformer.cache.informer import SharedInformerFactory
from pyinformer.cli.scenes._plain_informer import following_services
from pyinformer.cli.scenes._proxy import Proxy
from pyinformer.cli.scenes._scene import Claim, Scene, SceneResult, fact
from pyinformer.cli.scenes._server import SceneServer, capture_logs, connected, service, wait_until
from pyinformer.objects import KubeObject, decoder_of

_CLEAN_CLOSES = 3  # the old server repeats this without end; three times prove it
_PATIENCE_SECONDS = 100.0
_LAST_LOOK_SECONDS = 1.0

Uids: TypeAlias = dict[str, str]
"""The uid of each Service, by name."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """What a program did while the old server replayed old events."""

    newest_seen: int = fact("newest resource version of its list")
    watched_again_from: tuple[int, ...] = fact("after each clean close it watched from")
    lists: int = fact("additional lists")
    live_service_deleted: int = fact("times it deleted the live Service `shop`")
    deletions_reported: int = fact("times it reported the one deletion of `old`")
    equals_server: bool = fact("at the end its cache equals the server")

    @property
    def went_back(self) -> bool:
        """Whether a watch began before the newest version that was seen."""
        return any(asked < self.newest_seen for asked in self.watched_again_from)


class PositionProgram(Protocol):
    """Follows the Services of a namespace through a proxy, and counts deletions by name."""

    def __call__(
        self, proxy: Proxy, namespace: str, deleted: Counter[str]
    ) -> AbstractAsyncContextManager[Callable[[], Uids]]:
        """Run the program; the yielded function returns its cache."""
        ...


async def perform(server: SceneServer) -> SceneResult[ReplayResult]:
    """Play the scene for both programs.

    Cancellation:
        Ends the scene.
    """
    plain = await _play(server, _plain)
    with capture_logs() as logged:
        ours = await _play(server, _ours)
    return SceneResult(
        plain=plain,
        ours=ours,
        outage=(
            Claim("the plain informer's position went back", plain.went_back),
            Claim(
                "it deleted a Service that existed on the server", plain.live_service_deleted > 0
            ),
        ),
        prevented=(
            Claim(
                "pyinformer watched again after each clean close", len(ours.watched_again_from) > 0
            ),
            Claim("its position never went back", not ours.went_back),
            Claim("it sent no additional list", ours.lists == 0),
            Claim("it deleted no live Service", ours.live_service_deleted == 0),
            Claim("it reported the one real deletion once", ours.deletions_reported == 1),
            Claim("its cache equals the server", ours.equals_server),
        ),
        logged=logged,
    )


class _OldServer:
    """Edits watches as kube-apiserver before 1.9.2: a deletion has the object's last version.

    It also closes the stream right afterwards, as the timeout of a watch does: only both together
    cause the failure.
    """

    def __init__(self, name: str, last_version: str) -> None:
        self._name = name
        self._last_version = last_version
        self.deletions_sent = 0

    def edit(self, line: bytes) -> tuple[bytes, bool]:
        """Replace the resource version of the deletion, and end the stream a few times."""
        event = decoder_of()(line)
        metadata = event["object"].get("metadata", {})
        if (event["type"], metadata.get("name")) != ("DELETED", self._name):
            return line, False
        metadata["resourceVersion"] = self._last_version
        self.deletions_sent += 1
        return json.dumps(event).encode(), self.deletions_sent <= _CLEAN_CLOSES


async def _play(server: SceneServer, program: PositionProgram) -> ReplayResult:
    """Run a program behind the old server, and delete a Service."""
    namespace, deleted = server.namespace(), Counter[str]()
    old_version = server.api.create(service("old", namespace))["metadata"]["resourceVersion"]
    server.api.create(service("shop", namespace))
    server.api.delete("v1", "services", "shop", namespace)
    shop = server.api.create(service("shop", namespace))  # the same name with another uid
    async with server.proxy() as proxy, program(proxy, namespace, deleted) as cached:
        old_server = _OldServer("old", old_version)
        proxy.edit = old_server.edit
        await wait_until(proxy.open_watches, timeout_seconds=_PATIENCE_SECONDS)
        proxy.reset()
        server.api.delete("v1", "services", "old", namespace)
        await wait_until(
            lambda: old_server.deletions_sent > _CLEAN_CLOSES, timeout_seconds=_PATIENCE_SECONDS
        )
        alive = {"shop": shop["metadata"]["uid"]}
        equals = await wait_until(lambda: cached() == alive, timeout_seconds=_LAST_LOOK_SECONDS)
        return ReplayResult(
            newest_seen=int(shop["metadata"]["resourceVersion"]),
            watched_again_from=tuple(int(one.resource_version) for one in proxy.of("watch")),
            lists=proxy.loads(),
            live_service_deleted=deleted["shop"],
            deletions_reported=deleted["old"],
            equals_server=equals,
        )


@asynccontextmanager
async def _plain(
    proxy: Proxy, namespace: str, deleted: Counter[str]
) -> AsyncIterator[Callable[[], Uids]]:
    def handle(kind: str, obj: Any) -> None:  # noqa: ANN401 - the client ships no types
        if kind == "DELETED":
            deleted[obj.metadata.name] += 1

    async with following_services(proxy.url, namespace, handler=handle) as services:
        yield lambda: {name: one.metadata.uid for name, one in services.cache.items()}


@asynccontextmanager
async def _ours(
    proxy: Proxy, namespace: str, deleted: Counter[str]
) -> AsyncIterator[Callable[[], Uids]]:
    def on_delete(obj: KubeObject) -> None:
        deleted[obj.metadata.name] += 1

    async with connected(proxy) as cluster, SharedInformerFactory(cluster) as factory:
        services = factory.informer("v1", "services", namespaces=namespace)
        services.add_event_handler(on_delete=on_delete)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=_PATIENCE_SECONDS)
        yield lambda: {one.metadata.name: one.metadata.uid for one in services.lister.list()}


SCENE = Scene(
    name="backward-position",
    number="1.2",
    title="a DELETED event has an old resource version, and old events are replayed",
    references="kubernetes#58545, #59084, #63356; a guard in the client, #64209, was closed",
    story=(
        "Up to 1.9.2, the watch cache of kube-apiserver sent deletions with the last resource"
        " version of the object, not with the version of the deletion. client-go used that as its"
        " position. If the watch then ended cleanly, it resumed from there, and the server replayed"
        " later events: a Service that had been deleted and recreated was deleted from the cache"
        " again, its Endpoints were removed, and its clients got 504s. Both had to happen together,"
        " which hid the failure for years. It repeated at every timeout of the watch until any"
        " Service was written or the client was restarted."
    ),
    plain="lists, then watches; the client library resumes from the last event that it has seen",
    ours=(
        "The position is the largest applied resource version, and an older event does not change"
        " it. A deletion is applied only if its uid is the cached one, and a deleted uid is never"
        " added again."
    ),
    verdict="an old resource version does not change the position, and the live Service stays",
    perform=perform,
)
