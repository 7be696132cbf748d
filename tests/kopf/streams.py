"""One watch stream of kopf, read as kopf reads it, outside of an operator."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kopf._cogs.aiokits.aiotoggles import Toggle, ToggleSet
from kopf._cogs.clients import auth, watching
from kopf._cogs.structs.credentials import Vault, VaultKey
from kopf._cogs.structs.references import NamespaceName, Resource

import kopf
from tests.kopf.operators import settings_of
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.testing import APIServer

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)


def vault_of(server: APIServer, token: str | None = None) -> Vault:
    """Return a vault with credentials for a server."""
    return Vault({VaultKey("test"): info_of(server, token)})


def info_of(server: APIServer, token: str | None = None) -> kopf.ConnectionInfo:
    """Return credentials for a server."""
    return kopf.ConnectionInfo(server=server.url, token=token or server.token, insecure=True)


@dataclass
class Reading:
    """A stream that is read, in a task of its own as in kopf."""

    task: asyncio.Task[None]
    toggle: Toggle
    settings: kopf.OperatorSettings
    vault: Vault
    events: list[Any] = field(default_factory=list)
    """Type and name of each event, or the word for the end of a list."""
    objects: list[dict[str, Any]] = field(default_factory=list)

    async def until_events(self, *wanted: object) -> None:
        """Wait until exactly these events have come."""
        await until(lambda: len(self.events) >= len(wanted), what=(self.events, wanted))
        assert self.events == list(wanted)


@asynccontextmanager
async def reading(
    server: APIServer,
    *,
    resource: Resource = PODS,
    namespace: str | None = None,
    settings: kopf.OperatorSettings | None = None,
    vault: Vault | None = None,
    is_observer: bool = False,
) -> AsyncIterator[Reading]:
    """Read a stream until the block is left."""
    settings, vault = settings or settings_of(), vault_of(server) if vault is None else vault
    paused = ToggleSet(any)
    toggle = await paused.make_toggle(False, name="the test")

    async def read() -> None:
        auth.vault_var.set(vault)
        stream = watching.infinite_watch(
            settings=settings,
            resource=resource,
            namespace=None if namespace is None else NamespaceName(namespace),
            operator_paused=None if is_observer else paused,
        )
        async with aclosing(stream) as events:  # type: ignore[type-var]  # a generator
            async for event in events:
                if event is watching.Bookmark.LISTED:
                    found.events.append("LISTED")
                else:
                    raw: Any = event
                    found.events.append((raw["type"], raw["object"]["metadata"]["name"]))
                    found.objects.append(raw["object"])

    task = asyncio.create_task(read())
    found = Reading(task, toggle, settings, vault)
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.wait({task})
        await vault.close()
