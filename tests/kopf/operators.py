"""kopf operators in the process of the test, against the embedded API server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kopf._cogs.structs.credentials import Vault

import kopf
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.testing import APIServer

EXAMPLES = "kopf.dev/v1"


@dataclass
class Events:
    """What the handlers of an operator have received."""

    seen: list[tuple[str | None, str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def types_of(self, name: str) -> list[str | None]:
        """Return the types of the events of an object, in order."""
        return [kind for kind, found in self.seen if found == name]

    def take(self, event: Any) -> None:
        """Record one event."""
        self.seen.append((event["type"], event["object"]["metadata"]["name"]))
        self.bodies.append(event["object"])


def settings_of(**watching: Any) -> kopf.OperatorSettings:
    """Return settings with short delays, and without Events in the cluster."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    name = "queueing" if hasattr(settings, "queueing") else "batching"  # of an older kopf
    getattr(settings, name).exit_timeout = 0.5
    for name, value in watching.items():
        setattr(settings.watching, name, value)
    return settings


def registry_of(server: APIServer, events: Events | None = None) -> kopf.OperatorRegistry:
    """Return a registry that logs in to a server, and that records the events of pods."""
    registry = kopf.OperatorRegistry()
    info = kopf.ConnectionInfo(server=server.url, token=server.token, insecure=True)

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return info

    if events is not None:
        record_events(registry, events, "pods")
    return registry


def record_events(registry: kopf.OperatorRegistry, events: Events, plural: str) -> None:
    """Add a handler that records the events of a resource."""

    @kopf.on.event(plural, registry=registry)
    async def record(event: Any, **_: Any) -> None:
        events.take(event)


@asynccontextmanager
async def operating(
    registry: kopf.OperatorRegistry,
    settings: kopf.OperatorSettings | None = None,
    **more: Any,
) -> AsyncIterator[asyncio.Task[None]]:
    """Run an operator, and stop it as its stop flag does.

    kopf leaves its session open if the end of another operator has cancelled its cleanup.
    """
    stop, vault = asyncio.Event(), Vault()
    arguments: dict[str, Any] = {"standalone": True, "clusterwide": True, "vault": vault, **more}
    settings = settings or settings_of()
    operator = kopf.operator(registry=registry, settings=settings, stop_flag=stop, **arguments)
    task = asyncio.create_task(operator)
    try:
        yield task
    finally:
        stop.set()
        await asyncio.wait({task})
        await vault.close()
        settings.execution.executor.shutdown()
    task.result()


def put(
    server: APIServer,
    *names: str,
    api: str = "v1",
    kind: str = "Pod",
    plural: str = "pods",
    **labels: str,
) -> None:
    """Create objects, or change them."""
    for name in names:
        metadata = {"name": name, "namespace": "default", "labels": labels}
        body = {"apiVersion": api, "kind": kind, "metadata": metadata}
        exists = any(one["metadata"]["name"] == name for one in server.list(api, plural))
        (server.update if exists else server.create)(body)


def remove(server: APIServer, *names: str, api: str = "v1", plural: str = "pods") -> None:
    """Delete objects."""
    for name in names:
        server.delete(api, plural, name)


async def until_equal(found: object, wanted: object) -> None:
    """Wait until two things that change are equal."""
    await until(lambda: found == wanted, what=(found, wanted))
