"""Scene 1.2: a DELETED event with an old resource version, and the past is played again.

In goes a server behind a proxy that sends deletions as kube-apiserver did until 1.9.2; out comes
what a plain informer and ours did to a Service that was alive all the time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final

from pyinformer.apimachinery import KubeObject
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

_CLEAN_CLOSES = 3  # the old server went on for ever; three show it
_PATIENCE_SECONDS = 100.0
_LAST_LOOK_SECONDS = 1.0

Uids: TypeAlias = dict[str, str]
"""The uid of each Service, by name."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """What a program did while the old server sent its past again."""

    newest_seen: int = fact("newest resource version of its list")
    watched_again_from: tuple[int, ...] = fact("after each clean close it watched again from")
    lists: int = fact("times it had to list again")
    live_service_deleted: int = fact("times it deleted the live Service `shop`")
    deletions_reported: int = fact("times it told the one deletion of `old`")
    equals_server: bool = fact("its cache equals the server in the end")

    @property
    def went_back(self) -> bool:
        """Whether a watch was opened before what had been seen."""
        return any(asked < self.newest_seen for asked in self.watched_again_from)


class Program(Protocol):
    """Follows the Services of a namespace through a proxy, and counts deletions by name."""

    def __call__(
        self, proxy: Proxy, namespace: str, deleted: Counter[str]
    ) -> AbstractAsyncContextManager[Callable[[], Uids]]:
        """Run it; what it yields returns what is in its cache."""
        ...


async def perform(environment: Environment) -> SceneResult[ReplayResult]:
    """Play the story twice, once for each program.

    Cancellation:
        Ends it.
    """
    plain = await _play(environment, _plain)
    with capture_logs() as logged:
        ours = await _play(environment, _ours)
    return SceneResult(
        plain=plain,
        ours=ours,
        outage=(
            Claim("the plain informer's position went back", plain.went_back),
            Claim("it deleted a Service that lived on the server", plain.live_service_deleted > 0),
        ),
        prevented=(
            Claim("ours watched again after each clean close", len(ours.watched_again_from) > 0),
            Claim("it never went back behind what it had seen", not ours.went_back),
            Claim("it needed no list", ours.lists == 0),
            Claim("it deleted no live Service", ours.live_service_deleted == 0),
            Claim("it told the one real deletion once", ours.deletions_reported == 1),
            Claim("its cache equals the server", ours.equals_server),
        ),
        logged=logged,
    )


class _OldServer:
    """Edits watches as kube-apiserver until 1.9.2: a deletion carries the object's last version.

    It also ends the stream cleanly right after, as the timeout of a watch may: only the two
    together are the failure.
    """

    def __init__(self, name: str, last_version: str) -> None:
        self._name = name
        self._last_version = last_version
        self.deletions_sent = 0

    def edit(self, line: bytes) -> tuple[bytes, bool]:
        """Give the deletion its old resource version, and end the stream a few times."""
        event = json.loads(line)
        metadata = event["object"].get("metadata", {})
        if (event["type"], metadata.get("name")) != ("DELETED", self._name):
            return line, False
        metadata["resourceVersion"] = self._last_version
        self.deletions_sent += 1
        return json.dumps(event).encode(), self.deletions_sent <= _CLEAN_CLOSES


async def _play(environment: Environment, program: Program) -> ReplayResult:
    """Let a program follow; delete a Service, with the old server in front."""
    namespace, deleted = environment.namespace(), Counter[str]()
    old_version = environment.api.create(service("old", namespace))["metadata"]["resourceVersion"]
    environment.api.create(service("shop", namespace))
    environment.api.delete("v1", "services", "shop", namespace)
    shop = environment.api.create(service("shop", namespace))  # under the same name: another uid
    async with environment.proxy() as proxy, program(proxy, namespace, deleted) as cached:
        server = _OldServer("old", old_version)
        proxy.edit = server.edit
        await wait_until(proxy.open_watches, timeout_seconds=_PATIENCE_SECONDS)
        proxy.reset()
        environment.api.delete("v1", "services", "old", namespace)
        await wait_until(
            lambda: server.deletions_sent > _CLEAN_CLOSES, timeout_seconds=_PATIENCE_SECONDS
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
    title="the resource version of a DELETED event is old, and the past is played again",
    references="kubernetes#58545, #59084, #63356; a guard in the client, #64209, was closed",
    story=(
        "Up to 1.9.2 a kube-apiserver sent deletions from its watch cache with the deleted object's"
        " last resource version, not the deletion's own. client-go took that as its position. If"
        " the watch then ended cleanly, it watched again from there, and the server replayed what"
        " had been since: a Service that had been deleted and made again was deleted in the cache"
        " once more, its Endpoints went, and its clients got 504s. Both halves had to come"
        " together, which hid the failure for years; the loop ran at every timeout of the watch"
        " until somebody wrote any Service or restarted the client."
    ),
    plain="lists, then watches; the client itself watches again from the last event it has seen",
    ours=(
        "The position is the largest resource version that was applied, and an event behind it"
        " moves nothing. A deletion counts if its uid is the cached one; a uid that is known to be"
        " dead does not come back."
    ),
    verdict="a deletion with an old resource version moves nothing, and the live Service stays",
    perform=perform,
)
